"""The only place that puts the parts together: what verbs share of reading and printing."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from muster.api import codec
from muster.api.names import OURS
from muster.api.objects import Objects
from muster.cluster.files import MOST_MIB, Source, sources
from muster.reporting.text import Line, Role, plain

F = TypeVar("F", bound=Callable[..., Any])
COLOURS: dict[Role, str] = {"name": "bold", "good": "green", "bad": "red", "warn": "yellow", "dim": "bright_black"}

files = click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(allow_dash=True))
max_file_mib = click.option(
    "--max-file-mib", type=click.IntRange(1), default=MOST_MIB, show_default=True, help="Refuse larger files."
)


def output(*forms: str) -> Callable[[F], F]:
    """`-o`, with the forms that a verb knows, the default first."""
    return click.option(
        "-o", "--output", "form", type=click.Choice(forms), default=forms[0], show_default=True, help="How to print it."
    )


def read(paths: Iterable[str], most_mib: int) -> list[codec.Document]:
    """Every object behind the paths."""
    return [document for source in sources(paths, most_mib) for document in read_source(source)]


def read_source(source: Source) -> list[codec.Document]:
    """Every object of one file."""
    return codec.read(source.data, source.name)


def load(paths: Iterable[str], most_mib: int) -> Objects:
    """Decoded objects; kinds that muster does not know are told on stderr."""
    objects = codec.objects(read(paths, most_mib))
    note_unknown(objects)
    return objects


def note_unknown(objects: Objects) -> None:
    """Kinds that muster does not know are listed in a note, not an error."""
    if objects.unknown:
        kinds = ", ".join(f"{count} {kind}" for kind, count in objects.unknown.items())
        note(f"left alone, as muster does not know them: {kinds}")


def note(text: str) -> None:
    """A word beside the data."""
    click.echo(f"note: {text}", err=True)


def show(lines: Iterable[Line]) -> None:
    """Lines for people: in colour on a terminal, unless NO_COLOR says otherwise."""
    if not (sys.stdout.isatty() and not os.environ.get("NO_COLOR")):
        if text := plain(lines):
            click.echo(text)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((span.text, COLOURS.get(span.role, "")) for span in line)))


def emit(form: str, kind: str, fields: dict[str, Any]) -> None:
    """Data for programs, under muster's own kind."""
    emit_whole(form, {"apiVersion": OURS, "kind": kind, **fields})


def emit_whole(form: str, value: dict[str, Any]) -> None:
    """Data that says itself what it is."""
    click.echo(codec.to_yaml([value]) if form == "yaml" else codec.to_json(value), nl=form != "yaml")

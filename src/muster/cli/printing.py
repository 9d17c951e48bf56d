"""Output of verbs: data on stdout, notes on stderr.

Rule: all that a verb prints goes through here, and control characters of objects and files come out as escapes.
"""

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from muster.api import codec
from muster.api.names import OURS
from muster.control_characters import visible, visible_lines
from muster.reporting.text import Line, Role, plain

if TYPE_CHECKING:
    from rich.text import Text

COLOURS: dict[Role, str] = {"name": "bold", "good": "green", "bad": "red", "warn": "yellow", "dim": "bright_black"}


def note(text: str) -> None:
    """Print a note on stderr, beside the data."""
    say(f"note: {text}")


def say(text: str) -> None:
    """Print a message on stderr; its further lines are indented."""
    click.echo(visible_lines(text), err=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of plain text, the same on a terminal and elsewhere."""
    for line in lines:
        click.echo(visible(line))


def show(lines: Iterable[Line]) -> None:
    """Print lines for people: in colour on a terminal, unless NO_COLOR is set."""
    if not (sys.stdout.isatty() and not os.environ.get("NO_COLOR")):
        if text := plain(lines):
            click.echo(text)
        return
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(coloured(line))


def coloured(line: Line) -> "Text":
    """A line for a terminal."""
    from rich.text import Text

    return Text.assemble(*((visible(span.text), COLOURS.get(span.role, "")) for span in line))


def emit(form: str, kind: str, fields: dict[str, Any]) -> None:
    """Print data for programs, under muster's own apiVersion and this kind."""
    emit_object(form, {"apiVersion": OURS, "kind": kind, **fields})


def emit_object(form: str, value: dict[str, Any]) -> None:
    """Print data that brings its own apiVersion and kind."""
    click.echo(codec.to_yaml([value]) if form == "yaml" else codec.to_json(value), nl=form != "yaml")


def emit_file(form: str, raws: list[Any]) -> None:
    """Print Kubernetes objects as a file holds them: in JSON, a single one is not a List."""
    if form == "json" and len(raws) == 1:
        click.echo(codec.to_json(raws[0]))
    else:
        emit_list(form, raws)


def emit_list(form: str, raws: list[Any]) -> None:
    """Print Kubernetes objects: YAML documents, or in JSON a List."""
    if form == "yaml":
        click.echo(codec.to_yaml(raws), nl=False)
    else:
        click.echo(codec.to_json({"apiVersion": "v1", "kind": "List", "items": raws}))

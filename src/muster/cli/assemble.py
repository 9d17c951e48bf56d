"""The only place that puts the parts together: what verbs share of reading and printing."""

import os
import sys
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

import click

from muster.api import codec
from muster.api.names import DEFAULT_SCHEDULER, OURS
from muster.api.objects import Objects
from muster.kube.manifest_files import MOST_MIB, ManifestFile, sources
from muster.reporting.text import Line, Role, plain
from muster.validation.pods.membership import Stray

F = TypeVar("F", bound=Callable[..., Any])
COLOURS: dict[Role, str] = {"name": "bold", "good": "green", "bad": "red", "warn": "yellow", "dim": "bright_black"}

files = click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(allow_dash=True))
some_files = click.argument("files", nargs=-1, metavar="[FILE…]", type=click.Path(allow_dash=True))
max_file_mib = click.option(
    "--max-file-mib", type=click.IntRange(1), default=MOST_MIB, show_default=True, help="Refuse larger files."
)


def scheduler_names(command: F) -> F:
    """`--scheduler-name`: whose pods are planned for (N6)."""
    return click.option(
        "--scheduler-name",
        "schedulers",
        multiple=True,
        default=(DEFAULT_SCHEDULER,),
        show_default=True,
        metavar="NAME",
        help="Pods that ask for this scheduler are ours, as often as you like; in files also those that ask for none.",
    )(command)


def output(*forms: str) -> Callable[[F], F]:
    """`-o`, with the forms that a verb knows, the default first."""
    return click.option(
        "-o", "--output", "form", type=click.Choice(forms), default=forms[0], show_default=True, help="How to print it."
    )


def cluster(command: F) -> F:
    """`--kubeconfig` and `--context`: a live cluster, which `load` reads beside or instead of files."""

    def keep(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
        ctx.meta[f"muster.{option.name}"] = value

    for name, says in (
        ("--context", "Read the live cluster of this context of the kubeconfig."),
        ("--kubeconfig", "Read the live cluster of this kubeconfig, with what is in the files added to it."),
    ):
        command = click.option(name, expose_value=False, callback=keep, help=says)(command)
    return command


def target() -> tuple[str | None, str | None]:
    """The kubeconfig and the context that were asked for."""
    meta = click.get_current_context().meta
    return meta.get("muster.kubeconfig"), meta.get("muster.context")


def here() -> str:
    """Where objects come from, for sentences about those that are missing."""
    return "in this cluster" if any(target()) else "in these files"


def read(paths: Iterable[str], most_mib: int) -> list[codec.Document]:
    """Every object behind the paths."""
    return [document for source in sources(paths, most_mib) for document in read_source(source)]


def read_source(source: ManifestFile) -> list[codec.Document]:
    """Every object of one file."""
    return codec.read(source.data, source.name)


def load(paths: Iterable[str], most_mib: int) -> Objects:
    """Decoded objects of files, and of a live cluster where one is named; unknown kinds are told on stderr."""
    kubeconfig, context = target()
    documents, beside = read(paths, most_mib), Objects()
    if kubeconfig or context:
        from muster.cli import live

        beside = live.objects(kubeconfig, context)
    elif not documents and not tuple(paths):
        raise click.UsageError(
            "Missing argument 'FILE…': a file, a folder or `-`; or name a cluster with --kubeconfig."
        )
    return _objects(documents, beside)


def load_files(paths: Iterable[str], most_mib: int) -> Objects:
    """The same of files alone, also where a live cluster is named."""
    return _objects(read(paths, most_mib), Objects())


def _objects(documents: list[codec.Document], beside: Objects) -> Objects:
    objects = codec.objects(documents, beside)
    note_unknown(objects)
    return objects


def note_unknown(objects: Objects) -> None:
    """Kinds that muster does not know are listed in a note, not an error."""
    if objects.unknown:
        kinds = ", ".join(f"{count} {kind}" for kind, count in objects.unknown.items())
        note(f"left alone, as muster does not know them: {kinds}")


def note_orphans(strays: Iterable[Stray]) -> None:
    """Pods of ours that name a PodGroup which is not there: nothing is dropped in silence (N4)."""
    lost = sorted((stray.named, stray.pod) for stray in strays if stray.why == "NoSuchPodGroup")
    for named, pods in groupby(lost, key=itemgetter(0)):
        all_pods = [pod for _, pod in pods]
        more = f" and {len(all_pods) - 3} more" if len(all_pods) > 3 else ""
        note(f"podgroup `{named}` does not exist, but pods name it: {', '.join(all_pods[:3])}{more}")


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

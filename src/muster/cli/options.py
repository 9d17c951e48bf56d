"""Options that several verbs share, and what the user chose with them."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from muster.api.names import DEFAULT_SCHEDULER
from muster.kube.manifest_files import MOST_MIB

F = TypeVar("F", bound=Callable[..., Any])

files = click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(allow_dash=True))
some_files = click.argument("files", nargs=-1, metavar="[FILE…]", type=click.Path(allow_dash=True))
max_file_mib = click.option(
    "--max-file-mib", type=click.IntRange(1), default=MOST_MIB, show_default=True, help="Refuse larger files."
)


def scheduler_names(command: F) -> F:
    """`--scheduler-name`: whose pods muster plans for (N6)."""
    return click.option(
        "--scheduler-name",
        "schedulers",
        multiple=True,
        default=(DEFAULT_SCHEDULER,),
        show_default=True,
        metavar="NAME",
        help="Plan pods that name this scheduler; repeatable. In files, also pods that name none.",
    )(command)


def output(*forms: str) -> Callable[[F], F]:
    """`-o`, with the forms that a verb knows, the default first."""
    return click.option(
        "-o", "--output", "form", type=click.Choice(forms), default=forms[0], show_default=True, help="Output format."
    )


def cluster(command: F) -> F:
    """`--kubeconfig` and `--context`: a live cluster, which `inputs.load` reads beside or instead of files."""

    def remember(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
        ctx.meta[f"muster.{option.name}"] = value

    for name, text in (
        ("--context", "Read the live cluster of this kubeconfig context."),
        ("--kubeconfig", "Read the live cluster of this kubeconfig; objects in FILE are added to it."),
    ):
        command = click.option(name, expose_value=False, callback=remember, help=text)(command)
    return command


def target() -> tuple[str | None, str | None]:
    """The kubeconfig and the context that the user named."""
    meta = click.get_current_context().meta
    return meta.get("muster.kubeconfig"), meta.get("muster.context")


def source_phrase() -> str:
    """Where objects come from, for sentences about missing ones."""
    return "in this cluster" if any(target()) else "in these files"

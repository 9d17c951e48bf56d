"""Options that several verbs share, and what the user chose with them."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec.structs import replace

from muster.api.names import DEFAULT_SCHEDULER
from muster.config import loading
from muster.config.settings import Config
from muster.kube.manifest_files import MOST_MIB

F = TypeVar("F", bound=Callable[..., Any])

files = click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(allow_dash=True))
some_files = click.argument("files", nargs=-1, metavar="[FILE…]", type=click.Path(allow_dash=True))
max_file_mib = click.option(
    "--max-file-mib", type=click.IntRange(1), default=MOST_MIB, show_default=True, help="Refuse larger files."
)


CONFIGURED = (
    click.option(
        "--config",
        "path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The configuration of muster: kinds of your own (`grouping.kinds`), owners that are read, and scheduler "
        "names.",
    ),
    click.option(
        "--scheduler-name",
        "schedulers",
        multiple=True,
        metavar="NAME",
        help="Plan pods that name this scheduler; repeatable. In files, also pods that name none.  "
        f"[default: those of the configuration, else {DEFAULT_SCHEDULER}]",
    ),
)


def configured(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--config` and `--scheduler-name`: whose pods are grouped and planned; the verb gets them as `config`."""

    @wraps(command)
    def with_config(*args: Any, path: Path | None, schedulers: tuple[str, ...], **more: Any) -> Any:
        config = loading.load(path) if path else Config()
        if schedulers:
            config = replace(config, scheduling=replace(config.scheduling, scheduler_names=schedulers))
        return command(*args, config=config, **more)

    chosen: Callable[..., Any] = with_config
    for option in reversed(CONFIGURED):
        chosen = option(chosen)
    return chosen


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

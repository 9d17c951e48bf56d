"""`muster wait-for-cliques`: in an init container, wait until muster lets the pod start.

Rule: it reads one small file, which the kubelet keeps in step with an annotation of the pod. It imports little, as it
runs beside the containers of users.
"""

import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import click

from muster.control_characters import visible
from muster.errors import InputError
from muster.grove.startup import START

POLL_SECONDS = 0.5
LARGEST_BYTES = 8_192  # of the file that are read


@click.command("wait-for-cliques")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
def command(path: Path) -> int:
    """Wait until FILE says `start`: then the cliques that this pod starts after are ready.

    muster adds it to pods of PodCliqueSets with a startup order, as their last init container. FILE is an annotation of
    the pod, which muster changes. It needs no credentials and no network, and waits while muster is down.

    \b
    Examples:
      muster wait-for-cliques /etc/muster/startup/startup
    """
    signal.signal(signal.SIGTERM, _exit)  # the first process of a container ignores it otherwise
    said = ""
    while (state := read_state(path)) != START:
        if state != said:
            said = state
            click.echo(f"waits to start {visible(state) or 'until muster says what it waits for'}", err=True)
        time.sleep(POLL_SECONDS)
    click.echo("starts", err=True)
    return 0


def read_state(path: Path) -> str:
    """What the file says; InputError: there is none."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_BYTES).decode(errors="replace").strip()
    except OSError as error:
        raise InputError(
            f"`{path}` cannot be read: {error.strerror or error}",
            hint="muster mounts it into pods that start after others; nothing else calls this verb",
        ) from None


def _exit(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)

"""What muster sets of its own process."""

import gc
import logging
import resource
import sys
from contextlib import suppress

from muster.config.settings import Log
from muster.observability.logging import configure

SWITCH_SECONDS = 0.0001  # that the event loop waits for a thread that plans, after each of its system calls


def configure_service(log: Log) -> None:
    """For `muster run`: logging, garbage collection and open files."""
    configure(log)
    tune()


def configure_terminal() -> None:
    """For verbs that serve beside a user's terminal: warnings only."""
    configure(Log(level="warning"))
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # its advice on what to install is not for users


def tune() -> None:
    """Fit this process for planning beside answering requests, and for many connections."""
    gc.freeze()  # modules stay
    gc.set_threshold(50_000, 20, 50)  # fewer pauses: nearly every object stays, and has no cycles to collect
    sys.setswitchinterval(SWITCH_SECONDS)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each binding in progress needs a connection

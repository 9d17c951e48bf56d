"""How a signal ends a process of muster.

Rule: the first signal starts an orderly shutdown. A second signal, or a watchdog when the shutdown takes too long, ends
the process at once.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterable

LONGEST_SECONDS = 15.0  # for an orderly shutdown; usually it takes one or two


def stop_on(numbers: Iterable[signal.Signals], longest_seconds: float = LONGEST_SECONDS) -> asyncio.Event:
    """An event that the first of these signals sets."""
    stop, loop, handled = asyncio.Event(), asyncio.get_running_loop(), tuple(numbers)

    def first(number: signal.Signals) -> None:
        stop.set()
        for handled_number in handled:
            loop.remove_signal_handler(handled_number)
            signal.signal(handled_number, _exit_at_once)
        _watch(longest_seconds, 128 + number)

    for number in handled:
        loop.add_signal_handler(number, first, number)
    return stop


def _watch(seconds: float, code: int) -> None:
    timer = threading.Timer(seconds, _exit_late, (seconds, code))
    timer.daemon = True
    timer.start()


def _exit_late(seconds: float, code: int) -> None:
    """The watchdog: end the process, whatever still runs."""
    sys.stderr.write(f"muster did not shut down within {seconds:g} s of the signal: the process ends now\n")
    sys.stderr.flush()
    os._exit(code)


def _exit_at_once(number: int, _frame: object) -> None:
    """A second signal: exit with the code that a shell expects."""
    os._exit(128 + number)

"""How a process of muster ends when it is told to: soon, and at once when it is told twice.

Rule: the first signal asks, and all is ended in order. A second one ends the process as the system does, without a
word; and so does a watchdog, should anything keep the process from ending in time.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterable

LONGEST_SECONDS = 15.0  # for an orderly end; the usual one takes less than a second or two


def stop_on(numbers: Iterable[signal.Signals], longest_seconds: float = LONGEST_SECONDS) -> asyncio.Event:
    """Set by the first of these signals."""
    stop, loop, heeded = asyncio.Event(), asyncio.get_running_loop(), tuple(numbers)

    def first(number: signal.Signals) -> None:
        stop.set()
        for one in heeded:
            loop.remove_signal_handler(one)
            signal.signal(one, _end_at_once)
        _watch(longest_seconds, 128 + number)

    for number in heeded:
        loop.add_signal_handler(number, first, number)
    return stop


def _watch(seconds: float, code: int) -> None:
    timer = threading.Timer(seconds, _end, (seconds, code))
    timer.daemon = True
    timer.start()


def _end(seconds: float, code: int) -> None:
    """Whatever still runs: it had its time."""
    sys.stderr.write(f"muster did not come to an end within {seconds:g} s of being told to, and is ended\n")
    sys.stderr.flush()
    os._exit(code)


def _end_at_once(number: int, _frame: object) -> None:
    """A second signal: with the code that a shell expects of it."""
    os._exit(128 + number)

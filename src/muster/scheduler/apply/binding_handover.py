"""Hands bindings from the thread that plans to the event loop that sends them.

A thread that computes leaves Python's lock to the event loop for a moment after each of its system calls, and a binding
is several: the first ones would be sent when the plan is nearly complete, and the API server would idle until then.
"""

import asyncio
import threading
from collections.abc import Sequence

from muster.planning.allocation.allocate import OnBound
from muster.planning.decision import Binding

LONGEST_SECONDS = 0.005  # that a plan waits for one batch: an event loop that is busy does not hold it up


class BindingHandover:
    """Called by the planning thread; waits until the first bindings of a plan are on their way, as many as may be."""

    def __init__(self, on_bound: OnBound, at_once: int) -> None:
        """`on_bound` is called by the event loop; `at_once`: how many bindings are sent before one is answered."""
        self._on_bound, self._left = on_bound, at_once
        self._loop = asyncio.get_running_loop()

    def __call__(self, bindings: Sequence[Binding]) -> None:
        """Returns once they are sent, or soon where enough others are."""
        sent = threading.Event() if self._left > 0 else None
        self._left -= len(bindings)
        self._loop.call_soon_threadsafe(self._submit, tuple(bindings), sent)
        if sent is not None:
            sent.wait(LONGEST_SECONDS)

    def _submit(self, bindings: tuple[Binding, ...], sent: threading.Event | None) -> None:
        try:
            self._on_bound(bindings)
        finally:
            if sent is not None:
                self._loop.call_soon(sent.set)  # after the tasks that `on_bound` has started

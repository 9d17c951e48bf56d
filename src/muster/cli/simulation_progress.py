"""How far a simulation is: one line on a terminal, and a way to stop it that keeps what was done."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from muster.control_characters import visible
from muster.simulator.engine.simulation import Hooks, Simulation
from muster.simulator.results.views import duration

EVERY_SECONDS = 0.2


class StopRequest:
    """Set by the first Ctrl-C; a second one ends the process as usual."""

    def __init__(self) -> None:
        self.is_set = False

    @contextmanager
    def on_interrupt(self) -> Iterator[None]:
        """While it lasts, Ctrl-C asks the simulation to stop."""
        before = signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.is_set = True
        signal.signal(signal.SIGINT, signal.default_int_handler)


class SimulationProgress:
    """A line with the virtual time and how fast it runs; nothing where stderr is no terminal."""

    def __init__(self, name: str, stop: StopRequest) -> None:
        self._name, self._stop = visible(name), stop
        self._is_shown = sys.stderr.isatty()
        self._begin = self._last = time.monotonic()

    def hooks(self, is_saved: bool) -> Hooks:
        """What the simulation calls; one that will be saved ends after a moment, never in the middle of a plan."""
        return Hooks(
            time.process_time,
            is_stopped=lambda: self._stop.is_set,
            is_cancelled=lambda: self._stop.is_set and not is_saved,
            on_moment=self._show if self._is_shown else lambda _: None,
        )

    def _show(self, simulation: Simulation) -> None:
        now = time.monotonic()
        if now - self._last < EVERY_SECONDS:
            return
        self._last = now
        virtual = simulation.now_ms / 1000
        speed = virtual / max(now - self._begin, 0.001)
        gangs = f"{len(simulation.runs):,} gangs, {simulation.recorder.waiting_gangs:,} waiting"
        date = f"{simulation.now:%Y-%m-%d %H:%M}"
        self._write(f"{self._name}: {date}, {duration(virtual)} in, {gangs}, {speed:,.0f} × real time")

    def clear(self) -> None:
        """Takes the line away."""
        if self._is_shown:
            self._write("")

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

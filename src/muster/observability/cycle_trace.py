"""What one cycle did and when, as data: metrics count its phases, and a tracer makes spans of them."""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

PLAN_PHASES = ("allocate", "relocate", "release", "explain")


class CyclePhase(Struct, frozen=True):
    """One part of a cycle; phases follow each other without a gap."""

    name: str
    began: float  # seconds since the cycle began
    seconds: float


class CycleTrace(Struct, frozen=True):
    """A cycle that has ended."""

    began: datetime
    phases: tuple[CyclePhase, ...]
    attributes: dict[str, int | bool | str]

    @property
    def seconds(self) -> float:
        """How long it took."""
        return sum(phase.seconds for phase in self.phases)


class CyclePhases:
    """Notes the phases of the cycle that runs. One thread at a time."""

    def __init__(self, began: datetime, clock: Callable[[], float]) -> None:
        self._began, self._clock = began, clock
        self._start = clock()
        self._current: tuple[str, float] | None = None
        self._phases: list[CyclePhase] = []

    def begin(self, name: str) -> None:
        """A phase begins, and the one before it ends."""
        self._end()
        self._current = name, self._clock()

    def finish(self, **attributes: int | bool | str) -> CycleTrace:
        """The cycle has ended."""
        self._end()
        return CycleTrace(self._began, tuple(self._phases), attributes)

    def _end(self) -> None:
        if self._current is not None:
            name, began = self._current
            self._phases.append(CyclePhase(name, began - self._start, self._clock() - began))
            self._current = None

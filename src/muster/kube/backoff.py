"""How long to wait between attempts: one definition for lists, watches, requests, cycles, bindings and evictions."""

from collections.abc import Callable
from typing import Final

_MOST_DOUBLINGS: Final = 60  # far beyond every bound; more would overflow


def no_jitter() -> float:
    """The chance of a Backoff that waits the full time."""
    return 1.0


class Backoff:
    """Counts failures in a row. The wait is `first_seconds`, doubled with each failure, at most `longest_seconds`.

    `chance` returns a number in [0, 1] and spreads each wait over the upper half of it: clients that failed together
    do not come back together.
    """

    def __init__(self, first_seconds: float, longest_seconds: float, chance: Callable[[], float] = no_jitter) -> None:
        self.first_seconds, self.longest_seconds, self._chance = first_seconds, longest_seconds, chance
        self.failures = 0  # in a row

    def next_seconds(self) -> float:
        """Counts one more failure; returns how long to wait before the next attempt."""
        self.failures += 1
        return self.seconds_after(self.failures)

    def seconds_after(self, failures: int) -> float:
        """How long to wait after so many failures in a row; 0 where there was none. Counts nothing."""
        if failures <= 0:
            return 0.0
        doubled = self.first_seconds * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)
        return min(self.longest_seconds, doubled) * (0.5 + self._chance() / 2)

    def reset(self) -> None:
        """An attempt succeeded: the next failure is the first one."""
        self.failures = 0

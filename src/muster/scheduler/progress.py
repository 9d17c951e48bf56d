"""Whether a leader makes progress: cycles that end and writes that are answered count, steps do not (X7)."""

from collections.abc import Callable


class Progress:
    """Polled from time to time: work without a result for too long is stuck."""

    def __init__(self, longest_seconds: float, clock: Callable[[], float]) -> None:
        self._longest, self._clock = longest_seconds, clock
        self._seen: object = None
        self._since: float | None = None  # since when there is work without a result

    def is_stuck(self, is_working: bool, results: object) -> bool:
        """Whether the same work has been under way for too long; `results` differ with every result."""
        now = self._clock()
        if not is_working or self._since is None or results != self._seen:
            self._seen, self._since = results, now if is_working else None
            return False
        return now - self._since > self._longest

"""Whether work makes progress: results count (a cycle that ended, a write that was answered), steps do not (X7)."""

from collections.abc import Callable


class Progress:
    """Polled from time to time: work without a result for too long is stuck."""

    def __init__(self, longest_seconds: float, clock: Callable[[], float]) -> None:
        self._longest, self._clock = longest_seconds, clock
        self._seen: object = None
        self._since: float | None = None

    def without_result_since(self, is_working: bool, results: object) -> float | None:
        """Since when there is work without a result; None: there is none. `results` differ with every result."""
        if not is_working or self._since is None or results != self._seen:
            self._seen, self._since = results, self._clock() if is_working else None
        return self._since

    def is_stuck(self, is_working: bool, results: object) -> bool:
        """Whether the same work has been under way for too long."""
        since = self.without_result_since(is_working, results)
        return since is not None and self._clock() - since > self._longest

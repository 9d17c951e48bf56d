"""Whether a burst of writes is under way: statuses and events wait behind it.

Rule: a lull is not the end of a burst. Between two steps of a large start, such as lifting gates and binding, nothing
is in flight for a moment; whatever is written then delays the next step.
"""

import time
from collections.abc import Callable
from typing import Final

LULL_SECONDS: Final = 0.25


class WriteBurst:
    """Callable: True while writes are in flight, and for a moment after it was last called while some were."""

    def __init__(self, is_writing: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._is_writing, self._clock = is_writing, clock
        self._ends_at = clock()

    def __call__(self) -> bool:
        """Whether statuses and events have to wait."""
        now = self._clock()
        if self._is_writing():
            self._ends_at = now + LULL_SECONDS
            return True
        return now < self._ends_at

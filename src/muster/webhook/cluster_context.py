"""The cluster around an object under review, cached between requests.

Rule: names are always fresh, so that no warning names an object that was just created as missing. Sums are cached:
those of nodes until a node changes, those of a gang's pods for a few seconds, as pods change all the time and only
warnings use them (V6). Nothing here walks all pods: the scheduler's cache indexes them by gang.
"""

import time
from collections.abc import Callable

from muster.validation.context import ValidationContext

ContextProvider = Callable[[], ValidationContext]
PODS_SECONDS = 10.0


class ClusterContext:
    """The current context, with the sums of earlier ones that still hold."""

    def __init__(self, provider: ContextProvider, clock: Callable[[], float] = time.monotonic) -> None:
        self._provider, self._clock = provider, clock
        self._last, self._pods_at = ValidationContext(), clock()

    def __call__(self) -> ValidationContext:
        """The context for one review."""
        fresh, now = self._provider(), self._clock()
        same_pods = now - self._pods_at < PODS_SECONDS
        if not same_pods:
            self._pods_at = now
        self._last = fresh.after(self._last, same_pods=same_pods)
        return self._last

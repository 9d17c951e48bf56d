"""What lies around the objects that are judged, kept from one request to the next.

Rule: names are always fresh, so that nobody is warned of what was created a moment ago. What takes long to add up is
kept: nodes until one of them changes, and what the pods of a gang ask for a few seconds, as pods change all the time
and only a warning depends on them (V6). Nothing here walks all pods: the mirror knows those of each gang.
"""

import time
from collections.abc import Callable

from muster.validation.context import ValidationContext

Knows = Callable[[], ValidationContext]
PODS_SECONDS = 10.0


class ClusterContext:
    """What is known now, with what was looked up before."""

    def __init__(self, knows: Knows, clock: Callable[[], float] = time.monotonic) -> None:
        self._knows, self._clock = knows, clock
        self._last, self._pods_at = ValidationContext(), clock()

    def __call__(self) -> ValidationContext:
        """As far as it is known."""
        fresh, now = self._knows(), self._clock()
        same_pods = now - self._pods_at < PODS_SECONDS
        if not same_pods:
            self._pods_at = now
        self._last = fresh.after(self._last, same_pods=same_pods)
        return self._last

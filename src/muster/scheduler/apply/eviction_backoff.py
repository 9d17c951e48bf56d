"""Pods whose eviction was refused lately: plans leave them alone for a while, longer each time.

Else the same victim would be tried again and again, while another one would do, or while none would.
"""

from collections.abc import Callable

from msgspec import Struct

from muster.api.core import Pod
from muster.kube.backoff import Backoff

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 300.0


class RefusedEviction(Struct, frozen=True, eq=False):
    """One pod that could not be evicted."""

    uid: str
    backoff: Backoff
    until: float  # so long it is left alone


class EvictionBackoff:
    """By pod, as `namespace/name`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._refused: dict[str, RefusedEviction] = {}

    def refused(self, pod: str, uid: str) -> None:
        """An eviction was refused just now."""
        before = self._refused.get(pod)
        is_same = before is not None and before.uid == uid
        backoff = before.backoff if before is not None and is_same else Backoff(FIRST_SECONDS, LONGEST_SECONDS)
        self._refused[pod] = RefusedEviction(uid, backoff, self._clock() + backoff.next_seconds())

    def evicted(self, pod: str) -> None:
        """The pod is evicted after all."""
        self._refused.pop(pod, None)

    def untouchable(self, cached: Callable[[str], Pod | None]) -> frozenset[str]:
        """The pods that a plan must not choose now; forgets those that are gone, or were left alone for long."""
        now = self._clock()
        for name, refused in list(self._refused.items()):
            pod = cached(name)
            if pod is None or pod.metadata.uid != refused.uid or now > refused.until + LONGEST_SECONDS:
                del self._refused[name]
        return frozenset(name for name, refused in self._refused.items() if now < refused.until)

    def next_seconds(self) -> float | None:
        """When the next one may be evicted; None: there is none."""
        now = self._clock()
        seconds = [refused.until - now for refused in self._refused.values() if refused.until > now]
        return min(seconds, default=None)

"""Evictions that were refused lately: a plan leaves those pods alone for a while, longer each time.

Else the same victim would be asked again and again, while another one would do, or while nobody would.
"""

from collections.abc import Callable

from msgspec import Struct

from muster.api.core import Pod

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 300.0


class RefusedEviction(Struct, frozen=True):
    """One pod that could not be evicted."""

    uid: str
    until: float
    seconds: float  # how long it is left alone


class EvictionBackoff:
    """By pod, as `namespace/name`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._refused: dict[str, RefusedEviction] = {}

    def refused(self, pod: str, uid: str) -> None:
        """It was, just now."""
        before = self._refused.get(pod)
        again = before is not None and before.uid == uid
        seconds = min(before.seconds * 2, LONGEST_SECONDS) if before and again else FIRST_SECONDS
        self._refused[pod] = RefusedEviction(uid, self._clock() + seconds, seconds)

    def evicted(self, pod: str) -> None:
        """It leaves after all."""
        self._refused.pop(pod, None)

    def untouchable(self, seen: Callable[[str], Pod | None]) -> frozenset[str]:
        """Those that a plan must not choose now; who is gone, or was left alone for long, is forgotten."""
        now = self._clock()
        for pod, refused in list(self._refused.items()):
            found = seen(pod)
            if found is None or found.metadata.uid != refused.uid or now > refused.until + LONGEST_SECONDS:
                del self._refused[pod]
        return frozenset(pod for pod, refused in self._refused.items() if now < refused.until)

    def next_seconds(self) -> float | None:
        """When somebody may be asked again; None: there is nobody."""
        now = self._clock()
        left = [refused.until - now for refused in self._refused.values() if refused.until > now]
        return min(left) if left else None

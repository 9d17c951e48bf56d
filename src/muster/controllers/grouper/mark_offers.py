"""Pods whose marks come with their bindings, so that they need no write of their own.

Rule 1: few pods are marked at once, by a write each, before any of their gang is bound: readers of the API see what
belongs together. Of many, a write each is half of what an API server has to do for them. Rule 2: a pod that is not
bound within a moment, once its PodGroup is stored, is marked by a write of its own. While bindings are sent, a moment
is longer.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from muster.api.objects import key
from muster.controllers.grouper.gang_record import is_marked, mark_of
from muster.controllers.grouper.members import GroupedPod
from muster.kube.pod_mark import PodMark

MOST_AT_ONCE: Final = 128  # unmarked pods; with more, new ones wait for their bindings
WAIT_SECONDS: Final = 1.0
BUSY_SECONDS: Final = 10.0  # while bindings are sent


class MarkCarrier(Protocol):
    """What binds pods, and takes their marks along."""

    async def detect(self) -> bool:
        """Whether it can."""

    def offer(self, pod: str, uid: str, mark: PodMark | None) -> bool:
        """The mark that a pod is to get; None: none. Returns whether it is taken along, and was not before."""

    def may_carry(self, pod: str, uid: str) -> bool:
        """Whether the mark was offered, and the pod is not bound yet."""

    @property
    def is_binding(self) -> bool:
        """Whether bindings are sent now."""


class NoCarrier:
    """Every pod is marked by a write of its own."""

    is_binding = False

    async def detect(self) -> bool:
        """It cannot."""
        return False

    def offer(self, pod: str, uid: str, mark: PodMark | None) -> bool:  # noqa: ARG002
        """Nothing is taken along."""
        return False

    def may_carry(self, pod: str, uid: str) -> bool:  # noqa: ARG002
        """Nothing is taken along."""
        return False


class MarkOffers:
    """The unmarked pods of each gang that wait for their bindings."""

    def __init__(self, carrier: MarkCarrier, clock: Callable[[], float] = time.monotonic) -> None:
        self.carrier, self._clock = carrier, clock
        self._unmarked: set[str] = set()  # uids of pods that are to be marked, by whatever write
        self._awaiting: dict[str, dict[str, float]] = {}  # since when, by gang and uid of the pod
        self._chosen: set[str] = set()  # uids of those that came when there were many
        self._overdue: set[str] = set()  # uids of pods that have waited long enough, and are to be marked in turn
        self._joined: set[str] = set()  # uids of pods that joined their gangs when they were offered

    def __len__(self) -> int:
        """Gangs with pods that wait for their bindings."""
        return len(self._awaiting)

    def assign(self, before: GroupedPod | None, after: GroupedPod | None) -> None:
        """A pod was assigned: counts it, and withdraws a mark that is not the one it is to get."""
        member = after or before
        assert member is not None
        meta = member.pod.metadata
        if before is not None and before.gang != member.gang:
            self._stop_waiting(before)
        is_unmarked = after is not None and after.is_active and not is_marked(after)
        if is_unmarked:
            self._unmarked.add(meta.uid)
            if len(self._unmarked) > MOST_AT_ONCE:
                self._chosen.add(meta.uid)
        else:
            self.settle(member)
        if not is_unmarked or meta.uid in self._joined:
            is_kept = is_unmarked and before is not None and before.gang == member.gang
            self.carrier.offer(key(meta), meta.uid, mark_of(member) if is_kept else None)

    def offer(self, members: Sequence[GroupedPod], joined: Callable[[GroupedPod], None]) -> None:
        """Offers the marks of one gang's unmarked pods, those of many; `joined` gets each that joins by that.

        The PodGroup of the gang is as it should be, or not stored: pods must not be planned by an old one (G1).
        """
        for member in members:
            meta = member.pod.metadata
            if meta.uid in self._chosen and self.carrier.offer(key(meta), meta.uid, mark_of(member)):
                self._joined.add(meta.uid)
                joined(member)

    def has_joined(self, member: GroupedPod) -> bool:
        """Whether a pod joined its gang when its mark was offered."""
        return member.pod.metadata.uid in self._joined

    def split(self, gang: str, unmarked: Sequence[GroupedPod], is_stored: bool) -> tuple[list[GroupedPod], float]:
        """Those of a gang's unmarked pods that are to be marked now, and the seconds until others may be; 0: none.

        `is_stored`: the PodGroup of the gang is, or will not be; before that its pods cannot be bound.
        """
        now, longest = self._clock(), BUSY_SECONDS if self.carrier.is_binding else WAIT_SECONDS
        before, awaiting, due = self._awaiting.pop(gang, {}), dict[str, float](), list[GroupedPod]()
        for member in unmarked:
            meta = member.pod.metadata
            since = before.get(meta.uid, now) if is_stored else now
            is_waiting = since + longest > now and meta.uid not in self._overdue
            if is_waiting and self.carrier.may_carry(key(meta), meta.uid):
                awaiting[meta.uid] = since
            else:
                self._overdue.add(meta.uid)  # a pass marks only some of a large gang
                due.append(member)
        if not awaiting:
            return due, 0.0
        self._awaiting[gang] = awaiting
        return due, min(awaiting.values()) + longest - now

    def settle(self, member: GroupedPod) -> None:
        """A pod is marked, gone, or not to be marked."""
        self._unmarked.discard(member.pod.metadata.uid)
        self._joined.discard(member.pod.metadata.uid)
        self._chosen.discard(member.pod.metadata.uid)
        self._overdue.discard(member.pod.metadata.uid)
        self._stop_waiting(member)

    def _stop_waiting(self, member: GroupedPod) -> None:
        if (awaiting := self._awaiting.get(member.gang)) is None:
            return
        awaiting.pop(member.pod.metadata.uid, None)
        if not awaiting:
            del self._awaiting[member.gang]

    def restart(self) -> None:
        """Leadership has begun: no pod has waited for a binding of this replica."""
        self._awaiting.clear()
        self._overdue.clear()

"""Pods that the grouper knows, by name, by owner and by gang, kept up to date pod by pod."""

from collections.abc import Collection, Iterator
from typing import TypeVar

from msgspec import Struct

from muster.api import names
from muster.api.objects import key
from muster.grouping.eligibility import has_our_group
from muster.grouping.group import Assignment
from muster.grouping.types import Ungrouped, WorkloadPod

K = TypeVar("K")
Placing = Assignment | Ungrouped | None  # None: its owners are not known yet


class GroupedPod(Struct, frozen=True):
    """A pod of ours, and where grouping puts it."""

    pod: WorkloadPod
    placing: Placing = None
    owner_uids: frozenset[str] = frozenset()  # whose changes may place it elsewhere; those not read yet as well
    kind_awaited: str = ""  # `apiVersion kind` of an owner that cannot be read now
    awaited_since: float = 0.0  # by the clock of the grouper
    kept_because: Ungrouped | None = None  # why it keeps the gang that it had, though its owners say something else
    seen_at: float = 0.0  # by the clock of the grouper
    has_lost_owner: bool = False  # its placing is from when it had one

    @property
    def gang(self) -> str:
        """Its PodGroup by `namespace/name`: while its owners are not known, the one it joined; empty: it has none."""
        meta = self.pod.metadata
        match self.placing:
            case Assignment(gang=gang):
                name = gang.name
            case None if has_our_group(self.pod):
                name = meta.annotations[names.POD_GROUP]
            case _:
                return ""
        return f"{meta.namespace or names.DEFAULT_NAMESPACE}/{name}"

    @property
    def is_active(self) -> bool:
        """Whether it counts in its gang."""
        return isinstance(self.placing, Assignment) and not self.pod.is_finished

    @property
    def is_over(self) -> bool:
        """Whether its workload has finished: of a CronJob, the run that it belongs to."""
        if not isinstance(self.placing, Assignment):
            return False
        request, owner = self.placing.request, self.placing.gang.owner
        owners = {each.metadata.uid: each for each in request.owners}
        return owners.get(owner.uid if owner else "", request.owner).is_finished

    @property
    def will_terminate(self) -> bool:
        """Whether it is terminating, or is about to as its owner is gone."""
        return self.has_lost_owner or self.pod.metadata.deletion_timestamp is not None


class MemberIndex:
    """All pods that are grouped or to be grouped."""

    def __init__(self) -> None:
        self._pods: dict[str, GroupedPod] = {}
        self._by_owner: dict[str, dict[str, None]] = {}
        self._by_awaited: dict[str, dict[str, None]] = {}
        self._by_gang: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._pods))

    def get(self, name: str) -> GroupedPod | None:
        """A pod by `namespace/name`."""
        return self._pods.get(name)

    def put(self, member: GroupedPod) -> None:
        """A pod as it is now."""
        name = key(member.pod.metadata)
        self._index(name, self._pods.get(name), member)
        self._pods[name] = member

    def drop(self, name: str) -> GroupedPod | None:
        """Forget a pod; returns it as it was."""
        before = self._pods.pop(name, None)
        if before is not None:
            self._index(name, before, None)
        return before

    def owned_by(self, uid: str) -> Collection[str]:
        """Pods that this owner concerns."""
        return tuple(self._by_owner.get(uid, ()))

    def awaiting(self, kind: str) -> Collection[str]:
        """Pods with an owner of this kind that could not be read."""
        return tuple(self._by_awaited.get(kind, ()))

    def awaiting_any(self) -> Collection[str]:
        """Pods with an owner that could not be read."""
        return [name for names_ in self._by_awaited.values() for name in names_]

    def of_gang(self, gang: str) -> list[GroupedPod]:
        """The pods of a gang."""
        return [self._pods[name] for name in self._by_gang.get(gang, ())]

    def has_gang(self, gang: str) -> bool:
        """Whether a gang has pods."""
        return gang in self._by_gang

    @property
    def gangs(self) -> Collection[str]:
        """Every gang that has pods."""
        return tuple(self._by_gang)

    def _index(self, name: str, before: GroupedPod | None, after: GroupedPod | None) -> None:
        for table, keys_before, keys_after in (
            (self._by_owner, before and before.owner_uids, after and after.owner_uids),
            (self._by_awaited, before and _single(before.kind_awaited), after and _single(after.kind_awaited)),
            (self._by_gang, before and _single(before.gang), after and _single(after.gang)),
        ):
            _move(table, name, keys_before or frozenset(), keys_after or frozenset())


def _single(text: str) -> frozenset[str]:
    return frozenset((text,)) if text else frozenset()


def _move(table: dict[str, dict[str, None]], name: str, before: frozenset[str], after: frozenset[str]) -> None:
    for gone in before - after:
        del table[gone][name]
        if not table[gone]:
            del table[gone]
    for new in after - before:
        table.setdefault(new, {})[name] = None

"""Assigns pods to gangs: keeps pods and their owners, and says which gangs changed. Every replica does; none writes.

Rule 1: level-triggered: a pod is assigned from what is known, whatever came first. Rule 2: a pod that was assigned
stays so while its owners cannot be read, or after they are gone: Kubernetes deletes it then.
"""

import asyncio
from collections.abc import Callable, Collection
from functools import partial

import structlog
from msgspec.structs import replace

from muster.api import names
from muster.api.meta import OwnerReference
from muster.api.objects import key
from muster.api.resources import PODS, Resource
from muster.controllers.grouper.gang_record import has_only_joined
from muster.controllers.grouper.members import GroupedPod, MemberIndex, Placing
from muster.controllers.grouper.owner_cache import OwnerCache
from muster.grouping.eligibility import has_our_group, is_grouped
from muster.grouping.group import Assignment, assign
from muster.grouping.owners import Missing, OwnersUnsynced, walk_owners
from muster.grouping.table import KINDS, KindRule
from muster.grouping.types import Owner, Ungrouped, WorkloadPod
from muster.kube.cluster import Cluster
from muster.kube.stored_object import StoredObject, identity, scheduler_of

log = structlog.get_logger()
INTERNAL_ERROR = Ungrouped(
    "InternalError", "muster failed to group the pod", "see the log of muster, and please report it with the workload"
)
LOST_OWNER = ("OwnerNotFound", "OwnerUidDiffers")  # Kubernetes deletes such a pod
AT_ONCE = 200  # pods that are assigned before other tasks of the loop run
Assigned = Callable[[GroupedPod | None, GroupedPod | None], None]  # a pod before and after


class Assigner:
    """Pods of ours, each with its gang and leaf."""

    def __init__(
        self,
        cluster: Cluster,
        owners: Collection[str],
        schedulers: Collection[str],
        kinds: tuple[KindRule, ...],
        clock: Callable[[], float],
        assigned: Assigned,
        namespaces: Collection[str] = (),
    ) -> None:
        self.members = MemberIndex()
        plurals = {(kind.group, kind.kind): kind.plural for kind in (*KINDS.values(), *kinds)}
        self.owners = OwnerCache(
            cluster, owners, plurals, clock, self._owner_changed, self._kind_changed, self._pod_owner
        )
        self._schedulers, self._namespaces = frozenset(schedulers), frozenset(namespaces)
        self._kinds, self._clock, self._assigned = kinds, clock, assigned
        self._dirty: dict[str, None] = {}
        self._woken = asyncio.Event()
        self._news = asyncio.Event()  # set, and replaced, whenever an owner changes

    @property
    def is_idle(self) -> bool:
        """Whether every pod is assigned, as far as its owners are known."""
        return not self._dirty

    def put(self, pod: WorkloadPod) -> None:
        """A pod of ours is new, or has changed."""
        meta = pod.metadata
        name, parts = key(meta), (meta.namespace, meta.name)
        before = self.members.get(name)
        if before is not None and before.pod == pod:
            return
        if not self.is_grouped(pod):
            self.drop(parts)
            return
        if before is not None and before.pod.metadata.uid != pod.metadata.uid:
            self.drop(parts)
            before = None
        after = replace(before, pod=pod) if before else GroupedPod(pod, seen_at=self._clock())
        self.members.put(after)
        if before is not None and has_only_joined(before, after):
            return
        self._mark(name)
        if before is None:
            self._owner_changed(pod.metadata.uid)

    def is_grouped(self, pod: WorkloadPod) -> bool:
        """Whether the grouper chooses the PodGroup of a pod."""
        return self._is_in_scope(pod.metadata.namespace) and is_grouped(pod, self._schedulers)

    def is_ours(self, stored: StoredObject) -> bool:
        """A cheap test before anything is decoded: most pods may be for other schedulers (N6)."""
        return self._is_in_scope(identity(stored)[0]) and scheduler_of(stored) in self._schedulers

    def _is_in_scope(self, namespace: str) -> bool:
        return not self._namespaces or namespace in self._namespaces

    def drop(self, name: tuple[str, str]) -> None:
        """A pod is gone, or is not ours; by namespace and name."""
        member = self.members.drop(f"{name[0] or names.DEFAULT_NAMESPACE}/{name[1]}")
        if member is not None:
            self._assigned(member, None)

    def _mark(self, name: str) -> None:
        self._dirty[name] = None
        self._woken.set()

    def _owner_changed(self, uid: str) -> None:
        self._announce()
        for name in self.members.owned_by(uid):
            self._mark(name)

    def _kind_changed(self, resource: Resource) -> None:
        self._announce()
        for name in self.members.awaiting(f"{resource.api_version} {resource.kind}"):
            self._mark(name)

    def _announce(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def changed(self) -> None:
        """Waits until an owner changes, or a kind of owners is listed."""
        await self._news.wait()

    def _pod_owner(self, namespace: str, name: str) -> Owner | None:
        """A pod of ours as an owner: a LeaderWorkerSet's workers belong to their leader's pod."""
        member = self.members.get(f"{namespace}/{name}")
        return Owner(PODS.api_version, PODS.kind, member.pod.metadata) if member else None

    def unread(self, before: float) -> list[GroupedPod]:
        """Pods with an owner that could not be read since before this time, and that do not say why."""
        waiting = (self.members.get(name) for name in self.members.awaiting_any())
        return [member for member in waiting if member and member.awaited_since < before and _is_silent(member)]

    async def run(self) -> None:
        """Assigns without end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.owners.run(), name="owners")
            while True:
                await self._woken.wait()
                self._woken.clear()
                while self._dirty:
                    self.assign_some(AT_ONCE)
                    await asyncio.sleep(0)

    def assign_some(self, most: int) -> None:
        """Assigns up to so many pods whose owners may have changed."""
        for name in [name for name, _ in zip(self._dirty, range(most), strict=False)]:
            del self._dirty[name]
            before = self.members.get(name)
            if before is not None:
                after = self._assign(before)
                self.members.put(after)
                self._assigned(before, after)

    def _assign(self, member: GroupedPod) -> GroupedPod:
        references: list[OwnerReference] = []
        placing, is_settled = self.place(member.pod, partial(self._lookup, references))
        is_lost = member.has_lost_owner if placing is None else _has_lost_owner(placing)
        kept_because = _why(placing) if _is_worse(placing, member) else None
        if placing is None or kept_because is not None:
            placing = member.placing if isinstance(member.placing, Assignment) else None
        awaited = "" if is_settled else f"{references[-1].api_version} {references[-1].kind}"
        return replace(
            member,
            placing=placing,
            owner_uids=frozenset(reference.uid for reference in references),
            kind_awaited=awaited,
            awaited_since=member.awaited_since if awaited == member.kind_awaited else self._clock(),
            kept_because=kept_because,
            has_lost_owner=is_lost,
        )

    def _lookup(self, seen: list[OwnerReference], reference: OwnerReference, namespace: str) -> Owner | Missing:
        seen.append(reference)
        return self.owners.lookup(reference, namespace)

    def place(
        self, pod: WorkloadPod, lookup: Callable[[OwnerReference, str], Owner | Missing] | None = None
    ) -> tuple[Placing, bool]:
        """Where a pod belongs by what is known now, and whether all of its owners were read."""
        chain = walk_owners(pod.metadata, lookup or self.owners.lookup)
        if isinstance(chain, OwnersUnsynced):
            return None, False
        if isinstance(chain, Ungrouped):
            return chain, chain.reason != "OwnerNotFound"
        try:
            return assign(pod, chain, self._kinds), not chain.notes
        except Exception:
            log.exception("pod not grouped", pod=key(pod.metadata))
            return INTERNAL_ERROR, True


def _has_lost_owner(placing: Placing) -> bool:
    return isinstance(placing, Ungrouped) and placing.reason in LOST_OWNER


def _why(placing: Placing) -> Ungrouped | None:
    """Why a pod is not grouped, or not by all of its owners."""
    match placing:
        case Assignment(notes=notes):
            return notes[0] if notes else None
        case _:
            return placing


def _is_silent(member: GroupedPod) -> bool:
    """Whether a pod waits for an owner, or keeps its gang without, and has said nothing about it."""
    match member.placing:
        case None | Assignment(notes=()):
            return member.kept_because is None
        case _:
            return False


def _is_worse(placing: Placing, member: GroupedPod) -> bool:
    """Whether the gang that a pod has, of this process or of an earlier one, was chosen by more than is known now."""
    joined = member.pod.metadata.annotations.get(names.POD_GROUP) if has_our_group(member.pod) else None
    match placing:
        case Ungrouped():
            return isinstance(member.placing, Assignment) or names.GROUPED_BY in member.pod.metadata.annotations
        case Assignment(notes=notes, gang=gang):
            return bool(notes) and member.placing is None and joined not in (None, gang.name)
        case None:
            return False

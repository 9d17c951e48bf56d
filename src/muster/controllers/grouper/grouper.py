"""The pod grouper: pods of ours in, PodGroups and joined pods out.

Data flows one way: pods and owners change, `assigner` assigns pods to gangs, gangs are written here. Rule 1: every
replica assigns; only the leader writes, in its term (I9). Rule 2: level-triggered: a gang is written from all that is
known, so the order of events does not matter. Rule 3: what concerns one pod, owner or gang holds up no other.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime

import structlog

from muster.api import names
from muster.api.meta import ObjectMeta
from muster.api.objects import key
from muster.api.podgroup import PodGroup
from muster.api.resources import POD_GROUPS, PODS, PRIORITY_CLASSES, Resource
from muster.config.settings import PodGrouping, ShardSettings
from muster.controllers.grouper.apply_configuration import keep_existing, with_digest
from muster.controllers.grouper.assigner import Assigner
from muster.controllers.grouper.gang_record import (
    CONFIRM_SECONDS,
    GangRecord,
    is_marked,
    leaves_of,
    representative,
)
from muster.controllers.grouper.group_versions import PodGroupVersions
from muster.controllers.grouper.grouping_observer import GroupingObserver, NoGroupingObserver
from muster.controllers.grouper.grouping_reports import GOING, GroupingReports, kept_gang, refusal, unmarked
from muster.controllers.grouper.grouping_writer import GroupingWriter, LeadershipLost, RefusedPodGroup
from muster.controllers.grouper.mark_offers import MarkCarrier, MarkOffers, NoCarrier
from muster.controllers.grouper.members import GroupedPod
from muster.controllers.grouper.other_groupers import chosen_by_another
from muster.controllers.grouper.pod_joiner import PodJoiner, is_unmarked
from muster.controllers.grouper.shard_scope import ShardScope
from muster.grouping.eligibility import has_foreign_group
from muster.grouping.group import Assignment, build_pod_group
from muster.grouping.owners import unread_owner
from muster.grouping.pod_reader import pod_of
from muster.grouping.types import Ungrouped
from muster.kube.cache.reflector import ObjectDeleted, ObjectUpdated, ReflectorEvent
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from muster.kube.leadership import AlwaysLeading, Leadership
from muster.kube.stored_object import StoredObject, identity, received_pod
from muster.kube.work_queue import WorkQueue

log = structlog.get_logger()
WORKERS = 32  # gangs that are written at once; the writer bounds requests
JOINS_A_PASS, MOST_PASSES = 32, 50  # pods of a gang that are marked before other gangs are written
WRITE_SECONDS = 10.0
DETECT_SECONDS = 30.0  # until what binds the pods is asked again whether it can mark them
UNREAD_SECONDS = 60.0  # a pod whose owners are not read for so long says so
PER_POD_SECONDS, LONGEST_DELAY_SECONDS = 0.0001, 1.0  # changes of many pods of a gang are written together
FEW_PODS = 500  # below, a change is written at once


class Grouper:
    """The loop; `handle` gets what changed in the cluster, `pod_group` reads the cache of PodGroups."""

    def __init__(
        self,
        cluster: Cluster,
        settings: PodGrouping,
        schedulers: Collection[str],
        pod_group: Callable[[str], PodGroup | None],
        leadership: Leadership | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        observer: GroupingObserver | None = None,
        namespaces: Collection[str] = (),
        shard: ShardSettings | None = None,
        carrier: MarkCarrier | None = None,
    ) -> None:
        """`carrier`: what binds the pods, and may mark them with that; None: every pod gets a write of its own."""
        self._settings, self._pod_group, self._clock = settings, pod_group, clock
        self._leadership: Leadership = leadership or AlwaysLeading()
        self._observer: GroupingObserver = observer or NoGroupingObserver()
        self.assigner = Assigner(
            cluster, settings.resources, schedulers, settings.rules, clock, self._assigned, namespaces
        )
        self._scope = ShardScope(shard or ShardSettings(), pod_group, self.assigner.members)
        self._writer = GroupingWriter(
            cluster, self._leadership, WRITE_SECONDS, settings.write_concurrency, self._observer.grouping_written
        )
        self.reports = GroupingReports(
            cluster, self._leadership, clock, wall, WRITE_SECONDS, self._observer.grouping_report_dropped
        )
        self._offers = MarkOffers(carrier or NoCarrier())
        self._joiner = PodJoiner(self._writer, self._offers.has_joined, self._grouped, self._join_refused)
        self._gangs: WorkQueue[str] = WorkQueue()
        self._records: dict[str, GangRecord] = {}
        self._term = self._leadership.term
        self._versions = PodGroupVersions(self._scope.pool_label)
        self._classes: set[str] = set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be assigned or written now, but for what waits for its time."""
        return self.assigner.is_idle and self._gangs.is_idle

    @property
    def is_settled(self) -> bool:
        """Whether every gang is written, every pod marked and every report made, and nothing is to be tried again."""
        return self.is_idle and not self._gangs.has_failures and not len(self.reports) and not len(self._offers)

    @property
    def has_caught_up(self) -> bool:
        """Whether every pod is assigned whose owners can be read, and every gang was looked at."""
        return self.is_idle and not self.assigner.members.awaiting_any()

    @property
    def is_writing(self) -> bool:
        """Whether requests are in flight."""
        return self._writer.in_flight > 0

    # what changes

    def handle(self, resource: Resource, event: ReflectorEvent) -> None:
        """One event of a watch: of pods, PodGroups or PriorityClasses; others are ignored."""
        if resource == PODS:
            self._pod_changed(event)
        elif resource == POD_GROUPS:
            self._group_changed(event)
        elif resource == PRIORITY_CLASSES:
            self._class_changed(event)

    def _pod_changed(self, event: ReflectorEvent) -> None:
        if isinstance(event, ObjectUpdated):
            self._pod_updated(event.stored)
        elif isinstance(event, ObjectDeleted):
            self.assigner.drop(identity(event.stored))

    def _pod_updated(self, stored: StoredObject) -> None:
        read = received_pod(stored) if self.assigner.is_ours(stored) else None
        if read is None or self._is_left_alone(read.metadata) or has_foreign_group(read.metadata):
            self.assigner.drop(identity(stored))
            return
        self.assigner.put(pod := pod_of(read))
        if (member := self.assigner.members.get(key(pod.metadata))) is not None:
            self._confirm(member, bool(read.spec.node_name))

    def _confirm(self, member: GroupedPod, is_bound: bool) -> None:
        """The cache has a pod as it is now."""
        if member.gang in self._records:
            self._records[member.gang].confirm(member, is_bound)
        if is_marked(member):
            self._offers.settle(member)

    def _is_left_alone(self, pod: ObjectMeta) -> bool:
        """Whether another grouper chose the PodGroup of a pod of ours, which then says so."""
        why = chosen_by_another(pod, self._pod_group)
        if why is not None and self._leadership.leading and self._scope.reports(pod):
            self.reports.add(pod, why, False, self._leadership.term)
        return why is not None

    def _group_changed(self, event: ReflectorEvent) -> None:
        """Looks at the gang again where its PodGroup is new, gone, or has another spec; statuses do not matter."""
        match event:
            case ObjectUpdated(object=raw):
                if not self._versions.update(raw):
                    return
                gang = "/".join(identity(raw))
                is_ours = names.GROUPED_BY in (raw["metadata"].get("annotations") or {})
            case ObjectDeleted(object=raw):
                gang, is_ours = "/".join(identity(raw)), False
                self._versions.drop(gang)
                if gang in self._records:
                    self._records[gang].set_deleted(raw["metadata"].get("uid", ""), self._clock())
            case _:
                return
        if is_ours or self.assigner.members.has_gang(gang):
            self._gangs.add(gang)

    def _class_changed(self, event: ReflectorEvent) -> None:
        """A kind's default class counts from when it exists."""
        before = set(self._classes)
        match event:
            case ObjectUpdated(object=raw):
                self._classes.add(raw["metadata"]["name"])
            case ObjectDeleted(object=raw):
                self._classes.discard(raw["metadata"]["name"])
            case _:
                return
        if self._classes != before:
            for gang in self.assigner.members.gangs:
                self._gangs.add(gang)

    def _assigned(self, before: GroupedPod | None, after: GroupedPod | None) -> None:
        for gang in {member.gang for member in (before, after) if member is not None and member.gang}:
            self._add_soon(gang)
        if before is not None and before.gang in self._records and (after is None or after.gang != before.gang):
            self._records[before.gang].joined.pop(before.pod.metadata.name, None)
        self._offers.assign(before, after)
        if after is not None:
            self._report(after)

    def _grouped(self, member: GroupedPod) -> None:
        self._observer.pod_grouped(self._clock() - member.seen_at)

    def _join_refused(self, member: GroupedPod, why: str, term: int) -> None:
        """Says it in an event alone: the pod may be bound already."""
        self.reports.add(member.pod.metadata, unmarked(member.gang.rpartition("/")[2], why), False, term)

    def _add_soon(self, gang: str) -> None:
        size = self._records[gang].size if gang in self._records else 0
        if size < FEW_PODS:
            self._gangs.add(gang)
        else:
            self._gangs.add_later(gang, min(LONGEST_DELAY_SECONDS, PER_POD_SECONDS * size))

    def lead(self) -> None:
        """Leadership has begun: everything is looked at again, as another leader may have written."""
        self._begin_term()
        self._offers.restart()
        for gang in {*self.assigner.members.gangs, *self._versions}:
            self._gangs.add(gang)
        for name in self.assigner.members:
            if (member := self.assigner.members.get(name)) is not None:
                self._report(member)

    def _begin_term(self) -> int:
        """The term of leadership; what was remembered in another one is forgotten."""
        if self._term != self._leadership.term:
            self._term, self._records = self._leadership.term, {}
            self.reports.forget()
        return self._term

    def _report(self, member: GroupedPod) -> None:
        meta, term = member.pod.metadata, self._leadership.term
        if not self._leadership.leading or member.pod.is_finished or not self._scope.reports(meta, member.gang):
            return
        match member.placing:
            case Ungrouped() as why:
                self._observer.pod_ungrouped(why.reason)
                self._say(member, why, term)
            case Assignment(notes=notes):
                for note in notes:
                    self.reports.add(meta, note, False, term)
            case None:
                pass
        if member.kept_because is not None and member.kept_because.reason not in GOING:
            self._say(member, member.kept_because, term)

    def _say(self, member: GroupedPod, why: Ungrouped, term: int) -> None:
        """Why a pod gets no PodGroup, or keeps the one that it has."""
        text = kept_gang(why, member.gang) if member.gang else why
        self.reports.add(member.pod.metadata, text, not member.gang, term)

    # the loop

    async def run(self) -> None:
        """Groups without end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._detect_carrier(), name="marked bindings")
            tasks.create_task(self.assigner.run(), name="assigner")
            tasks.create_task(self.reports.run(), name="grouping reports")
            tasks.create_task(self._gangs.run(self._reconcile, WORKERS), name="gangs")
            tasks.create_task(self._report_unread(), name="unread owners")

    async def _detect_carrier(self) -> None:
        """Beside the rest: until it is known, and while it cannot be, every pod is marked by a write of its own."""
        while True:
            await self._offers.carrier.detect()
            await asyncio.sleep(DETECT_SECONDS)

    async def _report_unread(self) -> None:
        """Says on pods that wait for a kind of owners that cannot be listed: no event of a watch would."""
        while True:
            await asyncio.sleep(UNREAD_SECONDS / 2)
            for member in self.assigner.unread(self._clock() - UNREAD_SECONDS):
                if self._leadership.leading and self._scope.reports(member.pod.metadata, member.gang):
                    why = self.assigner.owners.problem_of(member.kind_awaited)
                    self._say(member, unread_owner(member.kind_awaited, why), self._begin_term())

    async def _reconcile(self, gang: str) -> bool:
        """Whether the gang is written as it should be; otherwise it comes again after a while."""
        if not self._leadership.leading or not self._scope.has_gang(gang):
            return True
        term = self._begin_term()
        record = self._records.setdefault(gang, GangRecord())
        try:
            return await self._write(gang, record, term)
        except LeadershipLost:
            return True
        except ApiError as error:
            self._observer.grouping_failed(error.reason)
            log.info("gang not grouped yet", gang=gang, reason=error.reason, what=error.message)
            return False

    async def _write(self, gang: str, record: GangRecord, term: int) -> bool:
        """Applies the PodGroup, and marks pods that do not wait for their bindings.

        A new PodGroup comes last: the scheduler sees all pods at once.
        """
        members = self.assigner.members.of_gang(gang)
        record.size = len(members)
        active = [member for member in members if member.is_active]
        if not active:
            return await self._retire(gang, members, record, term)
        record.empty_since = None
        if self._pod_group(gang) is None and not self._may_create(gang, active, record):
            return True
        is_stored = self._pod_group(gang) is not None or record.applied is not None
        is_new = not is_stored
        is_accepted = is_new or await self._apply(gang, active, record, term)
        unmarked = [member for member in active if self._is_current(member) and is_unmarked(member, record)]
        self._offers.offer(unmarked, self._grouped)
        todo, seconds = self._offers.split(gang, unmarked, is_stored or record.refused is not None)
        some = todo[: max(JOINS_A_PASS, len(active) // MOST_PASSES)]
        is_last_pass = len(some) == len(todo)
        refused = await self._joiner.join(some, record, term)
        if is_new and (is_last_pass or refused is not None):
            is_accepted = await self._apply(gang, active, record, term)
        if seconds and (is_stored or is_accepted):  # else a PodGroup that is refused would not wait longer each time
            self._gangs.add_later(gang, seconds)
        if refused is not None:
            raise refused
        if not is_last_pass:
            self._gangs.add(gang)  # after other gangs; after a failure it waits longer
        return is_accepted

    def _is_current(self, member: GroupedPod) -> bool:
        """Whether a pod is still as it was when the PodGroup of its gang was built."""
        return self.assigner.members.get(key(member.pod.metadata)) is member

    def _may_create(self, gang: str, active: Sequence[GroupedPod], record: GangRecord) -> bool:
        """Whether the PodGroup is not one that the garbage collector deleted with its owner: it would do so again."""
        if (seconds := record.gone_seconds_left(self._clock())) > 0:
            self._gangs.add_later(gang, seconds)
            return False
        return not all(member.will_terminate for member in active)

    def _desired(self, gang: str, active: Sequence[GroupedPod]) -> PodGroup | None:
        """The PodGroup of a gang; None: an internal error, which must not stop other gangs."""
        members = self.assigner.members.of_gang(gang)
        try:
            leaves = frozenset(leaves_of(members))
            return with_digest(build_pod_group(representative(active), leaves, self._classes, self._scope.pool_label))
        except Exception:
            log.exception("gang not grouped", gang=gang)
            self._observer.grouping_failed("InternalError")
            return None

    async def _apply(self, gang: str, members: Sequence[GroupedPod], record: GangRecord, term: int) -> bool:
        """Whether the API server has the PodGroup, as far as others did not change it."""
        desired, existing = self._desired(gang, members), self._pod_group(gang)
        if desired is None or record.is_applied(desired, existing, self._clock()):
            return True
        outcome = await self._writer.apply(
            keep_existing(desired, existing, self._scope.pool_label), record.yielded, term
        )
        if isinstance(outcome, RefusedPodGroup):
            self._refused(desired, outcome.message, members, record, existing, term)
            return False
        record.set_applied(desired, outcome.version, outcome.yielded, self._clock())
        if existing is None:  # the watch brings it; where it does not, it may be gone again
            self._gangs.add_later(gang, CONFIRM_SECONDS)
        return True

    def _refused(
        self,
        desired: PodGroup,
        why: str,
        members: Sequence[GroupedPod],
        record: GangRecord,
        existing: PodGroup | None,
        term: int,
    ) -> None:
        """Says on the pods why their PodGroup is not stored: on each once, on those that came later as well."""
        if record.set_refused(desired):
            self._observer.grouping_failed("Refused")
        text, is_final = refusal(desired.metadata.name, why), existing is None
        for meta in (member.pod.metadata for member in members if member.pod.metadata.uid not in record.refused_pods):
            record.refused_pods.add(meta.uid)
            self.reports.add(meta, text, is_final, term)

    async def _retire(self, gang: str, members: Sequence[GroupedPod], record: GangRecord, term: int) -> bool:
        """Deletes a PodGroup of the grouper once its pods are gone for long enough, or its workload has finished."""
        existing = self._pod_group(gang)
        if existing is None or names.GROUPED_BY not in existing.metadata.annotations:
            self._records.pop(gang, None)
            return True
        if any(not member.is_over for member in members):
            return True
        record.empty_since = self._clock() if record.empty_since is None else record.empty_since
        left_seconds = record.empty_since + self._settings.empty_seconds - self._clock()
        if left_seconds > 0:
            self._gangs.add_later(gang, left_seconds)
            return True
        await self._writer.delete(existing, term)
        self._records.pop(gang, None)
        return True

"""The cluster as the dashboard shows it, live: numbered changes of rows, and the way back through the last cycles.

Rule 1: what the scheduler reports is only noted; rows are made in slices, only those that may have changed, and in a
small share of the time: on all but large and busy clusters each cycle has a state of its own. Rule 2: nothing waits for
a viewer; all of them are woken together, a few times a second. Rule 3: cycles come from the scheduler of this replica
alone.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

import msgspec
from msgspec import Raw, Struct

from muster.api.core import Pod
from muster.api.moment import format_time
from muster.api.resources import NODES, TOPOLOGIES, Resource
from muster.dashboard.gang_records import (
    NONE_MOVED,
    GangUpdate,
    MovedNodes,
    NodeMoves,
    SettledGangs,
    compare_plan,
    join,
    read_statuses,
    refusals,
)
from muster.dashboard.history import MOST_CYCLES, DashboardHistory, Publication, Record, Records
from muster.dashboard.node_uses import NodeUses
from muster.kube.cache.cache import Cache
from muster.kube.cache.reflector import ListCompleted, ReflectorEvent
from muster.kube.stored_object import identity
from muster.observability.logging import logger
from muster.planning.decision import CyclePlan
from muster.planning.policy import Policy
from muster.reporting.dashboard.cycles import FinishedPlan, RecordedCycle, cycle_record, with_refusals
from muster.reporting.dashboard.gangs import RecordedGang
from muster.reporting.dashboard.nodes import RecordedNode, shown_resources
from muster.reporting.dashboard.tables import reverse
from muster.scheduler.cycle_runner import FinishedCycle
from muster.scheduler.daemon_threads import in_daemon_thread

VIEWED_SECONDS, UNVIEWED_SECONDS = 0.5, 1.0  # between updates at most, with viewers and without
REST_SHARE = 60  # times the last update: how long no other one begins, also for a cycle
ANNOUNCED_SECONDS = 0.25  # between changes that viewers receive
STANDBY_SECONDS = 5.0
FAILED_SECONDS = 5.0  # until the next attempt
NODE_ROWS, GANG_ROWS, SECTIONS = "nodes", "gangs", "sections"
Changed = dict[str, dict[str, Record | None]]


class ShownPlan(Struct, frozen=True, eq=False):
    """The plan of the last cycle."""

    cycle: int
    at: str
    plan: CyclePlan
    moved: MovedNodes  # between domains, since the plan that was shown last


class DashboardModel:
    """Rows by table, kept up to date from the cache and from the cycles of the scheduler."""

    def __init__(
        self,
        cache: Cache,
        policy: Policy,
        history_bytes: int,
        is_leading: Callable[[], bool] = lambda: True,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.cache, self.policy, self._is_leading, self._wall = cache, policy, is_leading, wall
        self.boot, self.seq, self.cycle, self.at, self.leads = uuid4().hex[:12], 0, 0, format_time(wall()), False
        self.records: Records = {NODE_ROWS: {}, GANG_ROWS: {}, SECTIONS: {}}
        self.history = DashboardHistory(history_bytes)
        self.viewers = 0
        self.is_closed = False  # no more changes come
        self.uses = NodeUses(cache, policy.scheduler_names, policy.shard)
        self._settled = SettledGangs()
        self._facts_version = 0  # of nodes, whose resources and levels are shown
        self._plan: ShownPlan | None = None  # that is not shown yet
        self._nominated: frozenset[str] = frozenset()  # pods, by the last cycle
        self._moves = NodeMoves()
        self._cycles: list[RecordedCycle] = []  # that are not shown yet
        self._standby_at = float("-inf")
        self._woken = asyncio.Event()
        self._planned = asyncio.Event()  # a cycle has finished that is not shown yet
        self._announced_at = float("-inf")
        self._announcement: asyncio.TimerHandle | None = None
        self.news = asyncio.Event()  # set with the next announcement of changes; then another one takes its place

    # what is reported

    def object_changed(self, resource: Resource, event: ReflectorEvent) -> None:
        """The cache has received an event."""
        if isinstance(event, ListCompleted):
            return
        if resource == NODES:
            self.uses.node_changed(identity(event.stored)[1])
            self.wake()
        elif resource == TOPOLOGIES:
            self.uses.topologies_changed()
            self.wake()

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """A pod of the cache is new, differs, or is gone."""
        self.uses.pod_changed(before, after)
        self.wake()

    def cycle_finished(self, done: FinishedCycle) -> None:
        """The scheduler has applied a plan."""
        finished = FinishedPlan(done.number, done.now, done.seconds, done.plan, len(done.result.failures))
        record = cycle_record(finished, self._nominated)
        self._nominated = frozenset(nomination.key for nomination in done.plan.nominations)
        self._cycles.append(record)
        moved = join(self._moves.find_moved(done.snapshot), NONE_MOVED if self._plan is None else self._plan.moved)
        self._plan = ShownPlan(done.number, record.row.at, done.plan, moved)
        self._planned.set()
        self.wake()

    def wake(self) -> None:
        """Something may have changed."""
        self._woken.set()

    # what is shown

    @property
    def nodes(self) -> Mapping[str, RecordedNode]:
        """Every node."""
        return self.records[NODE_ROWS]  # type: ignore[return-value]

    @property
    def gangs(self) -> Mapping[str, RecordedGang]:
        """Every gang."""
        return self.records[GANG_ROWS]  # type: ignore[return-value]

    async def run(self) -> None:
        """Keeps the rows up to date, without end."""
        clock = asyncio.get_running_loop().time
        try:
            while True:
                await self._woken.wait()
                self._woken.clear()
                began = clock()
                await self._update_or_log()
                await self._rest(clock() - began)
        finally:
            self.is_closed = True
            self.news.set()

    async def _rest(self, spent_seconds: float) -> None:
        """Until the next cycle or for a moment, but in any case for many times as long as the last update took."""
        longest = VIEWED_SECONDS if self.viewers else UNVIEWED_SECONDS
        shortest = min(REST_SHARE * spent_seconds, longest)
        await asyncio.sleep(shortest)
        await is_set(self._planned, longest - shortest)

    async def _update_or_log(self) -> None:
        """An error in what is shown ends no scheduler: all rows are made again, after a while."""
        plan, cycles = self._plan, self._cycles
        try:
            await self.update()
        except Exception:
            logger("dashboard").exception("the dashboard cannot be brought up to date")
            self._plan, self._cycles = self._plan or plan, [*cycles, *self._cycles][-MOST_CYCLES:]
            self._moves.forget()
            self._settled.clear()
            self.uses.all_changed()
            asyncio.get_running_loop().call_later(FAILED_SECONDS, self.wake)
            await asyncio.sleep(FAILED_SECONDS)

    async def update(self) -> None:
        """Makes the rows that may have changed, and publishes those that did."""
        leads, plan, cycles = self._is_leading(), self._plan, self._cycles
        self._plan, self._cycles = None, []
        self._planned.clear()
        gangs = await (self._compare(plan) if plan else self._stand_by(leads))
        if gangs is not None:
            self._note_gangs(gangs)
        if plan is not None or not leads:
            self.uses.set_nominations(plan.plan.nominations if plan and leads else ())
        nodes = await self.uses.make_records()
        if plan is not None and gangs is not None:
            cycles[-1] = with_refusals(cycles[-1], refusals(gangs.changed, self.gangs))
        self._publish(leads, self._changes(gangs, nodes), tuple(cycles))

    async def _compare(self, shown: ShownPlan) -> GangUpdate:
        plan, cycle, at = shown.plan, shown.cycle, shown.at
        return await compare_plan(self.gangs, self._settled, plan, cycle, at, shown.moved)

    async def _stand_by(self, leads: bool) -> GangUpdate | None:
        """What the leader wrote, where this replica does not lead: now and then, and only for viewers."""
        loop = asyncio.get_running_loop()
        if leads or not self.viewers:
            return None
        if loop.time() - self._standby_at < STANDBY_SECONDS:
            loop.call_later(STANDBY_SECONDS - (loop.time() - self._standby_at), self.wake)
            return None
        self._standby_at = loop.time()
        loop.call_later(STANDBY_SECONDS, self.wake)
        read = partial(read_statuses, dict(self.gangs), self.cache.objects, self._wall(), self.policy)
        return await in_daemon_thread("dashboard", read)

    def _note_gangs(self, gangs: GangUpdate) -> None:
        for name, record in {**gangs.changed, **gangs.rebuilt}.items():
            self.uses.gang_changed(name, None if record is None else record.plan.gang)

    def _changes(self, gangs: GangUpdate | None, nodes: Mapping[str, RecordedNode | None]) -> Changed:
        """The rows that differ from what is shown."""
        sections = self._sections(gangs)
        changes: Changed = {
            NODE_ROWS: {name: record for name, record in nodes.items() if self.nodes.get(name) != record},
            GANG_ROWS: {},
            SECTIONS: {name: row for name, row in sections.items() if self.records[SECTIONS].get(name) != row},
        }
        if gangs is not None:
            for name, record in {**gangs.changed, **gangs.rebuilt}.items():
                self._settled.replace(self.gangs.get(name), record)
            changes[GANG_ROWS].update(gangs.changed)
            self.records[GANG_ROWS].update(gangs.rebuilt)
        return {table: rows for table, rows in changes.items() if rows}

    def _sections(self, gangs: GangUpdate | None) -> dict[str, Raw]:
        sections = {} if gangs is None else gangs.sections
        sections["topologies"] = Raw(msgspec.json.encode(self.uses.levels))
        if self._facts_version != self.uses.facts_version:
            self._facts_version = self.uses.facts_version
            amounts = (facts.allocatable for facts in self.uses.facts.values())
            sections["resources"] = Raw(msgspec.json.encode(shown_resources(amounts)))
        return sections

    def _publish(self, leads: bool, changes: Changed, cycles: tuple[RecordedCycle, ...]) -> None:
        """Numbers a change, if there is one, and wakes viewers."""
        if not changes and not cycles and leads == self.leads:
            return
        self.seq, self.leads, self.at = self.seq + 1, leads, format_time(self._wall())
        if cycles:
            self.cycle = cycles[-1].row.cycle
        replaced = reverse(self.records, changes)
        for table, rows in changes.items():
            for name, record in rows.items():
                if record is None:
                    self.records[table].pop(name, None)
                else:
                    self.records[table][name] = record
        self.history.add(Publication(self.seq, self.cycle, self.at, replaced, cycles))
        self._announce_soon()

    def _announce_soon(self) -> None:
        """Viewers are woken at once, or when the last announcement is long enough ago."""
        loop = asyncio.get_running_loop()
        if self._announcement is None:
            at = max(self._announced_at + ANNOUNCED_SECONDS, loop.time())
            self._announcement = loop.call_at(at, self._announce)

    def _announce(self) -> None:
        self._announcement, self._announced_at = None, asyncio.get_running_loop().time()
        news, self.news = self.news, asyncio.Event()
        news.set()


async def is_set(event: asyncio.Event, seconds: float) -> bool:
    """Whether an event comes within so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()

"""Writes statuses, conditions, annotations and events after a cycle (E1-E3).

Rule 1: a loop of its own, on the latest outcome, behind the bindings: a newer outcome replaces updates that are not
sent yet, and scheduling never waits for them. Rule 2: one update of an object at a time, and only what differs from
what is stored; a lost one is written again after the next cycle.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Container, Mapping
from functools import partial

import structlog

from muster.api.core import Pod
from muster.api.resources import PODS
from muster.kube.cluster import Cluster, PatchType
from muster.kube.errors import ApiError
from muster.kube.event_recorder import EventRecorder
from muster.kube.leadership import Leadership, leads_in, within_leadership
from muster.planning.decision import Binding
from muster.scheduler.daemon_threads import in_daemon_thread
from muster.scheduler.observer import NoObserver, Observer
from muster.scheduler.status.event_queue import yield_while
from muster.scheduler.status.status_updates import (
    Address,
    CycleOutcome,
    Kind,
    StatusUpdate,
    UpdateBuilder,
    withdrawn_conditions,
)

log = structlog.get_logger()
CONFLICT = 409
AGAIN_SECONDS = 300.0  # the same event about the same object is not written more often
EMPTIED_SECONDS = 2.0  # how much later a gang is reported whose last pod has left: most go with their workload
RECEIVED_SECONDS = 5.0  # how long an update that the cache does not have yet is not written again
AT_ONCE, AT_ONCE_BUSY = 16, 1  # updates: few, as bindings come first; fewer while these are in flight
SHOWN = 5  # failures that are logged
SILENT_SECONDS = 60.0  # between log lines about failures
JSON: PatchType = "application/json-patch+json"
STRATEGIC: PatchType = "application/strategic-merge-patch+json"


class StatusWriter:
    """Writes the outcome of cycles to PodGroups, pods and queues."""

    def __init__(
        self,
        cluster: Cluster,
        leadership: Leadership,
        clock: Callable[[], float],
        seconds: float = 10.0,
        observer: Observer | None = None,
        again: Callable[[bool], None] = lambda _: None,
        reports_orphan: Callable[[Pod], bool] = lambda _: True,
        is_busy: Callable[[], bool] = lambda: False,
        later: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.cluster, self.leadership, self.clock, self.seconds = cluster, leadership, clock, seconds
        self.observer: Observer = observer or NoObserver()
        self.is_busy = is_busy  # whether bindings or evictions are in flight
        self.again = again  # called when all updates are sent, with whether one failed
        self.later = later  # called where a cycle has to run in so many seconds, or updates would stay unwritten
        self.reported_cycle = 0  # the last one whose updates are written or replaced by later ones
        self._latest: CycleOutcome | None = None
        self._woken = asyncio.Event()
        self._number = 0  # of the cycle that `_updates` belong to
        self._term = 0  # its term of leadership: in another one, none of them is written
        self._newest = 0  # number of the last cycle that was submitted
        self._updates: dict[Address, list[StatusUpdate]] = {}
        self._busy: dict[Address, asyncio.Event] = {}  # set once the object may be written to again
        self._placed: dict[Address, int] = {}  # pods that were bound, and from which cycle on they may be written to
        self._written: dict[tuple[Address, Kind], tuple[object, float]] = {}  # the content, and when
        self._emptied: dict[str, float] = {}  # gangs whose last pod has left, and since when that is known
        self._failures: list[str] = []  # the first few messages
        self._failed = 0
        self._silent_until = -math.inf
        self._builder = UpdateBuilder(reports_orphan)
        self._recorder = EventRecorder(cluster, clock)

    def submit(self, cycle: CycleOutcome) -> None:
        """Writes its updates soon; or never, if a newer outcome comes first."""
        self._latest, self._newest = cycle, cycle.number
        self._woken.set()

    def yield_to_binding(self, binding: Binding) -> Awaitable[object] | None:
        """Before a pod is bound: drops its updates; waits for one in flight: none may report later that it waits."""
        address = (PODS.plural, binding.namespace, binding.pod)
        self._placed[address] = self._newest + 1
        self._updates.pop(address, None)
        return self._busy[address].wait() if address in self._busy else None

    def forget(self) -> None:
        """Drops every update: another replica leads, and may change what was written."""
        self._latest = None
        self._updates.clear()
        self._written.clear()

    async def run(self) -> None:
        """Writes without end."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._woken.wait()
                await yield_while(self.is_busy)
                self._woken.clear()
                cycle, self._latest = self._latest, None
                if cycle is not None:
                    updates = await in_daemon_thread("status", partial(self._builder.updates, cycle))
                    self._replace_updates(cycle, updates)
                    self._send_next(tasks)

    def _replace_updates(self, cycle: CycleOutcome, fresh: dict[Address, list[StatusUpdate]]) -> None:
        """Objects that waited before come first, with newer updates: otherwise the last ones might starve."""
        if cycle.term != self._term:
            self._written.clear()  # another leader may have written since then
        for update in [*withdrawn_conditions(self._written, fresh, cycle)]:
            fresh[update.address] = [update]
        self._placed = {address: number for address, number in self._placed.items() if number > cycle.number}
        for address in [*self._placed, *self._emptied_lately(fresh)]:
            fresh.pop(address, None)
        now, due = self.clock(), {(address, update.kind) for address, updates in fresh.items() for update in updates}
        self._written = {
            about: entry for about, entry in self._written.items() if _is_current(about, now - entry[1], due)
        }
        if self._failed:
            self._report_failures()
        self._updates = {address: fresh[address] for address in self._updates if address in fresh} | fresh
        self._number, self._term = cycle.number, cycle.term

    def _emptied_lately(self, fresh: Mapping[Address, list[StatusUpdate]]) -> list[Address]:
        """Objects of gangs whose last pod has just left: their PodGroups go as well, unless they get other pods."""
        now, before = self.clock(), self._emptied
        emptied = {address: updates[0].emptied for address, updates in fresh.items() if updates[0].emptied}
        self._emptied = {gang: before.get(gang, now) for gang in emptied.values()}
        lately = [address for address, gang in emptied.items() if now - self._emptied[gang] < EMPTIED_SECONDS]
        if lately:
            self.later(EMPTIED_SECONDS)
        return lately

    def _send_next(self, tasks: asyncio.TaskGroup) -> None:
        most = AT_ONCE_BUSY if self.is_busy() else AT_ONCE
        while len(self._busy) < most and (address := self._next()) is not None:
            self._busy[address] = asyncio.Event()
            tasks.create_task(self._send(address, self._updates.pop(address), self._term, tasks))
        if not self._busy:
            self._finish_cycle()

    def _next(self) -> Address | None:
        return next((address for address in self._updates if address not in self._busy), None)

    def _finish_cycle(self) -> None:
        self.reported_cycle = self._number
        self._report_failures()

    def _report_failures(self) -> None:
        """Logs what was not written, and reports whether to try again."""
        failures, failed = self._failures, self._failed
        self._failures, self._failed = [], 0
        if failures and self.clock() >= self._silent_until:
            self._silent_until = self.clock() + SILENT_SECONDS
            for failure in failures:
                log.warning("status not written", what=failure, of=failed)
        self.again(failed > 0)

    async def _send(self, address: Address, updates: list[StatusUpdate], term: int, tasks: asyncio.TaskGroup) -> None:
        """Writes the updates of one object, in order."""
        for update in updates:
            about = (address, update.kind)
            content, _ = self._written.get(about, (None, 0.0))
            if content != update.content and leads_in(self.leadership, term) and await self._write(update):
                self._written[about] = update.content, self.clock()
        self._busy.pop(address).set()
        self._send_next(tasks)

    async def _write(self, update: StatusUpdate) -> bool:
        """Whether it was written. An object that changed or is gone is no failure: the watch brings the change."""
        try:
            with within_leadership(self.leadership, self.seconds):
                await self._request(update)
        except ApiError as error:
            if error.status == CONFLICT:
                self.observer.conflict(update.resource.plural)
            elif error.status != 404:
                self._failed += 1
                if len(self._failures) < SHOWN:
                    self._failures.append(f"{update.resource.plural} {update.namespace}/{update.name}: {error.message}")
            return False
        return True

    async def _request(self, update: StatusUpdate) -> None:
        """One request an update; two for an Event that no longer exists and is created again."""
        where = update.resource, update.namespace, update.name
        match update.kind:
            case "event":
                await self._recorder.record(update.body)
            case "annotations":
                await self.cluster.patch(*where, update.body)
            case "status":
                await self.cluster.patch(*where, update.body, JSON, "status")
            case "condition":
                await self.cluster.patch(*where, update.body, STRATEGIC, "status")


def _is_current(about: tuple[Address, Kind], age_seconds: float, due: Container[tuple[Address, Kind]]) -> bool:
    """Whether an update that was written need not be written again.

    The cache does not keep conditions of pods, so they are current as long as they are due; a status that is still due
    after a while was changed by another client.
    """
    match about[1]:
        case "event":
            return age_seconds < AGAIN_SECONDS
        case "condition":
            return about in due
        case _:
            return about in due and age_seconds < RECEIVED_SECONDS

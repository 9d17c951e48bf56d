"""Pages of one gang or node, and the list of cycles: now, or as they were after a cycle."""

from functools import partial

from muster.api.moment import parse_time
from muster.dashboard.gang_events import GangEvents, moment_of
from muster.dashboard.messages import Messages
from muster.dashboard.model import GANG_ROWS, NODE_ROWS, DashboardModel
from muster.dashboard.rights import ViewerRights
from muster.dashboard.slices import LoopShare
from muster.reporting.dashboard.cycles import cycle_row
from muster.reporting.dashboard.gangs import RecordedGang, gang_page
from muster.reporting.dashboard.nodes import RecordedNode, node_page
from muster.reporting.dashboard.rows import CycleRow, GangPage, NodePage


class Pages:
    """Makes pages when they are requested; CycleGone where a cycle is not kept."""

    def __init__(self, model: DashboardModel, messages: Messages, events: GangEvents) -> None:
        self._model, self._messages, self._events = model, messages, events
        self._share = LoopShare()  # for gangs of thousands of pods

    def node(self, rights: ViewerRights, name: str, cycle: int | None) -> NodePage | None:
        """A node; None: there is none of this name."""
        record = self._record(NODE_ROWS, name, cycle)
        if not isinstance(record, RecordedNode):
            return None
        page, hidden = node_page(name, self._shown_cycle(cycle), record), self._messages.filter(rights.namespaces)
        return page if hidden is None else hidden.node_page(page)

    async def gang(self, rights: ViewerRights, namespace: str, name: str, cycle: int | None) -> GangPage | None:
        """A gang; None: there is none of this name, or the viewer may not see it."""
        record, hidden = self._record(GANG_ROWS, f"{namespace}/{name}", cycle), self._messages.filter(rights.namespaces)
        if not isinstance(record, RecordedGang) or not (hidden is None or hidden.sees(record.plan.gang.key)):
            return None
        events = await self._events.of(namespace, name)
        if cycle is not None:
            at = parse_time(self._model.history.cycle(cycle).row.at)
            events = tuple(event for event in events if at is not None and moment_of(event) <= at)
        make = partial(gang_page, record, self._shown_cycle(cycle), events)
        page = await self._share.run(rights.user, make)
        return page if hidden is None else hidden.gang_page(page)

    def cycles(self, rights: ViewerRights, before: int | None, limit: int) -> list[CycleRow]:
        """Cycles, newest first."""
        hidden = self._messages.filter(rights.namespaces)
        records = self._model.history.recent_cycles(before, limit)
        return [cycle_row(record) if hidden is None else hidden.cycle(record) for record in records]

    def _record(self, table: str, key: str, cycle: int | None) -> object:
        now = self._model.records[table].get(key)
        return now if cycle is None else self._model.history.record_after(cycle, table, key, now)

    def _shown_cycle(self, cycle: int | None) -> int:
        return self._model.cycle if cycle is None else cycle

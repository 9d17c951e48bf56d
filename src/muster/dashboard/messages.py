"""What viewers receive: a whole state, or one change, as bytes that viewers of equal rights share."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from muster.dashboard.history import Publication, Record
from muster.dashboard.model import GANG_ROWS, NODE_ROWS, SECTIONS, DashboardModel
from muster.reporting.dashboard.cycles import RecordedCycle, cycle_row
from muster.reporting.dashboard.rows import CycleRow, Shown
from muster.reporting.dashboard.visibility import NamespaceFilter

SHOWN_CYCLES = 100  # in a state
MOST_DIGITS = 15
MOST_SHARED = 16  # messages that are kept for other viewers: who names cursors of their own fill no memory
WHOLE = -1  # a reader that has nothing
NOTHING, NONE = Raw(b"{}"), Raw(b"[]")
NO_QUEUES = Raw(b'{"capacity":{},"queues":[],"outside":[]}')
Hide = Callable[[Mapping[str, Raw | None]], dict[str, Raw | None]]


class DashboardState(Shown, frozen=True):
    """All that is shown, after one change."""

    boot: str
    seq: int
    cycle: int
    at: str
    leads: bool
    resources: Raw
    topologies: Raw
    nodes: Mapping[str, Raw | None]
    gangs: Mapping[str, Raw | None]
    queues: Raw
    waiting: Raw
    cycles: tuple[CycleRow, ...]  # oldest first


class DashboardChange(Shown, frozen=True, omit_defaults=True):
    """What differs from an earlier state; None: gone. What is absent is as before."""

    seq: int
    cycle: int
    at: str
    leads: bool
    nodes: Mapping[str, Raw | None]
    gangs: Mapping[str, Raw | None]
    cycles: tuple[CycleRow, ...]
    resources: Raw | UnsetType = UNSET
    topologies: Raw | UnsetType = UNSET
    queues: Raw | UnsetType = UNSET
    waiting: Raw | UnsetType = UNSET


class Cursor(Struct, frozen=True):
    """Where a reader is: it has everything up to this change of this process."""

    boot: str
    seq: int

    def __str__(self) -> str:
        return f"{self.boot}:{self.seq}"


def parse_cursor(text: str) -> Cursor | None:
    """The cursor that a reader names; None: it names none that could be one."""
    boot, _, seq = text.partition(":")
    return Cursor(boot, int(seq)) if boot and seq.isascii() and seq.isdigit() and len(seq) <= MOST_DIGITS else None


class Messages:
    """States and changes of a model. What is encoded serves all viewers of equal rights, until the next change."""

    def __init__(self, model: DashboardModel) -> None:
        self._model = model
        self._encoded: dict[tuple[frozenset[str] | None, int], bytes] = {}  # by namespaces, and by the reader's change
        self._encoded_seq = -1

    def cursor(self, namespaces: frozenset[str] | None) -> Cursor:
        """The last change, as viewers of these rights count: a cursor of other rights leads nowhere."""
        return Cursor(self._boot(namespaces), self._model.seq)

    def _boot(self, namespaces: frozenset[str] | None) -> str:
        if namespaces is None:
            return self._model.boot
        text = " ".join((self._model.boot, *sorted(namespaces)))
        return f"{self._model.boot}-{blake2b(text.encode(), digest_size=6).hexdigest()}"

    def filter(self, namespaces: frozenset[str] | None) -> NamespaceFilter | None:
        """What hides other namespaces; None: nothing is hidden."""
        uses = self._model.uses
        return None if namespaces is None else NamespaceFilter(namespaces, uses.namespaces, uses.path_roots)

    def event(self, namespaces: frozenset[str] | None, after: Cursor | None) -> bytes:
        """The next event for a reader: one change, or a state where it has none that leads here; empty: it has all."""
        now = self.cursor(namespaces)
        if after == now:
            return b""
        is_known = after is not None and after.boot == now.boot and after.seq < now.seq
        publications = self._model.history.since(after.seq) if after is not None and is_known else None
        if after is None or publications is None:
            return self._shared(namespaces, WHOLE, lambda: _event("state", now, self.state(namespaces)))
        changed = publications
        return self._shared(namespaces, after.seq, lambda: _event("change", now, self._change(namespaces, changed)))

    def _shared(self, namespaces: frozenset[str] | None, seq: int, encode: Callable[[], bytes]) -> bytes:
        if self._encoded_seq != self._model.seq:
            self._encoded, self._encoded_seq = {}, self._model.seq
        key = (namespaces, seq)
        if key not in self._encoded:
            if len(self._encoded) >= MOST_SHARED:
                del self._encoded[next(iter(self._encoded))]
            self._encoded[key] = encode()
        return self._encoded[key]

    def state(self, namespaces: frozenset[str] | None, cycle: int | None = None) -> bytes:
        """The present state as JSON, or the one after a cycle. CycleGone: that is not kept."""
        model, head = self._model, (self._model.cycle, self._model.at)
        records = model.records
        if cycle is not None:
            head = cycle, model.history.cycle(cycle).row.at
            records = model.history.records_after(cycle, records)
        hidden, sections = self.filter(namespaces), records[SECTIONS]
        shown = model.history.recent_cycles(None if cycle is None else cycle + 1, SHOWN_CYCLES)
        state = DashboardState(
            boot=self._boot(namespaces),
            seq=model.seq,
            cycle=head[0],
            at=head[1],
            leads=model.leads,
            resources=_row(sections.get("resources")) or NONE,
            topologies=_row(sections.get("topologies")) or NOTHING,
            nodes=_visible(records[NODE_ROWS], hidden.nodes if hidden else None),
            gangs=_visible(records[GANG_ROWS], hidden.gangs if hidden else None),
            queues=_row(sections.get("queues")) or NO_QUEUES,
            waiting=_row(sections.get("waiting")) or NOTHING,
            cycles=tuple(_cycles(reversed(shown), hidden)),
        )
        return msgspec.json.encode(state)

    def _change(self, namespaces: frozenset[str] | None, publications: Sequence[Publication]) -> bytes:
        """Everything that some of these changed, as it is now."""
        model, hidden = self._model, self.filter(namespaces)
        now = {table: self._now(table, publications) for table in (NODE_ROWS, GANG_ROWS, SECTIONS)}
        change = DashboardChange(
            seq=model.seq,
            cycle=model.cycle,
            at=model.at,
            leads=model.leads,
            nodes=_visible(now[NODE_ROWS], hidden.nodes if hidden else None),
            gangs=_visible(now[GANG_ROWS], hidden.gangs if hidden else None),
            cycles=tuple(_cycles((each for publication in publications for each in publication.cycles), hidden)),
            **{name: row for name, row in _rows(now[SECTIONS]).items() if row is not None},
        )
        return msgspec.json.encode(change)

    def _now(self, table: str, publications: Iterable[Publication]) -> dict[str, Record | None]:
        records = self._model.records[table]
        keys = dict.fromkeys(key for publication in publications for key in publication.replaced.get(table, ()))
        return {key: records.get(key) for key in keys}


def beat() -> bytes:
    """An event that says nothing but that the connection is alive."""
    return b"event: beat\ndata: {}\n\n"


def _event(name: str, cursor: Cursor, data: bytes) -> bytes:
    return b"event: %b\nid: %b\ndata: %b\n\n" % (name.encode(), str(cursor).encode(), data)


def _visible(records: Mapping[str, Record | None], hide: Hide | None) -> Mapping[str, Raw | None]:
    rows = _rows(records)
    return rows if hide is None else hide(rows)


def _rows(records: Mapping[str, Record | None]) -> dict[str, Raw | None]:
    return {key: _row(record) for key, record in records.items()}


def _row(record: Record | None) -> Raw | None:
    return record if record is None or isinstance(record, Raw) else record.row


def _cycles(records: Iterable[RecordedCycle], hidden: NamespaceFilter | None) -> Iterator[CycleRow]:
    return (cycle_row(record) if hidden is None else hidden.cycle(record) for record in records)

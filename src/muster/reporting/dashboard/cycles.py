"""Cycles as the feed of decisions shows them: what was bound, evicted, moved, released, nominated and refused."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from muster.api.moment import format_time
from muster.planning.decision import Binding, CyclePlan, Eviction
from muster.reporting.dashboard.rows import CycleRow, GangRefusal, PodAct

LISTED = 50  # acts of each kind in a row
MOST_KEPT = 500  # of each kind in a record: as many as are listed for each of ten namespaces
ACTS = ("bound", "evicted", "moved", "released", "nominated")


class RecordedCycle(Struct, frozen=True):
    """A cycle: its row before it is cut, and how much it did in each namespace."""

    row: CycleRow
    counts: Mapping[str, Mapping[str, int]]  # by kind and namespace

    @property
    def cost(self) -> int:
        """About how many bytes it takes."""
        acts = sum(len(getattr(self.row, kind)) for kind in ACTS)
        return 800 + 350 * acts + sum(300 + len(refusal.message) for refusal in self.row.refused)


class FinishedPlan(Struct, frozen=True, eq=False):
    """A plan that was carried out, and when."""

    cycle: int
    at: datetime
    seconds: float
    plan: CyclePlan
    failures: int = 0


def cycle_record(done: FinishedPlan, nominated_before: Collection[str] = ()) -> RecordedCycle:
    """What a cycle decided; nominations only where they are new."""
    plan = done.plan
    moved = [each for each in plan.evictions if each.move_to]
    released = [each for each in plan.evictions if not each.move_to and each.reason == "Stale"]
    evicted = [each for each in plan.evictions if not each.move_to and each.reason != "Stale"]
    nominated = [each for each in plan.nominations if each.key not in nominated_before]
    decided: dict[str, Sequence[Binding | Eviction]] = {
        "bound": plan.bindings,
        "evicted": evicted,
        "moved": moved,
        "released": released,
        "nominated": nominated,
    }
    row = CycleRow(
        cycle=done.cycle,
        at=format_time(done.at),
        milliseconds=round(done.seconds * 1000, 1),
        steps=sum(plan.searches),
        failures=done.failures,
    )
    row = replace(row, **{kind: tuple(_kept(acts)) for kind, acts in decided.items()})
    return RecordedCycle(row, {kind: Counter(each.namespace for each in acts) for kind, acts in decided.items()})


def with_refusals(record: RecordedCycle, refused: Iterable[GangRefusal]) -> RecordedCycle:
    """The record with the gangs whose verdict or reason became another."""
    listed = tuple(refused)
    namespaces = Counter(each.gang.partition("/")[0] for each in listed)
    row = replace(record.row, refused=listed[:MOST_KEPT])
    return RecordedCycle(row, {**record.counts, "refused": namespaces})


def _kept(acts: Iterable[Binding | Eviction]) -> Iterator[PodAct]:
    """At most so many of each namespace, and of all."""
    kept: Counter[str] = Counter()
    for act in acts:
        if kept[act.namespace] < LISTED and kept.total() < MOST_KEPT:
            kept[act.namespace] += 1
            yield _act(act)


def _act(decided: Binding | Eviction) -> PodAct:
    match decided:
        case Eviction():
            preemptor = decided.preemptor if decided.reason != "Stale" else ""
            return PodAct(decided.key, decided.node, decided.gang, preemptor, decided.move_to, decided.reason)
        case _:
            return PodAct(decided.key, decided.node, decided.gang, reason=decided.role)


def cycle_row(record: RecordedCycle, namespaces: Collection[str] | None = None) -> CycleRow:
    """The row as it travels: lists cut, and counts of all; of some namespaces only, or of all where they are None."""
    row = record.row
    counts = {kind: _total(by_namespace, namespaces) for kind, by_namespace in record.counts.items()}
    lists = {kind: tuple(_visible_acts(getattr(row, kind), namespaces))[:LISTED] for kind in ACTS}
    refused = tuple(each for each in row.refused if _is_visible(each.gang, namespaces))[:LISTED]
    return replace(row, **lists, refused=refused, counts={"refused": 0, **counts})


def _total(by_namespace: Mapping[str, int], namespaces: Collection[str] | None) -> int:
    return sum(number for name, number in by_namespace.items() if namespaces is None or name in namespaces)


def _visible_acts(acts: Iterable[PodAct], namespaces: Collection[str] | None) -> Iterator[PodAct]:
    for act in acts:
        if _is_visible(act.pod, namespaces):
            yield act if _is_visible(act.preemptor, namespaces) else replace(act, preemptor="")


def _is_visible(key: str, namespaces: Collection[str] | None) -> bool:
    return namespaces is None or key.partition("/")[0] in namespaces

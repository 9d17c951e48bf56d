"""The gangs of the last plan as records: only those about which it decided something else are made again.

A replica that does not lead has no plan: there, gangs are as the leader wrote them into their status (decision 0044).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import is_

import msgspec
from msgspec import Raw, Struct

from muster.api.objects import Objects
from muster.dashboard.slices import in_batches, in_slices
from muster.fairness.shares import Division, divide_cluster
from muster.model.gang.gang import Gang
from muster.model.gang.types import walk_leaves
from muster.model.snapshot import Snapshot, take
from muster.model.topology import NOWHERE, Level
from muster.placement.requirements.builder import Requirements
from muster.planning.decision import CyclePlan, GangPlan
from muster.planning.policy import Policy
from muster.reporting import queues
from muster.reporting.dashboard.gangs import RecordedGang, gang_record, is_same, shows_same, stored_gang_record
from muster.reporting.dashboard.rows import GangRefusal

MovedNodes = frozenset[str] | None  # None: any of them
NONE_MOVED: MovedNodes = frozenset()
Levels = tuple[tuple[str, tuple[str, ...]], ...]  # of every Topology: its name, and its labels


class GangUpdate(Struct, frozen=True, eq=False):
    """What differs from the records before."""

    changed: dict[str, RecordedGang | None]  # None: gone
    rebuilt: dict[str, RecordedGang]  # that show the same
    waiting: Mapping[str, int]  # gangs, by queue
    division: Division | None

    @property
    def sections(self) -> dict[str, Raw]:
        """Queues, and how many gangs wait in each."""
        sections = {"waiting": Raw(msgspec.json.encode(dict(sorted(self.waiting.items()))))}
        if self.division is not None:
            sections["queues"] = Raw(msgspec.json.encode(queues.data(self.division)))
        return sections


class SettledGangs:
    """Gangs that run and want nothing, as they are shown: most gangs of a busy cluster, and known by identity alone."""

    def __init__(self) -> None:
        self._gangs: set[Gang] = set()

    def replace(self, before: RecordedGang | None, after: RecordedGang | None) -> None:
        """A record takes the place of another one; None: there is none."""
        if before is not None:
            self._gangs.discard(before.plan.gang)
        if after is not None and is_settled(after.plan):
            self._gangs.add(after.plan.gang)

    def clear(self) -> None:
        """What is shown is not known."""
        self._gangs.clear()

    def others(self, plans: Iterable[GangPlan]) -> list[GangPlan]:
        """Plans that may differ from what is shown; `is_same` holds for all that are left out."""
        gangs = self._gangs
        return [
            plan
            for plan in plans  # in full, as this is the one loop over all gangs: not is_settled(plan)
            if plan.gang not in gangs or plan.refusals or plan.position or plan.verdict != "Scheduled"
        ]


def is_settled(plan: GangPlan) -> bool:
    """Whether there was nothing to decide about a gang, and nothing to say."""
    return plan.verdict == "Scheduled" and not plan.position and not plan.refusals


async def compare_plan(
    before: Mapping[str, RecordedGang],
    settled: SettledGangs,
    plan: CyclePlan,
    cycle: int,
    at: str,
    moved: MovedNodes = NONE_MOVED,
) -> GangUpdate:
    """The gangs about which a plan decided something else, and those whose domains have another name."""
    others: list[GangPlan] = []
    waiting: Counter[str] = Counter()
    async for gang_plans in in_batches(plan.gangs):
        for gang_plan in settled.others(gang_plans) if moved == NONE_MOVED else gang_plans:
            record = before.get(gang_plan.gang.key)
            if record is None or not is_same(record, gang_plan) or is_touched(gang_plan.gang, moved):
                others.append(gang_plan)
            if gang_plan.position:
                waiting[gang_plan.gang.queue] += 1
    changed: dict[str, RecordedGang | None] = {}
    rebuilt: dict[str, RecordedGang] = {}
    async for gang_plan in in_slices(others):
        name = gang_plan.gang.key
        record, after = before.get(name), gang_record(gang_plan, before.get(name), cycle, at)
        if record is not None and shows_same(record, after):
            rebuilt[name] = after
        else:
            changed[name] = after
    if len(plan.gangs) != len(before) + len(changed.keys() - before.keys()):
        changed |= dict.fromkeys(before.keys() - {gang_plan.gang.key for gang_plan in plan.gangs})
    return GangUpdate(changed, rebuilt, waiting, plan.division)


def read_statuses(before: Mapping[str, RecordedGang], objects: Objects, now: datetime, policy: Policy) -> GangUpdate:
    """The gangs as their statuses have them; its cost grows with the cluster: for a thread."""
    snapshot = take(objects, now, policy.scheduler_names, policy.shard)
    records = {gang.key: stored_gang_record(gang, Requirements(gang, snapshot).domains()) for gang in snapshot.gangs}
    shown = {key: key in before and shows_same(before[key], record) for key, record in records.items()}
    waiting = Counter(
        each.plan.gang.queue for each in records.values() if each.plan.verdict not in ("Scheduled", "Invalid")
    )
    return GangUpdate(
        changed={
            **{key: record for key, record in records.items() if not shown[key]},
            **dict.fromkeys(before.keys() - records.keys()),
        },
        rebuilt={key: record for key, record in records.items() if shown[key]},
        waiting=waiting,
        division=divide_cluster(snapshot),
    )


def refusals(changed: Mapping[str, RecordedGang | None], before: Mapping[str, RecordedGang]) -> Iterable[GangRefusal]:
    """Gangs that are not scheduled, where their verdict or its reason became another."""
    for key, record in changed.items():
        if record is None or record.plan.verdict == "Scheduled":
            continue
        old = before.get(key)
        if old is None or not old.says(record.plan.verdict, record.reason):
            yield GangRefusal(key, record.plan.verdict, record.reason, record.message)


# nodes that move ------------------------------------------------------------------------------------------------------


class NodeMoves:
    """The domains of every node in the last snapshot: a gang that is the same value moves only with its nodes."""

    def __init__(self) -> None:
        self._made_of: tuple[object, object] | None = None
        self._levels: Levels | None = None  # None: nothing is known
        self._places: dict[str, tuple[str, ...]] = {}

    def find_moved(self, snapshot: Snapshot) -> MovedNodes:
        """Nodes that are new, gone, or in other domains than in the last snapshot; the same values are in the same."""
        made_of = snapshot.node_index, snapshot.topologies
        if self._made_of is not None and all(map(is_, made_of, self._made_of)):
            return NONE_MOVED
        levels, places = levels_in(snapshot), places_of(snapshot)
        is_comparable = levels == self._levels
        moved = frozenset(name for name, _ in places.items() ^ self._places.items()) if is_comparable else None
        self._made_of, self._levels, self._places = made_of, levels, places
        return moved

    def forget(self) -> None:
        """Nothing is known: any node may have moved."""
        self._made_of = self._levels = None


def levels_in(snapshot: Snapshot) -> Levels:
    """The levels that gangs may name."""
    return tuple((name, tuple(level.label for level in tree.levels)) for name, tree in snapshot.topologies.items())


def places_of(snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """The domain of every node, on each level of each Topology; empty: none."""
    columns = [_domains(level) for tree in snapshot.topologies.values() for level in tree.levels]
    places = zip(*columns, strict=True) if columns else [()] * len(snapshot.node_index)
    return dict(zip(snapshot.node_index, places, strict=True))


def _domains(level: Level) -> list[str]:
    paths = dict(enumerate(level.paths)) | {NOWHERE: ""}
    return [paths[domain] for domain in level.domain.tolist()]


def join(first: MovedNodes, second: MovedNodes) -> MovedNodes:
    """Nodes that have moved with either."""
    return None if first is None or second is None else first | second


def is_touched(gang: Gang, moved: MovedNodes) -> bool:
    """Whether some pod of a gang may be on a node that has moved."""
    if moved is None:
        return True
    return bool(moved) and any(pod.node in moved for leaf in walk_leaves(gang.root) for pod in leaf.members)

"""Two plans compared: which gangs fare otherwise, and which pods are bound, evicted or moved in only one of them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from muster.model.gang.types import Leaf, walk
from muster.planning.decision import Binding, CyclePlan, Eviction, GangPlan

How = Literal["Worse", "Leaves", "Comes", "Better", "Differs"]
Deed = Literal["bound", "nominated", "evicted", "moved"]
HOWS: Final[tuple[How, ...]] = ("Worse", "Leaves", "Comes", "Better", "Differs")  # in the order in which they are told
RANK: Final = {"Scheduled": 0, "Waiting": 1, "Unknown": 1, "Infeasible": 2, "Invalid": 3}


class GangStanding(Struct, frozen=True):
    """How a gang fares in one plan."""

    verdict: str
    placed: int
    pending: int
    domains: Mapping[str, str]  # group -> where it sits together
    seats: Mapping[str, str]  # pod -> node, of those that are placed


class GangChange(Struct, frozen=True):
    """A gang that fares otherwise; None: it is not there."""

    namespace: str
    name: str
    how: How
    before: GangStanding | None
    after: GangStanding | None

    @property
    def key(self) -> str:
        """Identity everywhere (N3)."""
        return f"{self.namespace}/{self.name}"

    @property
    def elsewhere(self) -> int:
        """Pods that are placed before and after, on different nodes."""
        seats = self.after.seats if self.after else {}
        return sum(seats.get(pod, node) != node for pod, node in (self.before.seats if self.before else {}).items())

    @property
    def domains(self) -> dict[str, tuple[str, str]]:
        """Groups that sit together elsewhere: where before, and where after."""
        before = self.before.domains if self.before else {}
        after = self.after.domains if self.after else {}
        both = {group: (before.get(group, ""), after.get(group, "")) for group in sorted(before.keys() | after.keys())}
        return {group: pair for group, pair in both.items() if pair[0] != pair[1]}


class PodChange(Struct, frozen=True, order=True):
    """A pod that one plan treats otherwise than the other, and the node in question."""

    namespace: str
    pod: str
    before: str  # empty: not in that plan
    after: str
    preemptor: str = ""  # evicted in one plan only: the gang that it makes room for

    @property
    def key(self) -> str:
        """Identity everywhere (N3)."""
        return f"{self.namespace}/{self.pod}"


class PodChanges(Struct, frozen=True):
    """Pods to which something is done in one plan only, or in both with different nodes."""

    only_before: tuple[PodChange, ...]
    only_after: tuple[PodChange, ...]
    elsewhere: tuple[PodChange, ...]


class Differences(Struct, frozen=True):
    """Everything in which two plans differ."""

    gangs: tuple[GangChange, ...]  # those worse off first
    unchanged: int
    pods: Mapping[Deed, PodChanges]


def compare(before: CyclePlan, after: CyclePlan) -> Differences:
    """From one plan to the other."""
    was = {found.gang.key: found for found in before.gangs}
    will = {found.gang.key: found for found in after.gangs}
    every = [_gang(was.get(key), will.get(key)) for key in sorted(was.keys() | will.keys())]
    gangs = sorted((found for found in every if found), key=lambda found: HOWS.index(found.how))
    deeds: dict[Deed, PodChanges] = {
        "bound": _pods(_nodes(before.bindings), _nodes(after.bindings)),
        "nominated": _pods(_nodes(before.nominations), _nodes(after.nominations)),
        "evicted": _pods(
            _evicted(before.evictions),
            _evicted(after.evictions),
            _preemptors(before.evictions) | _preemptors(after.evictions),
        ),
        "moved": _pods(_moved(before.evictions), _moved(after.evictions)),
    }
    return Differences(tuple(gangs), len(every) - len(gangs), deeds)


def _gang(before: GangPlan | None, after: GangPlan | None) -> GangChange | None:
    """None: it stays as it is."""
    there = before or after
    assert there is not None
    was, will = _standing(before) if before else None, _standing(after) if after else None
    return None if was == will else GangChange(there.gang.namespace, there.gang.name, _how(was, will), was, will)


def _standing(found: GangPlan) -> GangStanding:
    now = found.gang.standing
    leaves = (leaf for leaf in walk(found.gang.root) if isinstance(leaf, Leaf))
    seats = {member.name: member.node for leaf in leaves for member in leaf.placed}
    return GangStanding(found.verdict, now.placed, now.pending, found.domains, seats)


def _how(before: GangStanding | None, after: GangStanding | None) -> How:
    """The verdict decides; where it is as good, the number of placed pods."""
    if before is None or after is None:
        return "Leaves" if after is None else "Comes"
    was, will = (RANK[before.verdict], -before.placed), (RANK[after.verdict], -after.placed)
    return "Worse" if will > was else "Better" if will < was else "Differs"


def _nodes(bindings: Iterable[Binding]) -> dict[tuple[str, str], str]:
    return {(one.namespace, one.pod): one.node for one in bindings}


def _evicted(evictions: Iterable[Eviction]) -> dict[tuple[str, str], str]:
    return {(one.namespace, one.pod): one.node for one in evictions if not one.move_to}


def _moved(evictions: Iterable[Eviction]) -> dict[tuple[str, str], str]:
    return {(one.namespace, one.pod): one.move_to for one in evictions if one.move_to}


def _preemptors(evictions: Iterable[Eviction]) -> dict[tuple[str, str], str]:
    return {(one.namespace, one.pod): one.preemptor for one in evictions}


def _pods(
    before: Mapping[tuple[str, str], str],
    after: Mapping[tuple[str, str], str],
    preemptors: Mapping[tuple[str, str], str] | None = None,
) -> PodChanges:
    found = [
        PodChange(*pod, before.get(pod, ""), after.get(pod, ""), (preemptors or {}).get(pod, ""))
        for pod in sorted(before.keys() | after.keys())
    ]
    return PodChanges(
        tuple(one for one in found if not one.after),
        tuple(one for one in found if not one.before),
        tuple(one for one in found if one.before and one.after and one.before != one.after),
    )


# data ---------------------------------------------------------------------------------------------------------------


def data(found: Differences) -> dict[str, Any]:
    """For programs; lists are sorted."""
    return {
        "podGroups": [_gang_data(gang) for gang in sorted(found.gangs, key=lambda gang: gang.key)],
        "unchanged": found.unchanged,
        "pods": {deed: _pods_data(pods) for deed, pods in found.pods.items()},
    }


def _gang_data(gang: GangChange) -> dict[str, Any]:
    return {
        "namespace": gang.namespace,
        "name": gang.name,
        "change": gang.how,
        "before": _standing_data(gang.before),
        "after": _standing_data(gang.after),
        "elsewhere": gang.elsewhere,
        "domains": [
            {"subGroup": group, "before": before, "after": after} for group, (before, after) in gang.domains.items()
        ],
    }


def _standing_data(standing: GangStanding | None) -> dict[str, Any] | None:
    if standing is None:
        return None
    return {
        "verdict": standing.verdict,
        "placed": standing.placed,
        "pending": standing.pending,
        "domain": standing.domains.get("", ""),
    }


def _pods_data(pods: PodChanges) -> dict[str, Any]:
    return {
        "onlyBefore": [{"namespace": one.namespace, "pod": one.pod, "node": one.before} for one in pods.only_before],
        "onlyAfter": [{"namespace": one.namespace, "pod": one.pod, "node": one.after} for one in pods.only_after],
        "elsewhere": [
            {"namespace": one.namespace, "pod": one.pod, "before": one.before, "after": one.after}
            for one in pods.elsewhere
        ],
    }

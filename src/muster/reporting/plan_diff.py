"""Two plans compared: gangs whose outcome differs, and pods that only one of them binds, evicts or moves."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from muster.model.gang.types import Leaf, walk
from muster.planning.decision import Binding, CyclePlan, Eviction, GangPlan

ChangeKind = Literal["Worse", "Leaves", "Comes", "Better", "Differs"]
PodAction = Literal["bound", "nominated", "evicted", "moved"]
CHANGE_KINDS: Final[tuple[ChangeKind, ...]] = (
    "Worse",
    "Leaves",
    "Comes",
    "Better",
    "Differs",
)  # in the order of the report
RANK: Final = {"Scheduled": 0, "Waiting": 1, "Unknown": 1, "Infeasible": 2, "Invalid": 3}


class GangStanding(Struct, frozen=True):
    """The outcome of a gang in one plan."""

    verdict: str
    placed: int
    pending: int
    domains: Mapping[str, str]  # group -> the domain of its pods
    nodes: Mapping[str, str]  # pod -> node, of those that are placed


class GangChange(Struct, frozen=True):
    """A gang whose outcome differs; None: it is not in that plan."""

    namespace: str
    name: str
    kind: ChangeKind
    before: GangStanding | None
    after: GangStanding | None

    @property
    def key(self) -> str:
        """Identity everywhere (N3)."""
        return f"{self.namespace}/{self.name}"

    @property
    def elsewhere(self) -> int:
        """Pods that are placed before and after, on different nodes."""
        nodes = self.after.nodes if self.after else {}
        return sum(nodes.get(pod, node) != node for pod, node in (self.before.nodes if self.before else {}).items())

    @property
    def domains(self) -> dict[str, tuple[str, str]]:
        """Groups whose domain differs: before, and after."""
        before = self.before.domains if self.before else {}
        after = self.after.domains if self.after else {}
        both = {group: (before.get(group, ""), after.get(group, "")) for group in sorted(before.keys() | after.keys())}
        return {group: pair for group, pair in both.items() if pair[0] != pair[1]}


class PodChange(Struct, frozen=True, order=True):
    """A pod that the plans treat differently, and the nodes."""

    namespace: str
    pod: str
    before: str  # empty: not in that plan
    after: str
    preemptor: str = ""  # evicted in one plan only: the gang that gets its place

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
    pods: Mapping[PodAction, PodChanges]


def compare(before: CyclePlan, after: CyclePlan) -> Differences:
    """From one plan to the other."""
    was = {gang.gang.key: gang for gang in before.gangs}
    will = {gang.gang.key: gang for gang in after.gangs}
    every = [_gang(was.get(key), will.get(key)) for key in sorted(was.keys() | will.keys())]
    gangs = sorted((gang for gang in every if gang), key=lambda gang: CHANGE_KINDS.index(gang.kind))
    by_action: dict[PodAction, PodChanges] = {
        "bound": _pods(_nodes(before.bindings), _nodes(after.bindings)),
        "nominated": _pods(_nodes(before.nominations), _nodes(after.nominations)),
        "evicted": _pods(
            _evicted(before.evictions),
            _evicted(after.evictions),
            _preemptors(before.evictions) | _preemptors(after.evictions),
        ),
        "moved": _pods(_moved(before.evictions), _moved(after.evictions)),
    }
    return Differences(tuple(gangs), len(every) - len(gangs), by_action)


def _gang(before: GangPlan | None, after: GangPlan | None) -> GangChange | None:
    """None: it stays as it is."""
    there = before or after
    assert there is not None
    was, will = _standing(before) if before else None, _standing(after) if after else None
    return (
        None
        if was == will
        else GangChange(there.gang.namespace, there.gang.name, _kind_of_change(was, will), was, will)
    )


def _standing(plan: GangPlan) -> GangStanding:
    now = plan.gang.standing
    leaves = (leaf for leaf in walk(plan.gang.root) if isinstance(leaf, Leaf))
    nodes = {member.name: member.node for leaf in leaves for member in leaf.placed}
    return GangStanding(plan.verdict, now.placed, now.pending, plan.domains, nodes)


def _kind_of_change(before: GangStanding | None, after: GangStanding | None) -> ChangeKind:
    """The verdict decides; where it is as good, the number of placed pods."""
    if before is None or after is None:
        return "Leaves" if after is None else "Comes"
    was, will = (RANK[before.verdict], -before.placed), (RANK[after.verdict], -after.placed)
    return "Worse" if will > was else "Better" if will < was else "Differs"


def _nodes(bindings: Iterable[Binding]) -> dict[tuple[str, str], str]:
    return {(binding.namespace, binding.pod): binding.node for binding in bindings}


def _evicted(evictions: Iterable[Eviction]) -> dict[tuple[str, str], str]:
    return {(eviction.namespace, eviction.pod): eviction.node for eviction in evictions if not eviction.move_to}


def _moved(evictions: Iterable[Eviction]) -> dict[tuple[str, str], str]:
    return {(eviction.namespace, eviction.pod): eviction.move_to for eviction in evictions if eviction.move_to}


def _preemptors(evictions: Iterable[Eviction]) -> dict[tuple[str, str], str]:
    return {(eviction.namespace, eviction.pod): eviction.preemptor for eviction in evictions}


def _pods(
    before: Mapping[tuple[str, str], str],
    after: Mapping[tuple[str, str], str],
    preemptors: Mapping[tuple[str, str], str] | None = None,
) -> PodChanges:
    changes = [
        PodChange(*pod, before.get(pod, ""), after.get(pod, ""), (preemptors or {}).get(pod, ""))
        for pod in sorted(before.keys() | after.keys())
    ]
    return PodChanges(
        tuple(change for change in changes if not change.after),
        tuple(change for change in changes if not change.before),
        tuple(change for change in changes if change.before and change.after and change.before != change.after),
    )


# data ---------------------------------------------------------------------------------------------------------------


def data(differences: Differences) -> dict[str, Any]:
    """For programs; lists are sorted."""
    return {
        "podGroups": [_gang_data(gang) for gang in sorted(differences.gangs, key=lambda gang: gang.key)],
        "unchanged": differences.unchanged,
        "pods": {action: _pods_data(pods) for action, pods in differences.pods.items()},
    }


def _gang_data(gang: GangChange) -> dict[str, Any]:
    return {
        "namespace": gang.namespace,
        "name": gang.name,
        "change": gang.kind,
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
        "onlyBefore": [{"namespace": pod.namespace, "pod": pod.pod, "node": pod.before} for pod in pods.only_before],
        "onlyAfter": [{"namespace": pod.namespace, "pod": pod.pod, "node": pod.after} for pod in pods.only_after],
        "elsewhere": [
            {"namespace": pod.namespace, "pod": pod.pod, "before": pod.before, "after": pod.after}
            for pod in pods.elsewhere
        ],
    }

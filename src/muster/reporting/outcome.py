"""A gang after a cycle, as it is reported: what exists, and what the plan binds.

A nominated pod is not placed yet; an evicted one is until it is gone.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from muster.api.podgroup import DisturbanceStatus
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState, pod_state
from muster.model.gang.state import Standing
from muster.model.gang.types import Group, Leaf, Member, walk
from muster.model.gang.updates import place_members
from muster.model.snapshot import Snapshot
from muster.placement.requirements.builder import Requirements
from muster.planning import staleness
from muster.planning.decision import Binding, CyclePlan, Eviction, GangPlan
from muster.validation.pods.membership import Stray, is_ours, orphan


class Outcome(Struct, frozen=True, eq=False):
    """One gang after a cycle: what is there, and what the plan binds."""

    before: Gang  # in the snapshot
    gang: Gang  # with the plan's bindings
    plan: GangPlan
    standings: Mapping[str, Standing]
    domains: Mapping[str, str] = {}  # group -> the domain that its placed pods share
    short: tuple[str, ...] = ()  # groups placed only in part: the PodGroup itself (S2), or SubGroups of it (S3)
    strays: tuple[Stray, ...] = ()  # those that wait for a node
    evictions: tuple[Eviction, ...] = ()  # of its own pods
    disturbance: DisturbanceStatus | None = None  # what its places cost others, as long as it waits for them (P8)

    @property
    def root(self) -> Standing:
        """How the PodGroup itself stands."""
        return self.standings[self.gang.root.name]

    @property
    def short_subgroups(self) -> tuple[str, ...]:
        """SubGroups placed only in part while all groups above them are satisfied (S3)."""
        return tuple(name for name in self.short if name != self.gang.root.name)

    @property
    def is_short(self) -> bool:
        """Some pods are placed and the root is not satisfied (S2)."""
        return self.gang.root.name in self.short

    @property
    def satisfied(self) -> bool:
        """Whether every minimum is met; never for a spec that is not a tree."""
        return self.root.satisfied and not self.gang.broken


def outcomes(snapshot: Snapshot, plan: CyclePlan, but: Container[str] = ()) -> dict[str, Outcome]:
    """Every gang of the plan, by `namespace/name`, but for some."""
    bound = gangs_bound(snapshot, plan)
    before = {gang.key: gang for gang in snapshot.gangs}
    waiting = _waiting(snapshot)
    evicted: dict[str, list[Eviction]] = defaultdict(list)
    for eviction in plan.evictions:
        evicted[eviction.gang].append(eviction)
    costs = _costs(snapshot, plan)
    return {
        name: Outcome(
            before=before[name],
            gang=bound[name],
            plan=gang_plan,
            standings=bound[name].standings,
            domains=Requirements(bound[name], snapshot).domains(),
            short=_short(bound[name]),
            strays=tuple(stray for stray in bound[name].strays if stray.pod in waiting),
            evictions=tuple(evicted.get(name, ())),
            disturbance=costs.get(name),
        )
        for name, gang_plan in ((gang_plan.gang.key, gang_plan) for gang_plan in plan.gangs)
        if name not in but
    }


def _costs(snapshot: Snapshot, plan: CyclePlan) -> dict[str, DisturbanceStatus]:
    """How many pods are evicted or moved for a gang (P8), in this plan or by its stored status."""
    stored = {gang.key: gang.source.status.disturbance for gang in snapshot.gangs if gang.source.status is not None}
    allowed = plan.disturbance.allowed
    now = {
        cost.gang: DisturbanceStatus(cost.evicted, cost.moved, allowed, cost.proof) for cost in plan.disturbance.gangs
    }
    return {gang: cost for gang, cost in stored.items() if cost is not None} | now


def gangs_bound(snapshot: Snapshot, plan: CyclePlan) -> dict[str, Gang]:
    """The gangs of the snapshot with what the plan binds."""
    nodes: dict[str, list[Binding]] = defaultdict(list)
    for binding in plan.bindings:
        nodes[binding.gang].append(binding)
    return {gang.key: _bound(gang, nodes.get(gang.key, ())) for gang in snapshot.gangs}


def _bound(gang: Gang, bindings: Iterable[Binding]) -> Gang:
    nodes = {(binding.sub_group, binding.pod): binding.node for binding in bindings}
    return replace(gang, root=place_members(gang.root, nodes)) if nodes else gang


def _short(gang: Gang) -> tuple[str, ...]:
    """Groups that are short; none of a spec that is not a tree."""
    return () if gang.broken else tuple(group.name for group in staleness.short_groups(gang))


def _waiting(snapshot: Snapshot) -> set[str]:
    """Strays that are pending: only these get a condition that they are not scheduled."""
    strays = {stray.pod for gang in snapshot.gangs for stray in gang.strays}
    return {name for name in strays if pod_state(snapshot.pods[name]) is PodState.PENDING}


def orphans(snapshot: Snapshot) -> tuple[Stray, ...]:
    """Pods of ours that wait and join no gang that exists: never scheduled, but not in silence (N3, N4, N6)."""
    loose = (pod for name, pod in snapshot.pods.items() if not pod.spec.node_name and name not in snapshot.class_of)
    ours = (pod for pod in loose if is_ours(pod, snapshot.schedulers))
    return tuple(orphan(pod) for pod in ours if pod_state(pod) is PodState.PENDING)


# asking -------------------------------------------------------------------------------------------------------------


def pods(root: Group, *states: PodState) -> Iterator[Member]:
    """The pods of a tree; of these states only, if any are named."""
    for leaf in walk(root):
        if isinstance(leaf, Leaf):
            yield from leaf.members_in(*states) if states else leaf.members

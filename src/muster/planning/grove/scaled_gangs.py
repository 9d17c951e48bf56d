"""Gangs that start after their base gang: planned as of the moment when the base is scheduled.

A cycle leaves pods behind a gate alone. Grove's operator lifts the gate of a scaled PodGang once its base gang is
scheduled (R1), and pins it to the domain of the base where the set requires one (R3). A plan that ends before that says
nothing about half of the set; so the first cycle counts as carried out, gates of scaled gangs whose base it schedules
are lifted, and a second cycle plans these.
Rule: the second cycle decides about scaled gangs only, and moves nothing that the first one places; what the first one
says of all others stays.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.core import Pod
from muster.api.objects import Objects, key
from muster.api.podgroup import PodGroup
from muster.model.gang.types import walk_leaves
from muster.model.snapshot import Snapshot, take
from muster.planning import cycle
from muster.planning.decision import Binding, CyclePlan, GangPlan
from muster.planning.policy import Policy
from muster.validation.pods.membership import gang_of
from muster.validation.topology import find_level


class ScaledGang(Struct, frozen=True):
    """A gang that starts after another one."""

    base: str  # namespace/name
    is_lifted: bool = False  # the plan schedules the base, and is about this gang, too
    pin: Mapping[str, str] = {}  # node labels that hold it to the domain of its base


class StagedPlan(Struct, frozen=True, eq=False):
    """One cycle, and a second one for scaled gangs where there are any to plan."""

    decided: CyclePlan
    snapshot: Snapshot  # before the last cycle
    scaled: Mapping[str, ScaledGang]  # gangs that start after another one, by namespace/name


def plan_in_stages(
    objects: Objects, now: datetime, policy: Policy, is_cancelled: Callable[[], bool] | None = None
) -> StagedPlan:
    """What a cycle decides, and what the next one decides about scaled gangs. Cancelled where the caller gave up."""
    snapshot = take(objects, now, policy.scheduler_names, policy.shard)
    decided = cycle.plan(snapshot, policy, is_cancelled=is_cancelled)
    lifted = lift_gates(objects, decided)
    if any(gang.is_lifted for gang in lifted.gangs.values()):
        snapshot = take(lifted.objects, now, policy.scheduler_names, policy.shard)
        placed = frozenset(binding.key for binding in (*decided.bindings, *decided.nominations))
        later = replace(policy, untouchable=policy.untouchable | placed)
        decided = with_scaled(decided, cycle.plan(snapshot, later, is_cancelled=is_cancelled), lifted.gangs)
    return StagedPlan(decided, snapshot, lifted.gangs)


class LiftedGates(Struct, frozen=True, eq=False):
    """The objects after a cycle, with the gates of scaled gangs lifted."""

    objects: Objects
    gangs: Mapping[str, ScaledGang]  # all gangs that start after another one, by namespace/name


def lift_gates(objects: Objects, plan: CyclePlan) -> LiftedGates:
    """The objects as this plan leaves them; gates are lifted of gangs whose base it schedules."""
    bases = dict(_bases(objects.pods))
    if not bases:
        return LiftedGates(objects, {})
    gangs = {gang.gang.key: gang for gang in plan.gangs}
    nominated = {binding.gang for binding in plan.nominations}
    scheduled = {key_ for key_, gang in gangs.items() if gang.verdict == "Scheduled"} - nominated
    pins = {base: _pin(objects, gangs[base]) for base in sorted(set(bases.values()) & scheduled)}
    conflicts = {gang_of(pod) for pod in objects.pods if _conflicts(pod, pins.get(bases.get(gang_of(pod) or "", "")))}
    scaled = {
        gang: ScaledGang(base, base in pins and gang not in conflicts, pins.get(base, {}))
        for gang, base in bases.items()
    }
    return LiftedGates(_carried_out(objects, plan, scaled), scaled)


def _bases(pods: Iterable[Pod]) -> Iterator[tuple[str, str]]:
    """Gangs with gated pods that wait for a base gang."""
    for pod in pods:
        base, gang = pod.metadata.labels.get(names.BASE_POD_GANG), gang_of(pod)
        if base and gang and _is_gated(pod):
            yield gang, f"{pod.metadata.namespace or names.DEFAULT_NAMESPACE}/{base}"


def _is_gated(pod: Pod) -> bool:
    return any(gate.name == names.GANG_GATE for gate in pod.spec.scheduling_gates)


# the domain of the base ---------------------------------------------------------------------------------------------


def _pin(objects: Objects, base: GangPlan) -> Mapping[str, str]:
    """The labels of the domain that a base gang is in, where it has to be in one."""
    wanted = _level_labels(objects, base.gang.source)
    nodes = {member.node for leaf in walk_leaves(base.gang.root) for member in leaf.placed} if wanted else ()
    for node in objects.nodes if nodes else ():
        labels = node.metadata.labels
        if node.metadata.name in nodes and all(label in labels for label in wanted):
            return {label: labels[label] for label in wanted}
    return {}


def _level_labels(objects: Objects, group: PodGroup) -> tuple[str, ...]:
    """The node labels down to the level that a PodGroup requires; none: it requires none, or one that is unknown."""
    constraint = group.spec.topology_constraint
    if constraint is None or not constraint.required_topology_level:
        return ()
    for topology in objects.topologies:
        if constraint.topology in (topology.metadata.name, "") and names.BRIDGED in group.metadata.annotations:
            level = find_level(topology, constraint.required_topology_level)
            labels = [each.node_label for each in topology.spec.levels]
            return () if level is None else tuple(labels[: level + 1])
    return ()


def _conflicts(pod: Pod, pin: Mapping[str, str] | None) -> bool:
    """Whether the pod's own node selector excludes the domain."""
    own = pod.spec.node_selector
    return bool(pin) and any(own.get(label, value) != value for label, value in (pin or {}).items())


# the second cycle ---------------------------------------------------------------------------------------------------


def _carried_out(objects: Objects, plan: CyclePlan, scaled: Mapping[str, ScaledGang]) -> Objects:
    nodes = {binding.key: binding.node for binding in (*plan.bindings, *plan.nominations)}
    gone = {eviction.key for eviction in plan.evictions}
    pods = (_changed(pod, nodes, scaled) for pod in objects.pods if key(pod.metadata) not in gone)
    return replace(objects, pods=tuple(pods))


def _changed(pod: Pod, nodes: Mapping[str, str], scaled: Mapping[str, ScaledGang]) -> Pod:
    if node := nodes.get(key(pod.metadata)):
        return replace(pod, spec=replace(pod.spec, node_name=node))
    gang = scaled.get(gang_of(pod) or "")
    if gang is None or not gang.is_lifted or not _is_gated(pod):
        return pod
    gates = tuple(gate for gate in pod.spec.scheduling_gates if gate.name != names.GANG_GATE)
    selector = {**pod.spec.node_selector, **gang.pin}
    return replace(pod, spec=replace(pod.spec, scheduling_gates=gates, node_selector=selector))


def with_scaled(first: CyclePlan, second: CyclePlan, scaled: Mapping[str, ScaledGang]) -> CyclePlan:
    """The first cycle, and what the second one decides about gangs whose gates were lifted after it."""
    lifted = {gang for gang, each in scaled.items() if each.is_lifted}
    later = {gang.gang.key: gang for gang in second.gangs if gang.gang.key in lifted}
    evictions = (each for each in second.evictions if each.preemptor in lifted)
    return replace(
        first,
        bindings=_both(first.bindings, second.bindings, lifted),
        nominations=_both(first.nominations, second.nominations, lifted),
        evictions=tuple(sorted((*first.evictions, *evictions))),
        gangs=tuple(later.get(gang.gang.key, gang) for gang in first.gangs),
        failures=(*first.failures, *(each for each in second.failures if each.gang in lifted)),
    )


def _both(first: Iterable[Binding], second: Iterable[Binding], gangs: Collection[str]) -> tuple[Binding, ...]:
    return tuple(sorted((*first, *(binding for binding in second if binding.gang in gangs))))

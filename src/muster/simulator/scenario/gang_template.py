"""From the parts of a gang to its PodGroup and its pods."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from muster.api import names
from muster.api.core import Affinity, Container, Pod, PodSpec, ResourceRequirements
from muster.api.meta import ObjectMeta
from muster.api.podgroup import PodGroup, PodGroupSpec, SubGroup, TopologyConstraint
from muster.api.quantity import Resources
from muster.simulator.scenario.daily_scaling import GangScaling
from muster.simulator.scenario.types import GangSpec, RoleSpec

NAMESPACE = "simulated"


class PodTemplate(Struct, frozen=True):
    """Pods of one leaf that are alike."""

    leaf: str  # empty: the PodGroup itself is the leaf
    pods: int
    spec: PodSpec

    def make_pod(self, gang: str, suffix: str, created: datetime) -> Pod:
        """One of them."""
        name = f"{gang}-{self.leaf}-{suffix}" if self.leaf else f"{gang}-{suffix}"
        meta = ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            uid=name,
            labels={names.SUBGROUP: self.leaf} if self.leaf else {},
            annotations={names.POD_GROUP: gang},
            creation_timestamp=created,
        )
        return Pod(metadata=meta, spec=self.spec)


class GangTemplate(Struct, frozen=True):
    """What gangs are made from."""

    spec: PodGroupSpec
    pods: tuple[PodTemplate, ...]

    @property
    def size(self) -> int:
        """How many pods a gang has."""
        return sum(template.pods for template in self.pods)

    @property
    def is_elastic(self) -> bool:
        """Whether a gang has pods above its minimums."""
        pods: Counter[str] = Counter()
        for template in self.pods:
            pods[template.leaf] += template.pods
        groups = {group.name: group.min_member for group in self.spec.sub_groups} or {"": self.spec.min_member}
        top = sum(not group.parent for group in self.spec.sub_groups)
        are_leaves_elastic = any(pods[leaf] > (groups[leaf] or 1) for leaf in pods)
        return are_leaves_elastic or (self.spec.min_sub_group or top) < top

    def pod_group(self, name: str, created: datetime) -> PodGroup:
        """The PodGroup of one gang."""
        meta = ObjectMeta(name=name, namespace=NAMESPACE, uid=name, generation=1, creation_timestamp=created)
        return PodGroup(metadata=meta, spec=self.spec)

    def make_pods(self, gang: str, created: datetime, wanted: Sequence[int] = ()) -> Iterator[Pod]:
        """The first pods of one gang; `wanted`: how many of each template, empty: all."""
        numbers: Counter[str] = Counter()  # by leaf
        for template, number in zip(self.pods, wanted or [each.pods for each in self.pods], strict=True):
            for _ in range(number):
                yield template.make_pod(gang, str(numbers[template.leaf]), created)
                numbers[template.leaf] += 1


class GangArrival(Struct, frozen=True, gc=False):
    """A gang that arrives."""

    name: str
    at_ms: int
    duration_ms: int | None  # that it runs once its core runs; None: for ever
    template: GangTemplate
    class_name: str  # of the trace, else the workload
    is_resumed: bool = False  # after an eviction it goes on where it was
    is_linear: bool = True  # with half of its pods it takes twice as long
    scaling: GangScaling | None = None  # None: its pods stay

    def wanted(self, at_ms: int) -> tuple[int, ...]:
        """How many pods of each template it wants then; empty: all, always."""
        scaling = self.scaling
        return () if scaling is None else tuple(scaling.wanted(each.pods, at_ms) for each in self.template.pods)


def gang_key(arrival: GangArrival) -> str:
    """The identity of a gang that arrives: namespace/name."""
    return f"{NAMESPACE}/{arrival.name}"


def pod_spec(requests: Resources, affinity: Affinity | None = None) -> PodSpec:
    """A pod of one container."""
    container = Container(name="main", resources=ResourceRequirements(requests=requests))
    return PodSpec(scheduler_name=names.DEFAULT_SCHEDULER, containers=(container,), affinity=affinity)


def constraint(level: str, preferred: str) -> TopologyConstraint | None:
    """A topology constraint; None: no level is stated."""
    if not level and not preferred:
        return None
    return TopologyConstraint(required_topology_level=level, preferred_topology_level=preferred)


def template_of(gang: GangSpec, base: PodGroupSpec) -> GangTemplate:
    """The template of a gang; `base` has queue, priority class and preemptibility."""
    roles = gang.roles or (RoleSpec("", gang.pods, gang.min_pods, gang.requests),)
    whole = constraint(gang.level, gang.preferred_level)
    if gang.replicas > 1:
        groups, pods = _replicas(gang, roles)
        return GangTemplate(_with(base, whole, groups, min_sub_group=gang.min_replicas), tuple(pods))
    if not gang.roles:
        spec = _with(base, whole, (), min_member=gang.min_pods or gang.pods)
        return GangTemplate(spec, (PodTemplate("", gang.pods, pod_spec(gang.requests)),))
    leaves = [_leaf(role, role.name) for role in roles]
    return GangTemplate(_with(base, whole, leaves), tuple(_pods(role, role.name) for role in roles))


def _with(
    base: PodGroupSpec,
    whole: TopologyConstraint | None,
    groups: Sequence[SubGroup],
    min_member: int | None = None,
    min_sub_group: int | None = None,
) -> PodGroupSpec:
    return PodGroupSpec(
        queue=base.queue,
        priority_class_name=base.priority_class_name,
        preemptibility=base.preemptibility,
        staleness_grace_period=base.staleness_grace_period,
        min_member=min_member,
        min_sub_group=min_sub_group,
        topology_constraint=whole,
        sub_groups=tuple(groups),
    )


def _replicas(gang: GangSpec, roles: Sequence[RoleSpec]) -> tuple[list[SubGroup], list[PodTemplate]]:
    """A SubGroup for each replica: a leaf of pods, or a branch of roles."""
    groups: list[SubGroup] = []
    pods: list[PodTemplate] = []
    inside = constraint(gang.replica_level, "")
    for i in range(gang.replicas):
        replica = f"r{i}"
        if not gang.roles:
            groups.append(_leaf(roles[0], replica, constraint_=inside))
            pods.append(_pods(roles[0], replica))
            continue
        groups.append(SubGroup(name=replica, topology_constraint=inside))
        for role in roles:
            groups.append(_leaf(role, f"{replica}-{role.name}", parent=replica))
            pods.append(_pods(role, f"{replica}-{role.name}"))
    return groups, pods


def _leaf(role: RoleSpec, name: str, parent: str = "", constraint_: TopologyConstraint | None = None) -> SubGroup:
    return SubGroup(
        name=name,
        parent=parent,
        min_member=role.min_pods or role.pods,
        topology_constraint=constraint_ or constraint(role.level, role.preferred_level),
    )


def _pods(role: RoleSpec, leaf: str) -> PodTemplate:
    return PodTemplate(leaf, role.pods, pod_spec(role.requests))

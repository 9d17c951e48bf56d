"""What a PodCliqueSet consists of: which cliques, scaling groups and gangs there are, by name.

Rule 1: which gang a clique belongs to is decided here only; another scheme of names and gangs is another `lay_out`.
Rule 2: the base gang of a replica has every standalone clique and the first `minAvailable` replicas of each scaling
group; each further replica is a gang of its own. Rule 3: numbers are bounded, whatever a spec says; a group that is
scaled beyond the bound loses what is scaled, and never a replica of the set.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from muster.api.grove.pod_clique import MOST_CLIQUES, MOST_TEMPLATES
from muster.api.grove.pod_clique_set import (
    EXPLICIT,
    IN_ORDER,
    PackTopologyConstraint,
    PodCliqueSet,
    PodCliqueTemplate,
    ScalingGroupTemplate,
)
from muster.grove.naming import (
    base_cliques_name,
    base_gang_name,
    clique_name,
    group_name,
    group_replica_name,
    scaled_gang_name,
    service_name,
)


class CliqueLayout(Struct, frozen=True):
    """A PodClique."""

    name: str
    template: PodCliqueTemplate
    set_replica: int
    gang: str
    min_available: int
    base: str = ""  # the base gang, where the clique is in a scaled one
    group: str = ""  # the PodCliqueScalingGroup; empty: standalone
    group_replica: int = 0  # which replica of that group


class GroupLayout(Struct, frozen=True):
    """A PodCliqueScalingGroup, and the cliques of each of its replicas."""

    name: str
    template: ScalingGroupTemplate
    set_replica: int
    replicas: tuple[tuple[CliqueLayout, ...], ...]
    required: tuple[tuple[CliqueLayout, ...], ...]  # what the base gang needs; some may be missing after a scale-in


class GroupReplicaLayout(Struct, frozen=True):
    """A replica of a scaling group that has a constraint of its own in the base gang."""

    name: str
    cliques: tuple[CliqueLayout, ...]
    topology: PackTopologyConstraint


class GangLayout(Struct, frozen=True):
    """A PodGang."""

    name: str
    set_replica: int
    cliques: tuple[CliqueLayout, ...]
    base: str = ""  # the base gang; empty: this is one
    group: str = ""  # of a scaled gang: the PodCliqueScalingGroup
    group_replica: int = 0
    groups: tuple[GroupReplicaLayout, ...] = ()
    topology: PackTopologyConstraint | None = None


class ReplicaLayout(Struct, frozen=True):
    """One replica of a set."""

    index: int
    service: str
    cliques: tuple[CliqueLayout, ...]  # standalone
    groups: tuple[GroupLayout, ...]
    gangs: tuple[GangLayout, ...]  # the base gang first


class SetLayout(Struct, frozen=True):
    """All replicas of a set, as far as there is room for their cliques."""

    name: str
    replicas: tuple[ReplicaLayout, ...]
    unscaled: tuple[int, ...] = ()  # indexes of replicas whose scaled gangs are left out: the set would be too large


def lay_out(pcs: PodCliqueSet, group_replicas: Mapping[str, int]) -> SetLayout:
    """The parts of a set.

    `group_replicas`: the live replicas of PodCliqueScalingGroups by name; one that is not there begins as its template.
    """
    required = scaled = MOST_CLIQUES
    replicas, unscaled = [], []
    for index in range(min(max(0, pcs.spec.replicas), MOST_CLIQUES)):
        above = _scaled_cliques(pcs, index, group_replicas)
        replica = lay_out_replica(
            pcs, index, group_replicas if above <= scaled else _at_minimum(pcs, index, group_replicas)
        )
        required -= len(replica.gangs[0].cliques)
        if required < 0:
            break
        replicas.append(replica)
        unscaled += [index] if above > scaled else []
        scaled -= above if above <= scaled else 0
    return SetLayout(pcs.metadata.name, tuple(replicas), tuple(unscaled))


def _scaled_cliques(pcs: PodCliqueSet, index: int, live: Mapping[str, int]) -> int:
    """How many cliques of a replica are in scaled gangs."""
    return sum(
        len(group.clique_names)
        * max(0, live.get(group_name(pcs.metadata.name, index, group.name), group.replicas) - group_minimum(group))
        for group in pcs.spec.template.pod_clique_scaling_groups
    )


def _at_minimum(pcs: PodCliqueSet, index: int, live: Mapping[str, int]) -> dict[str, int]:
    """The replicas of groups that are in the base gang."""
    groups = {
        group_name(pcs.metadata.name, index, one.name): one for one in pcs.spec.template.pod_clique_scaling_groups
    }
    return {name: min(live.get(name, group.replicas), group_minimum(group)) for name, group in groups.items()}


def lay_out_replica(pcs: PodCliqueSet, index: int, group_replicas: Mapping[str, int]) -> ReplicaLayout:
    """One replica of a set."""
    name = pcs.metadata.name
    template = pcs.spec.template
    members = {clique for group in template.pod_clique_scaling_groups for clique in group.clique_names}
    base = base_gang_name(name, index)
    cliques = tuple(
        CliqueLayout(clique_name(name, index, clique.name), clique, index, base, clique_minimum(clique))
        for clique in template.cliques
        if clique.name not in members
    )
    groups = tuple(_group(pcs, index, group, group_replicas) for group in template.pod_clique_scaling_groups)
    gangs = (_base_gang(pcs, index, cliques, groups), *_scaled_gangs(pcs, groups))
    return ReplicaLayout(index, service_name(name, index), cliques, groups, gangs)


def lay_out_group(pcs: PodCliqueSet, index: int, name: str, replicas: int) -> GroupLayout | None:
    """The PodCliqueScalingGroup of this name in a replica of a set; None: the set has none."""
    for group in pcs.spec.template.pod_clique_scaling_groups:
        if group_name(pcs.metadata.name, index, group.name) == name:
            return _group(pcs, index, group, {name: replicas})
    return None


def starts_after(pcs: PodCliqueSet, clique: CliqueLayout) -> tuple[str, ...]:
    """The PodCliques that start before this one: of the base gang, or of the same replica of a scaling group.

    Where they are too many to name, those of a scaling group are one name with a star.
    """
    parents = _parent_templates(pcs, clique.template)
    groups = {member: group for group in pcs.spec.template.pod_clique_scaling_groups for member in group.clique_names}
    count = sum(group_minimum(groups[parent]) if parent in groups else 1 for parent in parents)
    is_short = count > MOST_TEMPLATES
    return tuple(
        name for parent in parents for name in _cliques_of(pcs, parent, groups.get(parent), clique, is_short=is_short)
    )


def _parent_templates(pcs: PodCliqueSet, clique: PodCliqueTemplate) -> tuple[str, ...]:
    """The templates of cliques that one starts after."""
    template = pcs.spec.template
    if template.clique_startup_type == EXPLICIT:
        return clique.spec.starts_after
    if template.clique_startup_type != IN_ORDER:
        return ()
    names = [other.name for other in template.cliques]
    position = names.index(clique.name)
    return tuple(names[max(0, position - 1) : position])


def _cliques_of(
    pcs: PodCliqueSet, parent: str, group: ScalingGroupTemplate | None, child: CliqueLayout, *, is_short: bool
) -> Iterator[str]:
    """The PodCliques of a template that a clique starts after."""
    own = group_name(pcs.metadata.name, child.set_replica, group.name) if group else ""
    if child.base:
        yield from (clique_name(own, child.group_replica, parent),) if own == child.group else ()
    elif group and is_short:
        yield base_cliques_name(own, parent)
    elif group:
        yield from (clique_name(own, replica, parent) for replica in range(group_minimum(group)))
    else:
        yield clique_name(pcs.metadata.name, child.set_replica, parent)


def clique_replicas(template: PodCliqueTemplate) -> int:
    """How many pods a clique begins with: 0 in a template stands for 1."""
    return max(1, template.spec.replicas)


def clique_minimum(template: PodCliqueTemplate) -> int:
    """How many pods of a clique start together."""
    minimum = template.spec.min_available
    return clique_replicas(template) if minimum is None else max(1, minimum)


def group_minimum(template: ScalingGroupTemplate) -> int:
    """How many replicas of a scaling group are in the base gang."""
    return max(1, template.min_available)


def _group(pcs: PodCliqueSet, index: int, group: ScalingGroupTemplate, live: Mapping[str, int]) -> GroupLayout:
    """A group that is scaled to zero needs nothing; below its minimum, it still needs all of that."""
    name, minimum = group_name(pcs.metadata.name, index, group.name), group_minimum(group)
    templates = {clique.name: clique for clique in pcs.spec.template.cliques}
    members = [templates[clique] for clique in group.clique_names if clique in templates]
    count = min(max(0, live.get(name, group.replicas)), MOST_CLIQUES // max(1, len(members)))
    base = base_gang_name(pcs.metadata.name, index)
    replicas = tuple(
        tuple(_member(name, replica, clique, index, base, minimum) for clique in members)
        for replica in range(max(count, minimum) if count else 0)
    )
    return GroupLayout(name, group, index, replicas[:count], replicas[:minimum])


def _member(
    group: str, replica: int, template: PodCliqueTemplate, set_replica: int, base: str, minimum: int
) -> CliqueLayout:
    is_scaled = replica >= minimum
    return CliqueLayout(
        name=clique_name(group, replica, template.name),
        template=template,
        set_replica=set_replica,
        gang=scaled_gang_name(group, replica, minimum) if is_scaled else base,
        min_available=clique_minimum(template),
        base=base if is_scaled else "",
        group=group,
        group_replica=replica,
    )


def _base_gang(
    pcs: PodCliqueSet, index: int, standalone: tuple[CliqueLayout, ...], groups: tuple[GroupLayout, ...]
) -> GangLayout:
    members = (clique for group in groups for replica in group.required for clique in replica)
    return GangLayout(
        name=base_gang_name(pcs.metadata.name, index),
        set_replica=index,
        cliques=(*standalone, *members),
        groups=tuple(constrained for group in groups for constrained in _constrained_replicas(group)),
        topology=pcs.spec.template.topology_constraint,
    )


def _constrained_replicas(group: GroupLayout) -> Iterator[GroupReplicaLayout]:
    topology = group.template.topology_constraint
    if topology is None:
        return
    for index, cliques in enumerate(group.required):
        yield GroupReplicaLayout(group_replica_name(group.name, index), cliques, topology)


def _scaled_gangs(pcs: PodCliqueSet, groups: tuple[GroupLayout, ...]) -> Iterator[GangLayout]:
    """One a replica above the minimum; without a constraint of the group, that of the set holds in each."""
    for group in groups:
        minimum = group_minimum(group.template)
        for index, cliques in enumerate(group.replicas[minimum:], start=minimum):
            yield GangLayout(
                name=scaled_gang_name(group.name, index, minimum),
                set_replica=group.set_replica,
                cliques=cliques,
                base=base_gang_name(pcs.metadata.name, group.set_replica),
                group=group.name,
                group_replica=index,
                topology=group.template.topology_constraint or pcs.spec.template.topology_constraint,
            )

"""V6 and T6: what a spec alone does not tell, but its names, the Topologies and the nodes around it do."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from msgspec import Struct

from muster.api.names import DEFAULT_QUEUE
from muster.api.podgroup import PodGroup, TopologyConstraint
from muster.api.topology import Topology
from muster.validation.context import ValidationContext
from muster.validation.defaults import BUILT_IN, constraints, priority_class, queue
from muster.validation.problem import Problem, listed
from muster.validation.topology import unknown_level, unknown_topology

_NUMBER = re.compile(r"\d+")
_ORDINAL = re.compile(r"(?:(?<=[-_.])|^)[a-z]$")  # `group-a`, `b`: letters that count
_NOTHING = TopologyConstraint()
USUAL = ("region", "zone", "block", "rack", "hostname")  # levels whose order is certain without a Topology


def judge(group: PodGroup, context: ValidationContext) -> Iterator[Problem]:
    """Every warning, and constraints that name what does not exist."""
    stated = _stated(group)
    yield from mixed_roles(group)
    yield from known_levels(group, stated, context)
    yield from nested_levels(stated, context)
    yield from known_queue(group, context)
    yield from known_priority(group, context)


def mixed_roles(group: PodGroup) -> Iterator[Problem]:
    """V6: "any k children" over different roles, of which one could be missing altogether."""
    minimums = {"": ("spec", group.spec.min_sub_group)}
    children: dict[str, list[str]] = defaultdict(list)
    for i, part in enumerate(group.spec.sub_groups):
        minimums.setdefault(part.name, (f"spec.subGroups[{i}]", part.min_sub_group))
        children[part.parent].append(part.name)
    for parent, (at, need) in minimums.items():
        below = children.get(parent, [])
        if need is None or not 0 < need < len(below):
            continue
        roles = Counter(map(role, below))
        lost = [name for name, many in roles.items() if len(below) - many >= need]
        if len(roles) > 1 and lost:
            yield Problem(
                f"{at}.minSubGroup",
                f"{need} of {len(below)} may leave out every `{lost[0]}`: its children look like different roles",
                hint=_nest(roles),
                severity="warning",
                rule="V6",
            )


def _nest(roles: Counter[str]) -> str:
    """The way out that V1-V3 accept: groups of several children above those of one role, and all roles needed."""
    several = [name for name, many in roles.items() if many > 1]
    if not several:
        return "leave it out: each of them is a role by itself, and all are needed"
    of_each = f"the children of each of {listed(several)}" if len(several) > 1 else f"those of {several[0]}"
    return (
        f"nest {of_each} under a new SubGroup that says with `minSubGroup` how many; leave it out here, for all roles"
    )


def role(name: str) -> str:
    """A name without what counts: `workers-0` and `workers-17` are one role."""
    return _ORDINAL.sub("", _NUMBER.sub("", name)).strip("-_.") or "*"


class Stated(Struct, frozen=True, gc=False):
    """A place with its constraint, and the closest above it that requires a level."""

    name: str  # empty: the PodGroup itself
    at: str
    constraint: TopologyConstraint
    above: TopologyConstraint | None = None


def known_levels(group: PodGroup, stated: tuple[Stated, ...], context: ValidationContext) -> Iterator[Problem]:
    """T6: where Topologies are known, every Topology and level that is named exists."""
    found = context.topologies
    if not found and not context.whole:
        return
    own = {part.name: part.topology_constraint for part in group.spec.sub_groups}
    for place in stated:
        name, at, constraint = place.name, place.at, place.constraint
        topology = _topology(constraint, found)
        if topology is None:
            inherited = name and not ((own[name] or TopologyConstraint()).topology)
            if not (inherited and constraint.topology) and (constraint.topology or any(_levels(constraint))):
                yield _unknown_topology(at, constraint, found)
            continue
        for field, level in _levels(constraint):
            if context.level(topology, level) is None:
                yield Problem(
                    f"{at}.{field}",
                    unknown_level(topology, level),
                    hint=f"known: {', '.join(known.node_label for known in topology.spec.levels)}",
                    rule="T6",
                )


def _unknown_topology(at: str, constraint: TopologyConstraint, found: Mapping[str, Topology]) -> Problem:
    says = unknown_topology(constraint.topology, found)
    return Problem(f"{at}.topology", says, hint=f"known: {listed(found)}", rule="T6")


def nested_levels(stated: tuple[Stated, ...], context: ValidationContext) -> Iterator[Problem]:
    """V6: a level that the group above cannot contain, and a preference that the requirement already implies."""
    for place in stated:
        at, constraint, above = place.at, place.constraint, place.above
        required = constraint.required_topology_level
        preferred = constraint.preferred_topology_level
        if required and preferred and _coarser(constraint, preferred, constraint, required, context):
            yield Problem(
                f"{at}.preferredTopologyLevel",
                f"`{preferred}` is coarser than the required `{required}` and says nothing more",
                hint=f"prefer a level finer than `{required}`, or leave it out",
                severity="warning",
                rule="V6",
            )
        if required and above and _coarser(constraint, required, above, above.required_topology_level, context):
            yield Problem(
                f"{at}.requiredTopologyLevel",
                f"a group inside one `{above.required_topology_level}` cannot spread over a `{required}`",
                hint=f"a SubGroup asks for `{above.required_topology_level}` or finer; swap the two levels?",
                severity="warning",
                rule="V6",
            )


def _coarser(
    one: TopologyConstraint, level: str, other: TopologyConstraint, than: str, context: ValidationContext
) -> bool:
    """Whether `level` of one is coarser than the level `than` of the other, where that is certain."""
    found = context.topologies
    first, second = _topology(one, found), _topology(other, found)
    if first is not None and first is second:
        here, there = context.level(first, level), context.level(first, than)
        return here is not None and there is not None and here < there
    here, there = _usual(level), _usual(than)
    same = one.topology == other.topology
    return not found and same and here is not None and there is not None and here < there


def _usual(level: str) -> int | None:
    last = level.rsplit("/", 1)[-1]
    return USUAL.index(last) if last in USUAL else None


def known_queue(group: PodGroup, context: ValidationContext) -> Iterator[Problem]:
    """Q2: where Queues are known, a PodGroup whose queue is not among them will wait."""
    known = set(context.queues) or ({DEFAULT_QUEUE} if context.whole else set())
    if known and queue(group) not in known:
        yield Problem(
            "spec.queue",
            f"queue `{queue(group)[:80]}` does not exist: the PodGroup will wait",
            hint=f"known: {listed(known)}",
            severity="warning",
            rule="Q2",
        )
    elif queue(group) in context.child_queues:
        leaves = known - set(context.child_queues)
        yield Problem(
            "spec.queue",
            f"queue `{queue(group)[:80]}` has queues below it, and workloads go to leaf queues",
            hint=f"leaf queues: {listed(leaves)}",
            severity="warning",
            rule="Q1",
        )


def known_priority(group: PodGroup, context: ValidationContext) -> Iterator[Problem]:
    """P1: where PriorityClasses are known, a PodGroup whose class is not among them will wait."""
    classes = context.objects.priority_classes
    known = {*BUILT_IN, *(found.metadata.name for found in classes)}
    wanted = priority_class(group)
    if (classes or context.whole) and wanted and wanted not in known:
        yield Problem(
            "spec.priorityClassName",
            f"priority class `{wanted[:80]}` does not exist: the PodGroup will wait",
            hint=f"known: {listed(known)}",
            severity="warning",
            rule="P1",
        )


def _stated(group: PodGroup) -> tuple[Stated, ...]:
    """Every place, the PodGroup first, then SubGroups in spec order."""
    resolved = constraints(group)
    above = _above(group, resolved)
    parts = (
        Stated(
            part.name,
            f"spec.subGroups[{i}].topologyConstraint",
            resolved.get(part.name, _NOTHING),
            above.get(part.name),
        )
        for i, part in enumerate(group.spec.sub_groups)
    )
    return Stated("", "spec.topologyConstraint", resolved[""]), *parts


def _above(group: PodGroup, resolved: Mapping[str, TopologyConstraint]) -> Mapping[str, TopologyConstraint]:
    """For every SubGroup the constraint of the closest group above it that requires a level."""
    parents = {part.name: part.parent for part in reversed(group.spec.sub_groups)}
    found: dict[str, TopologyConstraint] = {}
    for name in resolved:  # parents before children
        if not name:
            continue
        parent = parents[name]
        above = resolved[parent] if resolved[parent].required_topology_level else found.get(parent)
        if above is not None:
            found[name] = above
    return found


def _topology(constraint: TopologyConstraint, found: Mapping[str, Topology]) -> Topology | None:
    if constraint.topology or len(found) != 1:
        return found.get(constraint.topology)
    return next(iter(found.values()))


def _levels(constraint: TopologyConstraint) -> Iterator[tuple[str, str]]:
    if constraint.required_topology_level:
        yield "requiredTopologyLevel", constraint.required_topology_level
    if constraint.preferred_topology_level:
        yield "preferredTopologyLevel", constraint.preferred_topology_level

"""V6 and T6: warnings that need names, Topologies, Queues or PriorityClasses beside the spec."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from muster.api.names import DEFAULT_QUEUE
from muster.api.podgroup import PodGroup, TopologyConstraint
from muster.api.topology import Topology
from muster.validation.context import ValidationContext
from muster.validation.defaults import BUILT_IN, Constraints, priority_class, queue
from muster.validation.problem import Problem, listed
from muster.validation.topology import unknown_level, unknown_topology

DIGITS = "0123456789"
_NUMBER = re.compile(r"\d+")
_ORDINAL = re.compile(r"(?:(?<=[-_.])|^)[a-z]$")  # `group-a`, `b`: letters as ordinals
_NOTHING = TopologyConstraint()
USUAL = ("region", "zone", "block", "rack", "hostname")  # levels whose order is certain without a Topology


def judge(group: PodGroup, resolved: Constraints, context: ValidationContext) -> Iterator[Problem]:
    """Every warning, and constraints that name what does not exist."""
    places = _constrained_places(group, resolved)
    yield from mixed_roles(group)
    yield from known_levels(group, places, context)
    yield from nested_levels(places, context)
    yield from known_queue(group, context)
    yield from known_priority(group, context)


def mixed_roles(group: PodGroup) -> Iterator[Problem]:
    """V6: "any k children" over different roles, where one role could be missing entirely."""
    minimums = {"": ("spec", group.spec.min_sub_group)}
    children: dict[str, list[str]] = defaultdict(list)
    for i, part in enumerate(group.spec.sub_groups):
        minimums.setdefault(part.name, (f"spec.subGroups[{i}]", part.min_sub_group))
        children[part.parent].append(part.name)
    for parent, (at, need) in minimums.items():
        below = children.get(parent, [])
        if need is None or not 0 < need < len(below):
            continue
        roles = _count_roles(below)
        omitted = [name for name, many in roles.items() if len(below) - many >= need]
        if len(roles) > 1 and omitted:
            yield Problem(
                f"{at}.minSubGroup",
                f"{need} of {len(below)} may leave out every `{omitted[0]}`: its children look like different roles",
                hint=_nest(roles),
                severity="warning",
                rule="V6",
            )


def _nest(roles: Counter[str]) -> str:
    """A hint that V1-V3 accept: nest the children of each role, and need all roles."""
    several = [name for name, many in roles.items() if many > 1]
    if not several:
        return "leave it out: each of them is a role by itself, and all are needed"
    of_each = f"the children of each of {listed(several)}" if len(several) > 1 else f"those of {several[0]}"
    return (
        f"nest {of_each} under a new SubGroup that says with `minSubGroup` how many; leave it out here, for all roles"
    )


def _count_roles(children: Iterable[str]) -> Counter[str]:
    """Names by their role; those that differ in a number at their end are one name."""
    roles: Counter[str] = Counter()
    for name, many in Counter([name.rstrip(DIGITS) for name in children]).items():
        roles[role(name)] += many
    return roles


def role(name: str) -> str:
    """A name without ordinals: `workers-0` and `workers-17` are one role."""
    return _ORDINAL.sub("", _NUMBER.sub("", name)).strip("-_.") or "*"


class ConstrainedPlace(Struct, frozen=True, gc=False):
    """A place with its constraint, and the nearest constraint above it that requires a level."""

    name: str  # empty: the PodGroup itself
    at: str
    constraint: TopologyConstraint
    above: TopologyConstraint | None = None


def known_levels(
    group: PodGroup, places: tuple[ConstrainedPlace, ...], context: ValidationContext
) -> Iterator[Problem]:
    """T6: where Topologies are known, every Topology and level that is named exists."""
    topologies = context.topologies
    if not topologies and not context.whole:
        return
    own = {part.name: part.topology_constraint for part in group.spec.sub_groups}
    known: set[int] = set()  # constraints without a problem, wherever they are
    for place in places:
        name, at, constraint = place.name, place.at, place.constraint
        if id(constraint) in known:
            continue
        topology = _topology(constraint, topologies)
        if topology is None:
            inherited = name and not ((own[name] or TopologyConstraint()).topology)
            if not (inherited and constraint.topology) and (constraint.topology or any(_levels(constraint))):
                yield _unknown_topology(at, constraint, topologies)
            continue
        if all(context.level(topology, level) is not None for _, level in _levels(constraint)):
            known.add(id(constraint))
            continue
        for field, level in _levels(constraint):
            if context.level(topology, level) is None:
                yield Problem(
                    f"{at}.{field}",
                    unknown_level(topology, level),
                    hint=f"known: {', '.join(known.node_label for known in topology.spec.levels)}",
                    rule="T6",
                )


def _unknown_topology(at: str, constraint: TopologyConstraint, topologies: Mapping[str, Topology]) -> Problem:
    says = unknown_topology(constraint.topology, topologies)
    return Problem(f"{at}.topology", says, hint=f"known: {listed(topologies)}", rule="T6")


def nested_levels(places: tuple[ConstrainedPlace, ...], context: ValidationContext) -> Iterator[Problem]:
    """V6: a level that the group above cannot contain, and a preference that the requirement already implies."""
    fine: set[tuple[int, int]] = set()  # a constraint and the one above it, without a problem wherever they are
    for place in places:
        pair = id(place.constraint), id(place.above)
        if pair in fine:
            continue
        problems = tuple(_misplaced_levels(place, context))
        if not problems:
            fine.add(pair)
        yield from problems


def _misplaced_levels(place: ConstrainedPlace, context: ValidationContext) -> Iterator[Problem]:
    at, constraint, above = place.at, place.constraint, place.above
    required = constraint.required_topology_level
    preferred = constraint.preferred_topology_level
    if required and preferred and _is_coarser(constraint, preferred, constraint, required, context):
        yield Problem(
            f"{at}.preferredTopologyLevel",
            f"`{preferred}` is coarser than the required `{required}` and says nothing more",
            hint=f"prefer a level finer than `{required}`, or leave it out",
            severity="warning",
            rule="V6",
        )
    if required and above and _is_coarser(constraint, required, above, above.required_topology_level, context):
        yield Problem(
            f"{at}.requiredTopologyLevel",
            f"a group inside one `{above.required_topology_level}` cannot spread over a `{required}`",
            hint=f"a SubGroup asks for `{above.required_topology_level}` or finer; swap the two levels?",
            severity="warning",
            rule="V6",
        )


def _is_coarser(
    first: TopologyConstraint, level: str, second: TopologyConstraint, than: str, context: ValidationContext
) -> bool:
    """Whether `level` of the first is coarser than the level `than` of the second, where that is certain."""
    topologies = context.topologies
    topology, other = _topology(first, topologies), _topology(second, topologies)
    if topology is not None and topology is other:
        depth, than_depth = context.level(topology, level), context.level(topology, than)
        return depth is not None and than_depth is not None and depth < than_depth
    depth, than_depth = _usual_depth(level), _usual_depth(than)
    same = first.topology == second.topology
    return not topologies and same and depth is not None and than_depth is not None and depth < than_depth


def _usual_depth(level: str) -> int | None:
    last = level.rsplit("/", 1)[-1]
    return USUAL.index(last) if last in USUAL else None


def known_queue(group: PodGroup, context: ValidationContext) -> Iterator[Problem]:
    """Q2: a PodGroup whose queue is not among the known ones will wait."""
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
    """P1: a PodGroup whose PriorityClass is not among the known ones will wait."""
    classes = context.objects.priority_classes
    known = {*BUILT_IN, *(known_class.metadata.name for known_class in classes)}
    name = priority_class(group)
    if (classes or context.whole) and name and name not in known:
        yield Problem(
            "spec.priorityClassName",
            f"priority class `{name[:80]}` does not exist: the PodGroup will wait",
            hint=f"known: {listed(known)}",
            severity="warning",
            rule="P1",
        )


def _constrained_places(group: PodGroup, resolved: Constraints) -> tuple[ConstrainedPlace, ...]:
    """Every place, the PodGroup first, then SubGroups in spec order."""
    above = _above(group, resolved)
    parts = (
        ConstrainedPlace(
            part.name,
            f"spec.subGroups[{i}].topologyConstraint",
            resolved.get(part.name, _NOTHING),
            above.get(part.name),
        )
        for i, part in enumerate(group.spec.sub_groups)
    )
    return ConstrainedPlace("", "spec.topologyConstraint", resolved[""]), *parts


def _above(group: PodGroup, resolved: Mapping[str, TopologyConstraint]) -> Mapping[str, TopologyConstraint]:
    """For every SubGroup, the constraint of the nearest group above it that requires a level."""
    parents = {part.name: part.parent for part in reversed(group.spec.sub_groups)}
    nearest: dict[str, TopologyConstraint] = {}
    for name in resolved:  # parents before children
        if not name:
            continue
        parent = parents[name]
        above = resolved[parent] if resolved[parent].required_topology_level else nearest.get(parent)
        if above is not None:
            nearest[name] = above
    return nearest


def _topology(constraint: TopologyConstraint, topologies: Mapping[str, Topology]) -> Topology | None:
    if constraint.topology or len(topologies) != 1:
        return topologies.get(constraint.topology)
    return next(iter(topologies.values()))


def _levels(constraint: TopologyConstraint) -> Iterator[tuple[str, str]]:
    if constraint.required_topology_level:
        yield "requiredTopologyLevel", constraint.required_topology_level
    if constraint.preferred_topology_level:
        yield "preferredTopologyLevel", constraint.preferred_topology_level

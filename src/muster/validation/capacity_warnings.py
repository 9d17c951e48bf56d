"""V6: minimums that no node, or no domain, of the cluster can ever hold. Only bounds: a warning is never wrong."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from muster.api.objects import key
from muster.api.podgroup import PodGroup
from muster.api.quantity import format_amount
from muster.validation.context import ClusterCapacity, Requests, ValidationContext
from muster.validation.defaults import Constraints
from muster.validation.podgroup import GroupPlace, Outline
from muster.validation.problem import Problem

Amounts = Mapping[str, int]
Pods = Mapping[str, Counter[Requests]]  # of every leaf: the number of pods for each different request


def judge(group: PodGroup, outlined: Outline, resolved: Constraints, context: ValidationContext) -> Iterator[Problem]:
    """Every minimum that does not fit even an empty cluster of these nodes."""
    if not context.objects.nodes:
        return
    places = {place.name: place for place in outlined.places}
    pods = _pods(group, context, places)
    if not pods:
        return
    unplaceable = _unplaceable(pods, context.capacity)
    for name, demands in pods.items() if unplaceable else ():
        yield from _too_large_pods(places[name], demands, unplaceable, context.capacity)
    yield from _too_large_groups(group, resolved, context, places, pods)


def _pods(group: PodGroup, context: ValidationContext, places: Mapping[str, GroupPlace]) -> Pods:
    """The requests of the pods of every leaf."""
    demands = context.demands.of(key(group.metadata))
    return {name: counts for name, counts in demands.items() if name in places and not places[name].children}


def _unplaceable(pods: Pods, capacity: ClusterCapacity) -> set[Requests]:
    """Requests that fit no node, even an empty one."""
    different = {requests for counts in pods.values() for requests in counts}
    sizes = capacity.node_sizes
    return {
        requests for requests in different if not any(all(size.get(r, 0) >= n for r, n in requests) for size in sizes)
    }


def _too_large_pods(
    place: GroupPlace, demands: Counter[Requests], unplaceable: set[Requests], capacity: ClusterCapacity
) -> Iterator[Problem]:
    """Enough pods exist, but too few of them fit any node."""
    need, number = _need(place), demands.total()
    misfits = {requests: count for requests, count in demands.items() if requests in unplaceable}
    if number >= need > number - sum(misfits.values()):
        example = dict(min(misfits, key=sorted))
        yield Problem(
            f"{place.at}.minMember",
            f"needs {need} pods, but {sum(misfits.values())} of {number} fit no node of the cluster",
            hint=f"one asks for {_listed(example)}; the largest node has {_listed(_largest(example, capacity))}",
            severity="warning",
            rule="V6",
        )


def _too_large_groups(
    group: PodGroup,
    resolved: Constraints,
    context: ValidationContext,
    places: Mapping[str, GroupPlace],
    pods: Pods,
) -> Iterator[Problem]:
    """The minimum below a required level is more than any domain of that level has in all."""
    topologies = context.topologies
    least = _least(group, resolved, places, pods)
    for name, constraint in resolved.items():
        if not constraint.required_topology_level:
            continue
        only = next(iter(topologies.values())) if len(topologies) == 1 and not constraint.topology else None
        topology = topologies.get(constraint.topology, only)
        level = context.level(topology, constraint.required_topology_level) if topology else None
        if topology is None or level is None or name not in least:
            continue
        largest = context.capacity.largest_domain(
            tuple(known.node_label for known in topology.spec.levels[: level + 1])
        )
        for resource, amount in least[name].items():
            best = largest.get(resource, 0)
            if amount > best:
                yield Problem(
                    f"{places[name].at}.topologyConstraint.requiredTopologyLevel",
                    f"the minimum takes {format_amount(resource, amount)} {resource}, but no "
                    f"`{constraint.required_topology_level}` has more than {format_amount(resource, best)}",
                    hint="require a coarser level, or lower the minimum",
                    severity="warning",
                    rule="V6",
                )


def _least(
    group: PodGroup, order: Collection[str], places: Mapping[str, GroupPlace], pods: Pods
) -> dict[str, Mapping[str, int]]:
    """For every place a lower bound of what its minimum takes; without places whose pods do not exist yet.

    `order` has parents before their children.
    """
    children: dict[str, list[str]] = defaultdict(list)
    for name, parent in {part.name: part.parent for part in reversed(group.spec.sub_groups)}.items():
        if name and name in order:
            children[parent].append(name)
    least: dict[str, Mapping[str, int]] = {}
    cache: dict[tuple[int, frozenset[tuple[Requests, int]]], Mapping[str, int] | None] = {}  # leaves are often alike
    for name in reversed((*order,)):
        need = _need(places[name])
        if children[name]:
            taken = _taken([(least.get(child, {}), 1) for child in children[name]], need)
        else:
            counts = frozenset(pods.get(name, {}).items())
            if (need, counts) not in cache:
                cache[need, counts] = _taken([(dict(requests), count) for requests, count in counts], need)
            taken = cache[need, counts]
        if taken is not None:
            least[name] = taken
    return least


def _taken(parts: list[tuple[Amounts, int]], need: int) -> Amounts | None:
    """What `need` of the parts take at least; None: there are fewer parts."""
    if sum(count for _, count in parts) < need:
        return None
    return {r: _smallest(r, parts, need) for r in {r for part, _ in parts for r in part}}


def _smallest(resource: str, parts: list[tuple[Amounts, int]], need: int) -> int:
    """What the `need` smallest take together."""
    total = 0
    for amount, count in sorted((part.get(resource, 0), count) for part, count in parts):
        total += amount * min(count, need)
        need -= min(count, need)
    return total


def _need(place: GroupPlace) -> int:
    if place.children:
        return place.min_sub_group or place.children
    return place.min_member or 1


def _largest(requested: Amounts, capacity: ClusterCapacity) -> Amounts:
    return {resource: max(size.get(resource, 0) for size in capacity.node_sizes) for resource in requested}


def _listed(amounts: Amounts) -> str:
    return ", ".join(f"{format_amount(name, value)} {name}" for name, value in sorted(amounts.items()))

"""V6: minimums that no node, or no domain, of the cluster could ever hold. Bounds only: they never warn wrongly."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

from muster.api.objects import key
from muster.api.podgroup import PodGroup
from muster.api.quantity import written
from muster.validation.context import Ground, Kind, ValidationContext
from muster.validation.defaults import constraints
from muster.validation.podgroup import GroupPlace, outline
from muster.validation.problem import Problem

Amounts = Mapping[str, int]
Pods = Mapping[str, Counter[Kind]]  # of every leaf: how many pods ask for what


def judge(group: PodGroup, context: ValidationContext) -> Iterator[Problem]:
    """Every minimum that is out of reach on an empty cluster of these nodes."""
    if not context.objects.nodes:
        return
    places = {place.name: place for place in outline(group.spec).places}
    pods = _pods(group, context, places)
    if not pods:
        return
    homeless = _homeless(pods, context.ground)
    for name, asked in pods.items() if homeless else ():
        yield from _too_big(places[name], asked, homeless, context.ground)
    yield from _too_many(group, context, places, pods)


def _pods(group: PodGroup, context: ValidationContext, places: Mapping[str, GroupPlace]) -> Pods:
    """What the pods of every leaf still ask for."""
    asked = context.asked.of(key(group.metadata))
    return {name: many for name, many in asked.items() if name in places and not places[name].children}


def _homeless(pods: Pods, ground: Ground) -> set[Kind]:
    """Requests that fit no node by themselves."""
    kinds = {kind for many in pods.values() for kind in many}
    return {kind for kind in kinds if not any(all(room.get(r, 0) >= n for r, n in kind) for room in ground.rooms)}


def _too_big(place: GroupPlace, asked: Counter[Kind], homeless: set[Kind], ground: Ground) -> Iterator[Problem]:
    """Enough pods exist, but too few of them fit any node by themselves."""
    need, number = _need(place), asked.total()
    misfits = {kind: count for kind, count in asked.items() if kind in homeless}
    if number >= need > number - sum(misfits.values()):
        one = dict(min(misfits, key=sorted))
        yield Problem(
            f"{place.at}.minMember",
            f"needs {need} pods, but {sum(misfits.values())} of {number} fit no node of the cluster",
            hint=f"one asks for {_listed(one)}; the largest node has {_listed(_largest(one, ground))}",
            severity="warning",
            rule="V6",
        )


def _too_many(
    group: PodGroup, context: ValidationContext, places: Mapping[str, GroupPlace], pods: Pods
) -> Iterator[Problem]:
    """The minimum below a required level is more than any domain of that level has in all."""
    resolved, topologies = constraints(group), context.topologies
    least = _least(group, resolved, places, pods)
    for name, constraint in resolved.items():
        if not constraint.required_topology_level:
            continue
        only = next(iter(topologies.values())) if len(topologies) == 1 and not constraint.topology else None
        topology = topologies.get(constraint.topology, only)
        level = context.level(topology, constraint.required_topology_level) if topology else None
        if topology is None or level is None or name not in least:
            continue
        most = context.ground.most(tuple(known.node_label for known in topology.spec.levels[: level + 1]))
        for resource, amount in least[name].items():
            best = most.get(resource, 0)
            if amount > best:
                yield Problem(
                    f"{places[name].at}.topologyConstraint.requiredTopologyLevel",
                    f"the minimum takes {written(resource, amount)} {resource}, but no "
                    f"`{constraint.required_topology_level}` has more than {written(resource, best)}",
                    hint="require a coarser level, or lower the minimum",
                    severity="warning",
                    rule="V6",
                )


def _least(
    group: PodGroup, order: Collection[str], places: Mapping[str, GroupPlace], pods: Pods
) -> dict[str, Mapping[str, int]]:
    """For every place a lower bound of what its minimum takes; places whose pods are not there yet are left out.

    `order` has parents before their children.
    """
    children: dict[str, list[str]] = defaultdict(list)
    for name, parent in {part.name: part.parent for part in reversed(group.spec.sub_groups)}.items():
        if name and name in order:
            children[parent].append(name)
    found: dict[str, Mapping[str, int]] = {}
    alike: dict[tuple[int, frozenset[tuple[Kind, int]]], Mapping[str, int] | None] = {}  # leaves often are
    for name in reversed((*order,)):
        need = _need(places[name])
        if children[name]:
            taken = _taken([(found.get(child, {}), 1) for child in children[name]], need)
        else:
            kinds = frozenset(pods.get(name, {}).items())
            if (need, kinds) not in alike:
                alike[need, kinds] = _taken([(dict(kind), count) for kind, count in kinds], need)
            taken = alike[need, kinds]
        if taken is not None:
            found[name] = taken
    return found


def _taken(parts: list[tuple[Amounts, int]], need: int) -> Amounts | None:
    """What so many of the parts take at least; None: there are not so many."""
    if sum(count for _, count in parts) < need:
        return None
    return {r: _smallest(r, parts, need) for r in {r for part, _ in parts for r in part}}


def _smallest(resource: str, parts: list[tuple[Amounts, int]], need: int) -> int:
    """What the smallest of so many take together."""
    total = 0
    for amount, count in sorted((part.get(resource, 0), count) for part, count in parts):
        total += amount * min(count, need)
        need -= min(count, need)
    return total


def _need(place: GroupPlace) -> int:
    if place.children:
        return place.min_sub_group or place.children
    return place.min_member or 1


def _largest(asked: Amounts, ground: Ground) -> Amounts:
    return {resource: max(room.get(resource, 0) for room in ground.rooms) for resource in asked}


def _listed(amounts: Amounts) -> str:
    return ", ".join(f"{written(name, value)} {name}" for name, value in sorted(amounts.items()))

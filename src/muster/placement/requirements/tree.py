"""Functions over a tree of requirements: walks, sums, and the same tree with other children or minimums."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from muster.placement.requirements.types import Requirement, RequirementKinds


def subtree(requirement: Requirement) -> Iterator[Requirement]:
    """A goal and all below it, nearer to the root first."""
    ahead = deque([requirement])
    while ahead:
        one = ahead.popleft()
        yield one
        ahead += one.children


def leaves(requirement: Requirement) -> Iterator[Requirement]:
    """The goals that have pods."""
    return (one for one in subtree(requirement) if one.is_leaf)


def sizes(requirement: Requirement) -> dict[int, int]:
    """For a goal and all below it, by kind: the fewest pods that meet it."""
    found: dict[int, int] = {}
    for one in reversed(list(subtree(requirement))):
        if one.kind not in found:
            below = sorted(found[child.kind] for child in one.children)
            found[one.kind] = max(sum(below[: one.need]), one.total) if below else one.need
    return found


def size(requirement: Requirement) -> int:
    """The fewest pods that meet it."""
    return sizes(requirement)[requirement.kind]


def pods_by_class(requirement: Requirement) -> dict[int, dict[int, int]]:
    """For a goal and all below it, by kind: pods of each class that it asks for in any case."""
    found: dict[int, dict[int, int]] = {}
    for one in reversed(list(subtree(requirement))):
        if one.kind not in found:
            found[one.kind] = mine = {}
            if len(one.pods) == 1:
                mine[one.pods[0][0]] = one.need
            for child in one.children if one.need == len(one.children) else ():
                for pod_class, count in found[child.kind].items():
                    mine[pod_class] = mine.get(pod_class, 0) + count
    return found


def whole_pods_by_class(requirement: Requirement) -> dict[str, dict[int, int]]:
    """For a goal and all below it, by name: all pods of each class, extras among them."""
    found: dict[str, dict[int, int]] = {}
    for one in reversed(list(subtree(requirement))):
        found[one.name] = mine = count_by_class(one.pods)
        for child in one.children:
            for pod_class, count in found[child.name].items():
                mine[pod_class] = mine.get(pod_class, 0) + count
    return found


def first_choice(requirement: Requirement, kinds: RequirementKinds) -> Requirement | None:
    """The goal with the first choice of children at every branch (M3), and with pods in all from the first leaves (M5).

    The goal itself where it leaves no choice; None where the first children have too few pods for a total.
    """
    made: dict[int, Requirement] = {}
    least = sizes(requirement)
    for one in reversed(list(subtree(requirement))):
        kept = [child for i, child in enumerate(one.children) if i < one.need or not least[child.kind]]
        below = tuple(made[id(child)] for child in kept)
        topped = _topped_up(one, below, kinds) if one.total else below
        if topped is None:
            return None
        same = len(topped) == len(one.children) and all(a is b for a, b in zip(topped, one.children, strict=True))
        made[id(one)] = one if same and not one.total else kinds.made(one, children=topped, total=0)
    return made[id(requirement)]


def _topped_up(
    requirement: Requirement, children: tuple[Requirement, ...], kinds: RequirementKinds
) -> tuple[Requirement, ...] | None:
    """The children with so many pods more that the goal has its total; None: they have too few."""
    below = [leaf for child in children for leaf in leaves(child)]
    short = requirement.total - sum(leaf.need for leaf in below)
    more: dict[str, int] = {}
    for leaf in below:
        if short > 0 and (spare := min(sum(length for _, length in leaf.pods) - leaf.need, short)):
            more[leaf.name] = leaf.need + spare
            short -= spare
    if short > 0:
        return None
    return tuple(with_needs(child, more, kinds) for child in children) if more else children


def with_needs(requirement: Requirement, needs: Mapping[str, int], kinds: RequirementKinds) -> Requirement:
    """The goal with other minimums at some groups, by name."""
    made: dict[int, Requirement] = {}
    for one in reversed(list(subtree(requirement))):
        below = tuple(made[id(child)] for child in one.children)
        same = all(a is b for a, b in zip(below, one.children, strict=True))
        if one.name not in needs and same:
            made[id(one)] = one
        else:
            made[id(one)] = kinds.made(one, children=below, need=needs.get(one.name, one.need))
    return made[id(requirement)]


def pod_classes(requirement: Requirement) -> list[int]:
    """The classes of the pods that it may use."""
    return sorted({pod_class for leaf in leaves(requirement) for pod_class, _ in leaf.pods})


def count_by_class(runs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """How many there are of each kind in all runs."""
    found: dict[int, int] = {}
    for kind, length in runs:
        found[kind] = found.get(kind, 0) + length
    return found

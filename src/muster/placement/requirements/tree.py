"""Functions over a tree of requirements: walks, sums, and the same tree with other children or minimums."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from muster.placement.requirements.types import Requirement, RequirementKinds


def subtree(requirement: Requirement) -> Iterator[Requirement]:
    """A requirement and all below it, nearer to the root first."""
    ahead = deque([requirement])
    while ahead:
        part = ahead.popleft()
        yield part
        ahead += part.children


def leaves(requirement: Requirement) -> Iterator[Requirement]:
    """The requirements that have pods."""
    return (part for part in subtree(requirement) if part.is_leaf)


def sizes(requirement: Requirement) -> dict[int, int]:
    """For a requirement and all below it, by kind: the fewest pods that meet it."""
    sizes_of: dict[int, int] = {}
    for part in reversed(list(subtree(requirement))):
        if part.kind not in sizes_of:
            below = sorted(sizes_of[child.kind] for child in part.children)
            sizes_of[part.kind] = max(sum(below[: part.need]), part.total) if below else part.need
    return sizes_of


def size(requirement: Requirement) -> int:
    """The fewest pods that meet the requirement."""
    return sizes(requirement)[requirement.kind]


def pods_by_class(requirement: Requirement) -> dict[int, dict[int, int]]:
    """For a requirement and all below it, by kind: pods of each class that every choice includes."""
    by_kind: dict[int, dict[int, int]] = {}
    for part in reversed(list(subtree(requirement))):
        if part.kind not in by_kind:
            by_kind[part.kind] = counts = {}
            if len(part.pods) == 1:
                counts[part.pods[0][0]] = part.need
            for child in part.children if part.need == len(part.children) else ():
                for pod_class, count in by_kind[child.kind].items():
                    counts[pod_class] = counts.get(pod_class, 0) + count
    return by_kind


def whole_pods_by_class(requirement: Requirement) -> dict[str, dict[int, int]]:
    """For a requirement and all below it, by name: all pods of each class, extras included."""
    by_name: dict[str, dict[int, int]] = {}
    for part in reversed(list(subtree(requirement))):
        by_name[part.name] = counts = count_by_class(part.pods)
        for child in part.children:
            for pod_class, count in by_name[child.name].items():
                counts[pod_class] = counts.get(pod_class, 0) + count
    return by_name


def first_choice(requirement: Requirement, kinds: RequirementKinds) -> Requirement | None:
    """The requirement with the first children at every branch (M3), and totals of pods met by the first leaves (M5).

    The requirement itself where it leaves no choice; None where the first children have too few pods for a total.
    """
    by_id: dict[int, Requirement] = {}
    least = sizes(requirement)
    for part in reversed(list(subtree(requirement))):
        chosen = [child for i, child in enumerate(part.children) if i < part.need or not least[child.kind]]
        below = tuple(by_id[id(child)] for child in chosen)
        topped = _topped_up(part, below, kinds) if part.total else below
        if topped is None:
            return None
        same = len(topped) == len(part.children) and all(a is b for a, b in zip(topped, part.children, strict=True))
        by_id[id(part)] = part if same and not part.total else kinds.derive(part, children=topped, total=0)
    return by_id[id(requirement)]


def _topped_up(
    requirement: Requirement, children: tuple[Requirement, ...], kinds: RequirementKinds
) -> tuple[Requirement, ...] | None:
    """The children, with enough extra pods for the total of the requirement; None: they have too few."""
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
    """The requirement with other minimums at some groups, by name."""
    by_id: dict[int, Requirement] = {}
    for part in reversed(list(subtree(requirement))):
        below = tuple(by_id[id(child)] for child in part.children)
        same = all(a is b for a, b in zip(below, part.children, strict=True))
        if part.name not in needs and same:
            by_id[id(part)] = part
        else:
            by_id[id(part)] = kinds.derive(part, children=below, need=needs.get(part.name, part.need))
    return by_id[id(requirement)]


def pod_classes(requirement: Requirement) -> list[int]:
    """The classes of the pods that a requirement may use."""
    return sorted({pod_class for leaf in leaves(requirement) for pod_class, _ in leaf.pods})


def count_by_class(runs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The sum of all runs, by kind."""
    counts: dict[int, int] = {}
    for kind, length in runs:
        counts[kind] = counts.get(kind, 0) + length
    return counts

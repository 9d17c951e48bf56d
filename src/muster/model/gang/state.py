"""The standing of the groups of a gang: pods by state, whether minimums are met, and what is missing.

Every function is pure and linear in groups and pods, at any depth; nothing recurses.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from muster.api.quantity import Resources
from muster.model.gang.pod_state import PENDING, PLACED, PodState
from muster.model.gang.types import Branch, Group, Leaf, walk, walk_leaves

States = tuple[PodState, ...]
RUNNING: States = (PodState.PLACED, PodState.SUCCEEDED)
EXISTING: States = (PodState.PLACED, PodState.SUCCEEDED, PodState.PENDING)


class Standing(Struct, frozen=True):
    """The standing of one group: counts of the pods in and below it."""

    satisfied: bool
    counted: int  # pods that count
    placed: int  # pods on nodes
    succeeded: int
    pending: int  # pods that could be placed
    gated: int
    missing: int  # the fewest further pods that would satisfy it


def standings(root: Group, counting: States = RUNNING) -> dict[str, Standing]:
    """The standing of every group, by name, if a leaf's pods in these states count (M1, M2, M5)."""
    if isinstance(root, Leaf):
        return {root.name: leaf_standing(root, counting)}
    by_name: dict[str, Standing] = {}
    for group in reversed(list(walk(root))):
        match group:
            case Leaf():
                by_name[group.name] = leaf_standing(group, counting)
            case Branch():
                by_name[group.name] = branch_standing(group, [by_name[child.name] for child in group.children])
    return by_name


def leaf_standing(leaf: Leaf, counting: States = RUNNING) -> Standing:
    """The standing of a leaf."""
    states = [member.state for member in leaf.members]  # counted by `list`: an enum is slow to hash
    counted = sum(map(states.count, counting))
    return Standing(
        satisfied=counted >= leaf.need,
        counted=counted,
        placed=states.count(PodState.PLACED),
        succeeded=states.count(PodState.SUCCEEDED),
        pending=states.count(PodState.PENDING),
        gated=states.count(PodState.GATED),
        missing=max(leaf.need - counted, 0),
    )


def uniform_standing(leaf: Leaf, state: PodState) -> Standing:
    """`leaf_standing` of a leaf whose pods are all in one state."""
    pods = len(leaf.members)
    counted = pods if state in RUNNING else 0
    return Standing(
        satisfied=counted >= leaf.need,
        counted=counted,
        placed=pods if state is PLACED else 0,
        succeeded=pods if state is PodState.SUCCEEDED else 0,
        pending=pods if state is PENDING else 0,
        gated=pods if state is PodState.GATED else 0,
        missing=max(leaf.need - counted, 0),
    )


def branch_standing(branch: Branch, children: list[Standing]) -> Standing:
    """The standing of a branch, from those of its children."""
    counted = sum(child.counted for child in children)
    lacking = sum(sorted(child.missing for child in children)[: branch.need]) + max(branch.need - len(children), 0)
    short = max(lacking, branch.need_pods - counted)
    return Standing(
        satisfied=sum(child.satisfied for child in children) >= branch.need and short <= 0,
        counted=counted,
        placed=sum(child.placed for child in children),
        succeeded=sum(child.succeeded for child in children),
        pending=sum(child.pending for child in children),
        gated=sum(child.gated for child in children),
        missing=max(short, 0),
    )


def update_standings(before: Mapping[str, Standing], old_root: Group, new_root: Group) -> dict[str, Standing]:
    """The standings after some members were replaced: recomputes only the groups that changed."""
    by_name, changed = dict(before), list[Group]()
    ahead = [] if old_root is new_root else [(old_root, new_root)]
    while ahead:
        old, new = ahead.pop()
        changed.append(new)
        if isinstance(old, Branch) and isinstance(new, Branch):
            ahead += [pair for pair in zip(old.children, new.children, strict=True) if pair[0] is not pair[1]]
    for group in reversed(changed):
        by_name[group.name] = (
            leaf_standing(group)
            if isinstance(group, Leaf)
            else branch_standing(group, [by_name[child.name] for child in group.children])
        )
    return by_name


def is_satisfied(root: Group) -> bool:
    """Whether every minimum is met, from the root down (M2)."""
    return standings(root)[root.name].satisfied


def count_missing(root: Group) -> int:
    """The fewest further pods that have to be placed to satisfy the root."""
    return standings(root)[root.name].missing


def has_enough_pods(root: Group) -> bool:
    """Whether enough pods are placed, or could be, to satisfy the root (N5)."""
    return standings(root, EXISTING)[root.name].satisfied


def requests_in(root: Group, state: PodState) -> Resources:
    """The sum of the requests of all pods in this state."""
    if isinstance(root, Leaf):
        return sum_resources([member.requests for member in root.members if member.state is state])
    return sum_resources(
        member.requests for leaf in walk_leaves(root) for member in leaf.members if member.state is state
    )


def sum_resources(amounts: Iterable[Mapping[str, int]]) -> Resources:
    """The sum of some amounts; runs of equal amounts, as most are, are counted and added once."""
    total = Resources()
    last: Mapping[str, int] = {}
    count = 0
    for amount in amounts:
        if amount == last:
            count += 1
            continue
        _add(total, last, count)
        last, count = amount, 1
    _add(total, last, count)
    return total


def _add(total: Resources, amount: Mapping[str, int], times: int) -> None:
    for name, number in amount.items():
        total[name] = total.get(name, 0) + number * times

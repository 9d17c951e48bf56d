"""Which pods a gang lacks before it can be planned at all (N5, E1). `plan` and `tree` both use it, so they agree."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from muster.model.gang.demand import child_rank
from muster.model.gang.pod_state import PodState
from muster.model.gang.state import EXISTING, Standing, standings
from muster.model.gang.types import Branch, Group, Leaf, walk

NOT_COUNTED = (PodState.GATED, PodState.TERMINATING, PodState.FAILED)  # pods that exist and count for nothing (N5)


class Shortage(Struct, frozen=True):
    """A leaf with fewer pods than its minimum, or a branch with fewer than the total that it needs (M5)."""

    group: str
    need: int  # pods
    exist: int  # pods that are placed, have succeeded or could be placed
    gated: int = 0
    terminating: int = 0
    failed: int = 0


def shortages(root: Group) -> tuple[Shortage, ...]:
    """The shortages of the children that would be chosen (M3), first choice first; empty: enough pods exist."""
    now, existing = standings(root), standings(root, EXISTING)
    lacking: list[Shortage] = []
    ahead: list[Group] = [root]
    while ahead:
        group = ahead.pop()
        if existing[group.name].satisfied:
            continue
        if isinstance(group, Leaf):
            lacking.append(_shortage(group, group.need, existing[group.name].counted))
            continue
        chosen = _chosen(group, now, existing)
        ahead += reversed(chosen)
        if existing[group.name].counted < group.need_pods and all(existing[child.name].satisfied for child in chosen):
            lacking.append(_shortage(group, group.need_pods, existing[group.name].counted))
    return tuple(lacking)


def _chosen(branch: Branch, now: Mapping[str, Standing], existing: Mapping[str, Standing]) -> list[Group]:
    """As many children as it needs: those with enough pods first, so that one that lacks pods blocks none (M3)."""
    order = sorted(
        branch.children,
        key=lambda child: (not existing[child.name].satisfied, child_rank(child, now[child.name])),
    )
    return order[: branch.need]


def _shortage(group: Group, need: int, exist: int) -> Shortage:
    leaves = (leaf for leaf in walk(group) if isinstance(leaf, Leaf))
    states = Counter(member.state for leaf in leaves for member in leaf.members)
    return Shortage(group.name, need, exist, *(states[state] for state in NOT_COUNTED))

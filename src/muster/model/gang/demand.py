"""Which pods of a gang have to be placed next, before it is satisfied (M3, M5)."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from muster.model.gang.pod_state import PodState
from muster.model.gang.state import EXISTING, Standing, standings
from muster.model.gang.types import Branch, Group, Leaf, Member, walk_leaves


class LeafDemand(Struct, frozen=True):
    """How many pods a leaf still lacks, and the pods that could fill the gap, in the order of M4."""

    leaf: str
    pods: int
    candidates: tuple[Member, ...]


def leaf_demands(root: Group) -> tuple[LeafDemand, ...]:
    """The pods that still have to be placed for the children that come first (M3); none of them can be left out.

    A child that lacks pods never blocks one that has them.
    """
    now, later = standings(root), standings(root, EXISTING)
    chosen: list[Group] = []
    ahead: list[Group] = [root]
    while ahead:
        group = ahead.pop()
        chosen.append(group)
        if isinstance(group, Branch):
            unsatisfied = [child for child in group.children if not now[child.name].satisfied]
            unsatisfied.sort(key=lambda c: (not later[c.name].satisfied, child_rank(c, now[c.name])))
            ahead += unsatisfied[: max(group.need - (len(group.children) - len(unsatisfied)), 0)]
    lacking = _count_lacking(chosen, now)
    leaves = sorted((leaf for leaf in walk_leaves(root) if lacking[leaf.name]), key=lambda leaf: leaf.order)
    return tuple(
        LeafDemand(leaf.name, lacking[leaf.name], leaf.members_in(PodState.PENDING)[: lacking[leaf.name]])
        for leaf in leaves
    )


def child_rank(child: Group, standing: Standing) -> tuple[bool, int, int]:
    """The sort key of a branch's children (M3): partly placed first, of these the fewest missing; then spec order."""
    partly = standing.counted > 0
    return (not partly, standing.missing if partly else 0, child.order)


def _count_lacking(chosen: list[Group], now: Mapping[str, Standing]) -> Counter[str]:
    """Pods that the chosen groups lack, from the bottom up; a branch may state a total of pods (M5)."""
    lacking: Counter[str] = Counter()
    for group in reversed(chosen):
        if isinstance(group, Leaf):
            lacking[group.name] = now[group.name].missing
            continue
        lacking[group.name] = sum(lacking[child.name] for child in group.children)
        short = group.need_pods - now[group.name].counted - lacking[group.name]
        if short > 0 and not now[group.name].satisfied:
            _top_up(group, short, now, lacking)
            lacking[group.name] += short
    return lacking


def _top_up(branch: Branch, short: int, now: Mapping[str, Standing], lacking: Counter[str]) -> None:
    """Take more pods from leaves that have some to spare (M5); what remains does not exist yet."""
    leaves = list(walk_leaves(branch))
    for leaf in leaves:
        spare = max(min(now[leaf.name].pending - lacking[leaf.name], short), 0)
        short -= spare
        lacking[leaf.name] += spare
    lacking[leaves[0].name] += short

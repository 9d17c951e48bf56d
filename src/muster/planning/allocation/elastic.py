"""The parts that a gang may get beyond its core (G3)."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from muster.model.gang.state import Standing
from muster.model.gang.types import Branch, Group, Leaf


def further_parts(root: Group, now: Mapping[str, Standing]) -> Iterator[tuple[str, Group, int]]:
    """Further SubGroups in spec order, then further pods of satisfied leaves, the emptiest first (G3)."""
    present: list[Group] = [root]
    absent: list[Group] = []
    for group in present:
        for child in group.children if isinstance(group, Branch) else ():
            (present if now[child.name].satisfied else absent).append(child)
    for group in sorted(absent, key=lambda group: group.order):
        yield group.name, group, 0
    leaves = [leaf for leaf in present if isinstance(leaf, Leaf) and now[leaf.name].pending]
    for leaf in sorted(leaves, key=lambda leaf: (Fraction(now[leaf.name].counted, leaf.need), leaf.order)):
        yield f"{leaf.name}/", leaf, 1

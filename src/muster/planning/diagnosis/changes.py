"""The smallest change of a gang with which it would fit now (E1): tried at every group of its tree, within a budget.

Rule 1: only changes that validation accepts (V1, V2, V5): a minimum goes down and stays above 0, `minSubGroup` stands
on branches only, a level gets coarser or goes away. Rule 2: nothing recurses, and groups alike are tried once.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from muster.model.gang.types import Branch, Leaf, walk
from muster.model.topology import NOWHERE
from muster.placement.budget import Budget, OutOfSteps
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.tree import size, subtree
from muster.placement.requirements.types import RequiredLevel, Requirement
from muster.planning.refusal import SmallerRequest

MOST_GROUPS = 16  # that are tried, nearest to the culprit first
MOST_CHANGES = 4  # that are reported
Fits = Callable[[Requirement], bool | None]  # None: the budget ran out


class SmallerRequests:
    """The changes of one group each with which a gang would fit."""

    def __init__(self, requirements: Requirements, requirement: Requirement, fits: Fits, budget: Budget) -> None:
        self.requirements, self.requirement, self.fits, self.budget = requirements, requirement, fits, budget
        self.done = requirements.done()
        self.parents = {child.name: group for group in subtree(requirement) for child in group.children}
        self.stated = dict(_stated(requirements))
        self.totals = any(isinstance(group, Branch) and group.need_pods for group in walk(requirements.gang.root))

    def smallest(self, scope: Iterable[Requirement]) -> tuple[SmallerRequest, ...]:
        """Changes of groups in this scope that are known to help, smallest first."""
        changes: list[SmallerRequest] = []
        try:
            for group in self._groups(scope):
                changes += [*self._lower(group), *self._fewer_in_all(group), *self._coarser(group)]
        except OutOfSteps:
            pass  # the changes found so far hold
        return tuple(sorted(changes, key=lambda change: change.weight)[:MOST_CHANGES])

    def _groups(self, scope: Iterable[Requirement]) -> list[Requirement]:
        """Groups that could change; of equal groups under one parent the first."""
        distinct: dict[tuple[str, int], Requirement] = {}
        for group in scope:
            if self._may_change(group):
                around = self.parents[group.name].name if group.name in self.parents else ""
                distinct.setdefault((around, group.kind), group)
                if len(distinct) >= MOST_GROUPS:
                    break
        return list(distinct.values())

    def _may_change(self, group: Requirement) -> bool:
        lowers = group.name in self.stated and group.need > self._least(group)
        return group.required is not None or lowers or self._counts_in_all(group)

    def _counts_in_all(self, group: Requirement) -> bool:
        """Only on the PodGroup itself, and by itself, is `minMember` beside children accepted (V1, V2)."""
        return not group.name and group.total > 1 and not self.requirements.gang.source.spec.min_sub_group

    def _above(self, group: Requirement) -> Iterator[Requirement]:
        while group.name in self.parents:
            group = self.parents[group.name]
            yield group

    # minimums ---------------------------------------------------------------------------------------------------------

    def _lower(self, group: Requirement) -> Iterator[SmallerRequest]:
        """The largest minimum of this group with which the whole gang fits now: fitting is monotone in it."""
        low, high, done = self._least(group), group.need - 1, self.done[group.name]
        if self.stated.get(group.name) != group.need + done or low > high or not self._helps(group, need=low):
            return
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._helps(group, need=middle) else (low, middle - 1)
        changed = self._with(group, need=low)
        lost = size(self.requirement) - (size(changed) if changed is not None else 0)
        yield SmallerRequest(
            group.name, "minMember" if group.is_leaf else "minSubGroup", group.need + done, low + done, lost
        )

    def _fewer_in_all(self, root: Requirement) -> Iterator[SmallerRequest]:
        """The largest number of pods in all (M5) with which the gang fits now."""
        if not self._counts_in_all(root):
            return
        low, high = 0, root.total - 1
        if not self._helps(root, total=low):
            return
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._helps(root, total=middle) else (low, middle - 1)
        stated = next(group.need_pods for group in walk(self.requirements.gang.root) if isinstance(group, Branch))
        yield SmallerRequest("", "minMember", stated, stated - root.total + low, root.total - low)

    def _least(self, group: Requirement) -> int:
        """What it must still get at least: a minimum stays above 0 (V1)."""
        return 0 if self.done[group.name] and not self.totals else 1

    # levels -----------------------------------------------------------------------------------------------------------

    def _coarser(self, group: Requirement) -> Iterator[SmallerRequest]:
        """The finest coarser level with which the whole gang fits now; at last none at all."""
        if group.required is None or not self._helps(group, required=None):
            return
        spot = group.required
        labels = [level.label for level in self.requirements.snapshot.topologies[spot.topology].levels]
        for level in range(spot.level - 1, self._implied(group), -1):
            if self._helps(group, required=_raised(spot, level)):
                yield SmallerRequest(
                    group.name, "requiredTopologyLevel", labels[spot.level], labels[level], spot.level - level
                )
                return
        yield SmallerRequest(group.name, "requiredTopologyLevel", labels[spot.level], "", spot.level + 1)

    def _implied(self, group: Requirement) -> int:
        """The finest level that a group above requires anyway: to require it here, too, changes nothing (T1)."""
        spots = (spot.required for spot in self._above(group))
        assert group.required is not None
        return max((spot.level for spot in spots if spot and spot.topology == group.required.topology), default=-1)

    # trying -----------------------------------------------------------------------------------------------------------

    def _helps(self, group: Requirement, **changes: Any) -> bool:
        """Whether the whole gang fits with this change; not known within the budget counts as no."""
        changed = self._with(group, **changes)
        return changed is None or bool(self.fits(changed))

    def _with(self, group: Requirement, **changes: Any) -> Requirement | None:
        """The requirement with another minimum or level at one group; None: nothing is left to place.

        Only the groups above it are rebuilt, in a loop: depth costs no stack.
        """
        made: Requirement | None = None
        if changes.get("need") != 0:
            made = self.requirements.kinds.derive(group, **changes)
        below = group
        for around in self._above(group):
            self.budget.spend()
            made = self._around(around, below, made)
            below = around
        return made

    def _around(self, branch: Requirement, before: Requirement, after: Requirement | None) -> Requirement | None:
        """A branch with one child replaced; a child that is satisfied now is one less to satisfy."""
        if after is not None:
            children = tuple(after if child is before else child for child in branch.children)
            return self.requirements.kinds.derive(branch, children=children)
        children = tuple(child for child in branch.children if child is not before)
        return (
            self.requirements.kinds.derive(branch, children=children, need=branch.need - 1) if branch.need > 1 else None
        )


def _stated(requirements: Requirements) -> Iterator[tuple[str, int]]:
    """The minimums that a change may lower: none beside a total of pods, as both fields exclude each other (V1)."""
    for group in walk(requirements.gang.root):
        if isinstance(group, Leaf) or not group.need_pods:
            yield group.name, group.need


def _raised(spot: RequiredLevel, level: int) -> RequiredLevel:
    """The same at a coarser level; placed pods hold it to the domain that they share there (T3)."""
    if spot.pinned is None:
        return RequiredLevel(spot.topology, level)
    if level >= len(spot.path):
        return RequiredLevel(spot.topology, level, NOWHERE, spot.path, spot.placed)
    return RequiredLevel(spot.topology, level, spot.path[level], spot.path[: level + 1], (spot.path[level],))

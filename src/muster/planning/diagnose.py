"""Why a gang does not fit, and the smallest change that would help (E1): asked of the search itself, as data."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from muster.model.topology import NOWHERE
from muster.placement.budget import Budget, OutOfSteps
from muster.placement.filters import FILTERS, Mask
from muster.placement.goal import Goal, Goals, Kinds, Spot, every, shapes, size
from muster.placement.ledger import Ledger
from muster.placement.search import Search
from muster.planning.decision import Refusal

NAMES = {"near": "pod affinity", "away": "pod anti-affinity", "spread": "topology spread"}


class Change(Struct, frozen=True):
    """Something smaller that would fit now."""

    group: str
    field: str  # minMember, minSubGroup or requiredTopologyLevel
    was: int | str
    fits: int | str


class Diagnosis:
    """One gang that the search refused, on the ledger that it was refused on."""

    def __init__(self, ledger: Ledger, goals: Goals, goal: Goal, budget: Budget) -> None:
        self.snapshot, self.ledger, self.kinds, self.goal, self.budget = (
            goals.snapshot,
            ledger,
            goals.kinds,
            goal,
            budget,
        )
        self.done = goals.done()

    def refusal(self) -> Refusal:
        """The smallest part that cannot be placed, what the cluster can do at best, and what would help."""
        culprit = self._culprit()
        details = {"need": size(culprit), **self._best(culprit)}
        details |= self._between(culprit)
        refused = self._refused(culprit)
        details |= {"refused": refused, "nodes": len(self.snapshot.nodes)}
        details |= {"changes": [_plain(change) for change in self._changes(culprit)]}
        return Refusal(self._reason(culprit, details), culprit.name, details)

    def _reason(self, culprit: Goal, details: dict[str, Any]) -> str:
        allowed = [self.ledger.allowed(shape).any() for shape in shapes(culprit)]
        if not any(allowed):
            return "NoNodeMatches"
        if "rule" in details:
            return "RulesBetweenPods"
        return "NoDomain" if details.get("level") else "NoRoom"

    def _culprit(self) -> Goal:
        """Down the tree, as long as too few children would fit even by themselves."""
        goal = self.goal
        while goal.children:
            misfits = [child for child in goal.children if self._fits(child) is False]
            if len(goal.children) - len(misfits) >= goal.need:
                return goal
            goal = misfits[0]
        return goal

    def _fits(self, goal: Goal, ignoring: frozenset[int] = frozenset()) -> bool | None:
        """Whether a goal fits by itself; None: nobody knows."""
        try:
            search = Search(
                self.ledger, self.snapshot.topologies, self.kinds, self.budget.part(self.budget.left // 4), ignoring
            )
            return search.fits(goal)
        except OutOfSteps:
            return None

    def _between(self, goal: Goal) -> dict[str, Any]:
        """The rule between its own pods without which the goal would fit, if that is what stands in the way."""
        company = self.ledger.company
        rules = company.among(shapes(goal))
        if not rules or not self._fits(goal, frozenset(rules)):
            return {}
        alone = (number for number in rules if self._fits(goal, frozenset((number,))))
        rule = company.rules[next(alone, rules[0])]
        return {"rule": NAMES[rule.kind], "key": rule.key, "skew": rule.skew}

    def _best(self, goal: Goal) -> dict[str, Any]:
        """The domain with the most room, in pods of the goal, and what it lacks."""
        classes = shapes(goal)
        fits = np.min([self.ledger.fits(shape) for shape in classes], axis=0)
        if goal.required is None:
            room, where, nodes = int(fits.sum()), "", np.arange(len(fits))
        else:
            level = self.snapshot.topologies[goal.required.topology].levels[goal.required.level]
            sums = level.sums(fits)
            best = int(sums.argmax()) if len(sums) else NOWHERE
            best = best if goal.required.pinned is None else goal.required.pinned
            if best == NOWHERE:
                return {"level": level.label, "domain": "", "room": 0}
            room, where, nodes = int(sums[best]), level.paths[best], level.nodes(best)
        found: dict[str, Any] = {"room": room, "domain": where}
        if goal.required is not None:
            found["level"] = self.snapshot.topologies[goal.required.topology].levels[goal.required.level].label
            found["pinned"] = goal.required.pinned is not None
        if goal.is_leaf and len(classes) == 1:
            found |= self._short(goal, classes[0], nodes, room)
        return found

    def _short(self, leaf: Goal, shape: int, nodes: Any, room: int) -> dict[str, Any]:
        """How much of which resource is missing there: the column that stops most pods."""
        columns = self.ledger.shapes.columns[shape]
        usable = nodes[self.ledger.allowed(shape)[nodes]]
        if leaf.need <= room or not len(usable):
            return {}
        asks = self.ledger.shapes.asks[shape][columns]
        per_column = np.maximum(self.ledger.free[np.ix_(usable, columns)] // asks, 0).sum(axis=0)
        scarce = int(per_column.argmin())
        missing = (leaf.need - room) * int(asks[scarce])
        return {"resource": self.snapshot.columns[int(columns[scarce])], "missing": missing}

    def _refused(self, goal: Goal) -> dict[str, int]:
        """How many nodes each filter refuses to the goal's pods, and how many lack the room."""
        found: dict[str, int] = {}
        classes = shapes(goal)
        for shape in classes[:1]:
            left = np.ones(len(self.snapshot.nodes), dtype=bool)
            for name, mask in self._masks(shape):
                found[name] = found.get(name, 0) + int((left & ~mask).sum())
                left &= mask
            found["resources"] = int((left & (self.ledger.fits(shape) == 0)).sum())
        return {name: count for name, count in found.items() if count}

    def _masks(self, shape: int) -> Iterator[tuple[str, Mask]]:
        for name, keep in FILTERS.items():
            yield name, keep(self.snapshot.classes[shape], self.ledger.shapes.scene)
        yield from self.ledger.company.masks(shape)

    # what would help --------------------------------------------------------------------------------------------------

    def _changes(self, culprit: Goal) -> Iterator[Change]:
        yield from self._lower(culprit)
        for branch in self._around(culprit):
            yield from self._lower(branch)
        if culprit.required is not None and culprit.required.pinned is None:
            yield from self._coarser(culprit)

    def _around(self, goal: Goal) -> list[Goal]:
        """The branch right above, if there is one."""
        return [one for one in every(self.goal) if any(child.name == goal.name for child in one.children)]

    def _lower(self, group: Goal) -> Iterator[Change]:
        """The largest minimum of this group with which the whole gang fits now."""
        low, high = 0, group.need - 1
        while low < high:  # fitting is monotone in the minimum
            middle = (low + high + 1) // 2
            if self._fits(self._with(group.name, need=middle)):
                low = middle
            else:
                high = middle - 1
        if low >= 1 and self._fits(self._with(group.name, need=low)):
            done = self.done.get(group.name, 0)
            field = "minMember" if group.is_leaf else "minSubGroup"
            yield Change(group.name, field, group.need + done, low + done)

    def _coarser(self, group: Goal) -> Iterator[Change]:
        """The finest coarser level with which the whole gang fits now."""
        assert group.required is not None
        levels = self.snapshot.topologies[group.required.topology].levels
        for level in range(group.required.level - 1, -2, -1):
            spot = Spot(group.required.topology, level) if level >= 0 else None
            if self._fits(self._with(group.name, required=spot)):
                now = levels[level].label if level >= 0 else ""
                yield Change(group.name, "requiredTopologyLevel", levels[group.required.level].label, now)
                return

    def _with(self, name: str, **changes: Any) -> Goal:
        return _changed(self.goal, name, self.kinds, changes)


def _changed(goal: Goal, name: str, kinds: Kinds, changes: dict[str, Any]) -> Goal:
    """The goal with another minimum or level at one group."""
    children = tuple(_changed(child, name, kinds, changes) for child in goal.children)
    return kinds.made(goal, children=children, **(changes if goal.name == name else {}))


def _plain(change: Change) -> dict[str, Any]:
    return {"subGroup": change.group, "field": change.field, "from": change.was, "to": change.fits}

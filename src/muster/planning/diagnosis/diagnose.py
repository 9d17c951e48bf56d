"""Why a gang does not fit, and the smallest change that would help (E1): asked of the search itself, as data."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.model.topology import NOWHERE, Level
from muster.placement.budget import Budget, OutOfSteps
from muster.placement.capacity import Ledger
from muster.placement.filters import claim_trouble
from muster.placement.requirements import Goal, Goals, every, leaves, shapes, size
from muster.placement.search import flat
from muster.placement.search.nested_search import Search
from muster.planning.bounds import hopeful
from muster.planning.decision import Refusal
from muster.planning.diagnosis.changes import Changes

Ints = NDArray[np.int64]
NAMES = {"near": "pod affinity", "away": "pod anti-affinity", "spread": "topology spread"}
SHARE = 8  # words may cost one part in so many of what the gang has left to spend (X7)


class Diagnosis:
    """One gang that the search refused, on the ledger that it was refused on."""

    def __init__(self, ledger: Ledger, goals: Goals, goal: Goal, budget: Budget, allowance: Ints | None = None) -> None:
        """`allowance`: by column, what its queue allows it to take; None: any."""
        self.snapshot, self.ledger, self.goals, self.goal = goals.snapshot, ledger, goals, goal
        self.allowance = allowance
        self.budget = budget.part(budget.left // SHARE)
        self._known: dict[int, bool | None] = {}  # whether goals of a kind fit by themselves
        self._seated: dict[int, bool] = {}  # whether goals of a kind have enough seats, by counts

    def refusal(self) -> Refusal:
        """The smallest part that cannot be placed, what the cluster can do at best, and what would help."""
        culprit, scope = self._culprit()
        details = self._facts(culprit) | self._between(culprit)
        details |= {"changes": self.changes([culprit, *reversed(scope)])}
        return Refusal(self._reason(culprit, details), culprit.name, details)

    def changes(self, scope: Sequence[Goal]) -> list[dict[str, Any]]:
        """What would help, of groups in this scope, as data."""
        smallest = Changes(self.goals, self.goal, self._fits, self.budget).smallest(scope)
        return [change.plain() for change in smallest]

    def brief(self, part: str) -> Refusal:
        """Why one further part waits, by counts alone: for extras no search is made twice."""
        around, inner = self._around(part)
        culprit = self._counted(inner)
        lacking = [one for one in (culprit, *reversed(around)) if self._best(one).get("room", 0) < size(one)]
        held = [one for one in (inner, *reversed(around)) if one.required is not None]
        found = (lacking or held or [inner])[0]
        details = self._facts(found)
        return Refusal(self._reason(found, details), part, details)

    def _around(self, part: str) -> tuple[list[Goal], Goal]:
        """The groups around a further part, whose domains it must stay inside of, and the part itself."""
        around: list[Goal] = []
        for one in every(self.goal):
            if one.name == part or len(one.children) != 1:
                return around, one
            around.append(one)
        return around[:-1], around[-1]

    def _counted(self, goal: Goal) -> Goal:
        """Down the tree, as long as too few children have enough seats anywhere, by counts."""
        while goal.children:
            misfits = [child for child in goal.children if not hopeful(child, self.ledger, self._seated)]
            if len(goal.children) - len(misfits) >= goal.need:
                return goal
            goal = misfits[0]
        return goal

    def _facts(self, culprit: Goal) -> dict[str, Any]:
        """What is needed, the best there is, and how many nodes each filter refuses."""
        return {
            "need": size(culprit),
            **self._best(culprit),
            "refused": self._refused(culprit),
            "nodes": len(self.snapshot.nodes),
            **self._claim(culprit),
        }

    def _claim(self, culprit: Goal) -> dict[str, Any]:
        """The claim that keeps some of its pods from every node, if there is one (X5)."""
        scene = self.ledger.shapes.scene
        troubles = (claim_trouble(self.snapshot.classes[shape], scene) for shape in shapes(culprit))
        found = next((one for one in troubles if one is not None), None)
        return (
            {}
            if found is None
            else {
                "claim": found.claim,
                "storageClass": found.storage_class,
                "why": found.why,
                "node": found.node,
            }
        )

    def _reason(self, culprit: Goal, details: dict[str, Any]) -> str:
        misfits = self._without_node(culprit)
        if "claim" in details and misfits:
            return "VolumeNotBound"
        if _pods(culprit) - sum(misfits.values()) < max(culprit.need if culprit.is_leaf else 0, 1):
            return "NoNodeMatches"
        if "rule" in details:
            return "RulesBetweenPods"
        return "NoDomain" if details.get("level") else "NoRoom"

    def _without_node(self, goal: Goal) -> dict[int, int]:
        """Classes that match no node at all, and how many pods they have."""
        return {shape: n for shape, n in _by_class(goal).items() if not self.ledger.allowed(shape).any()}

    def _culprit(self) -> tuple[Goal, list[Goal]]:
        """Down the tree, as long as too few children would fit even by themselves; and the groups to change.

        Where two children or more are too many to fit, no change inside a single one of them helps; where it is one,
        nothing helps beside it. Whatever is left out here is known not to help.
        """
        goal = self.goal
        scope, closed = [goal], False
        while goal.children:
            misfits = self._misfits(goal)
            lacking = goal.need - (len(goal.children) - len(misfits))
            if lacking <= 0:
                return goal, scope if closed else [*scope, *every(goal)]
            closed = closed or lacking > 1
            if not closed:
                scope += (*misfits, *(one for other in misfits[1:] for one in every(other)))
            goal = misfits[0]
        return goal, scope

    def _misfits(self, goal: Goal) -> list[Goal]:
        """Children that do not fit even by themselves."""
        if len(goal.children) == 1 and goal.required is None:
            return list(goal.children)  # the same question, and the answer is known
        return [child for child in goal.children if self._fits_alone(child) is False]

    def _fits_alone(self, goal: Goal) -> bool | None:
        """The same for every goal of a kind: equal children are asked about once."""
        if goal.kind not in self._known:
            self._known[goal.kind] = self._fits(goal)
        return self._known[goal.kind]

    def _fits(self, goal: Goal, ignoring: frozenset[int] = frozenset()) -> bool | None:
        """Whether a goal fits; None: the budget does not reach."""
        part = self.budget.part(self.budget.left // 2)
        try:
            part.spend()
            if not hopeful(goal, self.ledger, self._seated):
                return False
            trees, kinds = self.snapshot.topologies, self.goals.kinds
            if flat.applies(self.ledger, goal):
                return flat.seats(self.ledger, goal, trees, self.allowance) is not None
            search = Search(self.ledger, trees, kinds, part, ignoring, self.allowance)
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
        if goal.required is None:
            where, nodes = "", np.arange(len(self.snapshot.nodes))
        else:
            level = self.snapshot.topologies[goal.required.topology].levels[goal.required.level]
            sums = self._at_most(goal, level)
            best = int(sums.argmax()) if len(sums) else NOWHERE
            best = best if goal.required.pinned is None else goal.required.pinned
            if best == NOWHERE:
                apart = {"apart": True} if goal.required.pinned == NOWHERE else {}
                return {"level": level.label, "domain": "", "room": 0, **apart}
            where, nodes = level.paths[best], level.nodes(best)
        room = self._room(goal, nodes)
        found: dict[str, Any] = {"room": room, "domain": where}
        if goal.required is not None:
            found["level"] = self.snapshot.topologies[goal.required.topology].levels[goal.required.level].label
            found["pinned"] = goal.required.pinned is not None
        if len(classes) == 1:
            found |= self._short(size(goal), classes[0], nodes, room)
        return found

    def _at_most(self, goal: Goal, level: Level) -> Any:
        """For every domain of a level, a bound on the pods of the goal that it could take."""
        counts = _by_class(goal)
        sums = [level.sums(self.ledger.fits(shape)) for shape in counts]
        if len(counts) == 1:
            return sums[0]
        return np.sum([np.minimum(one, n) for one, n in zip(sums, counts.values(), strict=True)], axis=0)

    def _room(self, goal: Goal, nodes: Any) -> int:
        """How many pods of the goal these nodes take; of several classes as many as there are, small ones first."""
        counts = _by_class(goal)
        if len(counts) == 1:
            return int(self.ledger.fits(next(iter(counts)))[nodes].sum())
        free, room = self.ledger.free[nodes].copy(), 0
        for shape in sorted(counts, key=lambda shape: -int(self.ledger.fits(shape)[nodes].sum())):
            columns = self.ledger.shapes.columns[shape]
            asks = self.ledger.shapes.asks[shape][columns]
            seats = np.maximum(np.min(free[:, columns] // asks, axis=1), 0)
            seats = np.minimum(seats, self.ledger.fits(shape)[nodes])
            before = np.cumsum(seats) - seats
            taken = np.clip(counts[shape] - before, 0, seats)
            free[:, columns] -= taken[:, None] * asks
            room += int(taken.sum())
        return room

    def _short(self, need: int, shape: int, nodes: Any, room: int) -> dict[str, Any]:
        """How much of which resource is missing there: the column that stops most pods."""
        columns = self.ledger.shapes.columns[shape]
        usable = nodes[self.ledger.allowed(shape)[nodes]]
        if need <= room or not len(usable):
            return {}
        asks = self.ledger.shapes.asks[shape][columns]
        per_column = np.maximum(self.ledger.free[usable][:, columns] // asks, 0).sum(axis=0)
        scarce = int(per_column.argmin())
        missing = (need - room) * int(asks[scarce])
        return {"resource": self.snapshot.columns[int(columns[scarce])], "missing": missing}

    def _refused(self, goal: Goal) -> dict[str, int]:
        """How many nodes each filter refuses to the goal's pods, and how many lack the room."""
        found: dict[str, int] = {}
        for shape in (*self._without_node(goal), *shapes(goal))[:1]:
            found |= self.ledger.shapes.refused(shape)
            left = self.ledger.shapes.allowed(shape).copy()
            for name, mask in self.ledger.company.masks(shape):
                found[name] = found.get(name, 0) + int((left & ~mask).sum())
                left &= mask
            found["resources"] = int((left & (self.ledger.fits(shape) == 0)).sum())
        return {name: count for name, count in found.items() if count}


def _by_class(goal: Goal) -> Counter[int]:
    """How many pods of each class it may use."""
    found = Counter[int]()
    for leaf in leaves(goal):
        for shape, length in leaf.pods:
            found[shape] += length
    return found


def _pods(goal: Goal) -> int:
    return sum(_by_class(goal).values())

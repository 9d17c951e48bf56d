"""Why a gang does not fit, and the smallest change that would help (E1): asked of the search itself, as data."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.model.topology import NOWHERE, Level
from muster.placement.budget import Budget, OutOfSteps
from muster.placement.capacity import Capacity
from muster.placement.filters import claim_trouble
from muster.placement.requirements import Requirement, Requirements, every, leaves, pod_classes, size
from muster.placement.search import flat
from muster.placement.search.nested_search import Search
from muster.planning.bounds import hopeful
from muster.planning.decision import Refusal
from muster.planning.diagnosis.changes import SmallerRequests

Ints = NDArray[np.int64]
NAMES = {"near": "pod affinity", "away": "pod anti-affinity", "spread": "topology spread"}
SHARE = 8  # words may cost one part in so many of what the gang has left to spend (X7)


class Diagnosis:
    """One gang that the search refused, on the ledger that it was refused on."""

    def __init__(
        self,
        capacity: Capacity,
        requirements: Requirements,
        requirement: Requirement,
        budget: Budget,
        allowance: Ints | None = None,
    ) -> None:
        """`allowance`: by column, what its queue allows it to take; None: any."""
        self.snapshot, self.capacity, self.requirements, self.requirement = (
            requirements.snapshot,
            capacity,
            requirements,
            requirement,
        )
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

    def changes(self, scope: Sequence[Requirement]) -> list[dict[str, Any]]:
        """What would help, of groups in this scope, as data."""
        smallest = SmallerRequests(self.requirements, self.requirement, self._fits, self.budget).smallest(scope)
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

    def _around(self, part: str) -> tuple[list[Requirement], Requirement]:
        """The groups around a further part, whose domains it must stay inside of, and the part itself."""
        around: list[Requirement] = []
        for one in every(self.requirement):
            if one.name == part or len(one.children) != 1:
                return around, one
            around.append(one)
        return around[:-1], around[-1]

    def _counted(self, requirement: Requirement) -> Requirement:
        """Down the tree, as long as too few children have enough seats anywhere, by counts."""
        while requirement.children:
            misfits = [child for child in requirement.children if not hopeful(child, self.capacity, self._seated)]
            if len(requirement.children) - len(misfits) >= requirement.need:
                return requirement
            requirement = misfits[0]
        return requirement

    def _facts(self, culprit: Requirement) -> dict[str, Any]:
        """What is needed, the best there is, and how many nodes each filter refuses."""
        return {
            "need": size(culprit),
            **self._best(culprit),
            "refused": self._refused(culprit),
            "nodes": len(self.snapshot.nodes),
            **self._claim(culprit),
        }

    def _claim(self, culprit: Requirement) -> dict[str, Any]:
        """The claim that keeps some of its pods from every node, if there is one (X5)."""
        scene = self.capacity.pod_classes.scene
        troubles = (claim_trouble(self.snapshot.classes[pod_class], scene) for pod_class in pod_classes(culprit))
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

    def _reason(self, culprit: Requirement, details: dict[str, Any]) -> str:
        misfits = self._without_node(culprit)
        if "claim" in details and misfits:
            return "VolumeNotBound"
        if _pods(culprit) - sum(misfits.values()) < max(culprit.need if culprit.is_leaf else 0, 1):
            return "NoNodeMatches"
        if "rule" in details:
            return "RulesBetweenPods"
        return "NoDomain" if details.get("level") else "NoRoom"

    def _without_node(self, requirement: Requirement) -> dict[int, int]:
        """Classes that match no node at all, and how many pods they have."""
        return {
            pod_class: n
            for pod_class, n in _by_class(requirement).items()
            if not self.capacity.allowed(pod_class).any()
        }

    def _culprit(self) -> tuple[Requirement, list[Requirement]]:
        """Down the tree, as long as too few children would fit even by themselves; and the groups to change.

        Where two children or more are too many to fit, no change inside a single one of them helps; where it is one,
        nothing helps beside it. Whatever is left out here is known not to help.
        """
        requirement = self.requirement
        scope, closed = [requirement], False
        while requirement.children:
            misfits = self._misfits(requirement)
            lacking = requirement.need - (len(requirement.children) - len(misfits))
            if lacking <= 0:
                return requirement, scope if closed else [*scope, *every(requirement)]
            closed = closed or lacking > 1
            if not closed:
                scope += (*misfits, *(one for other in misfits[1:] for one in every(other)))
            requirement = misfits[0]
        return requirement, scope

    def _misfits(self, requirement: Requirement) -> list[Requirement]:
        """Children that do not fit even by themselves."""
        if len(requirement.children) == 1 and requirement.required is None:
            return list(requirement.children)  # the same question, and the answer is known
        return [child for child in requirement.children if self._fits_alone(child) is False]

    def _fits_alone(self, requirement: Requirement) -> bool | None:
        """The same for every goal of a kind: equal children are asked about once."""
        if requirement.kind not in self._known:
            self._known[requirement.kind] = self._fits(requirement)
        return self._known[requirement.kind]

    def _fits(self, requirement: Requirement, ignoring: frozenset[int] = frozenset()) -> bool | None:
        """Whether a goal fits; None: the budget does not reach."""
        part = self.budget.part(self.budget.left // 2)
        try:
            part.spend()
            if not hopeful(requirement, self.capacity, self._seated):
                return False
            trees, kinds = self.snapshot.topologies, self.requirements.kinds
            if flat.applies(self.capacity, requirement):
                return flat.seats(self.capacity, requirement, trees, self.allowance) is not None
            search = Search(self.capacity, trees, kinds, part, ignoring, self.allowance)
            return search.fits(requirement)
        except OutOfSteps:
            return None

    def _between(self, requirement: Requirement) -> dict[str, Any]:
        """The rule between its own pods without which the goal would fit, if that is what stands in the way."""
        inter_pod = self.capacity.inter_pod
        rules = inter_pod.among(pod_classes(requirement))
        if not rules or not self._fits(requirement, frozenset(rules)):
            return {}
        alone = (number for number in rules if self._fits(requirement, frozenset((number,))))
        rule = inter_pod.rules[next(alone, rules[0])]
        return {"rule": NAMES[rule.kind], "key": rule.key, "skew": rule.skew}

    def _best(self, requirement: Requirement) -> dict[str, Any]:
        """The domain with the most room, in pods of the goal, and what it lacks."""
        classes = pod_classes(requirement)
        if requirement.required is None:
            where, nodes = "", np.arange(len(self.snapshot.nodes))
        else:
            level = self.snapshot.topologies[requirement.required.topology].levels[requirement.required.level]
            sums = self._at_most(requirement, level)
            best = int(sums.argmax()) if len(sums) else NOWHERE
            best = best if requirement.required.pinned is None else requirement.required.pinned
            if best == NOWHERE:
                apart = {"apart": True} if requirement.required.pinned == NOWHERE else {}
                return {"level": level.label, "domain": "", "room": 0, **apart}
            where, nodes = level.paths[best], level.nodes(best)
        room = self._room(requirement, nodes)
        found: dict[str, Any] = {"room": room, "domain": where}
        if requirement.required is not None:
            found["level"] = (
                self.snapshot.topologies[requirement.required.topology].levels[requirement.required.level].label
            )
            found["pinned"] = requirement.required.pinned is not None
        if len(classes) == 1:
            found |= self._short(size(requirement), classes[0], nodes, room)
        return found

    def _at_most(self, requirement: Requirement, level: Level) -> Any:
        """For every domain of a level, a bound on the pods of the goal that it could take."""
        counts = _by_class(requirement)
        sums = [level.sums(self.capacity.fits(pod_class)) for pod_class in counts]
        if len(counts) == 1:
            return sums[0]
        return np.sum([np.minimum(one, n) for one, n in zip(sums, counts.values(), strict=True)], axis=0)

    def _room(self, requirement: Requirement, nodes: Any) -> int:
        """How many pods of the goal these nodes take; of several classes as many as there are, small ones first."""
        counts = _by_class(requirement)
        if len(counts) == 1:
            return int(self.capacity.fits(next(iter(counts)))[nodes].sum())
        free, room = self.capacity.free[nodes].copy(), 0
        for pod_class in sorted(counts, key=lambda pod_class: -int(self.capacity.fits(pod_class)[nodes].sum())):
            columns = self.capacity.pod_classes.columns[pod_class]
            asks = self.capacity.pod_classes.asks[pod_class][columns]
            seats = np.maximum(np.min(free[:, columns] // asks, axis=1), 0)
            seats = np.minimum(seats, self.capacity.fits(pod_class)[nodes])
            before = np.cumsum(seats) - seats
            taken = np.clip(counts[pod_class] - before, 0, seats)
            free[:, columns] -= taken[:, None] * asks
            room += int(taken.sum())
        return room

    def _short(self, need: int, pod_class: int, nodes: Any, room: int) -> dict[str, Any]:
        """How much of which resource is missing there: the column that stops most pods."""
        columns = self.capacity.pod_classes.columns[pod_class]
        usable = nodes[self.capacity.allowed(pod_class)[nodes]]
        if need <= room or not len(usable):
            return {}
        asks = self.capacity.pod_classes.asks[pod_class][columns]
        per_column = np.maximum(self.capacity.free[usable][:, columns] // asks, 0).sum(axis=0)
        scarce = int(per_column.argmin())
        missing = (need - room) * int(asks[scarce])
        return {"resource": self.snapshot.columns[int(columns[scarce])], "missing": missing}

    def _refused(self, requirement: Requirement) -> dict[str, int]:
        """How many nodes each filter refuses to the goal's pods, and how many lack the room."""
        found: dict[str, int] = {}
        for pod_class in (*self._without_node(requirement), *pod_classes(requirement))[:1]:
            found |= self.capacity.pod_classes.refused(pod_class)
            left = self.capacity.pod_classes.allowed(pod_class).copy()
            for name, mask in self.capacity.inter_pod.masks(pod_class):
                found[name] = found.get(name, 0) + int((left & ~mask).sum())
                left &= mask
            found["resources"] = int((left & (self.capacity.fits(pod_class) == 0)).sum())
        return {name: count for name, count in found.items() if count}


def _by_class(requirement: Requirement) -> Counter[int]:
    """How many pods of each class it may use."""
    found = Counter[int]()
    for leaf in leaves(requirement):
        for pod_class, length in leaf.pods:
            found[pod_class] += length
    return found


def _pods(requirement: Requirement) -> int:
    return sum(_by_class(requirement).values())

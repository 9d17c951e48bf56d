"""Why a gang does not fit, and the smallest change that would help (E1), found by the search itself."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.model.topology import NOWHERE, Level
from muster.placement.budget import Budget, OutOfSteps
from muster.placement.capacity import Capacity
from muster.placement.claims import ClaimTrouble
from muster.placement.filters import claim_trouble
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.tree import leaves, pod_classes, size, subtree
from muster.placement.requirements.types import Requirement
from muster.placement.search import flat
from muster.placement.search.nested_search import Search
from muster.planning.bounds import could_fit_by_counts
from muster.planning.diagnosis.changes import SmallerRequests
from muster.planning.refusal import (
    BestDomain,
    BlockingRule,
    FitRefusal,
    NoDomain,
    NoNodeMatches,
    NoRoom,
    RulesBetweenPods,
    SmallerRequest,
    VolumeNotBound,
)

Ints = NDArray[np.int64]
NAMES = {"affinity": "pod affinity", "anti_affinity": "pod anti-affinity", "spread": "topology spread"}
SHARE = 8  # a diagnosis may cost the remaining steps of the gang divided by this (X7)


class Diagnosis:
    """One gang that does not fit, and the capacity that it does not fit on."""

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
        self._fits_by_kind: dict[int, bool | None] = {}  # whether requirements of a kind fit by themselves
        self._counts_by_kind: dict[int, bool] = {}  # the same by counts alone

    def refusal(self) -> FitRefusal:
        """The smallest part that cannot be placed, what the cluster can do at best, and what would help."""
        culprit, scope = self._culprit()
        refusal = self._refusal(culprit, self._best(culprit), self._claim(culprit), self._blocking_rule(culprit))
        return replace(refusal, sub_group=culprit.name, changes=self.changes([culprit, *reversed(scope)]))

    def changes(self, scope: Sequence[Requirement]) -> tuple[SmallerRequest, ...]:
        """What would help, of groups in this scope."""
        return SmallerRequests(self.requirements, self.requirement, self._fits, self.budget).smallest(scope)

    def refusal_by_counts(self, part: str) -> FitRefusal:
        """Why one further part waits, by counts alone: extras are not searched for again."""
        around, inner = self._split_at(part)
        culprit = self._culprit_by_counts(inner)
        lacking = [group for group in (culprit, *reversed(around)) if self._best(group).fits < size(group)]
        held = [group for group in (inner, *reversed(around)) if group.required is not None]
        shown = (lacking or held or [inner])[0]
        return replace(self._refusal(shown, self._best(shown), self._claim(shown)), sub_group=part)

    def _split_at(self, part: str) -> tuple[list[Requirement], Requirement]:
        """The groups above a further part, whose domains it must stay inside of, and the part itself."""
        around: list[Requirement] = []
        for group in subtree(self.requirement):
            if group.name == part or len(group.children) != 1:
                return around, group
            around.append(group)
        return around[:-1], around[-1]

    def _culprit_by_counts(self, requirement: Requirement) -> Requirement:
        """The smallest part with too few children that fit anywhere, by counts."""
        while requirement.children:
            misfits = [
                child
                for child in requirement.children
                if not could_fit_by_counts(child, self.capacity, self._counts_by_kind)
            ]
            if len(requirement.children) - len(misfits) >= requirement.need:
                return requirement
            requirement = misfits[0]
        return requirement

    def _refusal(
        self, culprit: Requirement, best: BestDomain, claim: ClaimTrouble | None, rule: BlockingRule | None = None
    ) -> FitRefusal:
        """The reason, with what is needed, the best there is, and how many nodes each filter refuses."""
        need, refused, nodes = size(culprit), self._refused_nodes(culprit), len(self.snapshot.nodes)
        misfits = self._without_node(culprit)
        if claim is not None and misfits:
            return VolumeNotBound(need=need, best=best, refused_nodes=refused, nodes=nodes, claim=claim, rule=rule)
        if rule is not None and not self._lacks_nodes(culprit, misfits):
            return RulesBetweenPods(need=need, best=best, refused_nodes=refused, nodes=nodes, claim=claim, rule=rule)
        if self._lacks_nodes(culprit, misfits):
            reason: type[NoNodeMatches | NoDomain | NoRoom] = NoNodeMatches
        else:
            reason = NoDomain if best.level else NoRoom
        return reason(need=need, best=best, refused_nodes=refused, nodes=nodes, claim=claim, rule=rule)

    def _claim(self, culprit: Requirement) -> ClaimTrouble | None:
        """The claim that keeps some of its pods from every node, if there is one (X5)."""
        scene = self.capacity.pod_classes.scene
        troubles = (claim_trouble(self.snapshot.classes[pod_class], scene) for pod_class in pod_classes(culprit))
        return next((trouble for trouble in troubles if trouble is not None), None)

    @staticmethod
    def _lacks_nodes(culprit: Requirement, misfits: dict[int, int]) -> bool:
        """Whether too few of its pods match any node."""
        return _pods(culprit) - sum(misfits.values()) < max(culprit.need if culprit.is_leaf else 0, 1)

    def _without_node(self, requirement: Requirement) -> dict[int, int]:
        """Classes that match no node at all, and how many pods they have."""
        return {
            pod_class: n
            for pod_class, n in _by_class(requirement).items()
            if not self.capacity.allowed(pod_class).any()
        }

    def _culprit(self) -> tuple[Requirement, list[Requirement]]:
        """The smallest part with too few children that fit by themselves, and the groups whose change could help.

        Where a branch lacks two children or more, no change inside a single one helps; where it lacks one, no change
        elsewhere helps. Groups left out here are known not to help.
        """
        requirement = self.requirement
        scope, closed = [requirement], False
        while requirement.children:
            misfits = self._misfits(requirement)
            lacking = requirement.need - (len(requirement.children) - len(misfits))
            if lacking <= 0:
                return requirement, scope if closed else [*scope, *subtree(requirement)]
            closed = closed or lacking > 1
            if not closed:
                scope += (*misfits, *(group for misfit in misfits[1:] for group in subtree(misfit)))
            requirement = misfits[0]
        return requirement, scope

    def _misfits(self, requirement: Requirement) -> list[Requirement]:
        """Children that do not fit even by themselves."""
        if len(requirement.children) == 1 and requirement.required is None:
            return list(requirement.children)  # the same question: it does not fit
        return [child for child in requirement.children if self._fits_alone(child) is False]

    def _fits_alone(self, requirement: Requirement) -> bool | None:
        """Whether a requirement fits by itself; equal children are searched once."""
        if requirement.kind not in self._fits_by_kind:
            self._fits_by_kind[requirement.kind] = self._fits(requirement)
        return self._fits_by_kind[requirement.kind]

    def _fits(self, requirement: Requirement, ignoring: frozenset[int] = frozenset()) -> bool | None:
        """Whether a requirement fits; None: the budget ran out."""
        part = self.budget.part(self.budget.left // 2)
        try:
            part.spend()
            if not could_fit_by_counts(requirement, self.capacity, self._counts_by_kind):
                return False
            trees, kinds = self.snapshot.topologies, self.requirements.kinds
            if flat.applies(self.capacity, requirement):
                return flat.assign_nodes(self.capacity, requirement, trees, self.allowance) is not None
            search = Search(self.capacity, trees, kinds, part, ignoring, self.allowance)
            return search.fits(requirement)
        except OutOfSteps:
            return None

    def _blocking_rule(self, requirement: Requirement) -> BlockingRule | None:
        """The rule between its own pods without which the requirement would fit, if there is one."""
        inter_pod = self.capacity.inter_pod
        rules = inter_pod.among(pod_classes(requirement))
        if not rules or not self._fits(requirement, frozenset(rules)):
            return None
        alone = (number for number in rules if self._fits(requirement, frozenset((number,))))
        rule = inter_pod.rules[next(alone, rules[0])]
        return BlockingRule(NAMES[rule.kind], rule.key, rule.skew)

    def _best(self, requirement: Requirement) -> BestDomain:
        """The domain that takes the most pods of the requirement, and what it lacks."""
        if requirement.required is None:
            return self._measured(requirement, BestDomain(), np.arange(len(self.snapshot.nodes)))
        level = self.snapshot.topologies[requirement.required.topology].levels[requirement.required.level]
        pinned = requirement.required.pinned
        sums = self._upper_bounds(requirement, level)
        best = int(sums.argmax()) if len(sums) else NOWHERE
        best = best if pinned is None else pinned
        if best == NOWHERE:
            return BestDomain(level=level.label, is_apart=pinned == NOWHERE)
        domain = BestDomain(domain=level.paths[best], level=level.label, is_pinned=pinned is not None)
        return self._measured(requirement, domain, level.nodes(best))

    def _measured(self, requirement: Requirement, domain: BestDomain, nodes: Any) -> BestDomain:
        """A domain of these nodes with the pods that fit, and the resource that is missing for more."""
        fits, classes = self._pods_that_fit(requirement, nodes), pod_classes(requirement)
        scarce = self._scarce(size(requirement), classes[0], nodes, fits) if len(classes) == 1 else None
        resource, missing = scarce or ("", 0)
        return replace(domain, fits=fits, resource=resource, missing=missing)

    def _upper_bounds(self, requirement: Requirement, level: Level) -> Any:
        """By domain of a level, an upper bound on the pods of the requirement that fit there."""
        counts = _by_class(requirement)
        sums = [level.sums(self.capacity.fits(pod_class)) for pod_class in counts]
        if len(counts) == 1:
            return sums[0]
        return np.sum([np.minimum(sum_, n) for sum_, n in zip(sums, counts.values(), strict=True)], axis=0)

    def _pods_that_fit(self, requirement: Requirement, nodes: Any) -> int:
        """How many pods of the requirement fit on these nodes; of several classes the smallest pods first."""
        counts = _by_class(requirement)
        if len(counts) == 1:
            return int(self.capacity.fits(next(iter(counts)))[nodes].sum())
        free, fits = self.capacity.free[nodes].copy(), 0
        for pod_class in sorted(counts, key=lambda pod_class: -int(self.capacity.fits(pod_class)[nodes].sum())):
            columns = self.capacity.pod_classes.columns[pod_class]
            asks = self.capacity.pod_classes.requests[pod_class][columns]
            pods_by_node = np.maximum(np.min(free[:, columns] // asks, axis=1), 0)
            pods_by_node = np.minimum(pods_by_node, self.capacity.fits(pod_class)[nodes])
            before = np.cumsum(pods_by_node) - pods_by_node
            taken = np.clip(counts[pod_class] - before, 0, pods_by_node)
            free[:, columns] -= taken[:, None] * asks
            fits += int(taken.sum())
        return fits

    def _scarce(self, need: int, pod_class: int, nodes: Any, fits: int) -> tuple[str, int] | None:
        """The resource that limits most, and how much of it is missing on these nodes."""
        columns = self.capacity.pod_classes.columns[pod_class]
        usable = nodes[self.capacity.allowed(pod_class)[nodes]]
        if need <= fits or not len(usable):
            return None
        asks = self.capacity.pod_classes.requests[pod_class][columns]
        per_column = np.maximum(self.capacity.free[usable][:, columns] // asks, 0).sum(axis=0)
        scarce = int(per_column.argmin())
        missing = (need - fits) * int(asks[scarce])
        return self.snapshot.columns[int(columns[scarce])], missing

    def _refused_nodes(self, requirement: Requirement) -> tuple[tuple[str, int], ...]:
        """How many nodes each filter refuses, and how many have too little free."""
        counts: dict[str, int] = {}
        for pod_class in (*self._without_node(requirement), *pod_classes(requirement))[:1]:
            counts |= self.capacity.pod_classes.refused(pod_class)
            left = self.capacity.pod_classes.allowed(pod_class).copy()
            for name, mask in self.capacity.inter_pod.masks(pod_class):
                counts[name] = counts.get(name, 0) + int((left & ~mask).sum())
                left &= mask
            counts["resources"] = int((left & (self.capacity.fits(pod_class) == 0)).sum())
        return tuple((name, count) for name, count in counts.items() if count)


def _by_class(requirement: Requirement) -> Counter[int]:
    """How many pods of each class it may use."""
    counts = Counter[int]()
    for leaf in leaves(requirement):
        for pod_class, length in leaf.pods:
            counts[pod_class] += length
    return counts


def _pods(requirement: Requirement) -> int:
    return sum(_by_class(requirement).values())

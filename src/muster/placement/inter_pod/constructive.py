"""Assignments under inter-pod rules by construction: pod after pod, on the best node that the rules leave open.

Anti-affinity closes domains, spread prefers the emptiest, affinity puts pods into one domain. `verification` checks
the result before it is used; a failure proves nothing: `constrained_packing` decides then.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from muster.model.inter_pod_rules import Rule
from muster.placement.budget import Budget
from muster.placement.capacity import Capacity, SupposedCapacity
from muster.placement.inter_pod.verification import Places, are_rules_kept, places_of
from muster.placement.packing.packing import Assignments, Demand

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Mark = tuple[int, bool, bool]  # a rule, whether a class carries it, whether it selects the class
PodsByNode = Sequence[tuple[int, int]]  # node, number of pods
MOST_PLACES = 16  # domains to try for pods that must share one


def construct(
    capacity: Capacity, demands: Sequence[Demand], rules: Mapping[int, Rule], budget: Budget
) -> Assignments | None:
    """An assignment of all demands that keeps the rules; None: not found."""
    for prefers_space in (False, True):
        attempt = Attempt(capacity, demands, rules, budget, prefers_space)
        if attempt.assign_all() and are_rules_kept(capacity, demands, attempt.assignments, rules):
            return attempt.assignments
        if not attempt.has_distances:
            return None
    return None


def construct_beside(
    supposed: SupposedCapacity,
    seated: Sequence[tuple[Demand, PodsByNode]],
    added: Sequence[Demand],
    numbers: Sequence[int],
    budget: Budget,
) -> Assignments | None:
    """An assignment of `added` beside `seated`; None: not found. For anti-affinity, which no later pod can mend."""
    capacity = supposed.base
    classes = [capacity.inter_pod.classes[demand.pod_class] for demand in added]
    about = {number for rule_matches in classes for number in (*rule_matches.carries, *rule_matches.selected_by)}
    rules = {number: capacity.inter_pod.rules[number] for number in numbers if number in about}
    attempt = Attempt(capacity, added, rules, budget, prefers_space=False)
    attempt.begin_with(supposed, seated)
    if not attempt.assign_all():
        return None
    demands = [*(demand for demand, _ in seated), *added]
    assignments = {i: [*some] for i, some in enumerate([*(some for _, some in seated), *attempt.assignments.values()])}
    return attempt.assignments if are_rules_kept(capacity, demands, assignments, rules) else None


class RuleTally:
    """Matching pods and carriers of one rule by domain, during a construction."""

    def __init__(self, rule: Rule, places: Places) -> None:
        self.rule, self.places = rule, places
        self.selected = places.outside.copy() if rule.kind != "anti_affinity" else np.zeros_like(places.outside)
        self.carriers = np.zeros_like(places.outside)
        self.seeds = np.zeros_like(places.outside)  # selected, but no carriers: carriers may join them
        self.started = -1

    def copy(self) -> "RuleTally":
        """An independent copy, for a hypothesis."""
        duplicate = object.__new__(RuleTally)
        duplicate.__dict__ |= self.__dict__
        duplicate.selected, duplicate.carriers, duplicate.seeds = (
            self.selected.copy(),
            self.carriers.copy(),
            self.seeds.copy(),
        )
        return duplicate

    def open_to(self, carries: bool, chosen: bool) -> Mask | None:
        """Domains where one more pod breaks nothing; None: all."""
        match self.rule.kind:
            case "anti_affinity" if carries and chosen:
                return _none(self.selected + self.carriers)
            case "anti_affinity":
                return _none(self.selected if carries else self.carriers)
            case "affinity" if carries:
                return self._served(chosen)
            case _:
                return None

    def _served(self, chosen: bool) -> Mask | None:
        """Domains with pods that carriers may join, and the one that they have started; None: they may start any."""
        if self.started < 0 and chosen and not self.places.outside.any() and not self.seeds.any():
            return None
        served: Mask = (self.places.outside > 0) | (self.seeds > 0)
        if self.started >= 0:
            served[self.started] = True
        return served

    def add(self, node: int, carries: bool, chosen: bool, count: int) -> None:
        """Count more pods on a node."""
        place = int(self.places.of_node[node])
        if place < 0:
            return
        if carries and not self.places.outside[place] and not self.seeds[place] and self.started < 0:
            self.started = place
        self.carriers[place] += count * carries
        if chosen and self.places.counting[node]:
            self.selected[place] += count
            self.seeds[place] += count * (not carries)


class Attempt:
    """One construction for all demands."""

    def __init__(
        self,
        capacity: Capacity,
        demands: Sequence[Demand],
        rules: Mapping[int, Rule],
        budget: Budget,
        prefers_space: bool,
    ) -> None:
        """`prefers_space`: pods go to the domains with the most capacity, not to the tightest nodes."""
        self.capacity, self.demands, self.budget, self.prefers_space = capacity, demands, budget, prefers_space
        pod_classes = capacity.pod_classes
        self.columns = np.array(
            sorted({column for demand in demands for column, _ in pod_classes.pairs[demand.pod_class]})
        )
        budget.spend(4 + len(demands) + len(rules) * (2 + len(capacity.free) // 512) + len(capacity.free) // 128)
        self.free = capacity.free[:, self.columns]
        self.tallies = {
            number: RuleTally(rule, places_of(capacity.inter_pod, number)) for number, rule in rules.items()
        }
        self.rule_matches = {
            pod_class: self._rule_matches(pod_class)
            for pod_class in dict.fromkeys(demand.pod_class for demand in demands)
        }
        self.has_distances = any(rule.kind == "anti_affinity" for rule in rules.values())
        self.assignments: Assignments = {i: [] for i in range(len(demands))}

    def _rule_matches(self, pod_class: int) -> list[Mark]:
        """The rules that concern a class, coarse topology keys first."""
        known = self.capacity.inter_pod.classes[pod_class]
        about = sorted(self.tallies.keys() & {*known.carries, *known.selected_by}, key=self._coarse)
        return [(number, number in known.carries, number in known.selected_by) for number in about]

    def begin_with(self, supposed: SupposedCapacity, seated: Sequence[tuple[Demand, PodsByNode]]) -> None:
        """Start beside assigned pods: with the capacity that they leave, and counted by the rules."""
        for node, row in supposed.rows.items():
            self.free[node] = row[self.columns]
        for demand, some in seated:
            for number, carries, chosen in self._rule_matches(demand.pod_class):
                for node, count in some:
                    self.tallies[number].add(node, carries, chosen, count)

    def _coarse(self, number: int) -> tuple[int, int]:
        return len(self.tallies[number].places.outside), number

    def copy(self, pod_classes: set[int]) -> "Attempt":
        """A copy, to try other assignments of these classes."""
        duplicate = object.__new__(Attempt)
        duplicate.__dict__ |= self.__dict__
        touched = {number for pod_class in pod_classes for number, _, _ in self.rule_matches[pod_class]}
        duplicate.tallies = {n: tally.copy() if n in touched else tally for n, tally in self.tallies.items()}
        duplicate.free = self.free.copy()
        duplicate.assignments = {i: list(some) for i, some in self.assignments.items()}
        return duplicate

    def take(self, attempt: "Attempt") -> None:
        """Take over the result of another attempt."""
        self.tallies, self.free, self.assignments = attempt.tallies, attempt.free, attempt.assignments

    def assign_all(self) -> bool:
        """Assign all demands, those that affinity ties together first, then the largest pods; False: not found."""
        new = range(len(self.demands))
        groups = self._together(new)
        joined = {i for group in groups for i in group}
        for group in sorted(groups, key=self._by_size):
            if not self._assign_together(group) and not all(self._assign_demand(i) for i in self._seeds_first(group)):
                return False
        return all(self._assign_demand(i) for i in sorted((i for i in new if i not in joined), key=self._by_hardness))

    # order ----------------------------------------------------------------------------------------------------------

    def _by_hardness(self, i: int) -> tuple[int, int, int, int]:
        """A sort key: largest pods first, of these the ones with anti-affinity, then the smallest node set."""
        demand = self.demands[i]
        guards = sum(
            carries
            for n, carries, _ in self.rule_matches[demand.pod_class]
            if self.tallies[n].rule.kind == "anti_affinity"
        )
        most = int(self.capacity.fits(demand.pod_class)[demand.node_set.nodes].max(initial=0))
        return most, -guards, len(demand.node_set.nodes), i

    def _by_size(self, group: list[int]) -> tuple[int, int]:
        requested = sum(int(self._asks(i).max()) * self.demands[i].count for i in group)
        return -requested, group[0]

    def _seeds_first(self, group: list[int]) -> list[int]:
        """Demands without affinity, then those that may start a domain, then those that must join other pods."""

        def needs(i: int) -> int:
            near = [
                chosen
                for n, carries, chosen in self.rule_matches[self.demands[i].pod_class]
                if carries and self._is_near(n)
            ]
            return 0 if not near else 1 if all(near) else 2

        return sorted(group, key=lambda i: (needs(i), self._by_hardness(i)))

    def _is_near(self, number: int) -> bool:
        return self.tallies[number].rule.kind == "affinity"

    def _together(self, new: range) -> list[list[int]]:
        """Groups of demands that affinity without any pod to join ties together, directly or through others."""
        group_of: dict[int, list[int]] = {}
        first: dict[int, int] = {}  # by rule
        for i in new:
            for number, _, _ in self.rule_matches[self.demands[i].pod_class]:
                if not self._is_near(number) or self.tallies[number].selected.any():
                    continue
                own = group_of.setdefault(i, [i])
                joined = group_of[first.setdefault(number, i)]
                if joined is not own:
                    joined += own
                    group_of |= dict.fromkeys(own, joined)
        return list({id(group): sorted(group) for group in group_of.values()}.values())

    # affinity -------------------------------------------------------------------------------------------------------

    def _assign_together(self, group: list[int]) -> bool:
        """Assign all demands of a group in one domain, the tightest that fits them."""
        pod_classes = {self.demands[i].pod_class for i in group}
        near = {n for pod_class in pod_classes for n, _, _ in self.rule_matches[pod_class] if self._is_near(n)}
        finest = self.tallies[max(near, key=self._coarse)].places
        for place in self._places_with_capacity(group, finest)[:MOST_PLACES]:
            inside = np.flatnonzero(finest.of_node == place)
            self.budget.spend(4 + self.free.size // 4096)
            attempt = self.copy(pod_classes)
            if all(attempt._assign_demand(i, inside) for i in sorted(group, key=self._by_hardness)):
                self.take(attempt)
                return True
        return False

    def _places_with_capacity(self, group: list[int], places: Places) -> list[int]:
        """Domains with enough capacity for a group by totals, tight ones first."""
        self.budget.spend(1 + len(group) * (1 + len(self.free) // 1024))
        enough, capacity_by_place = (
            np.ones(len(places.outside), dtype=bool),
            np.zeros(len(places.outside), dtype=np.int64),
        )
        requested = np.zeros(len(self.columns), dtype=np.int64)
        usable = np.zeros(len(self.free), dtype=bool)
        for i in group:
            nodes = self.demands[i].node_set.nodes
            fits = np.zeros(len(self.free), dtype=np.int64)
            fits[nodes] = self._fits(i, nodes)
            assignments = places.total(fits)
            enough &= assignments >= self.demands[i].count
            capacity_by_place += assignments
            usable |= fits > 0
            requested += self._asks(i) * self.demands[i].count
        for column in np.flatnonzero(requested):
            enough &= places.total(np.where(usable, np.maximum(self.free[:, column], 0), 0)) >= requested[column]
        candidates = np.flatnonzero(enough)
        ordered: list[int] = candidates[np.argsort(capacity_by_place[candidates], kind="stable")].tolist()
        return (
            sorted(ordered, key=lambda place: -self._score(group, places, place))
            if self.capacity.has_preferences
            else ordered
        )

    def _score(self, group: list[int], places: Places, place: int) -> int:
        inside = np.flatnonzero(places.of_node == place)
        self.budget.spend()
        return sum(
            self.capacity.preference_score(self.demands[i].pod_class, inside, self.demands[i].count) for i in group
        )

    # one demand -----------------------------------------------------------------------------------------------------

    def _asks(self, i: int) -> Ints:
        requests: Ints = self.capacity.pod_classes.requests[self.demands[i].pod_class][self.columns]
        return requests

    def _fits(self, i: int, nodes: Ints) -> Ints:
        """How many more pods of a demand fit on each of these nodes."""
        asks = self._asks(i)
        requested = np.flatnonzero(asks)
        whole = (self.free[nodes][:, requested] // asks[requested]).min(axis=1)
        fits: Ints = np.where(self.capacity.allowed(self.demands[i].pod_class)[nodes], np.maximum(whole, 0), 0)
        return fits

    def _assign_demand(self, i: int, inside: Ints | None = None) -> bool:
        """Assign the pods of a demand, on the nodes `inside` if given; False: not found."""
        demand = self.demands[i]
        nodes = demand.node_set.nodes
        if inside is not None:
            nodes = np.intersect1d(nodes, inside, assume_unique=True)
        fits, left = self._fits(i, nodes), demand.count
        rule_matches = [
            match for match in self.rule_matches[demand.pod_class] if inside is None or not self._is_near(match[0])
        ]
        ranks = _Ranks(self.capacity, demand.pod_class, nodes)
        is_one_by_one = any(self._counts_pods(*mark) for mark in rule_matches)
        while left:
            self.budget.spend(2 + len(nodes) // 512)
            at = self._choose(nodes, fits, left, rule_matches, ranks)
            if at is None:
                return False
            count = 1 if is_one_by_one else min(left, int(fits[at]))
            self._put(i, int(nodes[at]), count)
            fits[at] -= count
            ranks.take(at, count)
            left -= count
        return True

    def _counts_pods(self, number: int, carries: bool, chosen: bool) -> bool:
        kind = self.tallies[number].rule.kind
        return kind == "spread" or (kind == "anti_affinity" and carries and chosen)

    def _choose(self, nodes: Ints, fits: Ints, left: int, rule_matches: list[Mark], ranks: "_Ranks") -> int | None:
        """The node for the next pods: open by all rules, in a spread's emptiest domain, best rank, then tightest."""
        open_here = fits > 0
        for number, carries, chosen in rule_matches:
            tally = self.tallies[number]
            mask = tally.open_to(carries, chosen)
            if mask is not None:
                place = tally.places.of_node[nodes]
                open_here &= mask[place] | ((place < 0) & (tally.rule.kind == "anti_affinity"))
        candidates = np.flatnonzero(open_here)
        if not len(candidates):
            return None
        for number in self._spreads(rule_matches):
            counts = self.tallies[number].selected[self.tallies[number].places.of_node[nodes[candidates]]]
            candidates = candidates[counts == counts.min()]
        candidates = ranks.first(candidates)
        if self.prefers_space:
            return int(candidates[self._capacity_around(nodes, fits, candidates, rule_matches).argmax()])
        enough = candidates[fits[candidates] >= left]
        best = enough if len(enough) else candidates
        return int(best[fits[best].argmin()])

    def _spreads(self, rule_matches: list[Mark]) -> Iterator[int]:
        return (number for number, _, _ in rule_matches if self.tallies[number].rule.kind == "spread")

    def _capacity_around(self, nodes: Ints, fits: Ints, candidates: Ints, rule_matches: list[Mark]) -> Ints:
        """The capacity of each candidate's domain by the coarsest anti-affinity; without any, of the node."""
        for number, _, _ in rule_matches:
            places = self.tallies[number].places
            if self.tallies[number].rule.kind == "anti_affinity":
                place = places.of_node[nodes] + 1
                capacities = np.bincount(place, weights=fits).astype(np.int64)
                return np.take(capacities, place[candidates])
        return np.take(fits, candidates)

    def _put(self, i: int, node: int, count: int) -> None:
        self.free[node] -= self._asks(i) * count
        self.assignments[i].append((node, count))
        for number, carries, chosen in self.rule_matches[self.demands[i].pod_class]:
            self.tallies[number].add(node, carries, chosen, count)


class _Ranks:
    """The nodes that a class prefers, or that cost least, for its next pod, as capacity is used up."""

    def __init__(self, capacity: Capacity, pod_class: int, nodes: Ints) -> None:
        tiers = capacity.tiers(pod_class)
        self._sums = None if tiers is None or not len(nodes) else np.cumsum([tier[nodes] for tier in tiers], axis=0)
        self._taken = np.zeros(len(nodes), dtype=np.int64)

    def take(self, at: int, count: int) -> None:
        """Count more pods on a node."""
        self._taken[at] += count

    def first(self, candidates: Ints) -> Ints:
        """The candidates that rank best for the next pod."""
        if self._sums is None:
            return candidates
        ranks = (self._sums[:, candidates] <= self._taken[candidates]).sum(axis=0)
        best: Ints = candidates[ranks == ranks.min()]
        return best


def _none(counts: Ints) -> Mask:
    mask: Mask = counts == 0
    return mask

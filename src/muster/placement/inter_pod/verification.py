"""Whether a finished assignment keeps the inter-pod rules (decision 0007), judged by the assignment alone."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.model.inter_pod_rules import Rule
from muster.placement.capacity import Capacity
from muster.placement.inter_pod.inter_pod_state import InterPodState
from muster.placement.packing.packing import Assignments, Demand

Ints = NDArray[np.int64]


class Places(Struct, frozen=True, eq=False):
    """The domains of a rule, and the matching pods outside the gang in them."""

    of_node: Ints  # -1: in none
    counting: NDArray[np.bool_]  # nodes whose matching pods count
    known: Ints  # domains that count
    outside: Ints  # by domain: matching pods outside the gang

    def total(self, by_node: Ints) -> Ints:
        """Counts by node, summed by domain."""
        inside = self.of_node >= 0
        sums = np.bincount(self.of_node[inside], weights=by_node[inside], minlength=len(self.outside))
        return sums.astype(np.int64)


def places_of(inter_pod: InterPodState, number: int) -> Places:
    """The domains of one rule, with the matching pods in them before the gang is placed."""
    rule = inter_pod.rules[number]
    of_node = inter_pod.places(rule)
    counting = inter_pod.counting(rule) if rule.kind == "spread" else of_node >= 0
    size = int(of_node.max(initial=-1)) + 1
    held = inter_pod.selected.row(number)[counting]
    outside = np.bincount(of_node[counting], weights=held, minlength=size).astype(np.int64)
    known = np.flatnonzero(np.bincount(of_node[counting], minlength=size))
    return Places(of_node, counting, known, outside)


def are_rules_kept(
    capacity: Capacity, demands: Sequence[Demand], assignments: Assignments, rules: Mapping[int, Rule]
) -> bool:
    """Whether an assignment of all demands keeps all rules; masks of the classes exclude conflicts with other pods."""
    return all(_is_kept(capacity, demands, assignments, number, rule) for number, rule in rules.items())


def _is_kept(capacity: Capacity, demands: Sequence[Demand], assignments: Assignments, number: int, rule: Rule) -> bool:
    inter_pod = capacity.inter_pod
    places = places_of(inter_pod, number)
    carriers, selected, both = (np.zeros(len(capacity.free), dtype=np.int64) for _ in range(3))
    for i, demand in enumerate(demands):
        rule_matches = inter_pod.classes[demand.pod_class]
        carries, chosen = number in rule_matches.carries, number in rule_matches.selected_by
        for node, count in assignments[i] if carries or chosen else ():
            carriers[node] += count * carries
            selected[node] += count * (chosen and bool(places.counting[node]))
            both[node] += count * (carries and chosen and bool(places.counting[node]))
    tallies = places.total(carriers), places.total(selected), places.total(both)
    match rule.kind:
        case "anti_affinity":
            return _is_apart(*tallies)
        case "affinity":
            return _is_together(places, *tallies)
        case "spread":
            return _is_even(places, rule, *tallies[:2])


def _is_apart(carriers: Ints, selected: Ints, both: Ints) -> bool:
    """No carrier shares a domain with another matching pod."""
    itself = (carriers == 1) & (selected == 1) & (both == 1)
    return not bool(((carriers > 0) & (selected > 0) & ~itself).any())


def _is_together(places: Places, carriers: Ints, selected: Ints, both: Ints) -> bool:
    """Every carrier shares a domain with a matching pod, outside or no carrier, or is in the one that they start."""
    started = (carriers > 0) & (places.outside == 0) & (selected <= both)
    if not started.any():
        return True
    return not places.outside.any() and int(started.sum()) == 1 and bool(both[started].all())


def _is_even(places: Places, rule: Rule, carriers: Ints, selected: Ints) -> bool:
    """In no domain of a carrier is the count further above the smallest one than the skew."""
    counts = (places.outside + selected)[places.known]
    floor = 0 if len(places.known) < rule.places else int(counts.min()) if len(counts) else 0
    return not bool((counts[carriers[places.known] > 0] - floor > rule.skew).any())

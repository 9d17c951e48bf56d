"""Bounds by anti-affinity: a domain of the topology key holds one of the pods that must not share it (X1)."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from muster.placement.capacity import Capacity

Ints = NDArray[np.int64]


class Distances:
    """Upper bounds on a capacity by the anti-affinity among some rules."""

    def __init__(self, capacity: Capacity, numbers: Iterable[int]) -> None:
        inter_pod = capacity.inter_pod
        self.capacity = capacity
        self._numbers = frozenset(number for number in numbers if inter_pod.rules[number].kind == "anti_affinity")
        self._of_class: dict[int, frozenset[int]] = {}

    def of_class(self, pod_class: int) -> frozenset[int]:
        """The rules that a class carries and that select it: two of its pods must not share a domain."""
        if pod_class not in self._of_class:
            rule_matches = self.capacity.inter_pod.classes[pod_class]
            self._of_class[pod_class] = self._numbers.intersection(rule_matches.carries).intersection(
                rule_matches.selected_by
            )
        return self._of_class[pod_class]

    def shared(self, pod_classes: Sequence[int]) -> list[int]:
        """The rules of `of_class` that several of these classes have."""
        counts = Counter(number for pod_class in pod_classes for number in self.of_class(pod_class))
        return sorted(number for number, classes in counts.items() if classes > 1)

    def fits(self, pod_class: int, domain: Ints, domains: int) -> Ints:
        """The most pods of a class that these rules allow in each topology domain; `domain`: of each node."""
        most = np.full(domains, np.iinfo(np.int64).max // 2, dtype=np.int64)
        fits = np.where(domain >= 0, self.capacity.fits(pod_class), 0)
        for number in self.of_class(pod_class):
            np.minimum(most, _count_fits(fits, self._places(number), domain, domains), out=most)
        return most

    def places(self, number: int, pod_classes: Sequence[int]) -> int:
        """The most pods of some classes that all nodes together can take under one rule that they share."""
        nowhere = np.zeros(len(self.capacity.free), dtype=np.int64)
        own_fits = [self.capacity.fits(pod_class) for pod_class in pod_classes if number in self.of_class(pod_class)]
        return int(_count_fits(sum(own_fits, start=nowhere), self._places(number), nowhere, 1)[0])

    def _places(self, number: int) -> Ints:
        return self.capacity.inter_pod.places(self.capacity.inter_pod.rules[number])


def _count_fits(fits: Ints, places: Ints, domain: Ints, domains: int) -> Ints:
    """By topology domain: one pod for each domain of the rule where some fit, and all that fit on nodes in none."""
    counts = np.zeros(domains, dtype=np.int64)
    free, some = np.flatnonzero((fits > 0) & (places < 0)), np.flatnonzero((fits > 0) & (places >= 0))
    np.add.at(counts, domain[free], fits[free])
    size = int(places.max(initial=-1)) + 1
    if domains == 1:
        counts[0] += np.count_nonzero(np.bincount(places[some], minlength=size))
    elif len(some):
        np.add.at(counts, np.unique(domain[some] * size + places[some]) // size, 1)
    return counts

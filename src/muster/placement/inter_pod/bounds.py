"""Bounds by anti-affinity: of pods that keep away from each other, a place holds one (X1)."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from muster.placement.capacity import Ledger

Ints = NDArray[np.int64]


class Distances:
    """The anti-affinity of some rules, as bounds on a ledger."""

    def __init__(self, ledger: Ledger, numbers: Iterable[int]) -> None:
        company = ledger.company
        self.ledger = ledger
        self._numbers = frozenset(number for number in numbers if company.rules[number].kind == "away")
        self._of_class: dict[int, frozenset[int]] = {}

    def of_class(self, shape: int) -> frozenset[int]:
        """The rules by which pods of a class keep away from their like."""
        if shape not in self._of_class:
            marks = self.ledger.company.classes[shape]
            self._of_class[shape] = self._numbers.intersection(marks.carries).intersection(marks.selected_by)
        return self._of_class[shape]

    def shared(self, shapes: Sequence[int]) -> list[int]:
        """The rules by which pods of several of these classes keep away from each other."""
        counts = Counter(number for shape in shapes for number in self.of_class(shape))
        return sorted(number for number, classes in counts.items() if classes > 1)

    def seats(self, shape: int, domain: Ints, domains: int) -> Ints:
        """For every domain, given by node, how many pods of a class it could hold by these rules."""
        found = np.full(domains, np.iinfo(np.int64).max // 2, dtype=np.int64)
        fits = np.where(domain >= 0, self.ledger.fits(shape), 0)
        for number in self.of_class(shape):
            np.minimum(found, _seats(fits, self._places(number), domain, domains), out=found)
        return found

    def places(self, number: int, shapes: Sequence[int]) -> int:
        """How many pods of some classes could find a place each, by one rule that they share."""
        nowhere = np.zeros(len(self.ledger.free), dtype=np.int64)
        mine = [self.ledger.fits(shape) for shape in shapes if number in self.of_class(shape)]
        return int(_seats(sum(mine, start=nowhere), self._places(number), nowhere, 1)[0])

    def _places(self, number: int) -> Ints:
        return self.ledger.company.places(self.ledger.company.rules[number])


def _seats(fits: Ints, places: Ints, domain: Ints, domains: int) -> Ints:
    """By domain: one for every place with room, and all that fits on nodes in no place."""
    found = np.zeros(domains, dtype=np.int64)
    free, some = np.flatnonzero((fits > 0) & (places < 0)), np.flatnonzero((fits > 0) & (places >= 0))
    np.add.at(found, domain[free], fits[free])
    size = int(places.max(initial=-1)) + 1
    if domains == 1:
        found[0] += np.count_nonzero(np.bincount(places[some], minlength=size))
    elif len(some):
        np.add.at(found, np.unique(domain[some] * size + places[some]) // size, 1)
    return found

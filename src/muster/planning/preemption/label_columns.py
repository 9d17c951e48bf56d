"""Labels of many pods in columns: a selector is judged for all of them at once.

Rule: the same pods as `model.selectors.selects` finds one by one; a property holds the two equal.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from muster.api.meta import LabelSelector, LabelSelectorRequirement

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
ABSENT = -1


class LabelColumns:
    """The labels of pods, by number, as far as their keys matter."""

    def __init__(self, labels: Collection[Mapping[str, str]], keys: Iterable[str]) -> None:
        self._size = len(labels)
        self._carrying: dict[str, dict[str, list[int]]] = {key: defaultdict(list) for key in keys}
        for number, one in enumerate(labels):
            for key in self._carrying.keys() & one.keys():
                self._carrying[key][one[key]].append(number)
        self._columns: dict[str, Ints] = {}
        self._values = {key: {value: i for i, value in enumerate(by)} for key, by in self._carrying.items()}

    def selected(self, selector: LabelSelector | None) -> Ints:
        """The pods that match, in order."""
        if selector is None:
            return np.arange(0)
        carrying = [self._carrying[key].get(value, []) for key, value in selector.match_labels.items()]
        found = np.array(min(carrying, key=len), dtype=np.int64) if carrying else np.arange(self._size)
        for key, value in selector.match_labels.items():
            found = found[self._column(key)[found] == self._values[key].get(value)] if len(found) else found
        for one in selector.match_expressions:
            found = found[self._holds(one, self._column(one.key)[found])]
        return found

    def _column(self, key: str) -> Ints:
        """For every pod the number of its value."""
        if key not in self._columns:
            column = self._columns[key] = np.full(self._size, ABSENT, dtype=np.int64)
            for number, pods in enumerate(self._carrying[key].values()):
                column[pods] = number
        return self._columns[key]

    def _holds(self, one: LabelSelectorRequirement, column: Ints) -> Mask:
        known = [self._values[one.key][value] for value in one.values if value in self._values[one.key]]
        found: Mask
        match one.operator:
            case "In":
                found = np.isin(column, known)
            case "NotIn":
                found = ~np.isin(column, known)
            case "Exists":
                found = column != ABSENT
            case "DoesNotExist":
                found = column == ABSENT
            case _:
                found = np.zeros(len(column), dtype=bool)
        return found


def keys_of(selector: LabelSelector | None) -> set[str]:
    """The keys that a selector is about."""
    if selector is None:
        return set()
    return {*selector.match_labels, *(one.key for one in selector.match_expressions)}

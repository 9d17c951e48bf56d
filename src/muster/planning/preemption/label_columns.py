"""Labels of many pods in columns: a selector is evaluated for all of them at once.

Rule: selects the same pods as `model.selectors.selects` does one by one; a property test holds the two equal.
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
    """The labels of pods, by number, for the given keys."""

    def __init__(self, labels: Collection[Mapping[str, str]], keys: Iterable[str]) -> None:
        self._size = len(labels)
        self._carrying: dict[str, dict[str, list[int]]] = {key: defaultdict(list) for key in keys}
        for number, pod_labels in enumerate(labels):
            for key in self._carrying.keys() & pod_labels.keys():
                self._carrying[key][pod_labels[key]].append(number)
        self._columns: dict[str, Ints] = {}
        self._values = {key: {value: i for i, value in enumerate(by)} for key, by in self._carrying.items()}

    def selected(self, selector: LabelSelector | None) -> Ints:
        """The pods that match, in order."""
        if selector is None:
            return np.arange(0)
        carrying = [self._carrying[key].get(value, []) for key, value in selector.match_labels.items()]
        pods = np.array(min(carrying, key=len), dtype=np.int64) if carrying else np.arange(self._size)
        for key, value in selector.match_labels.items():
            pods = pods[self._column(key)[pods] == self._values[key].get(value)] if len(pods) else pods
        for expression in selector.match_expressions:
            pods = pods[self._holds(expression, self._column(expression.key)[pods])]
        return pods

    def _column(self, key: str) -> Ints:
        """By pod, the number of its value."""
        if key not in self._columns:
            column = self._columns[key] = np.full(self._size, ABSENT, dtype=np.int64)
            for number, pods in enumerate(self._carrying[key].values()):
                column[pods] = number
        return self._columns[key]

    def _holds(self, expression: LabelSelectorRequirement, column: Ints) -> Mask:
        known = [
            self._values[expression.key][value] for value in expression.values if value in self._values[expression.key]
        ]
        mask: Mask
        match expression.operator:
            case "In":
                mask = np.isin(column, known)
            case "NotIn":
                mask = ~np.isin(column, known)
            case "Exists":
                mask = column != ABSENT
            case "DoesNotExist":
                mask = column == ABSENT
            case _:
                mask = np.zeros(len(column), dtype=bool)
        return mask


def keys_of(selector: LabelSelector | None) -> set[str]:
    """The label keys of a selector."""
    if selector is None:
        return set()
    return {*selector.match_labels, *(expression.key for expression in selector.match_expressions)}

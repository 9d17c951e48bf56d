"""Sums of pods by node, kept up to date pod by pod."""

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Requests = Mapping[str, int]


class Usage(Struct, frozen=True, gc=False):
    """Which sums of which node a pod is counted in."""

    row: int
    terminating: bool
    in_gang: bool


class NodeSums:
    """Amounts by row and column, both of which only grow; a row is a node's name, whether or not the node exists."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.columns: dict[str, int] = {}
        self.used = np.zeros((64, 16), dtype=np.int64)
        self.terminating, self.used_by_gangs, self.pods = (np.zeros_like(self.used) for _ in range(3))

    def row(self, node: str) -> int:
        """The row of a node; a new one where the node is new."""
        return self.rows.setdefault(node, len(self.rows))

    def add(self, usage: Usage, requests: Requests, pods: int) -> None:
        """Add so many pods with these requests; a negative number removes them."""
        columns = [self.columns.setdefault(name, len(self.columns)) for name in requests]
        self._grow()
        amounts = np.fromiter(requests.values(), dtype=np.int64, count=len(requests)) * pods
        self.used[usage.row, columns] += amounts
        self.pods[usage.row, columns] += pods
        if usage.terminating:
            self.terminating[usage.row, columns] += amounts
        if usage.in_gang:
            self.used_by_gangs[usage.row, columns] += amounts

    def _grow(self) -> None:
        """Enlarge the arrays until they hold every known row and column."""
        height, width = self.used.shape
        if len(self.rows) <= height and len(self.columns) <= width:
            return
        dimensions = (max(height, 2 * len(self.rows)), max(width, 2 * len(self.columns)))
        arrays = (self.used, self.terminating, self.used_by_gangs, self.pods)
        self.used, self.terminating, self.used_by_gangs, self.pods = (_enlarged(array, dimensions) for array in arrays)

    def rows_of(self, nodes: Iterable[str]) -> Ints:
        """The rows of these nodes."""
        rows = np.array([self.row(node) for node in nodes], dtype=np.int64)
        self._grow()
        return rows

    def has_pods_outside(self, rows: Ints) -> bool:
        """Whether some pod is on none of these rows: on a node that does not exist."""
        others = np.ones(len(self.pods), dtype=bool)
        others[rows] = False
        return bool(self.pods[others].any())

    def requested_columns(self, rows: Ints) -> set[str]:
        """Columns that some pod on these rows requests."""
        requested = np.flatnonzero(self.pods[rows].any(axis=0))
        return {name for name, i in self.columns.items() if i in requested}

    def lay_out(self, array: Ints, rows: Ints, columns: tuple[str, ...]) -> Ints:
        """A copy with these rows and columns, in this order; unknown columns are zero."""
        laid_out = np.zeros((len(rows), len(columns)), dtype=np.int64)
        known = [i for i, name in enumerate(columns) if name in self.columns]
        laid_out[:, known] = array[rows][:, [self.columns[columns[i]] for i in known]]
        return laid_out


def _enlarged(array: Ints, dimensions: tuple[int, int]) -> Ints:
    enlarged = np.zeros(dimensions, dtype=np.int64)
    enlarged[: array.shape[0], : array.shape[1]] = array
    return enlarged

"""Sums of pods by node, kept up to date from what changes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Requests = Mapping[str, int]
NOT_THERE = -1  # no node has this row


class Usage(Struct, frozen=True, gc=False):
    """Which sums of which node a pod is counted in."""

    row: int
    terminating: bool
    in_gang: bool


class LaidOutSums(Struct, frozen=True, eq=False):
    """Sums in the order of nodes and columns; they never change."""

    columns: tuple[str, ...]
    used: Ints
    terminating: Ints
    used_by_gangs: Ints


class NodeSums:
    """Amounts by row and column, both of which only grow; a row is a node's name, whether or not the node exists."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.columns: dict[str, int] = {}
        self.used = np.zeros((64, 16), dtype=np.int64)
        self.terminating, self.used_by_gangs, self.pods = (np.zeros_like(self.used) for _ in range(3))
        self._nodes: Ints = np.zeros(0, dtype=np.int64)  # the rows of nodes that exist, in their order
        self._node_of = np.full(len(self.used), NOT_THERE, dtype=np.int64)  # the place of each row in that order
        self._inside, self._outside = np.zeros(16, dtype=np.int64), np.zeros(16, dtype=np.int64)  # pods by column
        self._changed: list[Ints] = []  # rows whose sums changed since they were laid out
        self._laid_out: LaidOutSums | None = None

    def row(self, node: str) -> int:
        """The row of a node; a new one where the node is new."""
        return self.rows.setdefault(node, len(self.rows))

    # changes --------------------------------------------------------------------------------------------------------

    def add(self, changes: Mapping[tuple[Usage, int], int], requests: Sequence[Requests]) -> None:
        """Add so many pods of each usage and kind, whose requests are given by its number; negative: remove them."""
        alike: dict[tuple[int, bool, bool], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for (usage, kind), pods in changes.items():
            if pods:
                rows, numbers = alike[kind, usage.terminating, usage.in_gang]
                rows.append(usage.row)
                numbers.append(pods)
        for (kind, terminating, in_gang), (rows, numbers) in alike.items():
            self._add_alike(requests[kind], np.array(rows), np.array(numbers), terminating, in_gang)

    def _add_alike(self, requests: Requests, rows: Ints, pods: Ints, terminating: bool, in_gang: bool) -> None:
        """The same for pods of one kind that count in the same sums; each row occurs once."""
        columns = np.array([self.columns.setdefault(name, len(self.columns)) for name in requests])
        self._grow()
        where = np.ix_(rows, columns)
        amounts = pods[:, None] * np.fromiter(requests.values(), dtype=np.int64, count=len(requests))
        self.used[where] += amounts
        self.pods[where] += pods[:, None]
        if terminating:
            self.terminating[where] += amounts
        if in_gang:
            self.used_by_gangs[where] += amounts
        is_inside = self._node_of[rows] != NOT_THERE
        self._inside[columns] += pods[is_inside].sum()
        self._outside[columns] += pods[~is_inside].sum()
        self._changed.append(rows)

    def _grow(self) -> None:
        """Enlarge the arrays until they hold every known row and column."""
        height, width = self.used.shape
        if len(self.rows) <= height and len(self.columns) <= width:
            return
        dimensions = (max(height, 2 * len(self.rows)), max(width, 2 * len(self.columns)))
        arrays = (self.used, self.terminating, self.used_by_gangs, self.pods)
        self.used, self.terminating, self.used_by_gangs, self.pods = (_enlarged(array, dimensions) for array in arrays)
        self._inside, self._outside = (
            np.pad(counts, (0, dimensions[1] - width)) for counts in (self._inside, self._outside)
        )
        self._node_of = np.pad(self._node_of, (0, dimensions[0] - height), constant_values=NOT_THERE)

    # nodes that exist -----------------------------------------------------------------------------------------------

    def select_nodes(self, nodes: Iterable[str]) -> None:
        """These nodes exist, and come in this order."""
        self._nodes = np.array([self.row(node) for node in nodes], dtype=np.int64)
        self._grow()
        self._node_of[:] = NOT_THERE
        self._node_of[self._nodes] = np.arange(len(self._nodes))
        self._inside = self.pods[self._nodes].sum(axis=0)
        self._outside = self.pods.sum(axis=0) - self._inside
        self._laid_out = None

    @property
    def has_pods_outside(self) -> bool:
        """Whether some pod is on a node that does not exist."""
        return bool(self._outside.any())

    def requested_columns(self) -> set[str]:
        """Columns that some pod on a node requests."""
        return {name for name, i in self.columns.items() if self._inside[i]}

    def lay_out(self, columns: tuple[str, ...]) -> LaidOutSums:
        """The sums of the nodes in these columns, in this order; unknown columns are zero."""
        before = self._laid_out
        if before is None or before.columns != columns:
            self._laid_out = self._lay_out_all(columns)
        elif self._changed:
            self._laid_out = self._lay_out_changes(before)
        self._changed = []
        assert self._laid_out is not None
        return self._laid_out

    def _lay_out_all(self, columns: tuple[str, ...]) -> LaidOutSums:
        laid_out = [np.zeros((len(self._nodes), len(columns)), dtype=np.int64) for _ in range(3)]
        known, place = self._places(columns)
        for array, sums in zip(laid_out, (self.used, self.terminating, self.used_by_gangs), strict=True):
            array[:, known] = sums[np.ix_(self._nodes, place)]
        return LaidOutSums(columns, *laid_out)

    def _lay_out_changes(self, before: LaidOutSums) -> LaidOutSums:
        """What was laid out before, with the rows that changed since."""
        rows = np.unique(np.concatenate(self._changed))
        rows = rows[self._node_of[rows] != NOT_THERE]
        known, place = self._places(before.columns)
        into, of = np.ix_(self._node_of[rows], known), np.ix_(rows, place)
        laid_out = [before.used.copy(), before.terminating.copy(), before.used_by_gangs.copy()]
        for array, sums in zip(laid_out, (self.used, self.terminating, self.used_by_gangs), strict=True):
            array[into] = sums[of]
        return LaidOutSums(before.columns, *laid_out)

    def _places(self, columns: tuple[str, ...]) -> tuple[Ints, Ints]:
        """Of the columns that are known: where they are among these, and where here."""
        known = [i for i, name in enumerate(columns) if name in self.columns]
        here = [self.columns[columns[i]] for i in known]
        return np.array(known, dtype=np.int64), np.array(here, dtype=np.int64)


def _enlarged(array: Ints, dimensions: tuple[int, int]) -> Ints:
    enlarged = np.zeros(dimensions, dtype=np.int64)
    enlarged[: array.shape[0], : array.shape[1]] = array
    return enlarged

"""What a seat costs in pods that have to leave: a ledger on which cheap seats are taken first, and bounds.

Prices are a guide for the search and a bound for the proof; what really leaves is decided in `victims`.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from muster.placement.ledger import Ledger
from muster.planning.crowd import Crowd

Ints = NDArray[np.int64]
POD = 1 << 20  # one pod weighs more than all priorities together


class Pieces:
    """Pods of candidates, one row each: node, what it frees, and its number among the candidates."""

    def __init__(self, crowd: Crowd, numbers: Sequence[int]) -> None:
        self.crowd = crowd
        rows = crowd.rows(numbers)
        self.number, self.node = crowd.piece[rows], crowd.piece_node[rows]
        self.freed = crowd.asks[crowd.piece_shape[rows]]

    def stacked(self, columns: Ints, first: Ints, nodes: int) -> Ints:
        """By node: what its first 0, 1, 2 … pieces free, in an order."""
        return self._stack(self.freed[:, columns], first, nodes)

    def weights(self, first: Ints, nodes: int) -> Ints:
        """By node: what it means that its first 0, 1, 2 … pieces leave: fewest pods, then the lower priorities."""
        _, priority = np.unique(self.crowd.priority[self.number], return_inverse=True)
        return self._stack((POD + priority)[:, None], first, nodes)[:, :, 0]

    def _stack(self, values: Ints, first: Ints, nodes: int) -> Ints:
        order = np.lexsort((np.arange(len(first)), first, self.node))
        node = self.node[order]
        counts = np.bincount(node, minlength=nodes)
        start = np.concatenate(([0], np.cumsum(counts)[:-1]))
        place = np.arange(len(order)) - start[node] + 1
        found = np.zeros((nodes, int(counts.max(initial=0)) + 1, values.shape[1]), dtype=np.int64)
        found[node, place] = values[order]
        stacked: Ints = np.cumsum(found, axis=1)
        return stacked


class Yielding(Ledger):
    """A ledger on which all candidates are gone, and every seat has a price: the pods that must leave for it."""

    def __init__(self, free: Ledger, crowd: Crowd, numbers: Sequence[int]) -> None:
        gone = crowd.without(free, numbers)
        super().__init__(free.shapes, gone.free, gone.company)
        self.kept = free.free
        self.pieces = Pieces(crowd, numbers)
        self._prices: dict[int, list[tuple[int, Ints]]] = {}

    @property
    def bidding(self) -> bool:
        """Cheap domains first."""
        return True

    def prices(self, shape: int) -> list[tuple[int, Ints]]:
        """Seats by node for every price, cheapest first."""
        if shape not in self._prices:
            self._prices[shape] = list(self._priced(shape))
        return self._prices[shape]

    def _priced(self, shape: int) -> list[tuple[int, Ints]]:
        columns = self.shapes.columns[shape]
        asks = self.shapes.asks[shape][columns]
        scarce = int(np.argmin((np.maximum(self.kept[:, columns], 0) // asks).sum(axis=0))) if len(columns) else 0
        crowd, pieces = self.pieces.crowd, self.pieces
        freed = np.minimum(pieces.freed[:, columns[scarce]], asks[scarce])
        first = -freed * (len(crowd.all) + 1) + crowd.place[pieces.number]
        stacked = pieces.stacked(columns, first, len(self.kept))
        weight = pieces.weights(first, len(self.kept))
        seats = np.maximum(((self.kept[:, None, columns] + stacked) // asks).min(axis=2), 0)
        allowed = self.allowed(shape)
        seats[~allowed] = 0
        found: dict[int, Ints] = {}
        cost = np.zeros(len(seats), dtype=np.int64)
        for number in range(1, int(seats.max(initial=0)) + 1):
            enough = seats >= number
            there = enough.any(axis=1)
            now = np.where(there, weight[np.arange(len(seats)), enough.argmax(axis=1)], 0)
            price = np.where(there, now - cost, -1)
            cost = np.where(there, now, cost)
            for value in np.unique(price[there]).tolist():
                found[value] = found.get(value, np.zeros(len(seats), dtype=np.int64)) + (price == value)
        return sorted(found.items(), key=lambda item: item[0])

    def tiers(self, shape: int) -> list[Ints] | None:
        """Cheap seats first."""
        return [seats for _, seats in self.prices(shape)]

    def bid(self, shape: int, nodes: Ints, need: int) -> int:
        """The fewest pods that would leave for so many seats, with a minus."""
        total = 0
        for price, seats in self.prices(shape):
            taken = min(need, int(seats[nodes].sum()))
            total -= taken * price
            need -= taken
        return total


def fewest(free: Ledger, crowd: Crowd, numbers: Sequence[int], shape: int, need: int) -> int:
    """A number of pods that must leave at least so that `need` pods of one class fit somewhere: a bound.

    Any pod may leave by itself here, and of each column only as many as that column lacks.
    """
    pieces = Pieces(crowd, numbers)
    columns = free.shapes.columns[shape]
    asks = free.shapes.asks[shape]
    costs: Ints | None = None
    gone = free.free.copy()
    np.add.at(gone, pieces.node, pieces.freed)
    room = (gone[:, columns] // asks[columns]).min(axis=1)
    seats = np.where(free.shapes.allowed(shape), np.maximum(room, 0), 0)
    most = min(int(seats.max(initial=0)), need)
    for column in columns.tolist():
        stacked = pieces.stacked(np.array([column]), -pieces.freed[:, column], len(free.free))
        have = free.free[:, column, None] + stacked[:, :, 0]
        mine = (
            np.stack([(have < asks[column] * number).sum(axis=1) for number in range(1, most + 1)], axis=1)
            if most
            else np.zeros((len(have), 0), dtype=np.int64)
        )
        costs = mine if costs is None else np.maximum(costs, mine)
    if costs is None or not most:
        return 1
    return _cheapest(costs, seats, need)


def _cheapest(costs: Ints, seats: Ints, need: int) -> int:
    """Seats one by one, each node's on the lower hull of its costs: never more than any choice of whole seats."""
    rows, counts = np.unique(np.column_stack((np.minimum(seats, costs.shape[1]), costs)), axis=0, return_counts=True)
    steps: list[tuple[Fraction, int]] = []
    for row, times in zip(rows.tolist(), counts.tolist(), strict=True):
        at, have = 0, 0
        while at < row[0]:
            slope, end = min((Fraction(row[there] - have, there - at), -there) for there in range(at + 1, row[0] + 1))
            steps.append((slope, (-end - at) * times))
            at, have = -end, row[-end]
    total = Fraction(0)
    for slope, number in sorted(steps):
        taken = min(number, need)
        total += slope * taken
        need -= taken
        if not need:
            break
    return max(-(-total.numerator // total.denominator), 1)

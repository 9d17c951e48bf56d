"""Everybody who could be asked to leave in this cycle, in units (P3, P4), as arrays."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.api.names import NON_PREEMPTIBLE, SEMI_PREEMPTIBLE
from muster.api.quantity import Resources
from muster.model.gang import Gang, Leaf, Member
from muster.model.neighbours import Marks
from muster.model.roles import Unit, resources, units
from muster.placement.ledger import Ledger
from muster.planning.board import Board, Pods

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Candidate(Struct, frozen=True, eq=False):
    """A unit of a gang, and the units that must leave with it."""

    gang: Gang
    pods: Pods  # its own
    nodes: tuple[int, ...]  # where they are
    inside: tuple[int, ...]  # by number
    around: tuple[int, ...]  # units that it is inside of
    core: bool
    order: int  # of leaving, in its gang


class Crowd:
    """All candidates of a cycle; those who leave are no candidates any more."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.all: list[Candidate] = list(self._gather(board))
        self.staying = np.ones(len(self.all), dtype=bool)
        self.priority = np.array([one.gang.priority for one in self.all], dtype=np.int64)
        self.created = np.array([one.gang.created for one in self.all])
        self.order = np.array([one.order for one in self.all], dtype=np.int64)
        self.core = np.array([one.core for one in self.all], dtype=bool)
        queues = sorted({one.gang.queue for one in self.all})
        self.queues = {name: i for i, name in enumerate(queues)}
        self.queue = np.array([self.queues[one.gang.queue] for one in self.all], dtype=np.int64)
        self.gangs = {key: i for i, key in enumerate(dict.fromkeys(one.gang.key for one in self.all))}
        self.gang = np.array([self.gangs[one.gang.key] for one in self.all], dtype=np.int64)
        self.pods = np.array([len(one.pods) for one in self.all], dtype=np.int64)  # its own
        self.total = np.array([self._total(i) for i in range(len(self.all))], dtype=np.int64)  # with those inside
        self.node = np.array([self._only_node(i) for i in range(len(self.all))], dtype=np.int64)  # -1: several
        rows = [
            (number, node, board.shape(one.gang, member.name))
            for number, one in enumerate(self.all)
            for (_, member), node in zip(one.pods, one.nodes, strict=True)
        ]
        table = np.array(rows, dtype=np.int64).reshape(len(rows), 3)
        self.piece, self.piece_node, self.piece_shape = table[:, 0], table[:, 1], table[:, 2]  # one row a pod
        self.asks = np.array(board.shapes.asks, dtype=np.int64).reshape(-1, len(board.snapshot.columns))
        self.marked = [
            (number, node, marks)
            for number, one in enumerate(self.all if board.snapshot.neighbours.running else ())
            for (_, member), node in zip(one.pods, one.nodes, strict=True)
            if (marks := board.marks(one.gang, member)) != Marks()
        ]
        self.freed = self._freed()
        self.reluctant: Ints = np.lexsort((-self.order, self.created, -self.priority))  # who leaves last comes first
        self.willing: Ints = np.lexsort((self.order, -self.created, self.priority, self.total))
        self.place = np.empty(len(self.all), dtype=np.int64)  # of each among the willing
        self.place[self.willing] = np.arange(len(self.all))

    def _gather(self, board: Board) -> Iterator[Candidate]:
        first = 0
        for gang in board.snapshot.gangs:
            if gang.preemptibility == NON_PREEMPTIBLE or gang.broken:
                continue
            found = self._units(gang)
            found = found[:-1] if gang.preemptibility == SEMI_PREEMPTIBLE else found
            around: dict[int, list[int]] = {}
            for i, unit in enumerate(found):
                for inner in unit.inside:
                    around.setdefault(inner, []).append(first + i)
            for i, unit in enumerate(found):
                nodes = tuple(board.snapshot.node_index.get(member.node, -1) for _, member in unit.pods)
                inside = tuple(first + inner for inner in unit.inside)
                yield Candidate(gang, unit.pods, nodes, inside, tuple(around.get(i, ())), unit.core, i)
            first += len(found)

    def _units(self, gang: Gang) -> tuple[Unit, ...]:
        """Units with pods on nodes that are known; most gangs of a busy cluster are one core."""
        root = gang.root
        if isinstance(root, Leaf) and len(root.placed) <= root.need:
            found: tuple[Unit, ...] = (Unit(tuple((root.name, pod) for pod in root.placed), core=True),)
        else:
            found = units(root)
        known = self.board.snapshot.node_index
        if not all(member.node in known for unit in found for _, member in unit.pods):
            return ()  # a node that is gone takes its pods along: what is left is not ours to judge
        return found if any(unit.pods for unit in found) else ()

    def _total(self, number: int) -> int:
        one = self.all[number]
        return len(one.pods) + sum(len(self.all[inner].pods) for inner in one.inside)

    def _only_node(self, number: int) -> int:
        one = self.all[number]
        nodes = set(one.nodes).union(*(self.all[inner].nodes for inner in one.inside))
        return nodes.pop() if len(nodes) == 1 else -1

    def _freed(self) -> Ints:
        """What each, with those inside, frees in all."""
        own = np.zeros((len(self.all), len(self.board.snapshot.columns)), dtype=np.int64)
        np.add.at(own, self.piece, self.asks[self.piece_shape])
        rows = own.copy()
        for number, one in enumerate(self.all):
            if one.inside:
                rows[number] += own[list(one.inside)].sum(axis=0)
        return rows

    # asking ---------------------------------------------------------------------------------------------------------

    def of(self, gang: str) -> Mask:
        """The units of one gang."""
        found: Mask = self.gang == self.gangs.get(gang, -1)
        return found

    def rows(self, numbers: Iterable[int]) -> Mask:
        """The pods of some candidates, among all pods."""
        mine = np.zeros(len(self.all), dtype=bool)
        mine[list(numbers)] = True
        found: Mask = mine[self.piece]
        return found

    def without(self, ledger: Ledger, numbers: Iterable[int]) -> Ledger:
        """What is free once some candidates have left."""
        numbers = set(numbers)
        found = Ledger(ledger.shapes, ledger.free.copy(), ledger.company.copy())
        rows = self.rows(numbers)
        np.add.at(found.free, self.piece_node[rows], self.asks[self.piece_shape[rows]])
        for number, node, marks in self.marked:
            if number in numbers:
                found.company.put(node, marks, -1)
        return found

    def whole(self, numbers: Iterable[int]) -> frozenset[int]:
        """With everybody inside who is still there."""
        found = set(numbers)
        for number in tuple(found):
            found.update(self.all[number].inside)
        return frozenset(number for number in found if self.staying[number])

    def members(self, numbers: Iterable[int]) -> Iterator[tuple[Candidate, str, Member, int]]:
        """Every pod of some candidates, with its leaf and node."""
        for number in sorted(numbers):
            one = self.all[number]
            for (leaf, member), node in zip(one.pods, one.nodes, strict=True):
                yield one, leaf, member, node

    def names(self, numbers: Iterable[int]) -> Iterator[str]:
        """Every pod of some candidates, by `namespace/name`."""
        return (f"{one.gang.namespace}/{member.name}" for one, _, member, _ in self.members(numbers))

    def count(self, numbers: Iterable[int]) -> int:
        """How many pods leave."""
        return sum(len(self.all[number].pods) for number in numbers)

    def cost(self, numbers: Iterable[int]) -> tuple[Any, ...]:
        """Fewest pods, then the lower priorities from the highest down, then the youngest, then who leaves first."""
        known = [self.all[number] for number in numbers]
        return (
            sum(len(one.pods) for one in known),
            sorted((one.gang.priority for one in known), reverse=True),
            sorted(-one.gang.created for one in known)[::-1],
            sorted((one.order for one in known), reverse=True),
            sorted((one.gang.key, one.order) for one in known),
        )

    def held(self, numbers: Iterable[int]) -> dict[str, Resources]:
        """By leaf queue what some candidates hold."""
        by_queue: dict[str, list[Member]] = {}
        for number in numbers:
            one = self.all[number]
            by_queue.setdefault(one.gang.queue, []).extend(member for _, member in one.pods)
        return {queue: resources(members) for queue, members in by_queue.items()}

    # writing --------------------------------------------------------------------------------------------------------

    def leave(self, numbers: Iterable[int]) -> None:
        """They are no candidates any more; those around them have so much less to take along."""
        for number in numbers:
            one = self.all[number]
            self.staying[number] = False
            for outer in one.around:
                self.total[outer] -= len(one.pods)
                for _, member in one.pods:
                    self.freed[outer] -= self.board.shapes.asks[self.board.shape(one.gang, member.name)]

"""Queue usage as a value, and what it leaves to a gang (Q3, Q4). A hypothesis is a new value, never an undo."""

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.api.quantity import Resources
from muster.api.queue import UNLIMITED
from muster.fairness.entitlement import Excess, over_limit, over_quota_non_preemptible
from muster.fairness.order import Place, queue_order
from muster.fairness.shares import Division
from muster.model.queues import Amounts, QueueTree, plus

Ints = NDArray[np.int64]
NO_END = np.iinfo(np.int64).max // 4
Bound = tuple[str, str, int, int, int]  # queue, resource, column, limit, quota


class QueueBounds:
    """What stays the same in a cycle: the tree, fair shares, and the limits and quotas on the path of each queue."""

    def __init__(self, division: Division, columns: tuple[str, ...]) -> None:
        self.tree: QueueTree = division.tree
        self.shares: Amounts = division.shares
        self.column = {name: i for i, name in enumerate(columns)}
        self.shared = tuple(name for name in self.tree.resources if name in self.column)
        self._above: dict[str, tuple[Bound, ...]] = {}
        self._paths: dict[str, tuple[str, ...]] = {}

    def path(self, queue: str) -> tuple[str, ...]:
        """The names of a queue and its ancestors, from the top down."""
        if queue not in self._paths:
            self._paths[queue] = tuple(node.name for node in self.tree.path(queue))
        return self._paths[queue]

    def above(self, queue: str) -> tuple[Bound, ...]:
        """Every limit and quota that binds a queue: its own and those of its ancestors."""
        if queue not in self._above:
            self._above[queue] = tuple(self._bounds(queue))
        return self._above[queue]

    def _bounds(self, queue: str) -> Iterable[Bound]:
        for node in self.tree.path(queue):
            for resource, column in self.column.items():
                share = node.share(resource)
                quota = share.quota if node.governs(resource) else UNLIMITED
                if share.limit != UNLIMITED or quota != UNLIMITED:
                    yield node.name, resource, column, share.limit, quota


class QueueUsage(Struct, frozen=True, eq=False):
    """Amounts by queue, each with everything below it."""

    bounds: QueueBounds
    allocated: Amounts  # placed pods, and capacity that is reserved (nominations, moved pods)
    promised: Amounts  # the part of it that is reserved and not bound yet
    protected: Amounts  # the part of it that is non-preemptible
    terminating: Amounts  # what terminating pods still hold: it counts where pods are bound now (Q4)
    terminating_protected: Amounts  # the part of it that pods of non-preemptible gangs hold

    @property
    def tree(self) -> QueueTree:
        """The queues."""
        return self.bounds.tree

    @property
    def shares(self) -> Amounts:
        """The fair share of every queue."""
        return self.bounds.shares

    def with_(
        self,
        queue: str,
        amount: Mapping[str, int],
        protected: Mapping[str, int] | None = None,
        is_promised: bool = False,
    ) -> "QueueUsage":
        """The usage with more allocated to a queue; `is_promised`: reserved only. Negative amounts are less."""
        return replace(
            self,
            allocated=self._added(self.allocated, queue, amount),
            promised=self._added(self.promised, queue, amount) if is_promised else self.promised,
            protected=self._added(self.protected, queue, protected or {}),
        )

    def without(self, held: Mapping[str, Mapping[str, int]]) -> "QueueUsage":
        """The usage after units that hold these amounts, by queue, are gone; queues outside the tree do not count."""
        allocated = self.allocated
        for queue, amount in held.items():
            if queue in self.tree.nodes:
                allocated = self._added(allocated, queue, _negative(amount))
        return replace(self, allocated=allocated)

    def evicted(
        self, queue: str, amount: Mapping[str, int], protected: Mapping[str, int], terminating: Mapping[str, int]
    ) -> "QueueUsage":
        """The usage after pods of a queue are evicted: they hold their resources until they are gone.

        `protected`: the change of non-preemptible amounts; `terminating`: what of `amount` stays so until then.
        """
        return replace(
            self,
            allocated=self._added(self.allocated, queue, _negative(amount)),
            protected=self._added(self.protected, queue, protected),
            terminating=self._added(self.terminating, queue, amount),
            terminating_protected=self._added(self.terminating_protected, queue, terminating),
        )

    def _added(self, amounts: Amounts, queue: str, amount: Mapping[str, int]) -> Amounts:
        if not any(amount.values()):
            return amounts
        return {**amounts, **{name: plus(amounts[name], amount) for name in self.bounds.path(queue)}}

    def place(self, queue: str) -> Place:
        """The sort key of a queue among its siblings now (G4)."""
        return queue_order(self.tree.nodes[queue], self.shares[queue], self.allocated[queue])

    def allowance(self, queue: str, protected: bool, later: bool = False) -> Ints | None:
        """By column, what pods may still request within limits and, if protected, quotas; None: any amount.

        `later`: once terminating pods are gone. Until then a limit holds for what is on nodes now and for what will
        be (Q4): pods with a reservation replace terminating ones.
        """
        allowance: Ints | None = None
        for name, resource, column, limit, quota in self.bounds.above(queue):
            ends = []
            if limit != UNLIMITED:
                ends.append(limit - self._held(name, resource, later))
            if protected and quota != UNLIMITED:
                ends.append(quota - self._held_protected(name, resource, later))
            if ends:
                allowance = np.full(len(self.bounds.column), NO_END, dtype=np.int64) if allowance is None else allowance
                allowance[column] = min(allowance[column], *ends)
        return allowance

    def _held(self, queue: str, resource: str, later: bool) -> int:
        held = self.allocated[queue].get(resource, 0)
        terminating = self.terminating[queue].get(resource, 0) - self.promised[queue].get(resource, 0)
        return held if later else held + max(terminating, 0)

    def excess(
        self, queue: str, extra: Mapping[str, int], protected: Mapping[str, int], later: bool = False
    ) -> tuple[str, Excess] | None:
        """The reason why `extra` is too much, and the limit or quota that it would exceed; None: it is not."""
        over = over_limit(self.tree, self.allocated if later else self._all_held(queue, extra), queue, extra)
        if over is not None:
            return "OverLimit", over
        held_protected = self.protected if later else self._all_held_protected(queue, protected)
        over = over_quota_non_preemptible(self.tree, held_protected, queue, protected)
        return None if over is None else ("NonPreemptibleOverQuota", over)

    def _held_protected(self, queue: str, resource: str, later: bool) -> int:
        held_protected = self.protected[queue].get(resource, 0)
        return held_protected if later else held_protected + self.terminating_protected[queue].get(resource, 0)

    def _all_held(self, queue: str, wanted: Iterable[str]) -> Amounts:
        return {
            node.name: Resources({name: self._held(node.name, name, later=False) for name in wanted})
            for node in self.tree.path(queue)
        }

    def _all_held_protected(self, queue: str, wanted: Iterable[str]) -> Amounts:
        return {
            node.name: Resources({name: self._held_protected(node.name, name, later=False) for name in wanted})
            for node in self.tree.path(queue)
        }


def initial_usage(division: Division, columns: tuple[str, ...]) -> QueueUsage:
    """The usage at the start of a cycle."""
    uses, nothing = division.uses, {name: Resources() for name in division.tree.nodes}
    held = (uses.allocated, nothing, uses.non_preemptible, uses.terminating, uses.terminating_non_preemptible)
    return QueueUsage(QueueBounds(division, columns), *held)


def _negative(amount: Mapping[str, int]) -> Resources:
    return Resources({name: -number for name, number in amount.items()})

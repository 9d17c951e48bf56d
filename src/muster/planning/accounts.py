"""What queues hold while a cycle goes on, and what that leaves to a gang (Q3, Q4)."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from muster.api.quantity import Resources
from muster.api.queue import UNLIMITED
from muster.fairness.entitlement import Excess, over_limit, over_quota_non_preemptible
from muster.fairness.order import Place, place
from muster.fairness.shares import Division

Ints = NDArray[np.int64]
NO_END = np.iinfo(np.int64).max // 4


class Accounts:
    """Amounts by queue, moving with every grant and every eviction; an amount counts on every queue above, too."""

    def __init__(self, division: Division, columns: tuple[str, ...]) -> None:
        self.tree, self.shares = division.tree, division.shares
        self.allocated = {name: Resources(amount) for name, amount in division.uses.allocated.items()}
        self.protected = {name: Resources(amount) for name, amount in division.uses.non_preemptible.items()}
        self.column = {name: i for i, name in enumerate(columns)}
        self.shared = tuple(name for name in self.tree.resources if name in self.column)

    def amounts(self) -> tuple[dict[str, Resources], dict[str, Resources]]:
        """What queues hold, and what of it is protected, as values of their own."""
        allocated = {name: Resources(amount) for name, amount in self.allocated.items()}
        return allocated, {name: Resources(amount) for name, amount in self.protected.items()}

    def charge(self, queue: str, amount: Mapping[str, int], sign: int = 1) -> None:
        """Something is granted to a queue, or taken from it."""
        _add(self.allocated, [node.name for node in self.tree.path(queue)], amount, sign)

    def protect(self, queue: str, amount: Mapping[str, int], sign: int = 1) -> None:
        """What nobody may disturb becomes more, or less."""
        _add(self.protected, [node.name for node in self.tree.path(queue)], amount, sign)

    def place(self, queue: str) -> Place:
        """Where a queue stands among its siblings now (G4)."""
        return place(self.tree.nodes[queue], self.shares[queue], self.allocated[queue])

    def allowance(self, queue: str, protected: bool) -> Ints | None:
        """By column what pods may still take before a limit, or a quota of what is protected, is passed; None: any."""
        found: Ints | None = None
        for node in self.tree.path(queue):
            for resource, column in self.column.items():
                share = node.share(resource)
                ends = [share.limit - self.allocated[node.name].get(resource, 0)] if share.limit != UNLIMITED else []
                if protected and share.quota != UNLIMITED and node.governs(resource):
                    ends.append(share.quota - self.protected[node.name].get(resource, 0))
                if ends:
                    found = np.full(len(self.column), NO_END, dtype=np.int64) if found is None else found
                    found[column] = min(found[column], *ends)
        return found

    def excess(self, queue: str, extra: Mapping[str, int], protected: Mapping[str, int]) -> tuple[str, Excess] | None:
        """The reason and the amount of what more would be too much."""
        over = over_limit(self.tree, self.allocated, queue, extra)
        if over is not None:
            return "OverLimit", over
        over = over_quota_non_preemptible(self.tree, self.protected, queue, protected)
        return None if over is None else ("NonPreemptibleOverQuota", over)


def _add(amounts: dict[str, Resources], queues: Iterable[str], amount: Mapping[str, int], sign: int) -> None:
    for queue in queues:
        held = amounts[queue]
        for name, number in amount.items():
            held[name] = held.get(name, 0) + sign * number

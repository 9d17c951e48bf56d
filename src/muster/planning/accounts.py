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
Held = tuple[dict[str, Resources], ...]  # by queue
NO_END = np.iinfo(np.int64).max // 4


class Accounts:
    """Amounts by queue, moving with every grant and every eviction; an amount counts on every queue above, too."""

    def __init__(self, division: Division, columns: tuple[str, ...]) -> None:
        self.tree, self.shares = division.tree, division.shares
        self.allocated = {name: Resources(amount) for name, amount in division.uses.allocated.items()}
        self.protected = {name: Resources(amount) for name, amount in division.uses.non_preemptible.items()}
        self.terminating = {name: Resources(amount) for name, amount in division.uses.terminating.items()}
        self.terminating_protected = {
            name: Resources(amount) for name, amount in division.uses.terminating_non_preemptible.items()
        }
        self.nominated = {name: Resources() for name in self.allocated}  # the part of it that is not bound yet
        self.column = {name: i for i, name in enumerate(columns)}
        self.shared = tuple(name for name in self.tree.resources if name in self.column)

    @property
    def moving(self) -> Held:
        """All that grants and evictions change."""
        return (self.allocated, self.protected, self.terminating, self.terminating_protected, self.nominated)

    def amounts(self) -> Held:
        """What queues hold, as values of their own."""
        return tuple({name: Resources(amount) for name, amount in one.items()} for one in self.moving)

    def restore(self, held: Held) -> None:
        """As it was when `amounts` was asked."""
        self.allocated, self.protected, self.terminating, self.terminating_protected, self.nominated = held

    def charge(self, queue: str, amount: Mapping[str, int], sign: int = 1) -> None:
        """Something is granted to a queue, or taken from it."""
        _add(self.allocated, [node.name for node in self.tree.path(queue)], amount, sign)

    def protect(self, queue: str, amount: Mapping[str, int], sign: int = 1) -> None:
        """What nobody may disturb becomes more, or less."""
        _add(self.protected, [node.name for node in self.tree.path(queue)], amount, sign)

    def nominate(self, queue: str, amount: Mapping[str, int], sign: int = 1) -> None:
        """The part of what is charged that only comes once others are gone; or does not come any more."""
        _add(self.nominated, [node.name for node in self.tree.path(queue)], amount, sign)

    def terminate(self, queue: str, amount: Mapping[str, int], protected: Mapping[str, int]) -> None:
        """What was evicted is held until it is gone (Q4)."""
        path = [node.name for node in self.tree.path(queue)]
        _add(self.terminating, path, amount, 1)
        _add(self.terminating_protected, path, protected, 1)

    def place(self, queue: str) -> Place:
        """Where a queue stands among its siblings now (G4)."""
        return place(self.tree.nodes[queue], self.shares[queue], self.allocated[queue])

    def allowance(self, queue: str, protected: bool, *, binding: bool = False) -> Ints | None:
        """By column what pods may still take before a limit, or a quota of what is protected, is passed; None: any.

        Pods that are bound now come beside what is terminating, nominated ones come after it: a limit holds for what is
        on nodes now, and for what will be (Q4).
        """
        found: Ints | None = None
        for node in self.tree.path(queue):
            for resource, column in self.column.items():
                share = node.share(resource)
                held, kept = self._held(node.name, resource, binding)
                ends = [share.limit - held] if share.limit != UNLIMITED else []
                if protected and share.quota != UNLIMITED and node.governs(resource):
                    ends.append(share.quota - kept)
                if ends:
                    found = np.full(len(self.column), NO_END, dtype=np.int64) if found is None else found
                    found[column] = min(found[column], *ends)
        return found

    def _held(self, queue: str, resource: str, binding: bool) -> tuple[int, int]:
        """What a queue holds, and what of it is protected; with what is still terminating, where that counts."""
        held, kept = self.allocated[queue].get(resource, 0), self.protected[queue].get(resource, 0)
        if not binding:
            return held, kept
        more = self.terminating[queue].get(resource, 0) - self.nominated[queue].get(resource, 0)
        return held + max(more, 0), kept + self.terminating_protected[queue].get(resource, 0)

    def excess(
        self, queue: str, extra: Mapping[str, int], protected: Mapping[str, int], *, binding: bool = False
    ) -> tuple[str, Excess] | None:
        """The reason and the amount of what more would be too much; `binding` as in `allowance`."""
        held, kept = self.allocated, self.protected
        if binding:
            path = [node.name for node in self.tree.path(queue)]
            both = {(name, r): self._held(name, r, binding) for name in path for r in (*extra, *protected)}
            held = {name: Resources({r: both[name, r][0] for r in extra}) for name in path}
            kept = {name: Resources({r: both[name, r][1] for r in protected}) for name in path}
        over = over_limit(self.tree, held, queue, extra)
        if over is not None:
            return "OverLimit", over
        over = over_quota_non_preemptible(self.tree, kept, queue, protected)
        return None if over is None else ("NonPreemptibleOverQuota", over)


def _add(amounts: dict[str, Resources], queues: Iterable[str], amount: Mapping[str, int], sign: int) -> None:
    for queue in queues:
        held = amounts[queue]
        for name, number in amount.items():
            held[name] = held.get(name, 0) + sign * number

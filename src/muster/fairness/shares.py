"""Fair shares (Q3): how sibling queues divide the share of their parent, from the top down to the leaves.

Rule 1: whole numbers only, in base units (X6); no share depends on the order of the input (X3). Rule 2: a queue gets
no more than it can use, and all queues together no more than exists.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from math import lcm

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.api.quantity import Resources
from muster.api.queue import UNLIMITED
from muster.model.queues import Amounts, QueueNode, QueueTree, Uses, arrange, uses
from muster.model.snapshot import Snapshot

Ints = NDArray[np.int64]
LOWER_BITS = 24  # sums of 2^24 amounts stay within 64 bits, upper and lower bits separately


class Division(Struct, frozen=True, eq=False):
    """The resources of a cluster, divided among its queues."""

    tree: QueueTree
    uses: Uses
    pool: Resources  # what queues share
    shares: Amounts  # fair share of every queue; see `fair_shares`


class Claim(Struct, frozen=True):
    """The input of one queue to the division of one resource among siblings."""

    name: str
    want: int  # what it requests, within its limit
    quota: int = 0  # UNLIMITED: whatever it requests
    weight: Fraction = Fraction(1)
    priority: int = 100
    created: float = 0.0

    @property
    def deserves(self) -> int:
        """min(quota, demand, limit)."""
        return self.want if self.quota == UNLIMITED else min(self.quota, self.want)


class Receiver(Struct, frozen=True):
    """How much a claim can receive, and its weight among the others."""

    claim: Claim
    capacity: int
    weight: int | Fraction


def divide_cluster(snapshot: Snapshot) -> Division:
    """The queues of a snapshot, their usage and their fair shares."""
    tree = arrange(snapshot.objects.queues)
    used = uses(tree, snapshot.gangs)
    there_is = pool(snapshot, tree.resources)
    return Division(tree, used, there_is, fair_shares(tree, used.requested, there_is))


def pool(snapshot: Snapshot, resources: Iterable[str]) -> Resources:
    """What queues share: the allocatable resources of ready nodes, less what pods outside every gang hold there."""
    place = {column: i for i, column in enumerate(snapshot.columns)}

    def left(column: int) -> Ints:
        rest: Ints = np.maximum(snapshot.allocatable[:, column] - snapshot.used_outside_gangs[:, column], 0)
        return rest[snapshot.ready]

    return Resources({name: sum_exactly(left(place[name])) if name in place else 0 for name in resources})


def sum_exactly(amounts: Ints) -> int:
    """The sum of amounts of at most 2^63 each, however large it is: upper and lower bits are added separately."""
    return (int((amounts >> LOWER_BITS).sum()) << LOWER_BITS) + int((amounts & ((1 << LOWER_BITS) - 1)).sum())


def fair_shares(tree: QueueTree, requested: Amounts, pool: Mapping[str, int]) -> dict[str, Resources]:
    """The fair share of every queue by resource; without resources that neither it nor a queue below it requests.

    Top queues divide the pool, and the children of a queue divide its share. A leaf claims its requests and a branch
    the claims of its children, each within its own limit: no queue gets what the queues below it cannot use.
    """
    shares = {name: Resources() for name in tree.nodes}
    for resource in tree.resources:
        asks, wants = _sum_requests(tree, requested, resource)
        divided = divide(pool.get(resource, 0), [_claim(node, resource, wants) for node in tree.siblings()])
        for node in tree.nodes.values():
            if node.children and asks[node.name]:
                below = [_claim(child, resource, wants) for child in tree.siblings(node.name)]
                divided |= divide(divided[node.name], below)
            if asks[node.name]:
                shares[node.name][resource] = divided[node.name]
    return shares


def _sum_requests(tree: QueueTree, requested: Amounts, resource: str) -> tuple[dict[str, int], dict[str, int]]:
    """What every queue requests, and the part of it within the limits at and below it; from the bottom up."""
    asks, wants = dict.fromkeys(tree.nodes, 0), dict.fromkeys(tree.nodes, 0)
    for node in reversed(tree.nodes.values()):
        if not node.children:
            asks[node.name] = wants[node.name] = max(requested[node.name].get(resource, 0), 0)
        limit = node.share(resource).limit
        if limit != UNLIMITED:
            wants[node.name] = min(wants[node.name], limit)
        if node.parent:
            asks[node.parent] += asks[node.name]
            wants[node.parent] += wants[node.name]
    return asks, wants


def _claim(node: QueueNode, resource: str, wants: Mapping[str, int]) -> Claim:
    share = node.share(resource)
    return Claim(node.name, wants[node.name], share.quota, share.weight, node.priority, node.created)


def divide(amount: int, claims: Sequence[Claim]) -> dict[str, int]:
    """Q3 for one resource among siblings: first min(quota, demand, limit), then the surplus; both by priority.

    Where the quotas alone exceed the amount, those of a higher priority are met first, and within one priority they
    shrink in proportion: an unlimited quota weighs as much as the amount, or as the largest quota beside it.
    The surplus goes to the highest priority as far as it can use it, and within one priority by `overQuotaWeight`.
    """
    whole = max([amount, 1, *(claim.quota for claim in claims)])
    deserved = _by_priority(amount, [Receiver(claim, claim.deserves, _quota_weight(claim, whole)) for claim in claims])
    surplus = amount - sum(deserved.values())
    more = _by_priority(
        surplus, [Receiver(claim, claim.want - deserved[claim.name], claim.weight) for claim in claims if surplus]
    )
    return {claim.name: deserved[claim.name] + more.get(claim.name, 0) for claim in claims}


def _quota_weight(claim: Claim, whole: int) -> int:
    return whole if claim.quota == UNLIMITED else claim.quota


def _by_priority(amount: int, receivers: Iterable[Receiver]) -> dict[str, int]:
    """Divide by priority: the highest receives what it can, the next one from what is left, and so on."""
    parts: dict[str, int] = {}
    for _, level in groupby(sorted(receivers, key=_priority), key=_priority):
        parts_of_level = divide_by_weight(amount, list(level))
        amount -= sum(parts_of_level.values())
        parts |= parts_of_level
    return parts


def _priority(receiver: Receiver) -> int:
    return -receiver.claim.priority


def divide_by_weight(amount: int, receivers: Sequence[Receiver]) -> dict[str, int]:
    """Fill receivers in proportion to their weights until they are full or nothing is left.

    Indivisible units go to the largest remainders, then to older queues, then by name. More capacity never means a
    smaller part: the parts of others only shrink, so no remainder that was smaller becomes the larger one.
    """
    parts = {receiver.claim.name: 0 for receiver in receivers}
    scale = lcm(*(receiver.weight.denominator for receiver in receivers))
    weights = {
        receiver.claim.name: receiver.weight.numerator * (scale // receiver.weight.denominator)
        for receiver in receivers
    }
    unfilled = [receiver for receiver in receivers if receiver.capacity > 0 and receiver.weight > 0]
    if len(unfilled) > 1:
        unfilled.sort(key=lambda receiver: Fraction(receiver.capacity, weights[receiver.claim.name]), reverse=True)
    together = sum(weights[receiver.claim.name] for receiver in unfilled)
    while unfilled and unfilled[-1].capacity * together <= amount * weights[unfilled[-1].claim.name]:
        full = unfilled.pop()
        parts[full.claim.name] = full.capacity
        amount -= full.capacity
        together -= weights[full.claim.name]
    if not unfilled:
        return parts
    remainders = []
    for receiver in unfilled:
        parts[receiver.claim.name], rest = divmod(amount * weights[receiver.claim.name], together)
        remainders.append((-rest, receiver.claim.created, receiver.claim.name))
    spare = amount - sum(parts[receiver.claim.name] for receiver in unfilled)
    for _, _, name in sorted(remainders)[:spare]:
        parts[name] += 1
    return parts

"""Fair shares (Q3): how the queues of one level divide what the queue above them has, down to the leaves.

Rule 1: whole numbers only, in base units (X6); no share depends on the order of the input (X3). Rule 2: a queue is
given no more than it can use, and all of them no more than there is.
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
LOWER_BITS = 24  # sums of 2^24 amounts stay within 64 bits, upper and lower bits by themselves


class Division(Struct, frozen=True, eq=False):
    """The cluster as its queues share it."""

    tree: QueueTree
    uses: Uses
    pool: Resources  # what there is to share
    shares: Amounts  # fair share of every queue; see `fair_shares`


class Claim(Struct, frozen=True):
    """What one queue brings to the division of one resource among its siblings."""

    name: str
    want: int  # what it asks for, within its limit
    quota: int = 0  # UNLIMITED: whatever it asks for
    weight: Fraction = Fraction(1)
    priority: int = 100
    created: float = 0.0

    @property
    def deserves(self) -> int:
        """min(quota, demand, limit)."""
        return self.want if self.quota == UNLIMITED else min(self.quota, self.want)


class Receiver(Struct, frozen=True):
    """Who can take how much, and how fast it fills beside others."""

    claim: Claim
    capacity: int
    weight: int | Fraction


def divide_cluster(snapshot: Snapshot) -> Division:
    """Queues, what they use and what they deserve at one moment."""
    tree = arrange(snapshot.objects.queues)
    used = uses(tree, snapshot.gangs)
    there_is = pool(snapshot, tree.resources)
    return Division(tree, used, there_is, fair_shares(tree, used.requested, there_is))


def pool(snapshot: Snapshot, resources: Iterable[str]) -> Resources:
    """What queues can share: all that ready nodes have, without what pods outside every gang hold there."""
    place = {column: i for i, column in enumerate(snapshot.columns)}

    def left(column: int) -> Ints:
        rest: Ints = np.maximum(snapshot.allocatable[:, column] - snapshot.used_outside_gangs[:, column], 0)
        return rest[snapshot.ready]

    return Resources({name: sum_exactly(left(place[name])) if name in place else 0 for name in resources})


def sum_exactly(amounts: Ints) -> int:
    """The sum of amounts of at most 2^63 each, however large it is: upper and lower bits are added by themselves."""
    return (int((amounts >> LOWER_BITS).sum()) << LOWER_BITS) + int((amounts & ((1 << LOWER_BITS) - 1)).sum())


def fair_shares(tree: QueueTree, requested: Amounts, pool: Mapping[str, int]) -> dict[str, Resources]:
    """The fair share of every queue by resource; a resource is there where the queue, or one below it, asks for it.

    Top queues divide the pool, and the children of a queue divide its share. A leaf wants what it asks for and a
    branch what its children want, each within its own limit: nothing is set aside that could not be used below.
    """
    shares = {name: Resources() for name in tree.nodes}
    for resource in tree.resources:
        asks, wants = _asked(tree, requested, resource)
        divided = divide(pool.get(resource, 0), [_claim(node, resource, wants) for node in tree.siblings()])
        for node in tree.nodes.values():
            if node.children and asks[node.name]:
                below = [_claim(child, resource, wants) for child in tree.siblings(node.name)]
                divided |= divide(divided[node.name], below)
            if asks[node.name]:
                shares[node.name][resource] = divided[node.name]
    return shares


def _asked(tree: QueueTree, requested: Amounts, resource: str) -> tuple[dict[str, int], dict[str, int]]:
    """What every queue asks for, and what of it lies within the limits at and below it; from the bottom up."""
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

    Where the quotas alone are more than there is, those of a higher priority are met first, and within one priority
    they shrink in proportion: an unlimited quota weighs as much as everything, or as the largest quota beside it.
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
    """The highest priority takes what it can, the next one of what is left, and so on."""
    parts: dict[str, int] = {}
    for _, level in groupby(sorted(receivers, key=_priority), key=_priority):
        parts_of_level = divide_by_weight(amount, list(level))
        amount -= sum(parts_of_level.values())
        parts |= parts_of_level
    return parts


def _priority(receiver: Receiver) -> int:
    return -receiver.claim.priority


def divide_by_weight(amount: int, receivers: Sequence[Receiver]) -> dict[str, int]:
    """Fill cups in proportion to their weights until they are full or nothing is left.

    What cannot be split goes to the largest remainders, then to older queues, then by name. Nobody ever has less for
    having more room: the others' parts only shrink, so no remainder that was behind comes to be ahead.
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

"""The order between queues (G4). A sort key, not a comparator; fractions, never floats (X6)."""

from collections.abc import Mapping
from fractions import Fraction

from muster.model.queues import Amounts, QueueNode, QueueTree

Dominant = tuple[bool, Fraction]  # whether it holds a resource of which its share is 0; else the largest fraction
Place = tuple[bool, int, Dominant, float, str]
Rank = tuple[Place, ...]


def rank(tree: QueueTree, shares: Amounts, allocated: Amounts, queue: str) -> Rank:
    """The sort key of leaf queues, fair at every level: siblings are compared where their paths part.

    A queue that has reached its fair share waits for those that have not, whatever its priority: the share of a high
    priority contains all the surplus already, and more would come from the shares of others. Then higher priority,
    smaller dominant share, age and name. Every allocation raises the dominant share of its queue: no queue starves.
    """
    return tuple(queue_order(node, shares[node.name], allocated[node.name]) for node in tree.path(queue))


def queue_order(node: QueueNode, share: Mapping[str, int], allocated: Mapping[str, int]) -> Place:
    """The sort key of a queue among its siblings."""
    return (
        has_reached_share(share, allocated),
        -node.priority,
        dominant_share(share, allocated),
        node.created,
        node.name,
    )


def has_reached_share(share: Mapping[str, int], allocated: Mapping[str, int]) -> bool:
    """Whether a queue has all of its fair share of some resource that it requests."""
    return any(allocated.get(resource, 0) >= amount for resource, amount in share.items())


def dominant_share(share: Mapping[str, int], allocated: Mapping[str, int]) -> Dominant:
    """The largest fraction of its fair share that a queue has allocated, of all resources."""
    part, of = 0, 1
    for resource, amount in share.items():
        held = allocated.get(resource, 0)
        if held > 0 and not amount:
            return (True, Fraction(0))
        if held * of > part * amount:
            part, of = held, amount
    return (False, Fraction(part, of))

"""What a queue may allocate (Q4, Q2). Pure: a hypothesis is another mapping of amounts, see `model.queues.charged`."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from muster.api.queue import UNLIMITED
from muster.model.queues import Amounts, QueueTree

Closed = Literal["", "QueueDoesNotExist", "QueueNotInTree", "QueueNotALeaf"]


class Excess(Struct, frozen=True):
    """The limit or quota of a queue that an allocation would exceed."""

    queue: str  # the queue itself, or one above it
    resource: str
    allowed: int
    held: int
    extra: int


def why_closed(tree: QueueTree, queue: str) -> Closed:
    """Why no workload is scheduled from a queue (Q1, Q2); empty: it is a leaf of the tree."""
    if queue in tree.outside:
        return "QueueNotInTree"
    if queue not in tree.nodes:
        return "QueueDoesNotExist"
    return "QueueNotALeaf" if tree.nodes[queue].children else ""


def over_limit(tree: QueueTree, allocated: Amounts, queue: str, extra: Mapping[str, int]) -> Excess | None:
    """The limit that `extra` would exceed, on the nearest queue first (Q4); an amount of 0 exceeds none."""
    for node in reversed(tree.path(queue)):
        for resource, more in sorted(extra.items()):
            limit, held = node.share(resource).limit, allocated[node.name].get(resource, 0)
            if more > 0 and limit != UNLIMITED and held + more > limit:
                return Excess(node.name, resource, limit, held, more)
    return None


def over_quota_non_preemptible(
    tree: QueueTree, non_preemptible: Amounts, queue: str, extra: Mapping[str, int]
) -> Excess | None:
    """The quota that non-preemptible `extra` would exceed, on the nearest queue first (Q4).

    An omitted quota of cpu, memory or gpu is 0; a quota of another resource binds only queues that name it.
    """
    for node in reversed(tree.path(queue)):
        for resource, more in sorted(extra.items()):
            quota, held = node.share(resource).quota, non_preemptible[node.name].get(resource, 0)
            if more > 0 and node.governs(resource) and quota != UNLIMITED and held + more > quota:
                return Excess(node.name, resource, quota, held, more)
    return None

"""What is allocated in a simulated cluster: in all, by queue and by node; kept up to date at the cost of each change.

Amounts are in base units. A pod holds what it requests from its binding until it is gone. A node that is not ready, or
takes no pods, has no capacity.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from muster.api.core import Node, Pod
from muster.api.names import GPU
from muster.api.topology import Topology
from muster.model.gang.pod_state import holds_resources
from muster.model.topology import NOWHERE, arrange
from muster.validation.pods.membership import gang_of
from muster.validation.pods.requests import requests

Ints = NDArray[np.int64]
COUNTED_APART = ("pods", "ephemeral-storage")  # of no interest in figures


class ResourceUsage:
    """Sums over nodes and pods."""

    def __init__(self, nodes: Sequence[Node], topologies: Sequence[Topology]) -> None:
        ordered = sorted(nodes, key=lambda node: node.metadata.name)
        self._index = {node.metadata.name: i for i, node in enumerate(ordered)}
        self._stated = {node.metadata.name: node.status.allocatable or node.status.capacity for node in ordered}
        self._open: dict[str, bool] = {}
        self.resources = sorted({name for stated in self._stated.values() for name in stated} - {*COUNTED_APART})
        self.capacity: Counter[str] = Counter()
        self.allocated: Counter[str] = Counter()
        self.by_queue: dict[str, Counter[str]] = defaultdict(Counter)
        self.queue_of: dict[str, str] = {}  # by gang
        self.gpus = np.array([stated.get(GPU, 0) for stated in self._stated.values()], dtype=np.int64)
        self._free_gpus = self.gpus.copy()
        self._is_open = np.zeros(len(ordered), dtype=bool)
        self.domain_of, self.level, self.domains = _finest_level(ordered, topologies)
        for node in ordered:
            self.set_open(node)

    def set_open(self, node: Node) -> None:
        """A node changed: it counts if it is ready and takes pods."""
        name = node.metadata.name
        is_ready = all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")
        is_open = is_ready and not node.spec.unschedulable
        if is_open != self._open.get(name, False):
            for resource, amount in self._stated[name].items():
                self.capacity[resource] += amount if is_open else -amount
        self._open[name] = is_open
        self._is_open[self._index[name]] = is_open

    def update(self, before: Pod | None, after: Pod | None) -> None:
        """A pod changed."""
        if before is not None and after is not None and _node(before) == _node(after):
            return
        for pod, sign in ((before, -1), (after, 1)):
            if pod is not None and _node(pod):
                self._add(pod, sign)

    def _add(self, pod: Pod, sign: int) -> None:
        queue = self.queue_of.get(gang_of(pod) or "")
        for resource, amount in requests(pod.spec).items():
            self.allocated[resource] += sign * amount
            if queue is not None:
                self.by_queue[queue][resource] += sign * amount
            if resource == GPU and pod.spec.node_name in self._index:
                self._free_gpus[self._index[pod.spec.node_name]] -= sign * amount

    def node_number(self, node: str) -> int:
        """The number of a node, in the order of names."""
        return self._index[node]

    def stated_by_node(self) -> dict[str, Ints]:
        """By resource, what each node has, in the order of names."""
        names = {name for stated in self._stated.values() for name in stated}
        rows = self._stated.values()
        return {name: np.array([stated.get(name, 0) for stated in rows], dtype=np.int64) for name in sorted(names)}

    def idle_gpus(self) -> Ints:
        """Free GPUs of every node that takes pods; nodes that do not have none."""
        return np.where(self._is_open, np.maximum(self._free_gpus, 0), 0)

    def gpus_by_domain(self) -> tuple[list[int], list[int]]:
        """By domain of the finest level: GPUs that pods hold, and GPUs of nodes that take pods."""
        assert self.domain_of is not None
        is_inside = self.domain_of != NOWHERE
        held, offered = self.gpus - self._free_gpus, np.where(self._is_open, self.gpus, 0)
        sums = (
            np.bincount(self.domain_of[is_inside], weights=amounts[is_inside], minlength=len(self.domains))
            for amounts in (held, offered)
        )
        used, capacity = ([int(number) for number in each.tolist()] for each in sums)
        return used, capacity

    def largest_free(self) -> tuple[int, int]:
        """The most free GPUs of one node, and of one domain of the finest level; without a level, of the cluster."""
        idle = self.idle_gpus()
        if not len(idle):
            return 0, 0
        if self.domain_of is None:
            return int(idle.max()), int(idle.sum())
        known = self.domain_of != NOWHERE
        sums = np.bincount(self.domain_of[known], weights=idle[known]) if known.any() else np.zeros(1)
        return int(idle.max()), int(sums.max())


def _node(pod: Pod) -> str:
    return pod.spec.node_name if holds_resources(pod) else ""


def _finest_level(nodes: Sequence[Node], topologies: Sequence[Topology]) -> tuple[Ints | None, str, tuple[str, ...]]:
    """The domain of every node at the finest level above single nodes, the name of that level, and of its domains."""
    for topology in topologies:
        for level in reversed(arrange(topology, nodes).levels):
            if len(level.paths) < len(nodes):
                return level.domain, level.label.rsplit("/", 1)[-1], level.paths
    return None, "", ()

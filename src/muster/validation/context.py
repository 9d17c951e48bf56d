"""The objects around one under validation, with indexes that all validations share."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from msgspec import Struct

from muster.api import names
from muster.api.core import Node, Pod
from muster.api.decoding import decode
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.api.grove.topology_binding import ClusterTopologyBinding
from muster.api.objects import Objects, key
from muster.api.quantity import Resources
from muster.api.queue import Queue
from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS, POD_CLIQUE_SETS, Resource
from muster.api.topology import Topology
from muster.validation.podgroup import outline
from muster.validation.pods.pods_by_gang import group_by_gang
from muster.validation.pods.requests import requests
from muster.validation.topology import find_level

Requests = frozenset[tuple[str, int]]  # of one pod; the pods of a gang have few different ones
Members = Callable[[str], Iterable[Pod]]  # the pods of a gang, by its identity
ReadOthers = Callable[[Resource], Iterable[dict[str, Any]]]  # all objects of a kind that planning does not read


class Tree(Struct, frozen=True):
    """The names of a PodGroup's groups: pods may name leaves only."""

    leaves: frozenset[str]
    branches: frozenset[str]


class ClusterCapacity:
    """What nodes can allocate, one by one and summed by domain."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes
        self._largest: dict[tuple[str, ...], Mapping[str, int]] = {}

    @cached_property
    def node_sizes(self) -> tuple[Mapping[str, int], ...]:
        """Each different node size once: there are few, however many nodes."""
        return tuple({frozenset(size.items()): size for size in map(_allocatable, self.nodes)}.values())

    def largest_domain(self, labels: tuple[str, ...]) -> Mapping[str, int]:
        """For each resource, the largest sum of one domain; a node without one of the labels is in none (T5)."""
        if labels not in self._largest:
            self._largest[labels] = self._sum_domains(labels)
        return self._largest[labels]

    def _sum_domains(self, labels: tuple[str, ...]) -> Mapping[str, int]:
        domains: dict[tuple[str, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for node in self.nodes:
            if all(label in node.metadata.labels for label in labels):
                domain = domains[tuple(node.metadata.labels[label] for label in labels)]
                for resource, amount in _allocatable(node).items():
                    domain[resource] += amount
        largest: dict[str, int] = {}
        for domain in domains.values():
            for resource, amount in domain.items():
                largest[resource] = max(amount, largest.get(resource, 0))
        return largest


class GangDemands(Protocol):
    """What the pods of gangs request."""

    def of(self, gang: str) -> Mapping[str, Counter[Requests]]:
        """The number of pods for each different request, by SubGroup."""


class PodDemands:
    """The requests of a gang's pods, by SubGroup; a succeeded pod requests nothing (N5)."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._known: dict[str, Mapping[str, Counter[Requests]]] = {}

    def of(self, gang: str) -> Mapping[str, Counter[Requests]]:
        """The number of pods for each different request, by SubGroup; failed and terminating pods do not count."""
        if gang not in self._known:
            counts: dict[str, Counter[Requests]] = defaultdict(Counter)
            for pod in self._members(gang):
                if pod.status.phase != "Failed" and pod.metadata.deletion_timestamp is None:
                    requested = Resources() if pod.status.phase == "Succeeded" else requests(pod.spec)
                    counts[pod.metadata.labels.get(names.SUBGROUP, "")][frozenset(requested.items())] += 1
            self._known[gang] = dict(counts)
        return self._known[gang]


def _allocatable(node: Node) -> Mapping[str, int]:
    return node.status.allocatable or node.status.capacity


class ValidationContext:
    """Objects with indexes, each built on first use.

    `members` returns the pods of a gang where an index exists already; by default this class builds one. `demands`
    returns what they request, where that is counted already. `whole`: the
    objects are all that exist, as in a live cluster; an object that is not in some files may exist elsewhere.
    `read_others`: returns all of Grove's objects of a kind; by default, what the objects hold of them. `schedulers`:
    the names of ours; empty: they are not known.
    """

    def __init__(
        self,
        objects: Objects | None = None,
        members: Members | None = None,
        *,
        demands: GangDemands | None = None,
        whole: bool = False,
        read_others: ReadOthers | None = None,
        schedulers: Sequence[str] = (),
    ) -> None:
        self.schedulers = schedulers
        self.objects, self.whole, self._read_others = objects or Objects(), whole, read_others
        self._members: Members = members or (lambda gang: self.pods.get(gang, ()))
        self._levels: dict[tuple[str, str], int | None] = {}
        if demands is not None:
            self.demands = demands

    def after(self, before: "ValidationContext", *, same_pods: bool) -> "ValidationContext":
        """This context, with sums of an earlier one that still hold; `same_pods`: also those of gangs' pods."""
        if before.objects.nodes is self.objects.nodes:
            self.capacity = before.capacity
        if same_pods and "demands" in vars(before) and "demands" not in vars(self):
            self.demands = before.demands
        return self

    @cached_property
    def capacity(self) -> ClusterCapacity:
        """The capacity of all nodes."""
        return ClusterCapacity(self.objects.nodes)

    @cached_property
    def queues(self) -> dict[str, Queue]:
        """Queues by name."""
        return {queue.metadata.name: queue for queue in self.objects.queues}

    @cached_property
    def child_queues(self) -> dict[str, list[Queue]]:
        """Queues by the name of their parent."""
        children: dict[str, list[Queue]] = defaultdict(list)
        for queue in self.objects.queues:
            children[queue.spec.parent_queue].append(queue)
        return dict(children)

    @cached_property
    def topologies(self) -> dict[str, Topology]:
        """Topologies by name."""
        return {topology.metadata.name: topology for topology in self.objects.topologies}

    def _others(self, resource: Resource) -> Iterable[dict[str, Any]]:
        if self._read_others is not None:
            return self._read_others(resource)
        kind = (resource.api_version, resource.kind)
        return [other.raw for other in self.objects.others if other.kind == kind]

    @cached_property
    def topology_bindings(self) -> dict[str, ClusterTopologyBinding] | None:
        """ClusterTopologyBindings by name; None: which there are is not known, as files hold none."""
        bindings = [decode(raw, ClusterTopologyBinding)[0] for raw in self._others(CLUSTER_TOPOLOGY_BINDINGS)]
        if not bindings and self._read_others is None:
            return None
        return {binding.metadata.name: binding for binding in bindings}

    @cached_property
    def clique_sets(self) -> dict[str, list[PodCliqueSet]]:
        """PodCliqueSets by namespace."""
        sets: dict[str, list[PodCliqueSet]] = defaultdict(list)
        for raw in self._others(POD_CLIQUE_SETS):
            pcs, _ = decode(raw, PodCliqueSet)
            sets[pcs.metadata.namespace or names.DEFAULT_NAMESPACE].append(pcs)
        return dict(sets)

    def level(self, topology: Topology, word: str) -> int | None:
        """`find_level`, cached: the groups of a gang name few levels."""
        cache_key = topology.metadata.name, word
        if cache_key not in self._levels:
            self._levels[cache_key] = find_level(topology, word)
        return self._levels[cache_key]

    @cached_property
    def trees(self) -> dict[str, Tree]:
        """The tree of every PodGroup, by namespace/name."""
        trees = {}
        for group in self.objects.pod_groups:
            places = outline(group.spec).places
            leaves = frozenset(place.name for place in places if not place.children)
            trees[key(group.metadata)] = Tree(leaves, frozenset(place.name for place in places if place.children))
        return trees

    @cached_property
    def demands(self) -> GangDemands:
        """The requests of gangs' pods."""
        return PodDemands(self._members)

    @cached_property
    def pods(self) -> dict[str, list[Pod]]:
        """The pods of every gang, by namespace/name."""
        return group_by_gang(self.objects.pods)

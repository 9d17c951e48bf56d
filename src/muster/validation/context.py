"""What lies around an object that is judged, looked up once however many objects ask."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from msgspec import Struct

from muster.api import names
from muster.api.core import Node, Pod
from muster.api.objects import Objects, key
from muster.api.quantity import Resources
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.validation.podgroup import outline
from muster.validation.pods.pods_by_gang import group_by_gang
from muster.validation.pods.requests import requests
from muster.validation.topology import find_level

Kind = frozenset[tuple[str, int]]  # what a pod asks for; pods of a gang ask for few different things
Members = Callable[[str], Iterable[Pod]]  # the pods of a gang, by its identity


class Tree(Struct, frozen=True):
    """The groups of a PodGroup by what pods may name."""

    leaves: frozenset[str]
    branches: frozenset[str]


class Ground:
    """What nodes have, each by itself and together in domains."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes
        self._most: dict[tuple[str, ...], Mapping[str, int]] = {}

    @cached_property
    def rooms(self) -> tuple[Mapping[str, int], ...]:
        """Every size of node once: there are few, however many nodes."""
        return tuple({frozenset(room.items()): room for room in map(_room, self.nodes)}.values())

    def most(self, labels: tuple[str, ...]) -> Mapping[str, int]:
        """For each resource the most that one domain has in all; nodes without one of the labels are in none (T5)."""
        if labels not in self._most:
            self._most[labels] = self._summed(labels)
        return self._most[labels]

    def _summed(self, labels: tuple[str, ...]) -> Mapping[str, int]:
        domains: dict[tuple[str, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for node in self.nodes:
            if all(label in node.metadata.labels for label in labels):
                domain = domains[tuple(node.metadata.labels[label] for label in labels)]
                for resource, amount in _room(node).items():
                    domain[resource] += amount
        most: dict[str, int] = {}
        for domain in domains.values():
            for resource, amount in domain.items():
                most[resource] = max(amount, most.get(resource, 0))
        return most


class PodDemands:
    """What the pods of a gang still ask for, by the SubGroup that they name: those that are done, nothing (N5)."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._known: dict[str, Mapping[str, Counter[Kind]]] = {}

    def of(self, gang: str) -> Mapping[str, Counter[Kind]]:
        """How many ask for what, by name of the SubGroup; pods that have failed or are leaving do not count."""
        if gang not in self._known:
            found: dict[str, Counter[Kind]] = defaultdict(Counter)
            for pod in self._members(gang):
                if pod.status.phase != "Failed" and pod.metadata.deletion_timestamp is None:
                    asked = Resources() if pod.status.phase == "Succeeded" else requests(pod.spec)
                    found[pod.metadata.labels.get(names.SUBGROUP, "")][frozenset(asked.items())] += 1
            self._known[gang] = dict(found)
        return self._known[gang]


def _room(node: Node) -> Mapping[str, int]:
    return node.status.allocatable or node.status.capacity


class ValidationContext:
    """Objects with indexes that are made when they are first needed.

    `members` finds the pods of a gang where somebody knows them already; else they are looked up among the objects.
    `whole`: the objects are all there are, as of a live cluster; of files, what is not there may be elsewhere.
    """

    def __init__(self, objects: Objects | None = None, members: Members | None = None, *, whole: bool = False) -> None:
        self.objects, self.whole = objects or Objects(), whole
        self._members: Members = members or (lambda gang: self.pods.get(gang, ()))
        self._levels: dict[tuple[str, str], int | None] = {}

    def after(self, before: "ValidationContext", *, same_pods: bool) -> "ValidationContext":
        """This, with what was looked up before as far as it holds; `same_pods`: gangs' pods of then are near enough."""
        if before.objects.nodes is self.objects.nodes:
            self.ground = before.ground
        if same_pods and "asked" in vars(before):
            self.asked = before.asked
        return self

    @cached_property
    def ground(self) -> Ground:
        """Of all nodes."""
        return Ground(self.objects.nodes)

    @cached_property
    def queues(self) -> dict[str, Queue]:
        """By name."""
        return {queue.metadata.name: queue for queue in self.objects.queues}

    @cached_property
    def child_queues(self) -> dict[str, list[Queue]]:
        """By the name of their parent."""
        found: dict[str, list[Queue]] = defaultdict(list)
        for queue in self.objects.queues:
            found[queue.spec.parent_queue].append(queue)
        return dict(found)

    @cached_property
    def topologies(self) -> dict[str, Topology]:
        """By name."""
        return {topology.metadata.name: topology for topology in self.objects.topologies}

    def level(self, topology: Topology, word: str) -> int | None:
        """`find_level`, once for every word: the groups of a gang name few."""
        known = topology.metadata.name, word
        if known not in self._levels:
            self._levels[known] = find_level(topology, word)
        return self._levels[known]

    @cached_property
    def trees(self) -> dict[str, Tree]:
        """Of every PodGroup, by identity."""
        found = {}
        for group in self.objects.pod_groups:
            places = outline(group.spec).places
            leaves = frozenset(place.name for place in places if not place.children)
            found[key(group.metadata)] = Tree(leaves, frozenset(place.name for place in places if place.children))
        return found

    @cached_property
    def asked(self) -> PodDemands:
        """What the pods of gangs ask for."""
        return PodDemands(self._members)

    @cached_property
    def pods(self) -> dict[str, list[Pod]]:
        """Of every gang, by identity."""
        return group_by_gang(self.objects.pods)

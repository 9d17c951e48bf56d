"""What lies around an object that is judged, looked up once however many objects ask."""

from collections import defaultdict
from functools import cached_property

from msgspec import Struct

from muster.api.core import Pod
from muster.api.objects import Objects, key
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.rules.membership import gang_of
from muster.rules.podgroup import outline


class Tree(Struct, frozen=True):
    """The groups of a PodGroup by what pods may name."""

    leaves: frozenset[str]
    branches: frozenset[str]


class Around:
    """Objects with indexes that are made when they are first needed."""

    def __init__(self, objects: Objects | None = None) -> None:
        self.objects = objects or Objects()

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
    def pods(self) -> dict[str, list[Pod]]:
        """Of every gang, by identity."""
        found: dict[str, list[Pod]] = defaultdict(list)
        for pod in self.objects.pods:
            gang = gang_of(pod)
            if gang is not None:
                found[gang].append(pod)
        return dict(found)

"""The objects around those under review, of watches of their own: only the kinds and fields that validation reads.

Pods are not among them: another process caches them already, and sends what gangs request (`gang_demands`).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from muster.api.core import Node, NodeStatus, PriorityClass
from muster.api.decoding import decode
from muster.api.meta import ObjectMeta, Wire
from muster.api.objects import FIELDS, Objects
from muster.api.queue import Queue
from muster.api.resources import (
    CLUSTER_TOPOLOGY_BINDINGS,
    NODES,
    POD_CLIQUE_SETS,
    PRIORITY_CLASSES,
    QUEUES,
    TOPOLOGIES,
    Resource,
)
from muster.api.topology import Topology
from muster.kube.cache.reflector import (
    ListCompleted,
    ObjectDeleted,
    ObjectUpdated,
    Reflector,
    ReflectorHealth,
)
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.kube.stored_object import identity
from muster.observability.logging import logger
from muster.validation.context import ReadOthers, ValidationContext
from muster.webhook.process.gang_demands import ReceivedDemands

KINDS: Mapping[Resource, type[Wire]] = {
    QUEUES: Queue,
    TOPOLOGIES: Topology,
    PRIORITY_CLASSES: PriorityClass,
    NODES: Node,
}
GROVE = (CLUSTER_TOPOLOGY_BINDINGS, POD_CLIQUE_SETS)
ABSENT = 404  # a kind that the cluster does not have


class AdmissionCache:
    """Objects as of the last watch events. `watches_grove`: whether PodCliqueSets are validated against each other."""

    def __init__(
        self, cluster: Cluster, demands: ReceivedDemands, schedulers: Sequence[str], *, watches_grove: bool
    ) -> None:
        self._cluster, self._demands, self._schedulers = cluster, demands, schedulers
        self._structs: dict[Resource, dict[tuple[str, str], Wire]] = {resource: {} for resource in KINDS}
        self._listed: dict[Resource, tuple[Wire, ...]] = {}  # the same values until a kind changes
        self._others: dict[Resource, dict[tuple[str, str], Raw]] = (
            {resource: {} for resource in GROVE} if watches_grove else {}
        )
        self.health = {
            resource: ReflectorHealth(on_change=_log_change(resource)) for resource in (*KINDS, *self._others)
        }

    def context(self) -> ValidationContext:
        """The cluster around one review; whole once every kind is listed."""
        fields: dict[str, Any] = {FIELDS[struct]: self._values(resource) for resource, struct in KINDS.items()}
        return ValidationContext(
            Objects(**fields),
            demands=self._demands,
            whole=all(self.health[resource].has_synced for resource in KINDS),
            read_others=self._reader,
            schedulers=self._schedulers,
        )

    @property
    def _reader(self) -> ReadOthers | None:
        """None: not all bindings and sets are known."""
        is_known = bool(self._others) and all(self.health[resource].has_synced for resource in self._others)
        return self._read_others if is_known else None

    def _read_others(self, resource: Resource) -> Iterable[Raw]:
        return tuple(self._others[resource].values())

    def _values(self, resource: Resource) -> tuple[Wire, ...]:
        if resource not in self._listed:
            self._listed[resource] = tuple(self._structs[resource].values())
        return self._listed[resource]

    async def run(self) -> None:
        """Watches without end."""
        async with asyncio.TaskGroup() as tasks:
            for resource in self.health:
                tasks.create_task(self._reflect(resource), name=f"reflect {resource.plural}")

    async def _reflect(self, resource: Resource) -> None:
        reflector = Reflector(self._cluster, resource, health=self.health[resource])
        async with aclosing(reflector.events()) as events:
            async for event in events:
                match event:
                    case ObjectUpdated(object=raw):
                        self._put(resource, raw)
                    case ObjectDeleted(object=raw):
                        self._drop(resource, identity(raw))
                    case ListCompleted():
                        pass

    def _put(self, resource: Resource, raw: Raw) -> None:
        if resource in self._others:
            self._others[resource][identity(raw)] = _without_managers(raw)
            return
        value = _reduce(decode(raw, KINDS[resource])[0])
        if self._structs[resource].get(identity(raw)) != value:
            self._structs[resource][identity(raw)] = value
            self._listed.pop(resource, None)

    def _drop(self, resource: Resource, key: tuple[str, str]) -> None:
        if resource in self._others:
            self._others[resource].pop(key, None)
        elif self._structs[resource].pop(key, None) is not None:
            self._listed.pop(resource, None)


def _reduce(value: Wire) -> Wire:
    """Without what no rule reads and every write changes: sums over nodes hold for longer."""
    if isinstance(value, Node):
        meta, status = value.metadata, value.status
        return Node(
            ObjectMeta(name=meta.name, labels=meta.labels),
            status=NodeStatus(allocatable=status.allocatable, capacity=status.capacity),
        )
    if isinstance(value, Queue | Topology | PriorityClass):
        return replace(value, metadata=replace(value.metadata, resource_version=""))
    return value


def _without_managers(raw: Raw) -> Raw:
    """Often the larger part of an object."""
    return {**raw, "metadata": {name: value for name, value in raw["metadata"].items() if name != "managedFields"}}


def _log_change(resource: Resource) -> Callable[[ApiError | None], None]:
    log = logger("webhook")

    def changed(problem: ApiError | None) -> None:
        if problem is None:
            log.info("watch is back", resource=resource.plural)
        elif problem.status != ABSENT or resource not in GROVE:
            log.warning("watch is lost", resource=resource.plural, reason=problem.reason, what=problem.message)

    return changed

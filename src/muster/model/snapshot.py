"""The cluster at one moment, as a value: `take(objects, now)` is its definition.

Nodes are sorted by name and everything that moves is an integer array by node and column. A column is a resource,
`pods`, or a host port: whatever a node has a number of and a pod takes away from.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.api import names
from muster.api.core import Node, Pod, PodSpec, Taint
from muster.api.objects import Objects, key
from muster.model.gang import Gang, Leaf, State, muster, state, walk
from muster.model.neighbours import ALONE, Neighbours, alone_columns, gather, looked_at
from muster.model.topology import TopologyTree, arrange
from muster.rules.membership import Stray, gang_of
from muster.rules.requests import requests

Ints = NDArray[np.int64]
UNSTATED_PODS = 2**31  # a node that does not say how many pods it takes
ONE_EACH = ("hostPort/", ALONE)  # columns of which every node has one
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class PodClass(Struct, frozen=True, eq=False):
    """Pods that are alike for placement."""

    index: int
    pod: Pod  # one of them
    asks: Ints  # by column


class Snapshot(Struct, frozen=True, eq=False):
    """Everything a plan is made from."""

    nodes: tuple[Node, ...]
    columns: tuple[str, ...]
    room: Ints  # nodes × columns: allocatable
    used: Ints  # nodes × columns: by pods of every scheduler
    leaving: Ints  # nodes × columns: the part of it that terminating pods still hold
    strange: Ints  # nodes × columns: the part of it that pods outside every gang hold
    topologies: dict[str, TopologyTree]
    gangs: tuple[Gang, ...]
    foreign: tuple[Stray, ...]
    classes: tuple[PodClass, ...]
    class_of: dict[str, int]  # pending and placed pods of gangs, by namespace/name
    unsupported: tuple[str, ...]  # for every class: a rule that placement does not decide, or nothing
    node_index: dict[str, int]
    ready: NDArray[np.bool_]  # nodes that are ready, or do not say
    taints: tuple[tuple[Taint, ...], ...]  # sets of taints that occur
    taints_of: Ints  # for every node, which of these sets it has
    neighbours: Neighbours  # rules between pods
    objects: Objects
    now: datetime | None = None

    @property
    def free(self) -> Ints:
        """What is left on every node; below zero where a node is overfull."""
        return self.room - self.used


def take(objects: Objects, now: datetime | None = None) -> Snapshot:
    """The definition of a snapshot. The order of the objects makes no difference (X3)."""
    nodes = tuple(sorted(objects.nodes, key=lambda node: node.metadata.name))
    index = {node.metadata.name: i for i, node in enumerate(nodes)}
    gathered = muster(objects)
    groups = {key(group.metadata) for group in objects.pod_groups}
    bound = [pod for pod in objects.pods if pod.spec.node_name in index and holds(pod)]
    ours = sorted((pod for pod in objects.pods if gang_of(pod) in groups), key=lambda pod: key(pod.metadata))
    pending = [pod for pod in ours if state(pod) is State.PENDING]
    placed = [pod for pod in ours if pod.spec.node_name in index and state(pod) is State.PLACED]
    ports = _Ports([*bound, *pending])
    asked = {id(pod): _asks(pod.spec, ports) for pod in (*bound, *pending)}
    alone: set[str] = set()
    for pod in pending:
        asked[id(pod)].update(dict.fromkeys(found := alone_columns(pod), 1))
        alone.update(found)
    for pod in placed if alone else ():
        asked[id(pod)].update(dict.fromkeys(alone.intersection(alone_columns(pod)), 1))
    columns = _columns(nodes, asked.values(), ports)
    place = {name: i for i, name in enumerate(columns)}
    used = np.zeros((len(nodes), len(columns)), dtype=np.int64)
    leaving, familiar = np.zeros_like(used), np.zeros_like(used)
    members = {f"{gang.namespace}/{name}" for gang in gathered.gangs for name in names_of(gang)}
    for pod in bound:
        node = index[pod.spec.node_name]
        rows = [used[node]]
        if pod.metadata.deletion_timestamp is not None:
            rows.append(leaving[node])
        if pod.metadata.annotations and key(pod.metadata) in members:
            rows.append(familiar[node])
        for name, amount in asked[id(pod)].items():
            for row in rows:
                row[place[name]] += amount
    taints = {known: i for i, known in enumerate(dict.fromkeys(map(_taints, nodes)))}
    classes, class_of = _classes([*pending, *placed], asked, place, looked_at([*bound, *pending]))
    waiting = len({class_of[key(pod.metadata)] for pod in pending})
    return Snapshot(
        nodes=nodes,
        columns=columns,
        room=_room(nodes, columns),
        used=used,
        leaving=leaving,
        strange=used - familiar,
        topologies={topology.metadata.name: arrange(topology, nodes) for topology in objects.topologies},
        gangs=gathered.gangs,
        foreign=gathered.foreign,
        classes=classes,
        class_of=class_of,
        unsupported=tuple(unsupported(one.pod) for one in classes),
        node_index=index,
        ready=np.array([_ready(node) for node in nodes], dtype=bool),
        taints=tuple(taints),
        taints_of=np.array([taints[_taints(node)] for node in nodes], dtype=np.int64),
        neighbours=gather([one.pod for one in classes], waiting, bound, index, objects.namespaces),
        objects=objects,
        now=now,
    )


def names_of(gang: Gang) -> Iterable[str]:
    """The pods that belong to a gang, by name."""
    for leaf in walk(gang.root):
        if isinstance(leaf, Leaf):
            yield from (member.name for member in leaf.members)


def _ready(node: Node) -> bool:
    return all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")


def _taints(node: Node) -> tuple[Taint, ...]:
    """`unschedulable` is a taint like others."""
    return (*node.spec.taints, UNSCHEDULABLE) if node.spec.unschedulable else node.spec.taints


def holds(pod: Pod) -> bool:
    """Whether a bound pod still takes room: until it has finished (N5)."""
    return pod.status.phase not in ("Succeeded", "Failed")


def _asks(spec: PodSpec, ports: "_Ports") -> dict[str, int]:
    found: dict[str, int] = {**requests(spec), "pods": 1}
    if ports.addresses:
        found.update(dict.fromkeys(ports.taken(spec), 1))
    return found


def _columns(nodes: Sequence[Node], asked: Iterable[dict[str, int]], ports: "_Ports") -> tuple[str, ...]:
    found = {"pods", *ports.columns}
    for node in nodes:
        found.update(node.status.allocatable or node.status.capacity)
    for asks in asked:
        found.update(asks)
    return tuple(sorted(found))


def _room(nodes: Sequence[Node], columns: tuple[str, ...]) -> Ints:
    room = np.zeros((len(nodes), len(columns)), dtype=np.int64)
    for i, node in enumerate(nodes):
        stated = node.status.allocatable or node.status.capacity
        for j, column in enumerate(columns):
            room[i, j] = 1 if column.startswith(ONE_EACH) else stated.get(column, 0)
        if "pods" not in stated:
            room[i, columns.index("pods")] = UNSTATED_PODS
    return room


class _Ports:
    """Host ports as columns of which every node has one; a port on every address takes it on each known one."""

    PREFIX = "hostPort/"

    def __init__(self, pods: Iterable[Pod]) -> None:
        self.addresses: dict[tuple[int, str], set[str]] = {}
        for pod in pods:
            for port, protocol, address in _host_ports(pod.spec):
                self.addresses.setdefault((port, protocol), {""}).add(address)

    @property
    def columns(self) -> set[str]:
        return {self._column(*port, address) for port, known in self.addresses.items() for address in known}

    def taken(self, spec: PodSpec) -> Iterable[str]:
        for port, protocol, address in _host_ports(spec):
            for taken in [address] if address else sorted(self.addresses[port, protocol]):
                yield self._column(port, protocol, taken)

    def _column(self, port: int, protocol: str, address: str) -> str:
        return f"{self.PREFIX}{address or '*'}:{port}/{protocol}"


def _host_ports(spec: PodSpec) -> Iterable[tuple[int, str, str]]:
    for container in (*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always")):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                yield number, port.protocol or "TCP", "" if port.host_ip in ("0.0.0.0", "::") else port.host_ip


def _classes(
    pods: Sequence[Pod], asked: dict[int, dict[str, int]], place: dict[str, int], selected: frozenset[str]
) -> tuple[tuple[PodClass, ...], dict[str, int]]:
    """Pods with equal demands and equal rules share one row; classes of pods that wait come first."""
    found: dict[bytes, PodClass] = {}
    class_of: dict[str, int] = {}
    for pod in pods:
        asks = asked[id(pod)]
        signature = _signature(pod, asks, selected)
        if signature not in found:
            row = np.zeros(len(place), dtype=np.int64)
            for name, amount in asks.items():
                row[place[name]] = amount
            found[signature] = PodClass(len(found), pod, row)
        class_of[key(pod.metadata)] = found[signature].index
    return tuple(found.values()), class_of


def _signature(pod: Pod, asks: dict[str, int], selected: frozenset[str]) -> bytes:
    spec = pod.spec
    claims = [volume.persistent_volume_claim for volume in spec.volumes if volume.persistent_volume_claim]
    rules = (
        sorted(asks.items()),
        sorted(spec.node_selector.items()),
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        claims,
        unsupported(pod),
        pod.metadata.namespace or names.DEFAULT_NAMESPACE if selected or claims else "",
        sorted((name, value) for name, value in pod.metadata.labels.items() if name in selected),
    )
    return msgspec.json.encode(rules)


def unsupported(pod: Pod) -> str:
    """The first rule of a pod that placement does not decide; such a pod is not placed by guesswork (X5)."""
    if pod.spec.resource_claims:
        return "resource claims (dynamic resource allocation)"
    if any(volume.ephemeral for volume in pod.spec.volumes):
        return "ephemeral volumes with a claim of their own"
    return ""

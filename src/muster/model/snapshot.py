"""The cluster at one moment, as a value: `take(objects, now)` is its definition.

Nodes are sorted by name and everything that moves is an integer array by node and column. A column is a resource,
`pods`, or a host port: whatever a node has a number of and a pod takes away from.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.api import names
from muster.api.core import Node, Pod, PodSpec, Taint
from muster.api.objects import Objects, key
from muster.model.gang.builder import collect_gangs
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState, holds_resources, pod_state
from muster.model.gang.types import Leaf, walk
from muster.model.inter_pod_rules import ALONE, InterPodRules, alone_columns, gather, kept_alone, looked_at
from muster.model.topology import TopologyTree, arrange
from muster.validation.pods.membership import OURS, gang_of, is_ours
from muster.validation.pods.requests import requests

Ints = NDArray[np.int64]
Signature = tuple[bytes, str, tuple[tuple[str, str], ...]]  # demands and rules; where it counts, namespace and labels
UNSTATED_PODS = 2**31  # a node that does not say how many pods it takes
MOST = 2**48  # whoever asks for so much fits nowhere: no node has it, and 2**14 such pods add up in an array
ONE_EACH = ("hostPort/", ALONE)  # columns of which every node has one
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class PodClass(Struct, frozen=True, eq=False):
    """Pods that are alike for placement."""

    index: int
    pod: Pod  # one of them, or one that was
    asks: Ints  # by column


class Hosts(Struct, frozen=True, eq=False):
    """What nodes say about themselves, in the order of their names."""

    nodes: tuple[Node, ...]
    index: dict[str, int]
    stated: frozenset[str]  # resources that some node has
    ready: NDArray[np.bool_]
    taints: tuple[tuple[Taint, ...], ...]
    taints_of: Ints


class Snapshot(Struct, frozen=True, eq=False):
    """Everything a plan is made from."""

    nodes: tuple[Node, ...]
    columns: tuple[str, ...]
    room: Ints  # nodes × columns: allocatable
    used: Ints  # nodes × columns: by pods of every scheduler
    terminating: Ints  # nodes × columns: the part of it that terminating pods still hold
    strange: Ints  # nodes × columns: the part of it that pods outside every gang hold
    topologies: dict[str, TopologyTree]
    gangs: tuple[Gang, ...]
    pods: Mapping[str, Pod]  # of every scheduler, by namespace/name
    classes: tuple[PodClass, ...]
    class_of: dict[str, int]  # pending and placed pods of gangs, by namespace/name
    unsupported: tuple[str, ...]  # for every class: a rule that placement does not decide, or nothing
    node_index: dict[str, int]
    ready: NDArray[np.bool_]  # nodes that are ready, or do not say
    taints: tuple[tuple[Taint, ...], ...]  # sets of taints that occur
    taints_of: Ints  # for every node, which of these sets it has
    inter_pod_rules: InterPodRules  # rules between pods
    objects: Objects
    now: datetime | None = None
    schedulers: frozenset[str] = OURS  # the `spec.schedulerName`s that are ours (N6)

    @property
    def free(self) -> Ints:
        """What is left on every node; below zero where a node is overfull."""
        return self.room - self.used


def take(objects: Objects, now: datetime | None = None, schedulers: Collection[str] = OURS) -> Snapshot:
    """The definition of a snapshot. The order of the objects makes no difference (X3).

    Pods that ask for none of these schedulers are members of no gang and only take room on their nodes (N6).
    """
    known = hosts(objects.nodes)
    gangs = collect_gangs(objects, schedulers).gangs
    groups = {gang.key for gang in gangs}
    bound = [pod for pod in objects.pods if pod.spec.node_name in known.index and holds_resources(pod)]
    ours = [pod for pod in objects.pods if gang_of(pod) in groups and is_ours(pod, schedulers)]
    pending = [pod for pod in ours if pod_state(pod) is PodState.PENDING]
    placed = [pod for pod in ours if pod.spec.node_name in known.index and pod_state(pod) is PodState.PLACED]
    ports = Ports([*bound, *pending])
    asked = {id(pod): {**asks(pod.spec), **ports.taken(pod.spec)} for pod in (*bound, *pending)}
    wanted = {id(pod): alone_columns(pod) for pod in pending}
    alone = kept_alone({column for found in wanted.values() for column in found})
    for pod in (*pending, *placed) if alone else ():
        found = wanted.get(id(pod)) or alone_columns(pod)
        asked[id(pod)].update(dict.fromkeys((column for column in found if column in alone), 1))
    columns = tuple(sorted({"pods", *ports.columns, *known.stated}.union(*asked.values())))
    place = {name: i for i, name in enumerate(columns)}
    used = np.zeros((len(known.nodes), len(columns)), dtype=np.int64)
    terminating, familiar = np.zeros_like(used), np.zeros_like(used)
    members = {f"{gang.namespace}/{name}" for gang in gangs for name in names_of(gang)}
    for pod in bound:
        node = known.index[pod.spec.node_name]
        rows = [used[node]]
        if pod.metadata.deletion_timestamp is not None:
            rows.append(terminating[node])
        if pod.metadata.annotations and key(pod.metadata) in members:
            rows.append(familiar[node])
        for name, amount in asked[id(pod)].items():
            for row in rows:
                row[place[name]] += amount
    selected = looked_at([*bound, *pending])
    signatures = {key(pod.metadata): signature(pod, asked[id(pod)], selected) for pod in (*pending, *placed)}
    alike = {signatures[key(pod.metadata)]: (pod, asked[id(pod)]) for pod in (*placed, *pending)}
    waiting = {signatures[key(pod.metadata)] for pod in pending}
    classes, number = classify(alike, waiting, place)
    return Snapshot(
        nodes=known.nodes,
        columns=columns,
        room=room(known.nodes, columns),
        used=used,
        terminating=terminating,
        strange=used - familiar,
        topologies={topology.metadata.name: arrange(topology, known.nodes) for topology in objects.topologies},
        gangs=gangs,
        pods={key(pod.metadata): pod for pod in objects.pods},
        classes=classes,
        class_of={pod: number[signed] for pod, signed in signatures.items()},
        unsupported=tuple(unsupported(one.pod) for one in classes),
        node_index=known.index,
        ready=known.ready,
        taints=known.taints,
        taints_of=known.taints_of,
        inter_pod_rules=gather(
            [one.pod for one in classes], len(waiting), bound, known.index, objects.namespaces, columns
        ),
        objects=objects,
        now=now,
        schedulers=frozenset(schedulers),
    )


def names_of(gang: Gang) -> Iterable[str]:
    """The pods that belong to a gang, by name; those that outlived their SubGroup too (N4)."""
    yield from (member.name for member in gang.leftovers)
    for leaf in walk(gang.root):
        if isinstance(leaf, Leaf):
            yield from (member.name for member in leaf.members)


def hosts(nodes: Iterable[Node]) -> Hosts:
    """What nodes say, whatever runs on them."""
    ordered = tuple(sorted(nodes, key=lambda node: node.metadata.name))
    taints = {known: i for i, known in enumerate(dict.fromkeys(map(_taints, ordered)))}
    return Hosts(
        nodes=ordered,
        index={node.metadata.name: i for i, node in enumerate(ordered)},
        stated=frozenset(name for node in ordered for name in _stated(node)),
        ready=np.array([_ready(node) for node in ordered], dtype=bool),
        taints=tuple(taints),
        taints_of=np.array([taints[_taints(node)] for node in ordered], dtype=np.int64),
    )


def _stated(node: Node) -> Mapping[str, int]:
    return node.status.allocatable or node.status.capacity


def _ready(node: Node) -> bool:
    return all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")


def _taints(node: Node) -> tuple[Taint, ...]:
    """`unschedulable` is a taint like others."""
    return (*node.spec.taints, UNSCHEDULABLE) if node.spec.unschedulable else node.spec.taints


def asks(spec: PodSpec) -> dict[str, int]:
    """What a pod takes from a node, but for host ports."""
    return {**{name: min(amount, MOST) for name, amount in requests(spec).items()}, "pods": 1}


def room(nodes: Sequence[Node], columns: tuple[str, ...]) -> Ints:
    """What every node has of every column."""
    found = np.zeros((len(nodes), len(columns)), dtype=np.int64)
    for i, node in enumerate(nodes):
        stated = _stated(node)
        found[i] = [1 if column.startswith(ONE_EACH) else min(stated.get(column, 0), MOST - 1) for column in columns]
        if "pods" not in stated:
            found[i, columns.index("pods")] = UNSTATED_PODS
    return found


class Ports:
    """Host ports as columns of which every node has one; a port on every address takes it on each known one."""

    PREFIX = "hostPort/"

    def __init__(self, pods: Iterable[Pod]) -> None:
        self.addresses: dict[tuple[int, str], set[str]] = {}
        for pod in pods:
            for port, protocol, address in host_ports(pod.spec):
                self.addresses.setdefault((port, protocol), {""}).add(address)

    @property
    def columns(self) -> set[str]:
        """One for every port and address."""
        return {self._column(*port, address) for port, known in self.addresses.items() for address in known}

    def taken(self, spec: PodSpec) -> dict[str, int]:
        """Those that a pod takes."""
        if not self.addresses:
            return {}
        return {
            self._column(port, protocol, taken): 1
            for port, protocol, address in host_ports(spec)
            for taken in ([address] if address else sorted(self.addresses[port, protocol]))
        }

    def _column(self, port: int, protocol: str, address: str) -> str:
        return f"{self.PREFIX}{address or '*'}:{port}/{protocol}"


def host_ports(spec: PodSpec) -> Iterable[tuple[int, str, str]]:
    """Port, protocol and address of every port of its node that a pod wants; no address: all of them."""
    for container in (*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always")):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                yield number, port.protocol or "TCP", "" if port.host_ip in ("0.0.0.0", "::") else port.host_ip


def classify(
    alike: Mapping[Signature, tuple[Pod, Mapping[str, int]]], waiting: set[Signature], place: Mapping[str, int]
) -> tuple[tuple[PodClass, ...], dict[Signature, int]]:
    """Pods with one signature are one class, told by one of them and what it asks for; those that wait come first."""
    number = {signed: i for i, signed in enumerate((*sorted(waiting), *sorted(alike.keys() - waiting)))}
    classes: list[PodClass] = []
    for signed, i in number.items():
        pod, asked = alike[signed]
        row = np.zeros(len(place), dtype=np.int64)
        for name, amount in asked.items():
            row[place[name]] = amount
        classes.append(PodClass(i, pod, row))
    return tuple(classes), number


def signature(pod: Pod, asked: Mapping[str, int], selected: frozenset[str]) -> Signature:
    """What tells pods apart for placement, where rules between pods look at these labels."""
    return (demands(pod, asked), *outside(pod, selected))


def demands(pod: Pod, asked: Mapping[str, int]) -> bytes:
    """The part of a signature that is the pod's own."""
    spec = pod.spec
    rules = (
        sorted(asked.items()),
        sorted(spec.node_selector.items()),
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        _claims(spec),
        unsupported(pod),
    )
    return msgspec.json.encode(rules)


def outside(pod: Pod, selected: frozenset[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The part of a signature that others decide: by what they look at."""
    labels = pod.metadata.labels
    looked = tuple(sorted((name, labels[name]) for name in selected if name in labels)) if selected else ()
    return (pod.metadata.namespace or names.DEFAULT_NAMESPACE if selected or _claims(pod.spec) else "", looked)


def _claims(spec: PodSpec) -> list[str]:
    return [volume.persistent_volume_claim.claim_name for volume in spec.volumes if volume.persistent_volume_claim]


def unsupported(pod: Pod) -> str:
    """The first rule of a pod that placement does not decide; such a pod is not placed by guesswork (X5)."""
    if pod.spec.resource_claims:
        return "resource claims (dynamic resource allocation)"
    if any(volume.ephemeral for volume in pod.spec.volumes):
        return "ephemeral volumes with a claim of their own"
    return ""

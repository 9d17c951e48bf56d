"""The cluster at one moment, as a value: `take(objects, now)` is its definition.

Nodes are sorted by name; everything that changes is an integer array by node and column. A column is a resource,
`pods`, a host port or an exclusive column (one pod of a kind per node): whatever nodes have and pods use up.
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
from muster.model.gang.types import walk_leaves
from muster.model.inter_pod_rules import (
    ALONE,
    InterPodRules,
    collect_rules,
    exclusive_columns,
    limit_columns,
    selected_label_keys,
)
from muster.model.topology import TopologyTree, arrange
from muster.validation.pods.membership import OURS, gang_of, is_ours
from muster.validation.pods.requests import requests
from muster.validation.shard import Shard, select

Ints = NDArray[np.int64]
Signature = tuple[bytes, str, tuple[tuple[str, str], ...]]  # demands; namespace and labels where rules read them
UNSTATED_PODS = 2**31  # allocatable pods of a node that does not state them
MAX_AMOUNT = 2**48  # a request of this size fits no node, and the sum of 2**14 of them fits an array
EXCLUSIVE = ("hostPort/", ALONE)  # columns of which every node has exactly one
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class PodClass(Struct, frozen=True, eq=False):
    """Pods that placement cannot tell apart."""

    index: int
    pod: Pod  # an example; it may be gone by now
    requests: Ints  # by column


class NodeTable(Struct, frozen=True, eq=False):
    """The nodes in the order of their names, and what their objects state."""

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
    allocatable: Ints  # nodes × columns
    used: Ints  # nodes × columns: by pods of every scheduler
    terminating: Ints  # nodes × columns: the part of `used` that terminating pods still hold
    used_outside_gangs: Ints  # nodes × columns: the part of `used` that pods outside every gang hold
    topologies: dict[str, TopologyTree]
    gangs: tuple[Gang, ...]
    pods: Mapping[str, Pod]  # of every scheduler, by namespace/name
    classes: tuple[PodClass, ...]
    class_of: Mapping[str, int]  # pending and placed pods of gangs, by namespace/name
    unsupported: tuple[str, ...]  # of every class: a rule that placement does not support, or empty
    node_index: dict[str, int]
    ready: NDArray[np.bool_]  # nodes that are ready, or have no such condition
    taints: tuple[tuple[Taint, ...], ...]  # sets of taints that occur
    taints_of: Ints  # of every node: the index of its set
    inter_pod_rules: InterPodRules
    objects: Objects
    now: datetime | None = None
    schedulers: frozenset[str] = OURS  # the `spec.schedulerName`s that are ours (N6)

    @property
    def free(self) -> Ints:
        """What is left on every node; negative where a node is overcommitted."""
        return self.allocatable - self.used


def take(
    objects: Objects,
    now: datetime | None = None,
    schedulers: Collection[str] = OURS,
    shard: Shard | None = None,
) -> Snapshot:
    """The definition of a snapshot. The order of the objects makes no difference (X3).

    Pods for other schedulers, and of gangs of other shards, only use resources on their nodes (N6).
    """
    objects = select(objects, shard)
    table = build_node_table(objects.nodes)
    gangs = collect_gangs(objects, schedulers).gangs
    groups = {gang.key for gang in gangs}
    bound = [pod for pod in objects.pods if pod.spec.node_name in table.index and holds_resources(pod)]
    ours = [pod for pod in objects.pods if gang_of(pod) in groups and is_ours(pod, schedulers)]
    pending = [pod for pod in ours if pod_state(pod) is PodState.PENDING]
    placed = [pod for pod in ours if pod.spec.node_name in table.index and pod_state(pod) is PodState.PLACED]
    ports = HostPorts([*bound, *pending])
    requests_of = {id(pod): {**node_requests(pod.spec), **ports.taken(pod.spec)} for pod in (*bound, *pending)}
    exclusive_of = {id(pod): exclusive_columns(pod) for pod in pending}
    exclusive = limit_columns({column for own in exclusive_of.values() for column in own})
    for pod in (*pending, *placed) if exclusive else ():
        own = exclusive_of.get(id(pod)) or exclusive_columns(pod)
        requests_of[id(pod)].update(dict.fromkeys((column for column in own if column in exclusive), 1))
    columns = tuple(sorted({"pods", *ports.columns, *table.stated}.union(*requests_of.values())))
    column_index = {name: i for i, name in enumerate(columns)}
    used = np.zeros((len(table.nodes), len(columns)), dtype=np.int64)
    terminating, used_by_gangs = np.zeros_like(used), np.zeros_like(used)
    members = {f"{gang.namespace}/{name}" for gang in gangs for name in member_names(gang)}
    for pod in bound:
        node = table.index[pod.spec.node_name]
        rows = [used[node]]
        if pod.metadata.deletion_timestamp is not None:
            rows.append(terminating[node])
        if pod.metadata.annotations and key(pod.metadata) in members:
            rows.append(used_by_gangs[node])
        for name, amount in requests_of[id(pod)].items():
            for row in rows:
                row[column_index[name]] += amount
    label_keys = selected_label_keys([*bound, *pending])
    signatures = {key(pod.metadata): signature(pod, requests_of[id(pod)], label_keys) for pod in (*pending, *placed)}
    examples = {signatures[key(pod.metadata)]: (pod, requests_of[id(pod)]) for pod in (*placed, *pending)}
    waiting = {signatures[key(pod.metadata)] for pod in pending}
    classes, index = build_classes(examples, waiting, column_index)
    return Snapshot(
        nodes=table.nodes,
        columns=columns,
        allocatable=allocatable_of(table.nodes, columns),
        used=used,
        terminating=terminating,
        used_outside_gangs=used - used_by_gangs,
        topologies={topology.metadata.name: arrange(topology, table.nodes) for topology in objects.topologies},
        gangs=gangs,
        pods={key(pod.metadata): pod for pod in objects.pods},
        classes=classes,
        class_of={pod: index[signed] for pod, signed in signatures.items()},
        unsupported=tuple(unsupported_rule(pods.pod) for pods in classes),
        node_index=table.index,
        ready=table.ready,
        taints=table.taints,
        taints_of=table.taints_of,
        inter_pod_rules=collect_rules(
            [pods.pod for pods in classes], len(waiting), bound, table.index, objects.namespaces, columns
        ),
        objects=objects,
        now=now,
        schedulers=frozenset(schedulers),
    )


def member_names(gang: Gang) -> Iterable[str]:
    """The names of a gang's pods, leftovers included (N4)."""
    yield from (member.name for member in gang.leftovers)
    for leaf in walk_leaves(gang.root):
        yield from (member.name for member in leaf.members)


def build_node_table(nodes: Iterable[Node]) -> NodeTable:
    """The table of these nodes, whatever runs on them."""
    ordered = tuple(sorted(nodes, key=lambda node: node.metadata.name))
    taints = {taint_set: i for i, taint_set in enumerate(dict.fromkeys(map(_taints_of, ordered)))}
    return NodeTable(
        nodes=ordered,
        index={node.metadata.name: i for i, node in enumerate(ordered)},
        stated=frozenset(name for node in ordered for name in _stated_resources(node)),
        ready=np.array([_is_ready(node) for node in ordered], dtype=bool),
        taints=tuple(taints),
        taints_of=np.array([taints[_taints_of(node)] for node in ordered], dtype=np.int64),
    )


def _stated_resources(node: Node) -> Mapping[str, int]:
    return node.status.allocatable or node.status.capacity


def _is_ready(node: Node) -> bool:
    return all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")


def _taints_of(node: Node) -> tuple[Taint, ...]:
    """Its taints; `unschedulable` is one of them."""
    return (*node.spec.taints, UNSCHEDULABLE) if node.spec.unschedulable else node.spec.taints


def node_requests(spec: PodSpec) -> dict[str, int]:
    """What a pod uses on its node, host ports and exclusive columns apart."""
    return {**{name: min(amount, MAX_AMOUNT) for name, amount in requests(spec).items()}, "pods": 1}


def allocatable_of(nodes: Sequence[Node], columns: tuple[str, ...]) -> Ints:
    """Allocatable resources, nodes × columns."""
    amounts = np.zeros((len(nodes), len(columns)), dtype=np.int64)
    for i, node in enumerate(nodes):
        stated = _stated_resources(node)
        amounts[i] = [
            1 if column.startswith(EXCLUSIVE) else min(stated.get(column, 0), MAX_AMOUNT - 1) for column in columns
        ]
        if "pods" not in stated:
            amounts[i, columns.index("pods")] = UNSTATED_PODS
    return amounts


class HostPorts:
    """Host ports as columns of which every node has one; a port on all addresses uses each address that occurs."""

    PREFIX = "hostPort/"

    def __init__(self, pods: Iterable[Pod]) -> None:
        self.addresses: dict[tuple[int, str], set[str]] = {}
        for pod in pods:
            for port, protocol, address in host_ports(pod.spec):
                self.addresses.setdefault((port, protocol), {""}).add(address)

    @property
    def columns(self) -> set[str]:
        """One column for every port and address."""
        return {self._column(*port, address) for port, known in self.addresses.items() for address in known}

    def taken(self, spec: PodSpec) -> dict[str, int]:
        """The columns that a pod uses."""
        if not self.addresses:
            return {}
        return {
            self._column(port, protocol, used): 1
            for port, protocol, address in host_ports(spec)
            for used in ([address] if address else sorted(self.addresses[port, protocol]))
        }

    def _column(self, port: int, protocol: str, address: str) -> str:
        return f"{self.PREFIX}{address or '*'}:{port}/{protocol}"


def host_ports(spec: PodSpec) -> Iterable[tuple[int, str, str]]:
    """Port, protocol and address of every host port of a pod; an empty address means all of them."""
    for container in (*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always")):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                yield number, port.protocol or "TCP", "" if port.host_ip in ("0.0.0.0", "::") else port.host_ip


def build_classes(
    examples: Mapping[Signature, tuple[Pod, Mapping[str, int]]],
    waiting: set[Signature],
    column_index: Mapping[str, int],
) -> tuple[tuple[PodClass, ...], dict[Signature, int]]:
    """One class per signature, from an example pod and its requests; classes with pending pods come first."""
    index = {signed: i for i, signed in enumerate((*sorted(waiting), *sorted(examples.keys() - waiting)))}
    classes: list[PodClass] = []
    for signed, i in index.items():
        pod, requests = examples[signed]
        row = np.zeros(len(column_index), dtype=np.int64)
        for name, amount in requests.items():
            row[column_index[name]] = amount
        classes.append(PodClass(i, pod, row))
    return tuple(classes), index


def signature(pod: Pod, requests: Mapping[str, int], label_keys: frozenset[str]) -> Signature:
    """Pods with equal signatures are one class; `label_keys`: the labels that inter-pod rules select by."""
    return (encode_demands(pod, requests), *visible_labels(pod, label_keys))


def encode_demands(pod: Pod, requests: Mapping[str, int]) -> bytes:
    """The part of a signature that the pod's own spec decides."""
    spec = pod.spec
    rules = (
        sorted(requests.items()),
        sorted(spec.node_selector.items()),
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        _claims(spec),
        unsupported_rule(pod),
    )
    return msgspec.json.encode(rules)


def visible_labels(pod: Pod, label_keys: frozenset[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The part of a signature that rules of other pods can select: namespace, and labels with these keys."""
    labels = pod.metadata.labels
    selected = tuple(sorted((name, labels[name]) for name in label_keys if name in labels)) if label_keys else ()
    return (pod.metadata.namespace or names.DEFAULT_NAMESPACE if label_keys or _claims(pod.spec) else "", selected)


def _claims(spec: PodSpec) -> list[str]:
    return [volume.persistent_volume_claim.claim_name for volume in spec.volumes if volume.persistent_volume_claim]


def unsupported_rule(pod: Pod) -> str:
    """The first rule of a pod that placement does not support, or empty; such a pod is never placed (X5)."""
    annotations = pod.metadata.annotations
    if pod.spec.resource_claims:
        return "resource claims (dynamic resource allocation)"
    if any(volume.ephemeral for volume in pod.spec.volumes):
        return "ephemeral volumes with a claim of their own"
    return next((f"shared GPUs (annotation `{name}`)" for name in names.SHARED_GPU if name in annotations), "")

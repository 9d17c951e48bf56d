"""The cluster of a scenario as objects: nodes and Topology, queues, priority classes, and what a snapshot has."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from muster.api import codec
from muster.api.core import Node, PriorityClass
from muster.api.decoding import decode
from muster.api.meta import ObjectMeta
from muster.api.objects import Objects
from muster.api.queue import Queue, QueueSpec
from muster.api.topology import Topology
from muster.errors import InputError
from muster.kube.manifest_files import sources
from muster.simulator import datacenter
from muster.simulator.scenario.types import ClusterSpec, Scenario, SimulatedQueue
from muster.simulator.traces.nodes import read_nodes
from muster.validation.problem import listed


def build_objects(scenario: Scenario, folder: Path) -> Objects:
    """Everything that exists at the start; `folder` is where paths of the scenario begin."""
    objects = _cluster(scenario.cluster, folder)
    if not objects.nodes:
        raise InputError("cluster: there are no nodes", hint="a cluster without nodes runs nothing")
    queues = tuple(map(queue_of, scenario.queues))
    classes = tuple(
        PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in scenario.priority_classes.items()
    )
    return replace(
        objects,
        queues=queues or objects.queues,
        priority_classes=classes or objects.priority_classes,
    )


def _cluster(cluster: ClusterSpec, folder: Path) -> Objects:
    if cluster.snapshot:
        files = sources([folder / cluster.snapshot])
        return codec.objects(document for file in files for document in codec.read(file.data, file.name))
    levels = datacenter.parse_levels(cluster.topology) if cluster.topology else {}
    raws = (
        read_nodes(cluster.nodes_file, folder, levels)
        if cluster.nodes_file.file
        else datacenter.nodes(cluster.nodes, cluster.gpus, levels)
    )
    nodes = tuple(_decoded(raw, Node) for raw in raws)
    return Objects(nodes=nodes, topologies=(_decoded(datacenter.topology(levels), Topology),) if levels else ())


def _decoded(raw: dict[str, Any], kind: Any) -> Any:
    return decode(raw, kind)[0]


def queue_of(queue: SimulatedQueue) -> Queue:
    """A queue of a scenario as an object."""
    spec = QueueSpec(
        parent_queue=queue.parent,
        priority=queue.priority,
        resources=queue.resources,
        preempt_min_runtime=queue.preempt_min_runtime,
        reclaim_min_runtime=queue.reclaim_min_runtime,
    )
    return Queue(metadata=ObjectMeta(name=queue.name), spec=spec)


def nodes_of_domain(objects: Objects, domain: str, at: str) -> tuple[str, ...]:
    """The nodes of a domain that a scenario names as `level=name`; InputError: there is none."""
    level, _, name = domain.partition("=")
    labels = [one.node_label for topology in objects.topologies for one in topology.spec.levels]
    matching = [label for label in labels if level in (label, label.rsplit("/", 1)[-1])]
    if not matching:
        raise InputError(f"{at}: there is no level `{level}`", hint=f"known: {listed(labels)}")
    domains = {node.metadata.labels.get(matching[0], "") for node in objects.nodes} - {""}
    if name not in domains:
        raise InputError(f"{at}: there is no {level} `{name}`", hint=f"known: {listed(domains)}")
    nodes = (node.metadata for node in objects.nodes)
    return tuple(sorted(meta.name for meta in nodes if meta.labels.get(matching[0]) == name))

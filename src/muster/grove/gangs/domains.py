"""Topology domains of single nodes: the path of label values from the top level of a Topology down.

Rule: a node that lacks the label of a level, or of one above, is in no domain of that level (T5).
"""

from collections.abc import Sequence

from muster.api.fields import items, text, texts
from muster.api.names import DEFAULT_SCHEDULER, TOPOLOGY, TOPOLOGY_NAME
from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS, NODES, TOPOLOGIES
from muster.workloads.types import Children, Raw

Domain = tuple[str, ...]


def topology_name(gang: Raw, scheduler: str, children: Children) -> str:
    """The Topology of a gang, whose annotation names a binding: of that name too, unless the binding names another.

    A binding may name one for each scheduler; one that knows only others is followed all the same, as all of them have
    its levels. `scheduler`: the one that pods of the gang name; empty: they name none.
    """
    notes = texts(gang, "metadata.annotations")
    name = notes.get(TOPOLOGY_NAME) or notes.get(TOPOLOGY, "")
    binding = children.get(CLUSTER_TOPOLOGY_BINDINGS, "", name) if name else None
    references = {
        text(reference, "schedulerName"): text(reference, "topologyReference")
        for reference in items(binding, "spec.schedulerTopologyBindings")
    }
    own = references.get(scheduler or DEFAULT_SCHEDULER)
    return own or next(iter(references.values()), "") or name


def level_labels(topology: str, level: str, children: Children) -> tuple[str, ...] | None:
    """The node labels from the top level of a Topology down to one of its levels; None: there is no such level.

    A gang that names no Topology has a level of one label.
    """
    if not topology:
        return (level,)
    labels = [text(entry, "nodeLabel") for entry in items(children.get(TOPOLOGIES, "", topology), "spec.levels")]
    return tuple(labels[: labels.index(level) + 1]) if level in labels else None


def domain_of(node: str, labels: Sequence[str], children: Children) -> Domain | None:
    """The domain of a node; None: it has no name, is gone, or is in no domain."""
    raw = children.get(NODES, "", node) if node else None
    if raw is None:
        return None
    own = texts(raw, "metadata.labels")
    return tuple(own[label] for label in labels) if all(label in own for label in labels) else None

"""Filters (X5): the nodes a pod may run on, free capacity aside. Each has a name and returns a mask over all nodes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.api.core import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    StorageClass,
    Taint,
    Toleration,
)
from muster.api.names import HOSTNAME
from muster.model.snapshot import PodClass, Snapshot
from muster.placement.claims import Behind, Claims, ClaimTrouble, Provisioned

Mask = NDArray[np.bool_]
BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


class Labels:
    """Node labels as integer codes, one column per label key, built on first use."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self._codes: dict[str, tuple[NDArray[np.int64], dict[str, int]]] = {}

    def column(self, name: str) -> tuple[NDArray[np.int64], dict[str, int]]:
        """For every node the code of its label value, -1 where it lacks the label; and the codes by value."""
        if name not in self._codes:
            values = [node.metadata.labels.get(name) for node in self.nodes]
            codes = {value: i for i, value in enumerate(sorted({value for value in values if value is not None}))}
            column = np.array([-1 if value is None else codes[value] for value in values], dtype=np.int64)
            self._codes[name] = column, codes
        return self._codes[name]

    def places(self, name: str) -> NDArray[np.int64]:
        """For every node its domain by this label, -1: none; a node without a host name is its own domain."""
        column, codes = self.column(name)
        if name != HOSTNAME or not (column < 0).any():
            return column
        return np.where(column < 0, len(codes) + np.arange(len(column)), column)

    def equal(self, name: str, values: Sequence[str]) -> Mask:
        """Nodes whose label has one of these values."""
        column, codes = self.column(name)
        wanted = [codes[value] for value in values if value in codes]
        return np.isin(column, wanted)

    def there(self, name: str) -> Mask:
        """Nodes that have the label."""
        return self.column(name)[0] >= 0

    def compare(self, name: str, operator: str, bound: str) -> Mask:
        """Nodes whose label is a whole number above or below the bound."""
        column, codes = self.column(name)
        mask = np.zeros(len(self.nodes), dtype=bool)
        if not _whole(bound):
            return mask
        for value, code in codes.items():
            if _whole(value) and (int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)):
                mask |= column == code
        return mask


def _whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 20


class Scene(Struct, frozen=True, eq=False, dict=True):
    """A snapshot, with its node labels as columns and its claims by name."""

    snapshot: Snapshot
    labels: Labels

    @cached_property
    def claims(self) -> Claims:
        """Indexed only where some pod has claims."""
        return Claims(self.snapshot.objects, self.snapshot.node_index.__contains__)


Filter = Callable[[PodClass, Scene], Mask]


def selected(pods: PodClass, scene: Scene) -> Mask:
    """Nodes with every label of `nodeSelector`."""
    mask = np.ones(len(scene.snapshot.nodes), dtype=bool)
    for name, value in pods.pod.spec.node_selector.items():
        mask &= scene.labels.equal(name, [value])
    return mask


def affine(pods: PodClass, scene: Scene) -> Mask:
    """Nodes that the required node affinity allows."""
    affinity = pods.pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    if required is None:
        return np.ones(len(scene.snapshot.nodes), dtype=bool)
    return matching(required, scene)


def matching(selector: NodeSelector, scene: Scene) -> Mask:
    """Nodes that match one of the terms."""
    mask = np.zeros(len(scene.snapshot.nodes), dtype=bool)
    for term in selector.node_selector_terms:
        mask |= _term(term, scene)
    return mask


def _term(term: NodeSelectorTerm, scene: Scene) -> Mask:
    mask = np.full(len(scene.snapshot.nodes), bool(term.match_expressions or term.match_fields))
    for expression in term.match_expressions:
        mask &= _expression(expression, scene.labels)
    for expression in term.match_fields:
        named = [node.metadata.name in expression.values for node in scene.snapshot.nodes]
        mask &= np.array(named, dtype=bool) == (expression.operator == "In")
    return mask


def _expression(expression: NodeSelectorRequirement, labels: Labels) -> Mask:
    match expression.operator:
        case "In":
            return labels.equal(expression.key, expression.values)
        case "NotIn":
            return ~labels.equal(expression.key, expression.values)
        case "Exists":
            return labels.there(expression.key)
        case "DoesNotExist":
            return ~labels.there(expression.key)
        case "Gt" | "Lt":
            return labels.compare(
                expression.key, expression.operator, expression.values[0] if expression.values else ""
            )
        case _:
            return np.zeros(len(labels.nodes), dtype=bool)


def preferred_weights(pods: PodClass, scene: Scene) -> NDArray[np.int64] | None:
    """For every node the weight of the preferred node affinity; None where the pod has none."""
    affinity = pods.pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity else None
    terms = node_affinity.preferred_during_scheduling_ignored_during_execution if node_affinity else ()
    if not terms:
        return None
    weights = np.zeros(len(scene.snapshot.nodes), dtype=np.int64)
    for term in terms:
        weights += term.weight * _term(term.preference, scene)
    return weights


def tolerated(pods: PodClass, scene: Scene) -> Mask:
    """Nodes whose every taint the pod tolerates."""
    tolerations = pods.pod.spec.tolerations
    good = [all(_lives_with(taint, tolerations) for taint in taints) for taints in scene.snapshot.taints]
    return np.array(good, dtype=bool)[scene.snapshot.taints_of]


def _lives_with(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return taint.effect not in BLOCKING_EFFECTS or any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def ready(pods: PodClass, scene: Scene) -> Mask:  # noqa: ARG001 (every filter has the same form)
    """Nodes that are ready, or report no such condition."""
    return scene.snapshot.ready


def reachable(pods: PodClass, scene: Scene) -> Mask:
    """Nodes where every volume of the pod is accessible or can be provisioned; see `claims`."""
    mask = np.ones(len(scene.snapshot.nodes), dtype=bool)
    for volume in _behind(pods, scene):
        match volume:
            case ClaimTrouble():
                return np.zeros(len(scene.snapshot.nodes), dtype=bool)
            case Provisioned(storage_class=kind, node=node):
                mask &= _offered(kind, scene)
                if node:
                    mask &= np.arange(len(mask)) == scene.snapshot.node_index[node]
            case PersistentVolume(spec=spec):
                if spec.node_affinity is not None and spec.node_affinity.required is not None:
                    mask &= matching(spec.node_affinity.required, scene)
    return mask


def _offered(kind: StorageClass, scene: Scene) -> Mask:
    """Nodes where volumes of a class can be provisioned: those in its `allowedTopologies`; all where it has none."""
    if not kind.allowed_topologies:
        return np.ones(len(scene.snapshot.nodes), dtype=bool)
    mask = np.zeros(len(scene.snapshot.nodes), dtype=bool)
    for term in kind.allowed_topologies:
        inside = np.ones(len(mask), dtype=bool)
        for expression in term.match_label_expressions:
            inside &= scene.labels.equal(expression.key, expression.values)
        mask |= inside
    return mask


def claim_trouble(pods: PodClass, scene: Scene) -> ClaimTrouble | None:
    """The first claim that excludes every node (X5)."""
    return next((volume for volume in _behind(pods, scene) if isinstance(volume, ClaimTrouble)), None)


def _behind(pods: PodClass, scene: Scene) -> Iterator[Behind]:
    """How every claim of a pod resolves; most pods have none."""
    if any(volume.persistent_volume_claim for volume in pods.pod.spec.volumes):
        yield from scene.claims.behind(pods.pod)


FILTERS: Mapping[str, Filter] = {
    "nodeSelector": selected,
    "nodeAffinity": affine,
    "taints": tolerated,
    "ready": ready,
    "volumes": reachable,
}


def allowed(pods: PodClass, scene: Scene) -> Mask:
    """Nodes that pass every filter."""
    mask = np.ones(len(scene.snapshot.nodes), dtype=bool)
    for keep in FILTERS.values():
        mask &= keep(pods, scene)
    return mask


def refused(pods: PodClass, scene: Scene) -> dict[str, int]:
    """By filter: how many nodes it rejects, of those that pass the filters before it."""
    mask, counts = np.ones(len(scene.snapshot.nodes), dtype=bool), dict[str, int]()
    for name, keep in FILTERS.items():
        before = int(np.count_nonzero(mask))
        mask &= keep(pods, scene)
        counts[name] = before - int(np.count_nonzero(mask))
    return counts

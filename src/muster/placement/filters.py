"""Which nodes a pod may be on, whatever is free there (X5). Each filter has a name; each sees all nodes at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.api.core import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    Taint,
    Toleration,
)
from muster.api.names import DEFAULT_NAMESPACE, HOSTNAME
from muster.api.objects import key
from muster.model.snapshot import PodClass, Snapshot

Mask = NDArray[np.bool_]
KEEPING_OFF = ("NoSchedule", "NoExecute")


class Labels:
    """Node labels as codes per node, made when somebody first asks for a key."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self._codes: dict[str, tuple[NDArray[np.int64], dict[str, int]]] = {}

    def column(self, name: str) -> tuple[NDArray[np.int64], dict[str, int]]:
        """For every node the code of its value, -1 where it has none; and the codes by value."""
        if name not in self._codes:
            values = [node.metadata.labels.get(name) for node in self.nodes]
            codes = {value: i for i, value in enumerate(sorted({value for value in values if value is not None}))}
            column = np.array([-1 if value is None else codes[value] for value in values], dtype=np.int64)
            self._codes[name] = column, codes
        return self._codes[name]

    def places(self, name: str) -> NDArray[np.int64]:
        """For every node the place it is in, -1 where it is in none; a node without a host name is one by itself."""
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
        found = np.zeros(len(self.nodes), dtype=bool)
        if not _whole(bound):
            return found
        for value, code in codes.items():
            if _whole(value) and (int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)):
                found |= column == code
        return found


def _whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 20


class Scene(Struct, frozen=True, eq=False):
    """A snapshot, with its node labels as columns."""

    snapshot: Snapshot
    labels: Labels


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
    for one in term.match_expressions:
        mask &= _expression(one, scene.labels)
    for one in term.match_fields:
        named = [node.metadata.name in one.values for node in scene.snapshot.nodes]
        mask &= np.array(named, dtype=bool) == (one.operator == "In")
    return mask


def _expression(one: NodeSelectorRequirement, labels: Labels) -> Mask:
    match one.operator:
        case "In":
            return labels.equal(one.key, one.values)
        case "NotIn":
            return ~labels.equal(one.key, one.values)
        case "Exists":
            return labels.there(one.key)
        case "DoesNotExist":
            return ~labels.there(one.key)
        case "Gt" | "Lt":
            return labels.compare(one.key, one.operator, one.values[0] if one.values else "")
        case _:
            return np.zeros(len(labels.nodes), dtype=bool)


def wished(pods: PodClass, scene: Scene) -> NDArray[np.int64] | None:
    """For every node the weight of the preferred node affinity; None where nothing is preferred."""
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
    return taint.effect not in KEEPING_OFF or any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def ready(pods: PodClass, scene: Scene) -> Mask:  # noqa: ARG001 (every filter has the same form)
    """Nodes that are ready, or do not say."""
    return scene.snapshot.ready


class ClaimTrouble(Struct, frozen=True):
    """A claim of a pod that no node can serve as things are."""

    claim: str
    storage_class: str
    why: Literal["missing", "unbound", "volume missing"]


def reachable(pods: PodClass, scene: Scene) -> Mask:
    """Nodes from which every bound volume of the pod can be reached; a claim that is not bound allows none."""
    mask = np.ones(len(scene.snapshot.nodes), dtype=bool)
    for found in _volumes(pods, scene):
        if isinstance(found, ClaimTrouble):
            return np.zeros(len(scene.snapshot.nodes), dtype=bool)
        affinity = found.spec.node_affinity
        if affinity is not None and affinity.required is not None:
            mask &= matching(affinity.required, scene)
    return mask


def claim_trouble(pods: PodClass, scene: Scene) -> ClaimTrouble | None:
    """The first claim that keeps a pod from every node, by name (X5)."""
    return next((found for found in _volumes(pods, scene) if isinstance(found, ClaimTrouble)), None)


def _volumes(pods: PodClass, scene: Scene) -> Iterator[PersistentVolume | ClaimTrouble]:
    """What is behind every claim of a pod."""
    sources = [one.persistent_volume_claim for one in pods.pod.spec.volumes if one.persistent_volume_claim]
    if not sources:
        return
    namespace = pods.pod.metadata.namespace or DEFAULT_NAMESPACE
    claims = {key(claim.metadata): claim.spec for claim in scene.snapshot.objects.claims}
    volumes = {volume.metadata.name: volume for volume in scene.snapshot.objects.volumes}
    for source in sources:
        claim = claims.get(f"{namespace}/{source.claim_name}")
        if claim is None:
            yield ClaimTrouble(source.claim_name, "", "missing")
        elif claim.volume_name in volumes:
            yield volumes[claim.volume_name]
        else:
            why: Literal["volume missing", "unbound"] = "volume missing" if claim.volume_name else "unbound"
            yield ClaimTrouble(source.claim_name, claim.storage_class_name, why)


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

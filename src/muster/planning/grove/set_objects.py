"""What PodCliqueSets among objects become: cliques, gangs, PodGroups, Topologies and pods, by Grove's own controllers.

Rule 1: objects that exist count instead of future ones: pods, and the scale of cliques and groups. Rule 2: sets of a
cluster have their operator there, and are left as they are; sets of files are expanded, those that replace one of the
cluster as well. Rule 3: a set that would be refused is an error, unless it is stored somewhere already.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.codec import Document, format_misfits, title
from muster.api.core import Pod
from muster.api.decoding import decode, encode
from muster.api.fields import items, text, texts
from muster.api.meta import Wire
from muster.api.objects import GROVE_KINDS, Objects, OtherObject, key
from muster.api.podgroup import PodGroup
from muster.api.resources import (
    CLUSTER_TOPOLOGY_BINDINGS,
    NODES,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GROUPS,
    PODS,
    TOPOLOGIES,
    Resource,
)
from muster.api.topology import Topology
from muster.control_characters import visible
from muster.errors import InputError, Refused
from muster.grove.cliques.pod_specs import CliqueSettings
from muster.grove.table import operator
from muster.validation.check import check, errors
from muster.validation.context import ValidationContext
from muster.workloads.expansion import PLANNED, Expansion, expand_objects
from muster.workloads.types import Controller

Raw = dict[str, Any]
Place = tuple[str, str]  # namespace and name
T = TypeVar("T", bound=Wire)
_KINDS = {(resource.api_version, resource.kind): resource for resource in GROVE_KINDS}
_READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


class SetObjects(Struct, frozen=True, eq=False):
    """Objects with the pods and PodGroups of PodCliqueSets, and Grove's objects around them."""

    objects: Objects  # without Grove's own kinds
    parts: tuple[Raw, ...] = ()  # sets, groups, cliques, gangs and bindings: those that exist, and those to come
    sets: tuple[OtherObject, ...] = ()  # that were expanded
    made: frozenset[str] = frozenset()  # pods that do not exist yet, by namespace/name
    existing: frozenset[str] = frozenset()  # PodGroups that were among the objects, by namespace/name


def is_grove(other: OtherObject) -> bool:
    """Whether an object is of one of Grove's kinds."""
    return other.kind in _KINDS


def expand_sets(objects: Objects, schedulers: Sequence[str], pool_label: str = names.NODE_POOL) -> SetObjects:
    """The objects with all that becomes of their PodCliqueSets. Refused: a set that is invalid."""
    grove = [other for other in objects.others if is_grove(other)]
    if not grove:
        return SetObjects(objects)
    plain = replace(objects, others=tuple(other for other in objects.others if not is_grove(other)))
    existing = frozenset(key(group.metadata) for group in objects.pod_groups)
    sets = [other for other in grove if _resource(other) == POD_CLIQUE_SETS and not other.is_live]
    bindings = [other for other in grove if _resource(other) == CLUSTER_TOPOLOGY_BINDINGS and not other.is_live]
    if not sets and not bindings:
        return SetObjects(plain, tuple(other.raw for other in grove), existing=existing)
    _refuse_invalid(sets, objects)
    settings = CliqueSettings(scheduler_name=next(iter(schedulers), names.DEFAULT_SCHEDULER))
    expansion = _expand(objects, grove, sets, operator(settings, pool_label))
    return _settled(plain, grove, sets, expansion, existing)


def _resource(other: OtherObject) -> Resource:
    return _KINDS[other.kind]


def _refuse_invalid(sets: Iterable[OtherObject], objects: Objects) -> None:
    context = ValidationContext(objects)
    for other in sets:
        problems = () if text(other.raw, "metadata.uid") else errors(check(other.raw, None, context))
        if problems:
            lines = "".join(f"\n  {visible(f'{problem.at}: {problem.says}')}" for problem in problems)
            hint = next((problem.hint for problem in problems if problem.hint), "")
            raise Refused(f"{other.where}: {title(other.raw)} is invalid{lines}", hint=hint)


# what controllers get -----------------------------------------------------------------------------------------------


def _expand(
    objects: Objects,
    grove: Sequence[OtherObject],
    sets: Sequence[OtherObject],
    controllers: Mapping[Resource, Controller],
) -> Expansion:
    names_ = {place_of(other.raw) for other in sets}
    parts = [other.raw for other in grove if _is_part(other, names_)]
    uids = {place_of(raw): text(raw, "metadata.uid") for raw in parts if raw["kind"] == POD_CLIQUES.kind}
    pods = [_pod(pod, uids) for pod in objects.pods if _set_of(pod.metadata.labels, pod.metadata.namespace) in names_]
    around = (
        *(_typed(NODES, {"metadata": {"name": n.metadata.name, "labels": n.metadata.labels}}) for n in objects.nodes),
        *(_typed(TOPOLOGIES, encode(topology)) for topology in objects.topologies),
        *(_typed(POD_GROUPS, encode(group)) for group in objects.pod_groups if group.metadata.owner_references),
    )
    try:
        return expand_objects([*around, *parts, *pods], controllers)
    except InputError as error:
        more = f" and {len(sets) - 1} more" if len(sets) > 1 else ""
        raise InputError(f"{sets[0].where}{more}: {error.message}", hint=error.hint) from None


def _is_part(other: OtherObject, sets: Collection[Place]) -> bool:
    """Whether an object counts for these sets: of a cluster, what is theirs or serves all."""
    if _resource(other) in (POD_CLIQUE_SETS, CLUSTER_TOPOLOGY_BINDINGS):
        return not other.is_live or _resource(other) == CLUSTER_TOPOLOGY_BINDINGS
    return _set_of(texts(other.raw, "metadata.labels"), text(other.raw, "metadata.namespace")) in sets


def place_of(raw: Raw) -> Place:
    """Namespace and name of an object."""
    return text(raw, "metadata.namespace") or names.DEFAULT_NAMESPACE, text(raw, "metadata.name")


def _set_of(labels: Mapping[str, str], namespace: str) -> Place | None:
    """The set that an object belongs to."""
    if labels.get(names.MANAGED_BY) != names.GROVE_OPERATOR or names.PART_OF not in labels:
        return None
    return namespace or names.DEFAULT_NAMESPACE, labels[names.PART_OF]


def _pod(pod: Pod, uids: Mapping[Place, str]) -> Raw:
    """A pod as controllers read it: with its clique as its owner, though readers of clusters may drop owners."""
    raw = _typed(PODS, encode(pod))
    metadata = {**raw["metadata"], "namespace": pod.metadata.namespace or names.DEFAULT_NAMESPACE}
    if not pod.metadata.owner_references:
        metadata["ownerReferences"] = [_clique_reference(pod, uids)]
    is_over = pod.status.phase in ("Succeeded", "Failed")
    waiting = {} if pod.spec.node_name or is_over else {"phase": "Pending"}
    status = {"phase": pod.status.phase} if is_over else (waiting or _READY)
    return {**raw, "metadata": metadata, "status": status}


def _clique_reference(pod: Pod, uids: Mapping[Place, str]) -> Raw:
    name = pod.metadata.labels.get(names.POD_CLIQUE, "")
    place = pod.metadata.namespace or names.DEFAULT_NAMESPACE, name
    uid = uids.get(place) or f"clique-{'-'.join(place)}"
    owner = {"apiVersion": POD_CLIQUES.api_version, "kind": POD_CLIQUES.kind, "name": name, "uid": uid}
    return {**owner, "controller": True}


def _typed(resource: Resource, raw: Raw) -> Raw:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **raw}


# what becomes of it -------------------------------------------------------------------------------------------------


def _settled(
    plain: Objects,
    grove: Sequence[OtherObject],
    sets: Sequence[OtherObject],
    expansion: Expansion,
    existing: frozenset[str],
) -> SetObjects:
    by_kind: dict[str, list[Raw]] = {}
    for raw in expansion.objects:
        by_kind.setdefault(text(raw, "kind"), []).append(raw)
    where = sets[0].where if sets else grove[0].where
    final = {_identity(raw): raw for raw in by_kind.get(PODS.kind, ())}
    made = [_without_age(_decoded(each.pod, Pod, where)) for each in expansion.pods]
    pods = (*(_followed(pod, final) for pod in plain.pods), *made)
    groups = [_without_age(_decoded(raw, PodGroup, where)) for raw in by_kind.get(POD_GROUPS.kind, ())]
    topologies = [_decoded(raw, Topology, where) for raw in by_kind.get(TOPOLOGIES.kind, ())]
    parts = {_part_key(raw): raw for raw in (*(o.raw for o in grove), *(r for r in expansion.objects if _is_own(r)))}
    return SetObjects(
        replace(
            plain,
            pods=pods,
            pod_groups=_replaced(plain.pod_groups, groups),
            topologies=_replaced(plain.topologies, topologies),
        ),
        tuple(parts.values()),
        tuple(sets),
        frozenset(key(pod.metadata) for pod in made),
        existing,
    )


def _is_own(raw: Raw) -> bool:
    return (text(raw, "apiVersion"), text(raw, "kind")) in _KINDS


def _part_key(raw: Raw) -> tuple[str, str]:
    namespaced = _KINDS[text(raw, "apiVersion"), text(raw, "kind")].namespaced
    return raw["kind"], _identity(raw) if namespaced else text(raw, "metadata.name")


def _identity(raw: Raw) -> str:
    return "/".join(place_of(raw))


def _decoded(raw: Raw, kind: type[T], where: str) -> T:
    try:
        value, misfits = decode(raw, kind)
    except (UnicodeError, ValueError, OverflowError):
        raise InputError(f"{where}: holds text or numbers that cannot be written out") from None
    if misfits:
        raise InputError(format_misfits(Document(where, raw), misfits), hint="the pod spec of a clique says so")
    return value


def _without_age(value: Any) -> Any:
    """Without uid and age where it does not exist yet."""
    if not value.metadata.uid.startswith(PLANNED):
        return value
    return replace(value, metadata=replace(value.metadata, uid="", creation_timestamp=None, owner_references=()))


def _replaced(old: Sequence[T], new: Iterable[T]) -> tuple[T, ...]:
    """The old objects with new ones of the same name in their places, then all others."""
    by_key = {_key(value): value for value in new}
    return (*(by_key.pop(_key(value), value) for value in old), *by_key.values())


def _key(value: Any) -> str:
    return key(value.metadata)


def _followed(pod: Pod, final: Mapping[str, Raw]) -> Pod:
    """An existing pod, whose gate controllers may have lifted."""
    raw = final.get(key(pod.metadata))
    if raw is None or len(items(raw, "spec.schedulingGates")) == len(pod.spec.scheduling_gates):
        return pod
    gates = {text(gate, "name") for gate in items(raw, "spec.schedulingGates")}
    kept = tuple(gate for gate in pod.spec.scheduling_gates if gate.name in gates)
    selector = texts(raw, "spec.nodeSelector")
    return replace(pod, spec=replace(pod.spec, scheduling_gates=kept, node_selector=selector))

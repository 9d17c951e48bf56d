"""The PodGangs of a set: which cliques start together, how many pods of each, and where they sit.

Rule 1: a gang is created with its pods, once all of them exist: one request serves, where one for each pod would
follow. It does not wait for pods that cannot be made. Later the controller of PodGangs keeps the list, and what it
wrote is kept, as the list is only written on the version that it was read from.
Rule 2: what is scaled to zero is in no gang, and a gang without cliques does not exist.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from muster.api.fields import integer, items, mapping, text
from muster.api.moment import parse_time
from muster.api.names import BASE_POD_GANG, TOPOLOGY_NAME
from muster.api.resources import POD_GANGS, PODS
from muster.grove.gangs.cliques import is_live
from muster.grove.gangs.references import pod_references
from muster.grove.layout import CliqueLayout, GangLayout, GroupReplicaLayout
from muster.grove.naming import GANG, child_labels
from muster.grove.sets.set_view import SetView
from muster.grove.topology import gang_constraint
from muster.workloads.operators.objects import child, merge_patch, name_of, read_version
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Children, Raw, Update

MAKING_SECONDS = 10.0  # after the last clique or pod was made: a gang is created without those that are still missing


def gang_layouts(view: SetView) -> Iterator[GangLayout]:
    """Every PodGang that the set has."""
    for replica in view.replicas:
        for gang in replica.layout.gangs:
            if any(not _is_scaled_to_zero(view, clique) for clique in gang.cliques):
                yield gang


def _is_scaled_to_zero(view: SetView, clique: CliqueLayout) -> bool:
    raw = view.clique(clique.name)
    return raw is not None and integer(raw, "spec.replicas", 1) == 0


def seconds_to_wait(view: SetView, gang: GangLayout, children: Children, now: datetime) -> float:
    """How much longer a new gang is not created, as its pods are being made; 0: all exist, or it waits no more."""
    expected = [clique for clique in gang.cliques if _is_expected(view, clique)]
    present = [raw for clique in expected if (raw := view.clique(clique.name)) is not None]
    if _has_failed(view.raw) or any(map(_has_failed, (*present, *view.groups.values()))):
        return 0.0
    pods = [(clique, _live_pods(clique, children)) for clique in present]
    if len(present) == len(expected) and all(len(live) >= _replicas(clique) for clique, live in pods):
        return 0.0
    times = [text(raw, "metadata.creationTimestamp") for clique, live in pods for raw in (clique, *live)]
    newest = parse_time(max(times)) if times else now
    return max(0.0, MAKING_SECONDS - (now - newest).total_seconds()) if newest else 0.0


def _is_expected(view: SetView, clique: CliqueLayout) -> bool:
    """Whether a clique exists or will soon; no: its scaling group has fewer replicas."""
    group = view.groups.get(clique.group)
    return group is None or clique.group_replica < integer(group, "spec.replicas", 1)


def _has_failed(raw: Raw) -> bool:
    return bool(items(raw, "status.lastErrors"))


def _replicas(clique: Raw) -> int:
    return integer(clique, "spec.replicas", 1)


def _live_pods(clique: Raw, children: Children) -> Sequence[Raw]:
    """Pods of a clique; none where it is being deleted, as they go with it."""
    return [] if is_terminating(clique) else [pod for pod in children.of(clique, PODS) if is_live(pod)]


def new_gang(view: SetView, gang: GangLayout, children: Children) -> Raw:
    """A PodGang as it is created: with the pods that exist."""
    raw = gang_object(view, gang)
    for group in raw["spec"]["podgroups"]:
        clique = view.clique(group["name"])
        group["podReferences"] = pod_references(raw, _live_pods(clique, children)) if clique is not None else []
    return raw


def gang_object(view: SetView, gang: GangLayout) -> Raw:
    """A PodGang without pods."""
    cliques = [clique for clique in gang.cliques if not _is_scaled_to_zero(view, clique)]
    labels = child_labels(view.pcs.metadata.name, gang.name, GANG, gang.set_replica)
    if gang.base:
        labels[BASE_POD_GANG] = gang.base
    annotations = {TOPOLOGY_NAME: view.topology.binding} if view.topology and view.topology.is_found else {}
    spec: Raw = {"podgroups": [_pod_group(view, clique) for clique in cliques]}
    if constraint := gang_constraint(gang.topology, view.topology):
        spec["topologyConstraint"] = constraint
    names = {clique.name for clique in cliques}
    if groups := [group for replica in gang.groups if (group := _group(view, replica, names))]:
        spec["topologyConstraintGroupConfigs"] = groups
    if priority_class := view.pcs.spec.template.priority_class_name:
        spec["priorityClassName"] = priority_class
    return child(view.raw, POD_GANGS, gang.name, spec, labels=labels, annotations=annotations)


def _pod_group(view: SetView, clique: CliqueLayout) -> Raw:
    group: Raw = {"name": clique.name, "podReferences": [], "minReplicas": clique.min_available}
    if constraint := gang_constraint(clique.template.topology_constraint, view.topology):
        group["topologyConstraint"] = constraint
    return group


def _group(view: SetView, replica: GroupReplicaLayout, names: set[str]) -> Raw | None:
    members = [clique.name for clique in replica.cliques if clique.name in names]
    constraint = gang_constraint(replica.topology, view.topology)
    if not members or constraint is None:
        return None
    return {"name": replica.name, "podGroupNames": members, "topologyConstraint": constraint}


def gang_update(present: Raw, wanted: Raw) -> Update | None:
    """What of a PodGang has to change; None: nothing. References to pods stay."""
    references = {text(group, "name"): group.get("podReferences") for group in items(present, "spec.podgroups")}
    groups = [{**group, "podReferences": references.get(group["name"]) or []} for group in wanted["spec"]["podgroups"]]
    spec = {**wanted["spec"], "podgroups": groups}
    patch = _differing(mapping(present, "spec"), spec)
    metadata: Raw = {
        field: differing
        for field in ("labels", "annotations")
        if (differing := _missing(mapping(present, f"metadata.{field}"), mapping(wanted, f"metadata.{field}")))
    }
    if TOPOLOGY_NAME in mapping(present, "metadata.annotations") and "annotations" not in wanted["metadata"]:
        metadata["annotations"] = {TOPOLOGY_NAME: None}
    if "podgroups" in patch:
        metadata |= read_version(present)
    changes: Raw = {"spec": patch} if patch else {}
    if metadata:
        changes["metadata"] = metadata
    return Update(POD_GANGS, text(present, "metadata.namespace"), name_of(present), changes) if changes else None


_OWNED = ("podgroups", "topologyConstraint", "topologyConstraintGroupConfigs", "priorityClassName")


def _differing(present: Raw, wanted: Raw) -> Raw:
    """Fields of a PodGang's spec that the set owns and that differ; None removes one."""
    empty: tuple[object, ...] = (None, "", [], {})
    return {
        field: merge_patch(present.get(field), wanted.get(field))
        for field in _OWNED
        if present.get(field) != wanted.get(field) and not (present.get(field) in empty and wanted.get(field) in empty)
    }


def _missing(present: Raw, wanted: Raw) -> Raw:
    return {name: value for name, value in wanted.items() if present.get(name) != value}

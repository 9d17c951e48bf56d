"""What a replica of a set consists of beside its cliques: a Service, scaling groups and autoscalers."""

from collections.abc import Iterator
from typing import Any

from muster.api.decoding import encode
from muster.api.fields import text, texts
from muster.api.grove.pod_clique import AutoScalingConfig
from muster.api.names import GENERATION_HASH, SET_REPLICA
from muster.api.quantity import parse_exact
from muster.api.resources import AUTOSCALERS, POD_CLIQUE_SCALING_GROUPS, POD_CLIQUES, SERVICES, Resource
from muster.grove.layout import GroupLayout, ReplicaLayout, clique_replicas, group_minimum
from muster.grove.naming import AUTOSCALER, SERVICE, SET_GROUP, child_labels, set_labels
from muster.grove.sets.set_view import SetView
from muster.workloads.operators.objects import child, name_of
from muster.workloads.types import Raw, Update


def service_object(view: SetView, replica: ReplicaLayout) -> Raw:
    """The headless Service by which pods of a replica find each other: ready or not, unless the set says otherwise."""
    name = view.pcs.metadata.name
    config = view.pcs.spec.template.headless_service_config
    spec = {
        "clusterIP": "None",
        "selector": {**set_labels(name), SET_REPLICA: str(replica.index)},
        "publishNotReadyAddresses": config is None or config.publish_not_ready_addresses,
    }
    labels = child_labels(name, replica.service, SERVICE, replica.index)
    return child(view.raw, SERVICES, replica.service, spec, labels=labels)


def group_object(view: SetView, group: GroupLayout) -> Raw:
    """A PodCliqueScalingGroup as it is created: with the replicas of the template, and the latest template."""
    labels = child_labels(view.pcs.metadata.name, group.name, SET_GROUP, group.set_replica)
    spec = {
        "replicas": max(0, group.template.replicas),
        "minAvailable": group_minimum(group.template),
        "cliqueNames": list(group.template.clique_names),
    }
    return child(
        view.raw,
        POD_CLIQUE_SCALING_GROUPS,
        group.name,
        spec,
        labels={**labels, GENERATION_HASH: view.hashes.generation},
        annotations=group.template.annotations,
    )


def group_update(present: Raw, wanted: Raw, *, with_template: bool) -> Update | None:
    """What of a group has to change; its replicas never, and its template only when it may be updated."""
    labels = dict(wanted["metadata"]["labels"])
    if not with_template:
        del labels[GENERATION_HASH]
    metadata = {"labels": labels, "annotations": texts(wanted, "metadata.annotations")}
    spec = {field: value for field, value in wanted["spec"].items() if field != "replicas"}
    return _update(POD_CLIQUE_SCALING_GROUPS, present, {"metadata": metadata, "spec": spec})


def autoscaler_objects(view: SetView, replica: ReplicaLayout) -> Iterator[Raw]:
    """A HorizontalPodAutoscaler for each standalone clique and each group that says how it scales."""
    for clique in replica.cliques:
        if config := clique.template.spec.auto_scaling_config:
            yield _autoscaler(view, replica, POD_CLIQUES, clique.name, config, clique_replicas(clique.template))
    for group in replica.groups:
        if config := group.template.scale_config:
            replicas = max(0, group.template.replicas)
            yield _autoscaler(view, replica, POD_CLIQUE_SCALING_GROUPS, group.name, config, replicas)


def _autoscaler(
    view: SetView, replica: ReplicaLayout, target: Resource, name: str, config: AutoScalingConfig, replicas: int
) -> Raw:
    spec: Raw = {
        "scaleTargetRef": {"apiVersion": target.api_version, "kind": target.kind, "name": name},
        "minReplicas": replicas if config.min_replicas is None else config.min_replicas,
        "maxReplicas": config.max_replicas,
    }
    if config.metrics:
        spec["metrics"] = encode(config.metrics)
    labels = child_labels(view.pcs.metadata.name, name, AUTOSCALER, replica.index)
    return child(view.raw, AUTOSCALERS, name, spec, labels=labels)


def child_update(resource: Resource, present: Raw, wanted: Raw) -> Update | None:
    """What of a Service or an autoscaler has to change; fields that others set stay."""
    return _update(resource, present, {"metadata": {"labels": wanted["metadata"]["labels"]}, "spec": wanted["spec"]})


def _update(resource: Resource, present: Raw, wanted: Raw) -> Update | None:
    patch = _differing(present, wanted)
    return Update(resource, text(present, "metadata.namespace"), name_of(present), patch) if patch else None


def _differing(present: Raw, wanted: Raw) -> Raw:
    """The wanted fields that are not as wanted. An API server leaves out what is false or empty."""
    patch: Raw = {}
    for field, value in wanted.items():
        before = present.get(field)
        if before == value:
            continue
        if isinstance(value, dict):
            if inner := _differing(before if isinstance(before, dict) else {}, value):
                patch[field] = inner
        elif not (before is None and value in (False, "", [])) and _as_stored(before) != _as_stored(value):
            patch[field] = value
    return patch


_QUANTITIES = ("value", "averageValue")  # fields of the targets of metrics


def _as_stored(value: Any) -> Any:
    """Metrics in a form that is the same before and after an API server has rewritten quantities and left out nulls."""
    if isinstance(value, list):
        return [_as_stored(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _quantity(inner) if name in _QUANTITIES else _as_stored(inner)
        for name, inner in value.items()
        if inner is not None
    }


def _quantity(value: Any) -> Any:
    try:
        return parse_exact(value)
    except ValueError:
        return value

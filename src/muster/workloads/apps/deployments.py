"""Deployments: a ReplicaSet for each template, scaled so that a change of the template rolls through."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from muster.api.fields import at, integer, mapping, number, text, texts
from muster.api.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from muster.workloads.apps.deployment_rollout import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    Rollout,
    Sizes,
    actual,
    first_size,
    is_scaling,
    name_of,
    recreate,
    roll,
    scale,
    size,
)
from muster.workloads.apps.deployment_status import deployment_status, is_complete, progress_seconds
from muster.workloads.merge_patch import merged
from muster.workloads.pod_templates import (
    LONGEST_NAME,
    controller_reference,
    is_finished,
    is_terminating,
    template_hash,
)
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation, Remove, Update

TEMPLATE_HASH = "pod-template-hash"  # label
REVISION = "deployment.kubernetes.io/revision"  # annotation
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"  # annotation
LONGEST_HISTORY = 2000  # characters
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # annotation
_NOT_COPIED = frozenset(
    (LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, "deprecated.deployment.rollback.to")
)


def reconcile(deployment: Raw, children: Children, now: datetime) -> Reconciliation:
    """The next step of the rollout, and the status."""
    replica_sets = children.of(deployment, REPLICA_SETS)
    new = next((each for each in replica_sets if is_same_template(deployment, each)), None)
    old = [each for each in replica_sets if each is not new]
    rollout = Rollout(deployment, new, old)
    if is_terminating(deployment):
        return Reconciliation(status=deployment_status(rollout, now, is_estimated=False))
    is_paused = at(deployment, "spec.paused") is True
    if is_paused or is_scaling(rollout):
        actions = [*_update(rollout, scale(rollout), is_paused), *(_clean_up(rollout) if is_paused else ())]
        return Reconciliation(tuple(actions), deployment_status(rollout, now, is_estimated=False))
    actions, created = _step(rollout, children)
    status = deployment_status(rollout, now, is_estimated=True, created=created)
    return Reconciliation(tuple(actions), status, progress_seconds(deployment, status, now))


def is_same_template(deployment: Raw, replica_set: Raw) -> bool:
    """Whether a ReplicaSet has the template of the Deployment, but for the hash."""
    return bool(_plain(mapping(deployment, "spec.template")) == _plain(mapping(replica_set, "spec.template")))


def _plain(template: Raw) -> Any:
    """A template without its hash, and without what API servers leave out."""
    labels = {name: value for name, value in texts(template, "metadata.labels").items() if name != TEMPLATE_HASH}
    return _without_nothing({**template, "metadata": {**mapping(template, "metadata"), "labels": labels}})


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        fields = {name: _without_nothing(field) for name, field in value.items()}
        return {name: field for name, field in fields.items() if field is not None and field != {}}
    return [_without_nothing(item) for item in value] if isinstance(value, list) else value


def _step(rollout: Rollout, children: Children) -> tuple[list[Action], str]:
    """Actions of a rollout, and the name of the ReplicaSet that they create; empty: none."""
    if not rollout.is_rolling:
        sizes = recreate(rollout)
        if sizes or _are_old_pods_running(rollout, children):
            return list(_update(rollout, sizes)), ""
    if rollout.new is None:
        new = _new_replica_set(rollout)
        return [Create(REPLICA_SETS, new), *_annotate(rollout.deployment, new)], new["metadata"]["name"]
    sizes = roll(rollout) if rollout.is_rolling else _sized(rollout.new, rollout.replicas)
    is_done = not sizes and is_complete(rollout.deployment, mapping(rollout.deployment, "status"))
    return [*_update(rollout, sizes), *(_clean_up(rollout) if is_done else ())], ""


def _sized(replica_set: Raw, replicas: int) -> Sizes:
    return {} if size(replica_set) == replicas else {name_of(replica_set): replicas}


def _are_old_pods_running(rollout: Rollout, children: Children) -> bool:
    if any(map(actual, rollout.old)):
        return True
    return any(not is_finished(pod) for old in rollout.old for pod in children.of(old, PODS))


# ReplicaSets --------------------------------------------------------------------------------------------------------


def _new_replica_set(rollout: Rollout) -> Raw:
    deployment = rollout.deployment
    template, name = mapping(deployment, "spec.template"), text(deployment, "metadata.name")
    digest = template_hash(_plain(template))
    labels = {**texts(template, "metadata.labels"), TEMPLATE_HASH: digest}
    selector = merged(mapping(deployment, "spec.selector"), {"matchLabels": {TEMPLATE_HASH: digest}})
    metadata = {
        "name": f"{name[: LONGEST_NAME - len(digest) - 1]}-{digest}",
        "namespace": text(deployment, "metadata.namespace"),
        "labels": labels,
        "annotations": {**_copied(deployment), REVISION: str(_last_revision(rollout) + 1), **_counts(rollout)},
        "ownerReferences": [controller_reference(deployment)],
    }
    spec = {
        "replicas": first_size(rollout),
        "selector": selector,
        "template": merged(template, {"metadata": {"labels": labels}}),
        **({"minReadySeconds": seconds} if (seconds := integer(deployment, "spec.minReadySeconds")) else {}),
    }
    return {"apiVersion": REPLICA_SETS.api_version, "kind": REPLICA_SETS.kind, "metadata": metadata, "spec": spec}


def _copied(deployment: Raw) -> dict[str, str]:
    annotations = texts(deployment, "metadata.annotations")
    return {name: value for name, value in annotations.items() if name not in _NOT_COPIED}


def _counts(rollout: Rollout) -> dict[str, str]:
    return {DESIRED_REPLICAS: str(rollout.replicas), MAX_REPLICAS: str(rollout.replicas + rollout.max_surge)}


def revision(raw: Raw) -> int:
    """The revision of a Deployment or a ReplicaSet; 0: it has none."""
    return number(texts(raw, "metadata.annotations").get(REVISION, "")) or 0


def _last_revision(rollout: Rollout) -> int:
    return max(map(revision, rollout.old), default=0)


def _update(rollout: Rollout, sizes: Sizes, is_paused: bool = False) -> Sequence[Action]:
    """Writes sizes and annotations of ReplicaSets, and the revision of the Deployment, where they differ."""
    is_sized = bool(sizes) or is_scaling(rollout)
    actions: list[Action] = []
    for replica_set in rollout.all:
        patch: Raw = {}
        if replica_set is rollout.new and not is_paused:
            patch = _renewed(rollout, replica_set)
        if name_of(replica_set) in sizes or (is_sized and size(replica_set)):
            spec = {"replicas": sizes.get(name_of(replica_set), size(replica_set))}
            patch = merged(patch, {"metadata": {"annotations": _counts(rollout)}, "spec": spec})
        if patch and merged(replica_set, patch) != replica_set:
            namespace = text(replica_set, "metadata.namespace")
            actions.append(Update(REPLICA_SETS, namespace, name_of(replica_set), patch))
    new = rollout.new
    return [*actions, *(_annotate(rollout.deployment, merged(new, _renewed(rollout, new))) if new else ())]


def _renewed(rollout: Rollout, new: Raw) -> Raw:
    """What the ReplicaSet of the Deployment's template takes over: annotations, and the highest revision."""
    annotations, current, latest = dict(_copied(rollout.deployment)), revision(new), _last_revision(rollout) + 1
    if current < latest:
        annotations[REVISION] = str(latest)
        if current:
            annotations[REVISION_HISTORY] = _history(new, current)
    spec = {"minReadySeconds": integer(rollout.deployment, "spec.minReadySeconds") or None}
    return {"metadata": {"annotations": annotations}, "spec": spec}


def _history(replica_set: Raw, current: int) -> str:
    before = texts(replica_set, "metadata.annotations").get(REVISION_HISTORY, "")
    revisions = [*filter(None, before.split(",")), str(current)]
    while len(",".join(revisions)) > LONGEST_HISTORY:
        revisions.pop(0)
    return ",".join(revisions)


def _annotate(deployment: Raw, new: Raw) -> Sequence[Action]:
    """The Deployment has the revision of its newest ReplicaSet."""
    if revision(deployment) == revision(new):
        return ()
    patch = {"metadata": {"annotations": {REVISION: str(revision(new))}}}
    metadata = deployment["metadata"]
    return [Update(DEPLOYMENTS, metadata.get("namespace", ""), metadata["name"], patch)]


def _clean_up(rollout: Rollout) -> list[Action]:
    """Deletes the oldest ReplicaSets without pods, beyond the limit of the history."""
    limit = integer(rollout.deployment, "spec.revisionHistoryLimit", 10)
    candidates = sorted((each for each in rollout.old if not is_terminating(each)), key=revision)
    return [
        Remove(REPLICA_SETS, text(each, "metadata.namespace"), name_of(each), text(each, "metadata.uid"))
        for each in candidates[: max(0, len(candidates) - limit)]
        if not size(each) and not actual(each) and _is_observed(each)
    ]


def _is_observed(replica_set: Raw) -> bool:
    return integer(replica_set, "metadata.generation") <= integer(replica_set, "status.observedGeneration")


CONTROLLER = Controller(DEPLOYMENTS, reconcile, (REPLICA_SETS, PODS))

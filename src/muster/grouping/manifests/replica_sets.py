"""ReplicaSets between pods that exist and a Deployment that is given.

Rule 1: `kubectl get deployments,pods` leaves them out: they are made by the names that pods have for them. Rule 2: the
one with most pods counts as current, though API servers fill in templates, and a manifest may have changed. Otherwise
the Deployment would get as many pods again.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from muster.api.core import Pod
from muster.api.fields import integer, items, mapping, text, texts
from muster.api.meta import OwnerReference
from muster.api.names import DEFAULT_NAMESPACE
from muster.api.resources import DEPLOYMENTS, REPLICA_SETS
from muster.grouping.types import Raw
from muster.workloads.expansion import PLANNED

TEMPLATE_HASH = "pod-template-hash"  # label


def missing_replica_sets(pods: Iterable[Pod], raws: Collection[Raw]) -> Iterator[Raw]:
    """ReplicaSets of the current template, by the names that pods have for them."""
    deployments = {_place(raw): raw for raw in raws if raw["kind"] == DEPLOYMENTS.kind}
    known = {_place(raw) for raw in raws if raw["kind"] == REPLICA_SETS.kind}
    for pod in pods if deployments else ():
        hashed = pod.metadata.labels.get(TEMPLATE_HASH, "")
        namespace = pod.metadata.namespace or DEFAULT_NAMESPACE
        for owner in pod.metadata.owner_references:
            deployment = deployments.get((namespace, owner.name.removesuffix(f"-{hashed}")))
            is_missing = owner.kind == REPLICA_SETS.kind and (namespace, owner.name) not in known
            if hashed and deployment is not None and is_missing:
                known.add((namespace, owner.name))
                yield _replica_set(owner, deployment, hashed)


def with_current_templates(raws: Collection[Raw], pods: Iterable[Pod]) -> list[Raw]:
    """The objects, with the template of each Deployment in the one of its ReplicaSets that has most pods."""
    deployments = {_place(raw): raw for raw in raws if raw["kind"] == DEPLOYMENTS.kind}
    counts = Counter(
        (pod.metadata.namespace or DEFAULT_NAMESPACE, owner.name)
        for pod in (pods if deployments else ())
        for owner in pod.metadata.owner_references
        if owner.kind == REPLICA_SETS.kind
    )
    current: dict[tuple[str, str], tuple[int, tuple[str, str]]] = {}
    for raw in raws:
        if raw["kind"] == REPLICA_SETS.kind and (place := _deployment_of(raw)) in deployments:
            rank = counts[_place(raw)], _place(raw)
            current[place] = max(current.get(place, rank), rank)
    chosen = {replica_set: place for place, (count, replica_set) in current.items() if count}
    return [
        _with_template(raw, deployments[chosen[_place(raw)]])
        if raw["kind"] == REPLICA_SETS.kind and _place(raw) in chosen
        else raw
        for raw in raws
    ]


def _deployment_of(raw: Raw) -> tuple[str, str]:
    owners = (text(owner, "name") for owner in items(raw, "metadata.ownerReferences") if owner.get("controller"))
    return _place(raw)[0], next(owners, "")


def _with_template(replica_set: Raw, deployment: Raw) -> Raw:
    hashed = texts(replica_set, "metadata.labels").get(TEMPLATE_HASH, "")
    return {**replica_set, "spec": {**mapping(replica_set, "spec"), "template": _template(deployment, hashed)}}


def _template(deployment: Raw, hashed: str) -> Raw:
    template = mapping(deployment, "spec.template")
    labels = {**texts(template, "metadata.labels"), TEMPLATE_HASH: hashed}
    return {**template, "metadata": {**mapping(template, "metadata"), "labels": labels}}


def _place(raw: Raw) -> tuple[str, str]:
    return text(raw, "metadata.namespace") or DEFAULT_NAMESPACE, text(raw, "metadata.name")


def _replica_set(reference: OwnerReference, deployment: Raw, hashed: str) -> Raw:
    namespace, name = _place(deployment)
    uid = text(deployment, "metadata.uid") or f"{PLANNED}{DEPLOYMENTS.plural}-{namespace}-{name}"
    owner = {"apiVersion": DEPLOYMENTS.api_version, "kind": DEPLOYMENTS.kind, "name": name, "uid": uid}
    template = _template(deployment, hashed)
    labels = template["metadata"]["labels"]
    return {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": reference.name,
            "namespace": namespace,
            "uid": reference.uid,
            "labels": labels,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "replicas": integer(deployment, "spec.replicas", 1),
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }

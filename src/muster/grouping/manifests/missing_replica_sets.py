"""ReplicaSets between pods that exist and a Deployment that is given: `kubectl get deployments,pods` leaves them out.

Without them, the pods would belong to nothing, and the Deployment would get as many again.
"""

from collections.abc import Collection, Iterable, Iterator

from muster.api.core import Pod
from muster.api.fields import integer, mapping, text, texts
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


def _place(raw: Raw) -> tuple[str, str]:
    return text(raw, "metadata.namespace") or DEFAULT_NAMESPACE, text(raw, "metadata.name")


def _replica_set(reference: OwnerReference, deployment: Raw, hashed: str) -> Raw:
    namespace, name = _place(deployment)
    uid = text(deployment, "metadata.uid") or f"{PLANNED}{DEPLOYMENTS.plural}-{namespace}-{name}"
    owner = {"apiVersion": DEPLOYMENTS.api_version, "kind": DEPLOYMENTS.kind, "name": name, "uid": uid}
    template = mapping(deployment, "spec.template")
    labels = {**texts(template, "metadata.labels"), TEMPLATE_HASH: hashed}
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
            "template": {**template, "metadata": {**mapping(template, "metadata"), "labels": labels}},
        },
    }

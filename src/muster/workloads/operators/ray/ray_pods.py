"""The pods of a RayCluster: the head and the workers of each group, with KubeRay's names and labels.

A group of several hosts has replicas of so many pods. KubeRay tells them apart by labels if its feature gate
`RayMultiHostIndexing` is on (v1.5); here it always is.
"""

from collections.abc import Mapping

from msgspec import Struct

from muster.api.fields import at, integer, items, mapping, text, texts
from muster.workloads.operators.objects import MOST_CHILDREN, flag, name_of
from muster.workloads.pod_templates import new_pod
from muster.workloads.types import Raw

CLUSTER, GROUP, NODE_TYPE = "ray.io/cluster", "ray.io/group", "ray.io/node-type"
IS_RAY_NODE, IDENTIFIER, SERVE = "ray.io/is-ray-node", "ray.io/identifier", "ray.io/serve"
REPLICA_NAME, REPLICA_INDEX = "ray.io/worker-group-replica-name", "ray.io/worker-group-replica-index"
HOST_INDEX = "ray.io/replica-host-index"
ORIGIN_NAME, ORIGIN_KIND = "ray.io/originated-from-cr-name", "ray.io/originated-from-crd"
HEAD_GROUP, HEAD, WORKER = "headgroup", "head", "worker"
COMMON: Mapping[str, str] = {
    "app.kubernetes.io/name": "kuberay",
    "app.kubernetes.io/created-by": "kuberay-operator",
}
_LONGEST_PREFIX, _LONGEST_LABEL = 50, 63
_FIXED = frozenset((CLUSTER, GROUP, NODE_TYPE))  # labels that a template cannot change


class WorkerGroup(Struct, frozen=True):
    """One of `spec.workerGroupSpecs`."""

    name: str
    replicas: int  # within the limits of the group; 0 where it is suspended
    hosts: int  # pods of a replica
    min_replicas: int
    max_replicas: int
    template: Raw
    is_suspended: bool = False
    to_delete: frozenset[str] = frozenset()  # names of pods


class RayReplica(Struct, frozen=True):
    """The place of a pod in a group of several hosts."""

    name: str
    index: int
    host: int


def worker_groups(cluster: Raw) -> tuple[WorkerGroup, ...]:
    """The worker groups in the order of the spec; KubeRay refuses one without a name, and a name that comes again."""
    groups: dict[str, WorkerGroup] = {}
    for group in map(_group, items(cluster, "spec.workerGroupSpecs")):
        if group.name:
            groups.setdefault(group.name, group)
    return tuple(groups.values())


def _group(raw: Raw) -> WorkerGroup:
    hosts = max(1, min(integer(raw, "numOfHosts", 1), MOST_CHILDREN))
    least, most = integer(raw, "minReplicas"), integer(raw, "maxReplicas", MOST_CHILDREN)
    replicas = min(max(integer(raw, "replicas", least), least), max(most, least), MOST_CHILDREN // hosts)
    names = at(raw, "scaleStrategy.workersToDelete")
    return WorkerGroup(
        text(raw, "groupName"),
        0 if flag(raw, "suspend") else replicas,
        hosts,
        least,
        most,
        mapping(raw, "template"),
        flag(raw, "suspend"),
        frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset(),
    )


def new_head(cluster: Raw) -> Raw:
    """The head pod."""
    template = mapping(cluster, "spec.headGroupSpec.template")
    pod = _new_pod(cluster, template, f"{name_of(cluster)[:_LONGEST_PREFIX]}-{HEAD}-".lower(), HEAD, HEAD_GROUP)
    pod["metadata"].setdefault("annotations", {}).setdefault("ray.io/ft-enabled", "false")
    if flag(cluster, "spec.enableInTreeAutoscaling"):
        pod["spec"]["containers"] = [*items(pod, "spec.containers"), _autoscaler(pod)]
    return pod


def new_worker(cluster: Raw, group: WorkerGroup, replica: RayReplica | None = None) -> Raw:
    """A worker pod; with a replica where the group has several hosts."""
    prefix = f"{name_of(cluster)}-{group.name}"[:_LONGEST_PREFIX]
    pod = _new_pod(cluster, group.template, f"{prefix}-{WORKER}-".lower(), WORKER, group.name)
    if replica is not None:
        labels = {REPLICA_NAME: replica.name, REPLICA_INDEX: str(replica.index), HOST_INDEX: str(replica.host)}
        pod["metadata"]["labels"] |= labels
    pod["spec"]["initContainers"] = [*items(pod, "spec.initContainers"), _wait_for_head(cluster, pod)]
    return pod


def _new_pod(cluster: Raw, template: Raw, prefix: str, node_type: str, group: str) -> Raw:
    pod = new_pod(cluster, template)
    pod["metadata"]["generateName"] = prefix
    own = {name: value for name, value in texts(template, "metadata.labels").items() if name not in _FIXED}
    pod["metadata"]["labels"] = {**_labels(cluster, node_type, group), **own}
    if texts(cluster, "metadata.labels").get(ORIGIN_KIND) == "RayService":
        pod["metadata"]["labels"][SERVE] = "false" if node_type == HEAD else "true"
    return pod


def _labels(cluster: Raw, node_type: str, group: str) -> dict[str, str]:
    identifier = f"{name_of(cluster)}-{node_type}"[-_LONGEST_LABEL:]
    names = {CLUSTER: name_of(cluster), NODE_TYPE: node_type, GROUP: group}
    return {IS_RAY_NODE: "yes", **names, IDENTIFIER: identifier, **COMMON}


def head_service_name(cluster: Raw) -> str:
    """The service of the head."""
    return text(cluster, "spec.headGroupSpec.headService.metadata.name") or f"{name_of(cluster)}-head-svc"


def _ray_container(pod: Raw) -> Raw:
    return next(iter(items(pod, "spec.containers")), {})


def _wait_for_head(cluster: Raw, pod: Raw) -> Raw:
    address = f"{head_service_name(cluster)}.{text(cluster, 'metadata.namespace')}.svc.cluster.local:6379"
    amounts = {"cpu": "200m", "memory": "256Mi"}
    return {
        "name": "wait-gcs-ready",
        "image": text(_ray_container(pod), "image"),
        "command": ["/bin/bash", "-c", "--"],
        "args": [f"until ray health-check --address {address}; do sleep 5; done"],
        "resources": {"limits": amounts, "requests": amounts},
    }


def _autoscaler(pod: Raw) -> Raw:
    amounts = {"cpu": "500m", "memory": "512Mi"}
    return {
        "name": "autoscaler",
        "image": text(_ray_container(pod), "image"),
        "resources": {"limits": amounts, "requests": amounts},
    }

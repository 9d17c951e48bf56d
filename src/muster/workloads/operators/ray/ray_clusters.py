"""RayClusters as KubeRay (v1.4, v1.5) reconciles them: services, then the head, then the workers of each group.

Rule: a pod that ended is deleted first and replaced in a later reconciliation; of a group of several hosts its whole
replica is.

Simpler than KubeRay: no fault-tolerant GCS, no ingress, no account for the autoscaler, and nothing scales by load.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count

from msgspec import Struct

from muster.api.fields import integer, items, mapping, number, text, texts
from muster.api.resources import PODS, RAY_CLUSTERS, SERVICES
from muster.workloads.bursts import burst_beside
from muster.workloads.operators.conditions import WorkloadCondition, is_running_and_ready, set_condition
from muster.workloads.operators.objects import MOST_ACTIONS, child, flag, name_of, removal
from muster.workloads.operators.ray import ray_pods
from muster.workloads.operators.ray.ray_pods import RayReplica, WorkerGroup, new_head, new_worker, worker_groups
from muster.workloads.pod_templates import is_terminating, phase, template_hash
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation

_OPERATOR = "ray.io/kuberay-operator"
_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "metrics": 8080, "serve": 8000}
_HEAD_READY = WorkloadCondition("HeadPodReady", "HeadPodRunningAndReady", "the head pod is ready")
_HEAD_MISSING = WorkloadCondition("HeadPodReady", "HeadPodNotFound", "the head pod is not ready", is_true=False)
_PROVISIONED = WorkloadCondition(
    "RayClusterProvisioned", "AllPodRunningAndReadyFirstTime", "all pods were ready for the first time"
)
_SUSPENDED = WorkloadCondition("RayClusterSuspended", "RayClusterSuspended", "the cluster is suspended")
_RESUMED = WorkloadCondition("RayClusterSuspended", "UserRequestedResume", "the cluster is resumed", is_true=False)


class RayPods(Struct, frozen=True):
    """The pods of a cluster that are not being deleted."""

    heads: tuple[Raw, ...]
    workers: Mapping[str, tuple[Raw, ...]]  # by group

    @property
    def everyone(self) -> list[Raw]:
        """All of them."""
        return [*self.heads, *(pod for group in self.workers.values() for pod in group)]


def reconcile(cluster: Raw, children: Children, now: datetime) -> Reconciliation:
    """Creates services and pods, replaces pods that ended, scales groups, suspends; reports."""
    if is_terminating(cluster) or text(cluster, "spec.managedBy") not in ("", _OPERATOR):
        return Reconciliation()
    groups, every = worker_groups(cluster), children.of(cluster, PODS)
    pods = _pods_of(every)
    status = _status(cluster, groups, pods, now, has_pods=bool(every))
    if flag(cluster, "spec.suspend"):
        return Reconciliation(tuple(removal(PODS, pod) for pod in pods.everyone), status)
    actions: list[Action] = [*_service_actions(cluster, groups, children), *_head_actions(cluster, pods, every)]
    for group in groups:
        actions += _group_actions(cluster, group, pods.workers.get(group.name, ()), now)
    is_partial = sum(isinstance(action, Create) for action in actions) >= MOST_ACTIONS // 2
    return Reconciliation((*actions, *_orphan_actions(groups, pods)), status, 0.0 if is_partial else None)


def _pods_of(pods: Sequence[Raw]) -> RayPods:
    heads: list[Raw] = []
    workers: dict[str, list[Raw]] = {}
    for pod in pods:
        labels = texts(pod, "metadata.labels")
        if is_terminating(pod):
            continue
        if labels.get(ray_pods.NODE_TYPE) == ray_pods.HEAD:
            heads.append(pod)
        else:
            workers.setdefault(labels.get(ray_pods.GROUP, ""), []).append(pod)
    return RayPods(tuple(heads), {group: tuple(members) for group, members in workers.items()})


def _has_ended(pod: Raw) -> bool:
    return phase(pod) in ("Failed", "Succeeded")


# services -----------------------------------------------------------------------------------------------------------


def _service_actions(cluster: Raw, groups: Sequence[WorkerGroup], children: Children) -> Iterator[Action]:
    present = {name_of(service) for service in children.of(cluster, SERVICES)}
    head, workers = ray_pods.head_service_name(cluster), f"{name_of(cluster)}-headless-worker-svc"
    if head not in present:
        yield Create(SERVICES, _head_service(cluster, head))
    if workers not in present and any(group.hosts > 1 for group in groups):
        selector = {ray_pods.CLUSTER: name_of(cluster), ray_pods.NODE_TYPE: ray_pods.WORKER}
        labels = {ray_pods.CLUSTER: name_of(cluster), "ray.io/headless-worker-svc": workers}
        spec = {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
        yield Create(SERVICES, child(cluster, SERVICES, workers, spec, labels=labels))


def _head_service(cluster: Raw, name: str) -> Raw:
    labels = {
        ray_pods.CLUSTER: name_of(cluster),
        ray_pods.NODE_TYPE: ray_pods.HEAD,
        ray_pods.IDENTIFIER: f"{name_of(cluster)}-head",
        **ray_pods.COMMON,
    }
    ports = [{"name": port, "port": number} for port, number in _PORTS.items()]
    return child(cluster, SERVICES, name, {"clusterIP": "None", "selector": labels, "ports": ports}, labels=labels)


# pods ---------------------------------------------------------------------------------------------------------------


def _head_actions(cluster: Raw, pods: RayPods, every: Sequence[Raw]) -> Iterator[Action]:
    labels = (texts(pod, "metadata.labels") for pod in every)
    if not any(own.get(ray_pods.NODE_TYPE) == ray_pods.HEAD for own in labels):
        yield Create(PODS, new_head(cluster))
    yield from (removal(PODS, pod) for pod in pods.heads if _has_ended(pod))


def _group_actions(cluster: Raw, group: WorkerGroup, pods: Sequence[Raw], now: datetime) -> list[Action]:
    if group.is_suspended:
        return [removal(PODS, pod) for pod in pods]
    if group.hosts > 1:
        return _replica_actions(cluster, group, pods, now)
    doomed = [pod for pod in pods if _has_ended(pod) or name_of(pod) in group.to_delete]
    if any(map(_has_ended, doomed)):
        return [removal(PODS, pod) for pod in doomed]
    kept = [pod for pod in pods if name_of(pod) not in group.to_delete]
    surplus = kept[group.replicas :] if not flag(cluster, "spec.enableInTreeAutoscaling") else []
    missing = min(group.replicas - len(kept), burst_beside(len(kept), MOST_ACTIONS))
    created = [Create(PODS, new_worker(cluster, group)) for _ in range(missing)]
    return [*(removal(PODS, pod) for pod in (*doomed, *surplus)), *created]


def _replica_actions(cluster: Raw, group: WorkerGroup, pods: Sequence[Raw], now: datetime) -> list[Action]:
    """A replica is complete or goes as a whole; free indices are taken from 0 up."""
    replicas: dict[str, list[Raw]] = {}
    for pod in pods:
        replicas.setdefault(texts(pod, "metadata.labels").get(ray_pods.REPLICA_NAME, ""), []).append(pod)
    complete = {name: members for name, members in replicas.items() if _is_complete(group, members)}
    doomed = [pod for name, members in replicas.items() if name not in complete for pod in members]
    if doomed:
        return [removal(PODS, pod) for pod in doomed]
    ordered = sorted(complete.values(), key=lambda members: _index(members[0]))
    surplus = ordered[group.replicas :] if not flag(cluster, "spec.enableInTreeAutoscaling") else []
    taken = {_index(members[0]) for members in ordered}
    free = (index for index in count() if index not in taken)
    missing = min(group.replicas - len(ordered), max(1, burst_beside(len(pods), MOST_ACTIONS) // group.hosts))
    created = [
        Create(PODS, new_worker(cluster, group, replica))
        for index, _ in zip(free, range(missing), strict=False)
        for replica in _new_replica(cluster, group, index, now)
    ]
    return [*(removal(PODS, pod) for members in surplus for pod in members), *created]


def _is_complete(group: WorkerGroup, members: Sequence[Raw]) -> bool:
    is_healthy = not any(_has_ended(pod) or name_of(pod) in group.to_delete for pod in members)
    return is_healthy and len(members) == group.hosts


def _index(pod: Raw) -> int:
    return number(texts(pod, "metadata.labels").get(ray_pods.REPLICA_INDEX, "")) or 0


def _new_replica(cluster: Raw, group: WorkerGroup, index: int, now: datetime) -> Iterator[RayReplica]:
    seed = [text(cluster, "metadata.uid"), group.name, index, now.isoformat()]
    name = f"{group.name}-{template_hash(seed)[:5]}"
    return (RayReplica(name, index, host) for host in range(group.hosts))


def _orphan_actions(groups: Sequence[WorkerGroup], pods: RayPods) -> Iterator[Action]:
    names = {group.name for group in groups}
    return (removal(PODS, pod) for group, members in pods.workers.items() if group not in names for pod in members)


# status -------------------------------------------------------------------------------------------------------------


def _status(cluster: Raw, groups: Sequence[WorkerGroup], pods: RayPods, now: datetime, *, has_pods: bool) -> Raw:
    workers = [pod for members in pods.workers.values() for pod in members]
    active = [group for group in groups if not group.is_suspended]
    status = {
        **mapping(cluster, "status"),
        "observedGeneration": integer(cluster, "metadata.generation"),
        "desiredWorkerReplicas": sum(group.replicas * group.hosts for group in groups),
        "minWorkerReplicas": sum(group.min_replicas * group.hosts for group in active),
        "maxWorkerReplicas": sum(group.max_replicas * group.hosts for group in active),
        "availableWorkerReplicas": sum(phase(pod) == "Running" for pod in workers),
        "readyWorkerReplicas": sum(map(is_running_and_ready, workers)),
        "head": _head(cluster, pods),
    }
    is_whole = _is_whole(groups, pods)
    status["state"] = _state(cluster, is_whole=is_whole, has_pods=has_pods)
    status["conditions"] = _conditions(cluster, pods, now, is_whole=is_whole, has_pods=has_pods)
    return {field: value for field, value in status.items() if value != ""}


def _head(cluster: Raw, pods: RayPods) -> Raw:
    names = {"podName": name_of(pods.heads[0])} if pods.heads else {}
    return {**names, "serviceName": ray_pods.head_service_name(cluster)}


def _is_whole(groups: Sequence[WorkerGroup], pods: RayPods) -> bool:
    wanted = 1 + sum(group.replicas * group.hosts for group in groups)
    return len(pods.everyone) >= wanted and all(map(is_running_and_ready, pods.everyone))


def _state(cluster: Raw, *, is_whole: bool, has_pods: bool) -> str:
    """The state changes where the cluster is ready or suspended; a cluster that was ready stays so."""
    if flag(cluster, "spec.suspend"):
        return "suspended" if not has_pods else text(cluster, "status.state")
    before = text(cluster, "status.state")
    return "ready" if is_whole or before == "ready" else ""


def _conditions(cluster: Raw, pods: RayPods, now: datetime, *, is_whole: bool, has_pods: bool) -> list[Raw]:
    is_head_ready = any(map(is_running_and_ready, pods.heads))
    conditions = set_condition(
        items(cluster, "status.conditions"), _HEAD_READY if is_head_ready else _HEAD_MISSING, now
    )
    if flag(cluster, "spec.suspend"):
        excluded = (_PROVISIONED.type,)
        return conditions if has_pods else set_condition(conditions, _SUSPENDED, now, excluded=excluded)
    conditions = set_condition(conditions, _RESUMED, now)
    return set_condition(conditions, _PROVISIONED, now) if is_whole else conditions


CONTROLLER = Controller(RAY_CLUSTERS, reconcile, children=(PODS, SERVICES))

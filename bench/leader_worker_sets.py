"""Pods of LeaderWorkerSet groups of eight, as their operator makes them, with everything that owns them."""

from typing import Any

from bench.cluster import AT_ONCE, GANG, NAMESPACE, each
from muster.api.resources import LEADER_WORKER_SETS, PODS, STATEFUL_SETS, Resource
from muster.kube.cluster import Cluster, Raw

LWS = "leaderworkerset.sigs.k8s.io"


def typed(resource: Resource, name: str, spec: Raw, owner: Raw | None = None, **meta: Any) -> Raw:
    references = {"ownerReferences": [reference(owner)]} if owner else {}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, **references, **meta},
        "spec": spec,
    }


def reference(owner: Raw) -> Raw:
    meta = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**named, "controller": True, "blockOwnerDeletion": True}


def stateful_set(name: str, owner: Raw) -> Raw:
    selector = {"matchLabels": {"app": name}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "none:1"}]}}
    return typed(STATEFUL_SETS, name, {"selector": selector, "serviceName": name, "template": template}, owner)


def lws_pod(name: str, owner: Raw, group: int, worker: int, scheduler: str, mark: Raw | None) -> Raw:
    requests = {"cpu": "1", "memory": "8Gi", "nvidia.com/gpu": "1"}
    box = {"name": "main", "image": "none:1", "resources": {"requests": requests, "limits": requests}}
    labels = {f"{LWS}/name": "bench", f"{LWS}/group-index": str(group), f"{LWS}/worker-index": str(worker)}
    labels |= {"app": "bench", "apps.kubernetes.io/pod-index": str(worker)}
    annotations = {f"{LWS}/size": str(GANG), **(mark or {}).get("annotations", {})}
    labels |= (mark or {}).get("labels", {})
    spec = {"schedulerName": scheduler, "containers": [box]}
    return typed(PODS, name, spec, owner, labels=labels, annotations=annotations)


def mark_of(owner: Raw, group: int, worker: int) -> Raw:
    """What admission writes on a pod."""
    name = f"pg-{owner['metadata']['name']}-{owner['metadata']['uid']}-group-{group}"
    leaf = "workers" if worker else "leader"
    annotations = {"pod-group-name": name, "muster.dev/grouped-by": "LeaderWorkerSet"}
    return {"annotations": annotations, "labels": {"kai.scheduler/subgroup-name": leaf}}


async def make_set(cluster: Cluster, name: str, groups: int, scheduler: str, *, is_marked: bool = False) -> list[Raw]:
    """A LeaderWorkerSet of so many groups and everything below it; returns its pods."""
    spec = {"replicas": groups, "leaderWorkerTemplate": {"size": GANG, "workerTemplate": {"spec": {"containers": []}}}}
    owner = await created(cluster, LEADER_WORKER_SETS, typed(LEADER_WORKER_SETS, name, spec))
    leaders = await created(cluster, STATEFUL_SETS, stateful_set(name, owner))
    pods: list[Raw] = []

    async def make_group(group: int) -> None:
        parent = leaders
        for worker in range(GANG):
            pod_name = f"{name}-{group}-{worker}" if worker else f"{name}-{group}"
            mark = mark_of(owner, group, worker) if is_marked else None
            raw = await created(cluster, PODS, lws_pod(pod_name, parent, group, worker, scheduler, mark))
            pods.append(raw)
            if worker == 0:
                parent = await created(cluster, STATEFUL_SETS, stateful_set(pod_name, raw))

    await each(make_group, range(groups), AT_ONCE)
    return pods


async def created(cluster: Cluster, resource: Resource, raw: Raw) -> Raw:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **await cluster.create(resource, raw)}

"""Manifests for a live cluster, and what they say about a pod. Shares no code with the engine."""

from collections.abc import Mapping
from typing import Any

from muster.kube.cluster import Raw
from tests.support.factories import node, pod

GPU, RACK = "nvidia.com/gpu", "topology/rack"


def gpu_node(name: str, rack: str = "r1", gpus: int = 4) -> Raw:
    allocatable = {GPU: str(gpus), "cpu": "64", "memory": "512Gi", "pods": "110"}
    return node(name, allocatable=allocatable, labels={RACK: rack})


def gpu_pod(name: str, gang: str, gpus: int = 2, leaf: str = "", scheduler: str = "muster", node_name: str = "") -> Raw:
    """A pod of one container with a limit of GPUs; an empty `gang`: of none."""
    labels, limits = {"app": gang}, {GPU: str(gpus)}
    return pod(
        name,
        leaf,
        gang=gang,
        namespace="default",
        on=node_name,
        scheduler=scheduler,
        image="x:1",
        labels=labels,
        limits=limits,
    )


def group(name: str, **spec: Any) -> Raw:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta, "spec": spec}


def queue(name: str, quota: int = -1, limit: int = -1) -> Raw:
    spec = {"resources": {"gpu": {"quota": quota, "limit": limit}}}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def leaf(name: str, need: int, rack: bool = False) -> Raw:
    where = {"topologyConstraint": {"requiredTopologyLevel": RACK}} if rack else {}
    return {"name": name, "minMember": need, **where}


def placed(raw: Raw) -> bool:
    """On a node, not over and not leaving."""
    over = raw.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return bool(raw["spec"].get("nodeName")) and not over and not raw["metadata"].get("deletionTimestamp")


def gpus_of(raw: Raw) -> int:
    return sum(int(one["resources"]["requests"].get(GPU, 0)) for one in raw["spec"]["containers"])


def gang_of(raw: Raw) -> str:
    return str(raw["metadata"].get("annotations", {}).get("pod-group-name", ""))


def leaf_of(raw: Raw) -> str:
    return str(raw["metadata"].get("labels", {}).get("kai.scheduler/subgroup-name", ""))


def enough(spec: Raw, pods: Mapping[str, int], name: str = "") -> bool:
    """Whether a group's minimums are met by so many pods in each leaf (M1, M2)."""
    groups = spec.get("subGroups") or []
    here = next((one for one in groups if one["name"] == name), spec)
    children = [one["name"] for one in groups if one.get("parent", "") == name]
    if not children:
        return pods.get(name, 0) >= int(here.get("minMember", 1))
    return sum(enough(spec, pods, child) for child in children) >= int(here.get("minSubGroup", len(children)))


def leaves(spec: Raw, name: str) -> set[str]:
    """Every leaf below a group, or itself; empty: the PodGroup."""
    children = [one["name"] for one in spec.get("subGroups") or () if one.get("parent", "") == name]
    return {name} if not children else {leaf_name for child in children for leaf_name in leaves(spec, child)}

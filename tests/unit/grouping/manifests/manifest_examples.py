"""Manifests as users write them, without uids, and pods as clusters have them."""

from pathlib import Path
from typing import Any

from muster.api import codec
from muster.api.decoding import encode
from muster.api.objects import Objects

Raw = dict[str, Any]
EXAMPLES = Path(__file__).parents[4] / "examples" / "workloads"
OURS = ("pod-group-name", "muster.dev/grouped-by")


def template(**spec: Any) -> Raw:
    containers = [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "metadata": {"labels": {"app": "main"}},
        "spec": {"schedulerName": "muster", "containers": containers, **spec},
    }


def manifest(kind: str, api_version: str, name: str, spec: Any, **metadata: Any) -> Raw:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def job(name: str = "train", pods: Any = 2, **metadata: Any) -> Raw:
    spec = {"parallelism": pods, "completions": pods, "template": template()}
    return manifest("Job", "batch/v1", name, spec, **metadata)


def deployment(name: str = "web", replicas: Any = 3) -> Raw:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "main"}}, "template": template()}
    return manifest("Deployment", "apps/v1", name, spec)


def lws(name: str = "llm", replicas: Any = 2, size: Any = 4, **metadata: Any) -> Raw:
    spec = {"replicas": replicas, "leaderWorkerTemplate": {"size": size, "workerTemplate": template()}}
    return manifest("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", name, spec, **metadata)


def pytorch_job(name: str = "mnist", workers: Any = 3) -> Raw:
    roles = {"Master": {"replicas": 1, "template": template()}, "Worker": {"replicas": workers, "template": template()}}
    return manifest("PyTorchJob", "kubeflow.org/v1", name, {"pytorchReplicaSpecs": roles})


def pod(name: str = "alone", owner: Raw | None = None, **spec: Any) -> Raw:
    references = {"ownerReferences": [{**owner, "controller": True}]} if owner else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **references},
        "spec": {"schedulerName": "muster", "containers": [{"name": "main"}], **spec},
    }


def reference(kind: str, api_version: str, name: str, uid: str) -> Raw:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}


def node(name: str = "n1", cpu: str = "64") -> Raw:
    allocatable = {"cpu": cpu, "memory": "256Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": allocatable, "conditions": ready},
    }


def example(path: Path) -> list[Raw]:
    return [document.raw for document in codec.read(path.read_bytes(), path.name)]


def as_cluster(objects: Objects) -> list[Raw]:
    """The pods of these objects as a cluster has them before they are grouped."""
    raws = [{"apiVersion": "v1", "kind": "Pod", **encode(each)} for each in objects.pods]
    for raw in raws:
        meta = raw["metadata"]
        meta["annotations"] = {name: text for name, text in meta.get("annotations", {}).items() if name not in OURS}
        meta["labels"] = {n: text for n, text in meta.get("labels", {}).items() if n != "kai.scheduler/subgroup-name"}
    return raws

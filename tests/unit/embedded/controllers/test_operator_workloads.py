"""Workloads of operators on the embedded cluster: the runtime performs what `workloads/operators` decides."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from muster.api import codec
from muster.api.resources import (
    EVENTS,
    JOB_SETS,
    JOBS,
    LEADER_WORKER_SETS,
    PODS,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    STATEFUL_SETS,
    Resource,
)
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cluster import Raw
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.workloads.operators.crds import operator_crds

EXAMPLES = Path(__file__).parents[4] / "examples" / "workloads"
LONGEST_SECONDS = 20.0
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-05-04T12:00:00Z"}


class OperatorCluster:
    """An embedded cluster with the controllers of workloads; the test plays kubelet."""

    def __init__(self) -> None:
        self.store = ClusterStore(custom=operator_crds())
        self._cluster = MemoryCluster(self.store)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        controllers = asyncio.create_task(ControllerRuntime(self._cluster).run())
        try:
            yield
        finally:
            controllers.cancel()
            await asyncio.wait([controllers])

    def apply_example(self, name: str, resource: Resource) -> Raw:
        (document,) = codec.read((EXAMPLES / f"{name}.yaml").read_bytes(), name)
        return self.store.create(resource, document.raw, namespace="default")

    def get(self, resource: Resource, name: str) -> Raw:
        return self.store.get(resource, "default", name)

    def names(self, resource: Resource = PODS) -> list[str]:
        return sorted(raw["metadata"]["name"] for raw in self.store.list(resource, "default").items)

    def uids(self) -> dict[str, str]:
        pods = self.store.list(PODS, "default").items
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}

    def set_phase(self, name: str, phase: str) -> None:
        status = {"phase": phase, "conditions": [READY] if phase == "Running" else []}
        self.store.patch(PODS, "default", name, {"status": status}, subresource="status")

    async def until(self, is_true: Callable[[], bool], *, runs_pods: bool = False) -> None:
        async with asyncio.timeout(LONGEST_SECONDS):
            while not is_true():
                await asyncio.sleep(0.01)
                if runs_pods:
                    self.run_pods()

    def run_pods(self) -> None:
        for pod in self.store.list(PODS, "default").items:
            if pod["status"].get("phase", "Pending") == "Pending" and "deletionTimestamp" not in pod["metadata"]:
                self.set_phase(pod["metadata"]["name"], "Running")


@pytest.fixture
async def cluster() -> AsyncIterator[OperatorCluster]:
    cluster = OperatorCluster()
    async with cluster.running():
        yield cluster


async def test_a_leader_worker_set_runs_scales_and_goes_with_all_it_owns(cluster: OperatorCluster) -> None:
    cluster.apply_example("leader-worker-set", LEADER_WORKER_SETS)
    await cluster.until(lambda: len(cluster.names()) == 8)

    def is_ready(count: int) -> bool:
        status: Raw = cluster.get(LEADER_WORKER_SETS, "llm").get("status", {})
        return bool(status.get("readyReplicas", 0) == count)

    await cluster.until(lambda: is_ready(2), runs_pods=True)
    cluster.store.patch(LEADER_WORKER_SETS, "default", "llm", {"spec": {"replicas": 1}}, subresource="scale")
    await cluster.until(lambda: cluster.names() == ["llm-0", "llm-0-1", "llm-0-2", "llm-0-3"])
    await cluster.until(lambda: is_ready(1))
    cluster.store.delete(LEADER_WORKER_SETS, "default", "llm")
    await cluster.until(lambda: not cluster.names() and not cluster.names(STATEFUL_SETS))


async def test_a_new_template_reaches_every_group_of_a_leader_worker_set(cluster: OperatorCluster) -> None:
    cluster.apply_example("leader-worker-set", LEADER_WORKER_SETS)
    await cluster.until(lambda: len(cluster.names()) == 8)
    cluster.run_pods()
    lws = cluster.get(LEADER_WORKER_SETS, "llm")
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = "new"
    cluster.store.replace(LEADER_WORKER_SETS, lws)

    def images() -> list[str]:
        pods = cluster.store.list(PODS, "default").items
        return [pod["spec"]["containers"][0]["image"] for pod in pods]

    await cluster.until(lambda: images() == ["new"] * 8, runs_pods=True)
    conditions = [("Progressing", "False"), ("Available", "True"), ("UpdateInProgress", "False")]

    def is_settled() -> bool:
        items = cluster.get(LEADER_WORKER_SETS, "llm").get("status", {}).get("conditions", [])
        return sorted((item["type"], item["status"]) for item in items) == sorted(conditions)

    await cluster.until(is_settled, runs_pods=True)


async def test_an_evicted_worker_replaces_its_group_and_no_other(cluster: OperatorCluster) -> None:
    cluster.apply_example("leader-worker-set", LEADER_WORKER_SETS)
    await cluster.until(lambda: len(cluster.names()) == 8)
    cluster.run_pods()
    before = cluster.uids()
    cluster.store.patch(PODS, "default", "llm-0-2", {"metadata": {"finalizers": ["example.com/hold"]}})
    cluster.store.delete(PODS, "default", "llm-0-2")
    await cluster.until(lambda: cluster.uids().get("llm-0") != before["llm-0"])
    cluster.store.patch(PODS, "default", "llm-0-2", {"metadata": {"finalizers": None}})
    await cluster.until(lambda: len(cluster.names()) == 8)
    after = cluster.uids()
    assert {name for name in before if after[name] == before[name]} == {"llm-1", "llm-1-1", "llm-1-2", "llm-1-3"}


async def test_a_failed_job_restarts_a_job_set_as_a_whole(cluster: OperatorCluster) -> None:
    cluster.apply_example("job-set", JOB_SETS)
    await cluster.until(lambda: len(cluster.names()) == 5)
    before = {job: cluster.get(JOBS, job)["metadata"]["uid"] for job in cluster.names(JOBS)}
    cluster.set_phase(next(name for name in cluster.names() if name.startswith("train-workers-1-0")), "Failed")
    await cluster.until(lambda: cluster.get(JOB_SETS, "train").get("status", {}).get("restarts") == 1)

    def has_restarted() -> bool:
        uids = {job: cluster.get(JOBS, job)["metadata"]["uid"] for job in cluster.names(JOBS)}
        return len(uids) == 3 and not set(uids.values()) & set(before.values())

    await cluster.until(has_restarted)
    await cluster.until(lambda: len(cluster.names()) == 5)


async def test_a_training_job_is_scaled_and_ends_with_its_master(cluster: OperatorCluster) -> None:
    cluster.apply_example("pytorch-job", PYTORCH_JOBS)
    await cluster.until(lambda: len(cluster.names()) == 4)
    cluster.store.patch(PYTORCH_JOBS, "default", "mnist", {"spec": {"replicas": 1}}, subresource="scale")
    await cluster.until(lambda: cluster.names() == ["mnist-master-0", "mnist-worker-0"])
    cluster.run_pods()
    cluster.set_phase("mnist-master-0", "Succeeded")

    def conditions() -> list[Raw]:
        items: list[Raw] = cluster.get(PYTORCH_JOBS, "mnist").get("status", {}).get("conditions", [])
        return items

    await cluster.until(lambda: any(item["type"] == "Succeeded" for item in conditions()))


async def test_a_ray_cluster_replaces_a_replica_that_lost_a_host(cluster: OperatorCluster) -> None:
    cluster.apply_example("ray-cluster-multi-host", RAY_CLUSTERS)
    await cluster.until(lambda: len(cluster.names()) == 5)
    cluster.run_pods()
    before = set(cluster.uids().values())
    lost = next(name for name in cluster.names() if "worker" in name)
    cluster.store.delete(PODS, "default", lost, grace_seconds=0)
    await cluster.until(lambda: len(cluster.names()) == 5 and len(set(cluster.uids().values()) & before) == 3)


async def test_a_template_that_the_api_server_rejects_is_reported_on_the_workload(cluster: OperatorCluster) -> None:
    raw = cluster.apply_example("pytorch-job", PYTORCH_JOBS)
    broken = {**raw, "metadata": {"name": "broken"}, "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}}
    cluster.store.create(PYTORCH_JOBS, broken, namespace="default")

    def reasons() -> list[str]:
        events = cluster.store.list(EVENTS, "default").items
        return [event["reason"] for event in events if event["involvedObject"]["name"] == "broken"]

    await cluster.until(lambda: "FailedCreate" in reasons())
    await cluster.until(lambda: len(cluster.names()) == 4)

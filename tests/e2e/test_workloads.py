"""Kubernetes' own workloads on the embedded cluster, as people drive them with kubectl."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.api.resources import EVENTS, JOBS, NODES, PODS, REPLICA_SETS
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.server import serve
from muster.kube.cluster import Raw
from muster.kube.controller.controller_runtime import ControllerRuntime
from tests.e2e.kubectl import KUBECTL, MISSING, Kubectl

pytestmark = pytest.mark.skipif(KUBECTL is None, reason=MISSING)
TIMINGS = KubeletTimings(start_seconds=0.1, stop_seconds=0.1)
LONGEST_SECONDS = 20.0


class WorkloadCluster:
    """An embedded cluster whose workloads get pods; templates name the node, so that none waits for a scheduler."""

    def __init__(self, memory: MemoryCluster, kubectl: Kubectl) -> None:
        self.memory, self.store, self.kubectl = memory, memory.store, kubectl

    def pods(self) -> list[Raw]:
        return list(self.store.list(PODS).items)

    def names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods()]

    async def until(self, test: Callable[[], bool]) -> None:
        async with asyncio.timeout(LONGEST_SECONDS):
            while not test():
                await asyncio.sleep(0.02)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[WorkloadCluster]:
    memory = MemoryCluster()
    memory.store.create(NODES, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "64", "pods": "500"}}})
    loops = [ControllerRuntime(memory).run, Kubelets(memory, timings=TIMINGS).run]
    tasks = [asyncio.create_task(loop()) for loop in loops]
    try:
        async with serve(memory) as serving:
            yield WorkloadCluster(memory, Kubectl(serving.kubeconfig, tmp_path))
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)


def template(name: str, restart: str = "Always", annotations: dict[str, str] | None = None) -> Raw:
    container = {"name": "main", "image": "x"}
    spec = {"nodeName": "n", "restartPolicy": restart, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"labels": {"app": name}, "annotations": annotations or {}}, "spec": spec}


def replicated(kind: str, name: str, replicas: int, **spec: Any) -> Raw:
    selector = {"matchLabels": {"app": name}}
    own = {"replicas": replicas, "selector": selector, "template": template(name), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": own}


def job(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    own = {"template": template(name, "Never", annotations), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": own}


SHORT = {"muster.dev/run-for": "300ms"}


# Deployments ----------------------------------------------------------------------------------------------------------


async def test_rollout_status_scale_restart_and_undo(cluster: WorkloadCluster) -> None:
    kubectl = cluster.kubectl
    await kubectl("create", "-f", "-", send=replicated("Deployment", "web", 3))
    assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/web")
    assert (await kubectl.table("get", "deploy"))[1][:4] == ["web", "3/3", "3", "3"]

    await kubectl("scale", "deployment/web", "--replicas=5")
    await kubectl("rollout", "status", "deployment/web")
    first = set(cluster.names())
    assert len(first) == 5

    await kubectl("rollout", "restart", "deployment/web")
    await kubectl("rollout", "status", "deployment/web")
    await cluster.until(lambda: len(cluster.names()) == 5)
    assert not first & set(cluster.names())
    assert [row.split()[0] for row in (await kubectl("rollout", "history", "deployment/web")).splitlines()[2:4]] == [
        "1",
        "2",
    ]

    await kubectl("rollout", "undo", "deployment/web")
    await kubectl("rollout", "status", "deployment/web")
    deployment = await kubectl.json("get", "deployment", "web")
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    assert len(cluster.store.list(REPLICA_SETS).items) == 2  # the first one is used again


async def test_a_paused_deployment_rolls_when_it_is_resumed(cluster: WorkloadCluster) -> None:
    kubectl = cluster.kubectl
    await kubectl("create", "-f", "-", send=replicated("Deployment", "web", 2))
    await kubectl("rollout", "status", "deployment/web")
    before = set(cluster.names())
    await kubectl("rollout", "pause", "deployment/web")
    await kubectl("set", "image", "deployment/web", "main=y")
    await asyncio.sleep(0.5)
    assert set(cluster.names()) == before
    await kubectl("rollout", "resume", "deployment/web")
    await kubectl("rollout", "status", "deployment/web")
    await cluster.until(lambda: not before & set(cluster.names()))


async def test_pods_come_back_and_go_with_their_deployment(cluster: WorkloadCluster) -> None:
    kubectl = cluster.kubectl
    await kubectl("create", "-f", "-", send=replicated("Deployment", "web", 2))
    await kubectl("rollout", "status", "deployment/web")
    pod = cluster.names()[0]
    await kubectl("delete", "pod", pod)
    await cluster.until(lambda: len(cluster.names()) == 2 and pod not in cluster.names())
    await kubectl("delete", "deployment", "web")
    await cluster.until(lambda: not cluster.pods() and not cluster.store.list(REPLICA_SETS).items)


async def test_cascade_orphan_leaves_the_pods(cluster: WorkloadCluster) -> None:
    kubectl = cluster.kubectl
    await kubectl("create", "-f", "-", send=replicated("ReplicaSet", "web", 2))
    await kubectl("wait", "--for=jsonpath={.status.readyReplicas}=2", "rs/web")
    await kubectl("delete", "rs", "web", "--cascade=orphan")
    await asyncio.sleep(0.3)
    assert len(cluster.pods()) == 2
    assert all("ownerReferences" not in pod["metadata"] for pod in cluster.pods())


async def test_a_template_that_is_rejected_is_said_on_the_owner(cluster: WorkloadCluster) -> None:
    """The others go on."""
    kubectl = cluster.kubectl
    bad = replicated("ReplicaSet", "bad", 1)
    bad["spec"]["template"]["spec"]["containers"] = []
    await kubectl("create", "-f", "-", send=[bad, replicated("ReplicaSet", "good", 1)])
    await kubectl("wait", "--for=jsonpath={.status.readyReplicas}=1", "rs/good")
    await cluster.until(lambda: bool(cluster.store.list(EVENTS).items))
    described = await kubectl("describe", "rs", "bad")
    assert "FailedCreate" in described
    assert "spec.containers: Required value" in described


# StatefulSets ---------------------------------------------------------------------------------------------------------


async def test_a_stateful_set_rolls_and_is_undone(cluster: WorkloadCluster) -> None:
    kubectl = cluster.kubectl
    await kubectl("create", "-f", "-", send=replicated("StatefulSet", "db", 3, serviceName="db"))
    assert "roll out complete" in await kubectl("rollout", "status", "sts/db")
    assert cluster.names() == ["db-0", "db-1", "db-2"]
    await kubectl("set", "image", "sts/db", "main=y")
    await kubectl("rollout", "status", "sts/db")
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.pods()} == {"y"}
    await kubectl("rollout", "undo", "sts/db")
    await kubectl("rollout", "status", "sts/db")
    assert {pod["spec"]["containers"][0]["image"] for pod in cluster.pods()} == {"x"}
    await kubectl("scale", "sts/db", "--replicas=1")
    await cluster.until(lambda: cluster.names() == ["db-0"])


# Jobs -----------------------------------------------------------------------------------------------------------------


async def test_wait_for_a_job(cluster: WorkloadCluster) -> None:
    kubectl = cluster.kubectl
    indexed = job("train", SHORT, parallelism=2, completions=3, completionMode="Indexed")
    await kubectl("create", "-f", "-", send=indexed)
    await kubectl("wait", "--for=condition=complete", "job/train", "--timeout=20s")
    assert (await kubectl.table("get", "jobs"))[1][:3] == ["train", "Complete", "3/3"]
    status = (await kubectl.json("get", "job", "train"))["status"]
    assert (status["succeeded"], status["completedIndexes"]) == (3, "0-2")
    await kubectl("delete", "job", "train")
    await cluster.until(lambda: not cluster.pods())


async def test_a_failed_job_says_why(cluster: WorkloadCluster) -> None:
    await cluster.kubectl("create", "-f", "-", send=job("train", {"muster.dev/fail": "boom"}, backoffLimit=0))
    await cluster.kubectl("wait", "--for=condition=failed", "job/train", "--timeout=20s")
    conditions = (await cluster.kubectl.json("get", "job", "train"))["status"]["conditions"]
    assert conditions[-1]["reason"] == "BackoffLimitExceeded"


async def test_a_suspended_job_starts_when_it_is_resumed(cluster: WorkloadCluster) -> None:
    kubectl = cluster.kubectl
    await kubectl("create", "-f", "-", send=job("train", SHORT, suspend=True))
    await kubectl("wait", "--for=condition=suspended", "job/train", "--timeout=20s")
    assert not cluster.pods()
    await kubectl("patch", "job", "train", "-p", '{"spec":{"suspend":false}}')
    await kubectl("wait", "--for=condition=complete", "job/train", "--timeout=20s")


async def test_a_deleted_pod_of_a_job_is_replaced(cluster: WorkloadCluster) -> None:
    """It counts as failed, and its finalizer does not keep it."""
    kubectl = cluster.kubectl
    await kubectl("create", "-f", "-", send=job("train"))
    await cluster.until(lambda: len(cluster.pods()) == 1)
    (pod,) = cluster.names()
    await kubectl("delete", "pod", pod)
    await cluster.until(lambda: len(cluster.pods()) == 1 and pod not in cluster.names())
    await kubectl("wait", "--for=jsonpath={.status.failed}=1", "job/train", "--timeout=20s")


async def test_a_job_of_a_cron_job_by_hand(cluster: WorkloadCluster) -> None:
    kubectl = cluster.kubectl
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job("x", SHORT)["spec"]}}
    await kubectl("create", "-f", "-", send={**job("nightly"), "kind": "CronJob", "spec": spec})
    await kubectl("create", "job", "now", "--from=cronjob/nightly")
    await kubectl("wait", "--for=condition=complete", "job/now", "--timeout=20s")
    assert cluster.store.get(JOBS, "default", "now")["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    await kubectl("delete", "cronjob", "nightly")
    await cluster.until(lambda: not cluster.pods())


async def test_a_schedule_that_cannot_be_read_is_rejected(cluster: WorkloadCluster) -> None:
    spec = {"schedule": "every day", "jobTemplate": {"spec": job("x")["spec"]}}
    with pytest.raises(Exception, match=r"spec.schedule: Invalid value"):
        await cluster.kubectl("create", "-f", "-", send={**job("nightly"), "kind": "CronJob", "spec": spec})

"""Workloads of other projects' operators on a real API server: real StatefulSets, Jobs and garbage below them.

muster's controllers stand in for the operators and run through the same protocol as on the embedded cluster; pods pass
the operators' webhook.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.api import names
from muster.api.resources import POD_GROUPS, PODS
from muster.embedded.kubelet.pod_lifecycle import RUN_FOR, KubeletTimings
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.workloads.operators.table import OPERATORS
from tests.e2e.workload_site import (
    WorkloadSite,
    all_ready,
    fresh,
    group_of,
    has_condition,
    lacks_capacity,
    leaves,
    members,
)
from tests.support.apiserver.controller_manager import ControllerManager
from tests.support.live.objects import placed


@pytest.fixture
async def cluster(controller_manager: ControllerManager, operator_webhook: None) -> AsyncIterator[Cluster]:
    client = connect(controller_manager.apiserver.kubeconfig)
    yield client
    await client.close()


@pytest.fixture
async def site(cluster: Cluster) -> AsyncIterator[WorkloadSite]:
    async with fresh(cluster).open(OPERATORS) as opened:
        yield opened


def template(gpus: int = 1, annotations: Raw | None = None, **spec: Any) -> Raw:
    limits = {names.GPU: str(gpus)}
    container = {"name": "main", "image": "registry.example/main:1", "resources": {"limits": limits}}
    own = {"schedulerName": "muster", "containers": [container], **spec}
    return {"metadata": {"annotations": annotations or {}}, "spec": own}


def leader_worker_set(name: str, replicas: int, size: int, **spec: Any) -> Raw:
    groups = {"size": size, "leaderTemplate": template(), "workerTemplate": template()}
    own = {"replicas": replicas, "leaderWorkerTemplate": groups, **spec}
    metadata = {"name": name}
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": metadata, "spec": own}


def job_set(name: str, jobs: dict[str, tuple[int, int]], **spec: Any) -> Raw:
    """`jobs`: replicas and pods of each replicated Job."""
    replicated = [
        {
            "name": role,
            "replicas": replicas,
            "template": {
                "spec": {"parallelism": pods, "completions": pods, "template": template(restartPolicy="Never")}
            },
        }
        for role, (replicas, pods) in jobs.items()
    ]
    own = {"replicatedJobs": replicated, **spec}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name}, "spec": own}


def training_job(kind: str, name: str, roles: dict[str, int], run_for: str = "") -> Raw:
    """A job of the Kubeflow training operator, with so many pods of each role."""
    field = f"{kind.removesuffix('Job').lower()}ReplicaSpecs"
    annotations = {RUN_FOR: run_for} if run_for else {}
    specs = {
        role: {"replicas": replicas, "restartPolicy": "Never", "template": template(annotations=annotations)}
        for role, replicas in roles.items()
    }
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": name}, "spec": {field: specs}}


def ray_cluster(name: str, hosts: int, replicas: int, minimum: int) -> Raw:
    """A head and one group of workers, `gpu`."""
    counts = {"replicas": replicas, "minReplicas": minimum, "maxReplicas": replicas, "numOfHosts": hosts}
    workers = {"groupName": "gpu", "rayStartParams": {}, "template": template(), **counts}
    spec = {"headGroupSpec": {"rayStartParams": {}, "template": template()}, "workerGroupSpecs": [workers]}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": spec}


async def test_every_group_of_a_leader_worker_set_is_a_gang(site: WorkloadSite) -> None:
    """Six GPUs hold one group of four: the second waits whole until there is room for it."""
    await site.add_nodes(3, gpus=2)
    owner = await site.submit(leader_worker_set("llm", replicas=2, size=4))
    seen = await site.until(lambda seen: sorted(members(seen).values()) == [4, 4] and sum(map(placed, seen.pods)) == 4)
    assert len({group_of(pod) for pod in filter(placed, seen.pods)}) == 1
    await site.add_nodes(1, gpus=2)
    seen = await site.until(lambda seen: all_ready(seen, 8))
    assert leaves(seen) == {"leader": 2, "workers": 6}
    assert "LabelMissing" not in {event["reason"] for event in seen.events}, "the webhook labels pods at admission"
    await site.until_owner(owner, lambda raw: raw["status"].get("readyReplicas") == 2)
    await site.remove(owner)
    await site.until_empty()


async def test_a_lost_worker_restarts_its_group_and_no_other(site: WorkloadSite) -> None:
    """All pods of the group are made again, and join the PodGroup that they had."""
    await site.add_nodes(1)
    await site.submit(leader_worker_set("llm", replicas=2, size=2))
    before = await site.until(lambda seen: all_ready(seen, 4))
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in before.pods}
    await site.cluster.delete(PODS, site.name, "llm-0-1")
    after = await site.until(
        lambda seen: (
            all_ready(seen, 4)
            and {pod["metadata"]["name"] for pod in seen.pods if pod["metadata"]["uid"] not in uids.values()}
            == {"llm-0", "llm-0-1"}
        )
    )
    assert members(after) == members(before)


@pytest.mark.parametrize("manifest", [leader_worker_set("llm", replicas=1, size=3), job_set("train", {"w": (2, 1)})])
async def test_a_pod_group_does_not_return_while_its_pods_terminate(cluster: Cluster, manifest: Raw) -> None:
    """The garbage collector deletes it with its owner, long before the last pod is gone, and would do so again."""
    timings = KubeletTimings(start_seconds=0.0, stop_seconds=2.0)
    async with fresh(cluster).open(OPERATORS, timings=timings) as site:
        await site.add_nodes(1)
        owner = await site.submit(manifest)
        seen = await site.until(lambda seen: all_ready(seen, len(seen.pods)) and len(seen.pods) > 1)
        counts: Counter[str] = Counter()
        watch = asyncio.create_task(count_changes(site, counts))
        await site.remove(owner)
        await site.until_empty()
        watch.cancel()
        assert len(seen.groups) == 1
        assert counts["ADDED"] <= 1, "at most one that was on its way when its owner was deleted"


async def count_changes(site: WorkloadSite, counts: Counter[str]) -> None:
    """How often PodGroups are created, changed and deleted from now on."""
    since = (await site.cluster.list(POD_GROUPS, site.name)).resource_version
    async with site.cluster.watch(POD_GROUPS, since, site.name) as changes:
        async for change in changes:
            counts[change.type] += 1


async def test_workers_that_wait_for_their_leader_join_its_gang(site: WorkloadSite) -> None:
    """LeaderReady: the leader starts alone, although its gang is one of three."""
    await site.add_nodes(1)
    await site.submit(leader_worker_set("llm", replicas=1, size=3, startupPolicy="LeaderReady"))
    seen = await site.until(lambda seen: all_ready(seen, 3))
    assert list(members(seen).values()) == [3]


async def test_a_leader_worker_set_grows_and_shrinks(site: WorkloadSite) -> None:
    """A PodGroup comes and goes with each group."""
    await site.add_nodes(1)
    owner = await site.submit(leader_worker_set("llm", replicas=1, size=2))
    before = await site.until(lambda seen: all_ready(seen, 2))
    await site.change(owner, {"spec": {"replicas": 3}}, subresource="scale")
    await site.until(lambda seen: all_ready(seen, 6) and len(seen.groups) == 3)
    await site.change(owner, {"spec": {"replicas": 1}}, subresource="scale")
    after = await site.until(lambda seen: all_ready(seen, 2))
    assert members(after).keys() == members(before).keys()


async def test_a_new_template_of_a_leader_worker_set_replaces_its_groups(site: WorkloadSite) -> None:
    """One group after the other, from the last one; each joins the PodGroup that it had."""
    await site.add_nodes(1)
    owner = await site.submit(leader_worker_set("llm", replicas=2, size=2))
    before = await site.until(lambda seen: all_ready(seen, 4))
    newer = {"metadata": {"labels": {"version": "2"}}}
    await site.change(owner, {"spec": {"leaderWorkerTemplate": {"leaderTemplate": newer, "workerTemplate": newer}}})
    after = await site.until(
        lambda seen: all_ready(seen, 4) and all(pod["metadata"]["labels"].get("version") == "2" for pod in seen.pods)
    )
    assert members(after) == members(before)
    await site.until_owner(owner, lambda raw: raw["status"].get("updatedReplicas") == 2)


async def test_a_job_set_is_one_gang_of_all_its_jobs(site: WorkloadSite) -> None:
    await site.add_nodes(1, gpus=4)
    owner = await site.submit(job_set("train", {"driver": (1, 1), "workers": (2, 2)}))
    seen = await site.until(lambda seen: list(members(seen).values()) == [5])
    (name,) = members(seen)
    await site.until(lambda seen: lacks_capacity(seen, name))
    await site.add_nodes(1, gpus=1)
    seen = await site.until(lambda seen: all_ready(seen, 5))
    assert leaves(seen) == {"driver-replica-0": 1, "workers-replica-0": 2, "workers-replica-1": 2}
    await site.remove(owner)
    await site.until_empty()


async def test_a_pytorch_job_starts_master_and_workers_together_and_succeeds(site: WorkloadSite) -> None:
    await site.add_nodes(1, gpus=2)
    owner = await site.submit(training_job("PyTorchJob", "bert", {"Master": 1, "Worker": 2}, run_for="1s"))
    seen = await site.until(lambda seen: list(members(seen).values()) == [3])
    (name,) = members(seen)
    await site.until(lambda seen: lacks_capacity(seen, name))
    await site.add_nodes(1, gpus=1)
    await site.until_owner(owner, lambda raw: has_condition(raw, "Succeeded"))
    await site.remove(owner)
    await site.until_empty()


async def test_a_ray_cluster_starts_with_its_minimum_and_grows(site: WorkloadSite) -> None:
    """Two hosts a replica, one replica needed: the second replica comes whole once there is capacity for it."""
    await site.add_nodes(1, gpus=4)
    owner = await site.submit(ray_cluster("ray", hosts=2, replicas=2, minimum=1))
    seen = await site.until(lambda seen: list(members(seen).values()) == [5] and sum(map(placed, seen.pods)) == 3)
    await site.until(lambda seen: leaves(seen).get("headgroup") == 1 and sum(leaves(seen).values()) == 3)
    await site.add_nodes(1, gpus=1)
    seen = await site.until(lambda seen: all_ready(seen, 5))
    assert leaves(seen) == {"headgroup": 1, "gpu-0": 2, "gpu-1": 2}
    await site.until_owner(owner, lambda raw: raw.get("status", {}).get("state") == "ready")
    await site.remove(owner)
    await site.until_empty()


async def test_the_cluster_of_a_ray_job_goes_with_it(site: WorkloadSite) -> None:
    """The PodGroup belongs to the RayCluster that the operator makes."""
    await site.add_nodes(1)
    cluster = ray_cluster("ignored", hosts=1, replicas=2, minimum=2)["spec"]
    spec = {"entrypoint": "python train.py", "submissionMode": "HTTPMode", "rayClusterSpec": cluster}
    owner = await site.submit({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "tune"}, "spec": spec})
    seen = await site.until(lambda seen: all_ready(seen, 3))
    (name,) = members(seen)
    assert seen.groups[name]["metadata"]["ownerReferences"][0]["kind"] == "RayCluster"
    await site.remove(owner)
    await site.until_empty()


async def test_an_mpi_launcher_that_waits_for_its_workers_does_not_hold_them_up(site: WorkloadSite) -> None:
    """Its Job is created once the workers are Ready; then it runs in their gang, by the real Job controller."""
    await site.add_nodes(1)
    launcher = {"replicas": 1, "template": template()}
    worker = {"replicas": 2, "template": template()}
    spec = {
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiReplicaSpecs": {"Launcher": launcher, "Worker": worker},
    }
    manifest = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi"}, "spec": spec}
    owner = await site.submit(manifest)
    seen = await site.until(lambda seen: all_ready(seen, 3))
    assert list(members(seen).values()) == [3]
    await site.remove(owner)
    await site.until_empty()


async def test_the_jobs_of_a_job_set_in_order_wait_for_those_before(site: WorkloadSite) -> None:
    """InOrder: the second Job is created when the first is ready, so one child of the gang must be enough."""
    await site.add_nodes(1)
    jobs = job_set("train", {"driver": (1, 1), "workers": (1, 2)}, startupPolicy={"startupPolicyOrder": "InOrder"})
    await site.submit(jobs)
    seen = await site.until(lambda seen: all_ready(seen, 3))
    assert leaves(seen) == {"driver-replica-0": 1, "workers-replica-0": 2}

"""Workloads on a real API server: real controllers make the pods, muster groups and binds them, real garbage goes."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from muster.api import names
from muster.api.resources import JOBS, NAMESPACES, POD_GROUPS
from muster.embedded.kubelet.pod_lifecycle import FAIL, RUN_FOR
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from tests.e2e.kubectl import KUBECTL, MISSING, Kubectl
from tests.e2e.site import Seen, is_ready, until
from tests.e2e.test_run import SHORT, replica
from tests.e2e.workload_site import WorkloadSite, all_ready, fresh, has_condition, lacks_capacity, members
from tests.support.apiserver.controller_manager import ControllerManager


@pytest.fixture
async def cluster(controller_manager: ControllerManager) -> AsyncIterator[Cluster]:
    client = connect(controller_manager.apiserver.kubeconfig)
    yield client
    await client.close()


@pytest.fixture
async def site(cluster: Cluster) -> AsyncIterator[WorkloadSite]:
    async with fresh(cluster).open() as opened:
        yield opened


def template(gpus: int = 1, labels: Raw | None = None, annotations: Raw | None = None, **spec: Any) -> Raw:
    """A pod template of a workload."""
    limits = {names.GPU: str(gpus)}
    container = {"name": "main", "image": "registry.example/main:1", "resources": {"limits": limits}}
    metadata = {"labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"schedulerName": "muster", "containers": [container], **spec}}


def job(name: str, pods: int, annotations: Raw | None = None, run_for: str = "", **spec: Any) -> Raw:
    pod_template = template(annotations={RUN_FOR: run_for} if run_for else {}, restartPolicy="Never")
    counts = {"parallelism": pods, "completions": pods}
    metadata = {"name": name, "annotations": annotations or {}}
    own = {**counts, "template": pod_template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": own}


def replicated(kind: str, name: str, replicas: int, **spec: Any) -> Raw:
    labels = {"app": name}
    own = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(labels=labels), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": own}


def phases(seen: Seen) -> list[str]:
    return sorted(pod["status"]["phase"] for pod in seen.pods)


async def test_the_pods_of_a_job_run_and_finish(site: WorkloadSite) -> None:
    """Each has a PodGroup of its own; the Job completes, and takes pods and PodGroups along when it is deleted."""
    await site.add_nodes(1)
    owner = await site.submit(job("train", 3, run_for="1s"))
    seen = await site.until(lambda seen: all_ready(seen, 3) or "Succeeded" in phases(seen))
    assert len(members(seen)) == 3
    await site.until_owner(owner, lambda raw: has_condition(raw, "Complete"))
    await site.remove(owner)
    await site.until_empty()


async def test_a_job_that_kubernetes_cleans_up_takes_its_pod_groups_along(site: WorkloadSite) -> None:
    """The TTL controller deletes it soon after it has finished."""
    await site.add_nodes(1)
    await site.submit(job("short", 2, run_for="1s", ttlSecondsAfterFinished=1))
    await site.until(lambda seen: phases(seen) == ["Succeeded", "Succeeded"])
    await site.until_empty()


async def test_a_namespace_with_workloads_can_be_deleted(site: WorkloadSite) -> None:
    """The API server refuses new PodGroups there; nothing is stuck, and nothing returns."""
    await site.add_nodes(1)
    await site.submit(job("gang", 2, {names.BATCH_MIN_MEMBER: "2"}))
    await site.submit(replicated("Deployment", "serve", 2))
    await site.submit(replicated("StatefulSet", "db", 2, serviceName="db"))
    await site.until(lambda seen: all_ready(seen, 6))
    await site.cluster.delete(NAMESPACES, "", site.name)

    async def is_gone() -> bool:
        return not (await site.cluster.list(NAMESPACES, fields=f"metadata.name={site.name}")).items

    await until(is_gone)


async def test_a_job_with_a_minimum_starts_whole_or_not_at_all(site: WorkloadSite) -> None:
    """Four pods of one GPU find three GPUs: none is bound until there is a fourth."""
    await site.add_nodes(1, gpus=3)
    minimum = {names.BATCH_MIN_MEMBER: "4"}
    owner = await site.submit(job("gang", 4, minimum, completionMode="Indexed"))
    seen = await site.until(lambda seen: list(members(seen).values()) == [4])
    (name,) = members(seen)
    assert seen.groups[name]["spec"]["minMember"] == 4
    await site.until(lambda seen: lacks_capacity(seen, name))
    await site.add_nodes(1, gpus=1)
    await site.until(lambda seen: all_ready(seen, 4))
    await site.remove(owner)
    await site.until_empty()


async def test_a_failed_pod_of_a_job_is_replaced_in_its_gang(site: WorkloadSite) -> None:
    """The replacement of an indexed Job has another name, and joins the same PodGroup."""
    await site.add_nodes(1)
    minimum = {names.BATCH_MIN_MEMBER: "2"}
    await site.submit(job("gang", 2, minimum, completionMode="Indexed", backoffLimit=3))
    seen = await site.until(lambda seen: all_ready(seen, 2))
    first, (group,) = seen.pods[0]["metadata"]["name"], members(seen)
    patch = {"metadata": {"annotations": {FAIL: "true"}}}
    await site.change(seen.pods[0] | {"kind": "Pod"}, patch)
    seen = await site.until(lambda seen: phases(seen) == ["Failed", "Running", "Running"])
    assert first not in {pod["metadata"]["name"] for pod in seen.pods if is_ready(pod)}
    assert set(members(seen)) == {group}


async def test_a_deployment_scales_rolls_out_and_ends(site: WorkloadSite) -> None:
    """Every pod has a PodGroup of its own, which is collected with the pod."""
    await site.add_nodes(2)
    owner = await site.submit(replicated("Deployment", "serve", 2))
    await site.until(lambda seen: all_ready(seen, 2) and len(seen.groups) == 2)
    await site.change(owner, {"spec": {"replicas": 4}}, subresource="scale")
    before = await site.until(lambda seen: all_ready(seen, 4) and len(seen.groups) == 4)
    await site.change(owner, {"spec": {"template": {"metadata": {"annotations": {"rollout": "2"}}}}})
    await site.until(
        lambda seen: all_ready(seen, 4) and len(seen.groups) == 4 and not set(before.groups) & set(seen.groups)
    )
    await site.until_owner(owner, lambda raw: raw["status"].get("readyReplicas") == 4)
    await site.change(owner, {"spec": {"replicas": 1}}, subresource="scale")
    await site.until(lambda seen: all_ready(seen, 1) and len(seen.groups) == 1)
    await site.remove(owner)
    await site.until_empty()


async def test_a_stateful_set_starts_in_order(site: WorkloadSite) -> None:
    """Its controller waits for each pod to be Ready: a gang of all of them would never start."""
    await site.add_nodes(1)
    owner = await site.submit(replicated("StatefulSet", "db", 3, serviceName="db"))
    seen = await site.until(lambda seen: all_ready(seen, 3))
    assert sorted(pod["metadata"]["name"] for pod in seen.pods) == ["db-0", "db-1", "db-2"]
    (name,) = members(seen)
    (reference,) = seen.groups[name]["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"]) == ("StatefulSet", owner["metadata"]["uid"])
    await site.remove(owner)
    await site.until_empty()


async def test_every_run_of_a_cron_job_is_a_gang(
    site: WorkloadSite, controller_manager: ControllerManager, tmp_path: Path
) -> None:
    """Runs that a user starts by hand have the CronJob as their owner, as those on schedule do."""
    if KUBECTL is None:
        pytest.skip(MISSING)
    kubectl = Kubectl(controller_manager.apiserver.kubeconfig, tmp_path)
    await site.add_nodes(1)
    run = job("ignored", 2, {names.BATCH_MIN_MEMBER: "2"}, run_for="1s")
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"metadata": run["metadata"], "spec": run["spec"]}}
    del run["metadata"]["name"]
    owner = await site.submit(
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": spec}
    )
    for name in ("first", "second"):
        await kubectl("-n", site.name, "create", "job", name, "--from", "cronjob/nightly")
    seen = await site.until(lambda seen: list(members(seen).values()) == [2, 2])
    assert {raw["spec"]["minMember"] for raw in seen.groups.values()} == {2}
    for name in ("first", "second"):
        made = await site.cluster.get(JOBS, site.name, name)
        await site.until_owner({**made, "kind": "Job"}, lambda raw: has_condition(raw, "Complete"))
    await site.remove(owner)
    await site.until_empty()


async def test_what_a_user_changed_in_a_pod_group_stays(site: WorkloadSite) -> None:
    """The grouper applies what the workload says, but for the fields that others manage."""
    await site.add_nodes(1)
    minimum = {names.BATCH_MIN_MEMBER: "2"}
    owner = await site.submit(job("gang", 2, minimum))
    seen = await site.until(lambda seen: all_ready(seen, 2))
    (name,) = members(seen)
    edited = {"spec": {"minMember": 1}}
    await site.cluster.patch(POD_GROUPS, site.name, name, edited, field_manager="kubectl-edit")
    await site.change(owner, {"metadata": {"labels": {names.PRIORITY_CLASS: "system-node-critical"}}})
    changed = {"priorityClassName": "system-node-critical", "minMember": 1}
    await site.until(lambda seen: changed.items() <= seen.groups[name]["spec"].items())


async def test_muster_run_groups_and_binds_by_its_defaults(
    cluster: Cluster, controller_manager: ControllerManager, tmp_path: Path
) -> None:
    """A process of its own with an empty config, as it is deployed: leader election included."""
    with suppress(ApiError):  # it may be there
        await cluster.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
    site = fresh(cluster, scheduler_name="muster")
    async with site.open(is_scheduling=False):
        with replica(controller_manager.apiserver, tmp_path, SHORT) as process:
            await site.add_nodes(1)
            owner = await site.submit(replicated("Deployment", "serve", 2))
            await site.until(lambda seen: all_ready(seen, 2) and len(seen.groups) == 2)
            await site.remove(owner)
            await site.until_empty()
            assert "Traceback" not in process.stopped()

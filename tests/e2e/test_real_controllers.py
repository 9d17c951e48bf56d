"""muster's own controllers of Kubernetes' kinds on a real API server that has none: it accepts all that they write."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import count
from os import getpid
from typing import Any

import pytest

from muster.api.resources import DEPLOYMENTS, JOBS, NAMESPACES, NODES, PODS, STATEFUL_SETS, Resource
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import RUN_FOR, KubeletTimings
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.kube.errors import ApiError
from muster.workloads.table import KUBERNETES
from tests.e2e.workload_site import has_condition
from tests.support.apiserver.apiserver import ApiServer

LONGEST_SECONDS = 60.0
NODE = f"controllers-{getpid()}"
_numbers = count()


class ControlledNamespace:
    """A namespace on the API server whose workloads have muster's controllers."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name

    async def submit(self, resource: Resource, spec: Raw) -> None:
        raw = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        await self.cluster.create(resource, {**raw, "metadata": {"name": "w", "namespace": self.name}})

    async def pods(self) -> list[Raw]:
        return list((await self.cluster.list(PODS, self.name)).items)

    async def until(self, resource: Resource, test: Callable[[Raw], bool]) -> Raw:
        seen: Raw = {}
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                while not (seen and test(seen)):
                    await asyncio.sleep(0.05)
                    seen = await self.cluster.get(resource, self.name, "w")
        except TimeoutError:
            raise AssertionError(f"waited in vain: {seen.get('status')}") from None
        return seen

    async def until_pods(self, number: int) -> None:
        async with asyncio.timeout(LONGEST_SECONDS):
            while len(await self.pods()) != number:
                await asyncio.sleep(0.05)


@pytest.fixture
async def namespace(apiserver: ApiServer) -> AsyncIterator[ControlledNamespace]:
    cluster, name = connect(apiserver.kubeconfig), f"controlled{getpid()}-{next(_numbers)}"
    await cluster.create(NAMESPACES, {"metadata": {"name": name}})
    with suppress(ApiError):
        await cluster.create(NODES, {"metadata": {"name": NODE}, "status": {"allocatable": {"pods": "100"}}})
    timings = KubeletTimings(start_seconds=0.1, stop_seconds=0.1)
    controllers = {controller.resource: controller for controller in KUBERNETES}
    loops = [ControllerRuntime(cluster, controllers).run, Kubelets(cluster, timings=timings).run]
    tasks = [asyncio.create_task(loop()) for loop in loops]
    controlled = ControlledNamespace(cluster, name)
    try:
        yield controlled
        for resource in (DEPLOYMENTS, STATEFUL_SETS, JOBS):
            with suppress(ApiError):
                await cluster.delete(resource, name, "w")
        await controlled.until_pods(0)  # no garbage collector runs: the controllers collect what they made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await cluster.delete(NAMESPACES, "", name)
        await cluster.close()


def template(restart: str = "Always", **annotations: str) -> Raw:
    spec = {"nodeName": NODE, "restartPolicy": restart, "containers": [{"name": "main", "image": "x"}]}
    return {"metadata": {"labels": {"app": "w"}, "annotations": annotations}, "spec": spec}


def replicated(**spec: Any) -> Raw:
    return {"replicas": 3, "selector": {"matchLabels": {"app": "w"}}, "template": template(), **spec}


def is_rolled_out(raw: Raw) -> bool:
    status = raw.get("status", {})
    is_observed = status.get("observedGeneration") == raw["metadata"]["generation"]
    return bool(is_observed and status.get("updatedReplicas") == status.get("readyReplicas") == 3)


@pytest.mark.parametrize("resource", [DEPLOYMENTS, STATEFUL_SETS], ids=lambda resource: resource.kind)
async def test_a_rollout(namespace: ControlledNamespace, resource: Resource) -> None:
    await namespace.submit(resource, replicated(**({"serviceName": "svc"} if resource == STATEFUL_SETS else {})))
    await namespace.until(resource, is_rolled_out)
    before = {pod["metadata"]["uid"] for pod in await namespace.pods()}
    patch = {"spec": {"template": {"metadata": {"annotations": {"changed": "true"}}}}}
    await namespace.cluster.patch(resource, namespace.name, "w", patch)
    await namespace.until(resource, is_rolled_out)
    await namespace.until_pods(3)
    assert not before & {pod["metadata"]["uid"] for pod in await namespace.pods()}


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
async def test_a_job_completes(namespace: ControlledNamespace, mode: str) -> None:
    """The API server checks each status of a Job against the one before."""
    counts = {"completions": 5, "parallelism": 2, "completionMode": mode}
    await namespace.submit(JOBS, {**counts, "template": template("Never", **{RUN_FOR: "200ms"})})
    job = await namespace.until(JOBS, lambda raw: has_condition(raw, "Complete"))
    assert job["status"]["succeeded"] == 5
    assert len(await namespace.pods()) == 5


async def test_a_job_fails_suspends_and_resumes(namespace: ControlledNamespace) -> None:
    await namespace.submit(JOBS, {"suspend": True, "backoffLimit": 0, "template": template("Never")})
    await namespace.until(JOBS, lambda raw: has_condition(raw, "Suspended"))
    await namespace.cluster.patch(JOBS, namespace.name, "w", {"spec": {"suspend": False}})
    await namespace.until(JOBS, lambda raw: raw["status"].get("ready") == 1)
    (pod,) = await namespace.pods()
    await namespace.cluster.delete(PODS, namespace.name, pod["metadata"]["name"])
    await namespace.until(JOBS, lambda raw: has_condition(raw, "Failed"))

"""muster's controllers beside Kubernetes' own: equal manifests end with equal objects, but for uids, hashes and times.

One half runs on the embedded cluster, the other on a real API server with kube-controller-manager.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from itertools import count
from os import getpid
from typing import Any

import pytest

from muster.api.resources import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import FAIL, RUN_FOR, KubeletTimings
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.kube.errors import ApiError
from tests.e2e.workload_site import has_condition
from tests.support.apiserver.controller_manager import ControllerManager

LONGEST_SECONDS = 60.0
KINDS = {each.kind: each for each in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS)}
CHILDREN = (REPLICA_SETS, CONTROLLER_REVISIONS, PODS)
TIMINGS = KubeletTimings(start_seconds=0.1, stop_seconds=0.1)
_numbers = count()


def template(restart: str, annotations: Raw | None = None) -> Raw:
    container = {"name": "main", "image": "registry.example/main:1"}
    spec = {"nodeName": f"parity-{getpid()}", "restartPolicy": restart, "containers": [container]}
    metadata = {"labels": {"app": "w"}, **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, "spec": spec}


def replicated(resource: Resource, **spec: Any) -> Raw:
    own = {"replicas": 3, "selector": {"matchLabels": {"app": "w"}}, "template": template("Always"), **spec}
    metadata = {"name": "w", "labels": {"team": "a"}, "annotations": {"note": "b"}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": own}


def job(annotations: Raw | None = None, **spec: Any) -> Raw:
    own = {"template": template("Never", annotations), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "w"}, "spec": own}


class ParityCluster:
    """One of the two clusters, with a namespace of its own."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    async def submit(self, raw: Raw) -> None:
        own = {**raw, "metadata": {**raw["metadata"], "namespace": self.namespace}}
        await self.cluster.create(KINDS[raw["kind"]], own)

    async def change(self, raw: Raw, patch: Raw) -> None:
        await self.cluster.patch(KINDS[raw["kind"]], self.namespace, raw["metadata"]["name"], patch)

    async def until(self, raw: Raw, test: Callable[[Raw], bool]) -> Raw:
        """The workload when this holds."""
        seen: Raw = {}
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                while not (seen and test(seen)):
                    await asyncio.sleep(0.05)
                    seen = await self.cluster.get(KINDS[raw["kind"]], self.namespace, raw["metadata"]["name"])
        except TimeoutError:
            raise AssertionError(f"waited in vain: {seen}") from None
        return seen

    async def objects(self, raw: Raw) -> dict[str, list[Any]]:
        """The workload and its children, comparable."""
        owner = await self.cluster.get(KINDS[raw["kind"]], self.namespace, raw["metadata"]["name"])
        objects = {owner["kind"]: [comparable(owner)]}
        for resource in CHILDREN:
            children = (await self.cluster.list(resource, self.namespace)).items
            objects[resource.kind] = sorted((comparable(child) for child in children), key=str)
        return objects


# what is compared -----------------------------------------------------------------------------------------------------

ENTERED_BY_SERVERS = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "selfLink",
    "namespace",
)
UNTOLD = ("observedGeneration", "terminatingReplicas", "terminating", "uncountedTerminatedPods", "collisionCount")
HASHED = ("pod-template-hash", "controller.kubernetes.io/hash")
_HASH = re.compile(r"\bw-[bcdfghjklmnpqrstvwxz2456789]{5,10}\b(-[a-z0-9]{5}\b)?|(?<=\bw-\d-)[a-z0-9]{5}\b")


def comparable(raw: Raw) -> Any:
    """Names, labels, annotations, finalizers, owners and status, and what of the spec a controller writes."""
    metadata = {name: value for name, value in raw["metadata"].items() if name not in ENTERED_BY_SERVERS}
    spec = raw.get("spec", {})
    written = {name: spec[name] for name in ("replicas", "hostname", "subdomain", "selector") if name in spec}
    environment = [container.get("env") for container in spec.get("containers", ())]
    status = {} if raw.get("kind") == "Pod" or "containers" in spec else raw.get("status", {})
    return masked(
        {
            "metadata": metadata,
            "spec": written,
            "environment": environment,
            "status": {name: value for name, value in status.items() if name not in UNTOLD and value},
            "revision": raw.get("revision"),
        }
    )


def masked(value: Any) -> Any:
    """A value without hashes, uids and times."""
    if isinstance(value, dict):
        masks = {**dict.fromkeys(HASHED, "HASH"), "uid": "UID"}
        masks |= dict.fromkeys(("controller-uid", "batch.kubernetes.io/controller-uid"), "UID")
        kept = {name: field for name, field in value.items() if not name.endswith("Time")}
        return {name: masks.get(name) or masked(field) for name, field in kept.items()}
    if isinstance(value, list):
        return sorted((masked(item) for item in value), key=str)
    return _HASH.sub("w-HASH", value) if isinstance(value, str) else value


# the two clusters -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def embedded() -> AsyncIterator[ParityCluster]:
    memory = MemoryCluster()
    async with loops(memory, [ControllerRuntime(memory).run]):
        yield ParityCluster(memory, "default")


@asynccontextmanager
async def kubernetes(manager: ControllerManager) -> AsyncIterator[ParityCluster]:
    cluster, namespace = connect(manager.apiserver.kubeconfig), f"parity{getpid()}-{next(_numbers)}"
    await cluster.create(NAMESPACES, {"metadata": {"name": namespace}})
    async with loops(cluster, []):
        yield ParityCluster(cluster, namespace)
        for resource in KINDS.values():
            for raw in (await cluster.list(resource, namespace)).items:
                with suppress(ApiError):
                    await cluster.delete(resource, namespace, raw["metadata"]["name"])
        async with asyncio.timeout(LONGEST_SECONDS):
            while (await cluster.list(PODS, namespace)).items:
                await asyncio.sleep(0.05)
        await cluster.delete(NAMESPACES, "", namespace)
    await cluster.close()


@asynccontextmanager
async def loops(cluster: Cluster, others: Iterable[Callable[[], Any]]) -> AsyncIterator[None]:
    with suppress(ApiError):
        node = {"metadata": {"name": f"parity-{getpid()}"}, "status": {"allocatable": {"pods": "100"}}}
        await cluster.create(NODES, node)
    tasks = [asyncio.create_task(loop()) for loop in (Kubelets(cluster, timings=TIMINGS).run, *others)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


Play = Callable[[ParityCluster], Any]


async def both(manager: ControllerManager, raw: Raw, play: Play) -> None:
    async with embedded() as ours:
        await play(ours)
        own = await ours.objects(raw)
    async with kubernetes(manager) as theirs:
        await play(theirs)
        real = await theirs.objects(raw)
    assert own == real


def is_rolled_out(raw: Raw, replicas: int = 3) -> bool:
    status = raw.get("status", {})
    counts = [status.get(name) for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")]
    reasons = {condition.get("reason") for condition in status.get("conditions", ())}
    is_done = raw["kind"] != "Deployment" or "NewReplicaSetAvailable" in reasons
    is_observed = status.get("observedGeneration") == raw["metadata"]["generation"]
    return bool(is_observed and is_done and counts == [replicas] * 4)


NEW_IMAGE = {"spec": {"template": {"metadata": {"annotations": {"changed": "true"}}}}}


async def test_a_deployment(controller_manager: ControllerManager) -> None:
    raw = replicated(DEPLOYMENTS)

    async def play(cluster: ParityCluster) -> None:
        await cluster.submit(raw)
        await cluster.until(raw, is_rolled_out)

    await both(controller_manager, raw, play)


async def test_a_deployment_that_rolled_and_was_scaled(controller_manager: ControllerManager) -> None:
    raw = replicated(DEPLOYMENTS)

    async def play(cluster: ParityCluster) -> None:
        await cluster.submit(raw)
        await cluster.until(raw, is_rolled_out)
        await cluster.change(raw, {"spec": {"replicas": 5}})
        await cluster.until(raw, lambda seen: is_rolled_out(seen, 5))
        await cluster.change(raw, NEW_IMAGE)
        await cluster.until(raw, lambda seen: is_rolled_out(seen, 5))
        await asyncio.sleep(1.0)  # for the old ReplicaSet

    await both(controller_manager, raw, play)


async def test_a_replica_set(controller_manager: ControllerManager) -> None:
    raw = replicated(REPLICA_SETS)

    async def play(cluster: ParityCluster) -> None:
        await cluster.submit(raw)
        await cluster.until(raw, lambda seen: seen.get("status", {}).get("availableReplicas") == 3)

    await both(controller_manager, raw, play)


async def test_a_stateful_set_that_rolled(controller_manager: ControllerManager) -> None:
    raw = replicated(STATEFUL_SETS, serviceName="svc", ordinals={"start": 2})

    async def play(cluster: ParityCluster) -> None:
        await cluster.submit(raw)
        await cluster.until(raw, is_rolled_out)
        await cluster.change(raw, NEW_IMAGE)
        await cluster.until(raw, is_rolled_out)

    await both(controller_manager, raw, play)


@pytest.mark.parametrize(
    ("raw", "ends"),
    [
        (job({RUN_FOR: "200ms"}), "Complete"),
        (job({RUN_FOR: "200ms"}, completions=3, parallelism=2), "Complete"),
        (job({RUN_FOR: "200ms"}, completions=3, parallelism=3, completionMode="Indexed"), "Complete"),
        (job({FAIL: "true"}, backoffLimit=0), "Failed"),
        (job({FAIL: "true"}, completions=2, completionMode="Indexed", backoffLimit=0), "Failed"),
        (job({FAIL: "true"}, completions=1, completionMode="Indexed", backoffLimitPerIndex=0), "Failed"),
        (job(suspend=True), "Suspended"),
        (job(activeDeadlineSeconds=1), "Failed"),
    ],
    ids=["single", "parallel", "indexed", "failed", "failed-indexed", "failed-index", "suspended", "deadline"],
)
async def test_a_job(controller_manager: ControllerManager, raw: Raw, ends: str) -> None:
    async def play(cluster: ParityCluster) -> None:
        await cluster.submit(raw)
        await cluster.until(raw, lambda seen: has_condition(seen, ends))
        await asyncio.sleep(1.0)  # for the last finalizer

    await both(controller_manager, raw, play)

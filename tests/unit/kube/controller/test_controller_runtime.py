"""The runtime of workload controllers: nothing doubled, nothing lost, nothing stuck."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from random import Random
from typing import Any

import pytest

from muster.api.resources import (
    CONFIG_MAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEADER_WORKER_SETS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cache import reflector
from muster.kube.cluster import Change, Raw
from muster.kube.controller import orphan_collector
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.kube.controller.status_queue import pruned
from muster.kube.errors import ApiError, Unanswered
from muster.workloads.operators.crds import operator_crds
from muster.workloads.table import CONTROLLERS
from muster.workloads.types import Children, Controller, Create, Reconciliation
from tests.support.workload_objects import workload

LONGEST_SECONDS = 20.0


class WatchedWrites(MemoryCluster):
    """Counts writes; may fail them, and may delay what watches show."""

    def __init__(self, store: ClusterStore | None = None) -> None:
        super().__init__(store)
        self.writes: Counter[str] = Counter()
        self.lag_seconds = 0.0
        self.failures: Callable[[], ApiError | None] = lambda: None

    async def create(self, resource: Resource, raw: Raw) -> Raw:
        return await self._counted(f"create {resource.plural}", super().create, resource, raw)  # type: ignore[no-any-return]

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        return await self._counted("replace", super().replace, resource, raw, subresource)  # type: ignore[no-any-return]

    async def patch(self, *parts: Any, **options: Any) -> Raw:
        return await self._counted("patch", super().patch, *parts, **options)  # type: ignore[no-any-return]

    async def delete(self, *parts: Any, **options: Any) -> None:
        await self._counted("delete", super().delete, *parts, **options)

    async def _counted(self, verb: str, write: Callable[..., Any], *parts: Any, **options: Any) -> Any:
        """A failure comes before the write, or, without an answer, after it."""
        error = self.failures()
        if error is not None and not isinstance(error, Unanswered):
            raise error
        self.writes[verb] += 1
        result = await write(*parts, **options)
        if error is not None:
            raise error
        return result

    @asynccontextmanager
    async def watch(self, *parts: Any, **options: Any) -> AsyncIterator[AsyncIterator[Change]]:
        async with super().watch(*parts, **options) as changes:
            yield self._late(changes)

    async def _late(self, changes: AsyncIterator[Change]) -> AsyncIterator[Change]:
        async for change in changes:
            await asyncio.sleep(self.lag_seconds)
            yield change


@asynccontextmanager
async def running(
    cluster: MemoryCluster, controllers: Mapping[Resource, Controller] = CONTROLLERS, kubelets: bool = False
) -> AsyncIterator[ControllerRuntime]:
    runtime = ControllerRuntime(cluster, controllers)
    loops = [runtime.run]
    if kubelets:
        own = MemoryCluster(cluster.store)
        loops.append(Kubelets(own, timings=KubeletTimings(start_seconds=0.01, stop_seconds=0.01)).run)
    tasks = [asyncio.create_task(loop()) for loop in loops]
    try:
        yield runtime
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(test: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONGEST_SECONDS):
        while not test():
            await asyncio.sleep(0.01)


def pods(cluster: MemoryCluster) -> list[Raw]:
    return list(cluster.store.list(PODS).items)


def status(cluster: MemoryCluster, resource: Resource, name: str = "w") -> Raw:
    value: Raw = cluster.store.get(resource, "default", name).get("status", {})
    return value


def on_node(resource: Resource, name: str = "w", annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    """A workload whose pods are bound from the start."""
    raw = workload(resource, name, **spec)
    raw["spec"]["template"]["spec"] |= {"nodeName": "n", "terminationGracePeriodSeconds": 0}
    raw["spec"]["template"]["metadata"]["annotations"] = annotations or {}
    if resource == JOBS:
        del raw["spec"]["selector"]
    return raw


async def add_node(cluster: MemoryCluster) -> None:
    await cluster.create(NODES, {"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9999"}}})


async def test_a_watch_that_lags_doubles_no_pods() -> None:
    cluster = WatchedWrites()
    cluster.lag_seconds = 0.05
    async with running(cluster):
        await cluster.create(REPLICA_SETS, workload(REPLICA_SETS, replicas=10))
        await until(lambda: len(pods(cluster)) == 10)
        await cluster.patch(REPLICA_SETS, "default", "w", {"spec": {"replicas": 12}})
        await until(lambda: len(pods(cluster)) == 12)
        await asyncio.sleep(0.3)
    assert cluster.writes["create pods"] == 12


async def test_what_is_settled_is_not_written() -> None:
    cluster = WatchedWrites()
    await add_node(cluster)
    async with running(cluster, kubelets=True) as runtime:
        await cluster.create(REPLICA_SETS, on_node(REPLICA_SETS, replicas=3))
        await until(lambda: status(cluster, REPLICA_SETS).get("readyReplicas") == 3)
        await until(lambda: runtime.is_idle)
        before = cluster.writes.copy()
        await cluster.patch(REPLICA_SETS, "default", "w", {"metadata": {"labels": {"any": "change"}}})
        await asyncio.sleep(0.2)
    assert cluster.writes - before == Counter({"patch": 1})


@pytest.mark.parametrize("seed", range(5))
async def test_failed_writes_are_retried_until_all_is_there(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals, and answers that are lost after the write: a pod too many is deleted again."""
    monkeypatch.setattr(reflector, "FIRST_SECONDS", 0.01)
    cluster, chance = WatchedWrites(), Random(seed)
    errors = (
        ApiError(500, "InternalError", "etcd"),
        ApiError(429, "TooManyRequests", "slow down"),
        ApiError(409, "Conflict", "changed"),
        Unanswered(504, "no answer", sent=True),
    )
    await add_node(cluster)
    async with running(cluster, kubelets=True):
        await cluster.create(REPLICA_SETS, on_node(REPLICA_SETS, replicas=6))
        await cluster.create(JOBS, on_node(JOBS, "j", {"muster.dev/run-for": "50ms"}, completions=4, parallelism=2))
        cluster.failures = lambda: chance.choice(errors) if chance.random() < 0.3 else None
        await asyncio.sleep(1.0)
        cluster.failures = lambda: None
        await until(
            lambda: any(each["type"] == "Complete" for each in status(cluster, JOBS, "j").get("conditions", ()))
        )
        await until(lambda: status(cluster, REPLICA_SETS).get("readyReplicas") == 6)
        await until(lambda: len([pod for pod in pods(cluster) if "job-name" not in pod["metadata"]["labels"]]) == 6)
    assert status(cluster, JOBS, "j")["succeeded"] >= 4  # a pod that was doubled by a lost answer may succeed as well


async def test_a_controller_that_fails_says_so_and_the_others_go_on() -> None:
    def broken(*_: Any) -> Reconciliation:
        raise KeyError("spec")

    cluster = MemoryCluster()
    async with running(cluster, {**CONTROLLERS, JOBS: Controller(JOBS, broken, (PODS,))}):
        await cluster.create(JOBS, workload(JOBS, "bad"))
        await cluster.create(REPLICA_SETS, workload(REPLICA_SETS, replicas=1))
        await until(lambda: len(pods(cluster)) == 1 and bool(cluster.store.list(EVENTS).items))
    (event,) = cluster.store.list(EVENTS).items
    assert (event["involvedObject"]["name"], event["reason"]) == ("bad", "FailedReconcile")


async def test_a_kind_is_reconciled_as_soon_as_its_crd_is_there() -> None:
    cluster = MemoryCluster()
    async with running(cluster):
        await cluster.create(REPLICA_SETS, workload(REPLICA_SETS, replicas=1))
        await until(lambda: len(pods(cluster)) == 1)
        await asyncio.sleep(1.0)  # its reflector waits longer by now
        (definition,) = [raw for raw in operator_crds() if raw["spec"]["names"]["kind"] == LEADER_WORKER_SETS.kind]
        await cluster.create(DEFINITIONS, definition)
        template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
        spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
        await cluster.create(LEADER_WORKER_SETS, {"metadata": {"name": "lws"}, "spec": spec})
        async with asyncio.timeout(2.0):
            await until(lambda: len(pods(cluster)) > 1)


async def test_pods_of_a_deleted_job_are_freed() -> None:
    """Also those whose Job was deleted while no controller ran."""
    cluster = MemoryCluster()
    for name in ("a", "b"):
        await cluster.create(JOBS, workload(JOBS, name, selector=None))
    async with running(cluster):
        await until(lambda: len(pods(cluster)) == 2)
        await cluster.delete(JOBS, "default", "a")
        await until(lambda: len(pods(cluster)) == 1)
    await cluster.delete(JOBS, "default", "b")
    assert len(pods(cluster)) == 1
    async with running(cluster):
        await until(lambda: not pods(cluster))


async def test_a_name_that_belongs_to_another_is_said_and_retried() -> None:
    cluster = MemoryCluster()
    spec = {"containers": [{"name": "main", "image": "x"}]}
    await cluster.create(PODS, {"metadata": {"name": "w-0"}, "spec": spec})
    async with running(cluster):
        await cluster.create(STATEFUL_SETS, workload(STATEFUL_SETS, replicas=1))
        await until(lambda: bool(cluster.store.list(EVENTS).items))
        (event,) = cluster.store.list(EVENTS).items
        assert "already exists" in event["message"]
        await cluster.delete(PODS, "default", "w-0")
        await until(lambda: any("ownerReferences" in pod["metadata"] for pod in pods(cluster)))


async def test_many_children_are_reconciled_together() -> None:
    """Each change of 1,500 pods costs no look at all of them."""
    reconciliations: Counter[int] = Counter()
    own = CONTROLLERS[REPLICA_SETS]

    def counted(*parts: Any) -> Reconciliation:
        reconciliations[1] += 1
        return own.reconcile(*parts)

    cluster = MemoryCluster()
    await add_node(cluster)
    async with running(cluster, {REPLICA_SETS: Controller(REPLICA_SETS, counted, (PODS,))}, kubelets=True):
        await cluster.create(REPLICA_SETS, on_node(REPLICA_SETS, replicas=1500))
        await until(lambda: status(cluster, REPLICA_SETS).get("readyReplicas") == 1500)
    assert reconciliations[1] < 60


def test_a_status_is_equal_whatever_the_api_server_leaves_out() -> None:
    """An object of zeros is not the same as none: replica 0 may be the one that is chosen."""
    assert pruned({"replicas": 0, "conditions": [], "nested": {}, "ready": 1}) == {"ready": 1}
    assert pruned({"chosen": {"index": 0}}) != pruned({})


async def test_a_child_that_comes_after_its_owner_went_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector of the embedded cluster does not look again."""
    monkeypatch.setattr(orphan_collector, "LATE_SECONDS", 0.05)
    cluster = MemoryCluster()
    async with running(cluster):
        created = await cluster.create(REPLICA_SETS, workload(REPLICA_SETS, replicas=1))
        await until(lambda: len(pods(cluster)) == 1)
        (pod,) = pods(cluster)
        await cluster.delete(REPLICA_SETS, "default", "w")
        await until(lambda: not pods(cluster))
        metadata = {"name": "late", "ownerReferences": pod["metadata"]["ownerReferences"]}
        await cluster.create(PODS, {"metadata": metadata, "spec": workload(PODS)["spec"]["template"]["spec"]})
        await until(lambda: not pods(cluster))
    assert created["metadata"]["uid"] == metadata["ownerReferences"][0]["uid"]


async def test_pods_of_owners_that_were_never_there_stay() -> None:
    """Those of a snapshot, which has no ReplicaSets."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "u", "controller": True}
    cluster = MemoryCluster()
    spec = workload(PODS)["spec"]["template"]["spec"]
    await cluster.create(PODS, {"metadata": {"name": "captured", "ownerReferences": [owner]}, "spec": spec})
    async with running(cluster) as runtime:
        await cluster.create(REPLICA_SETS, workload(REPLICA_SETS, replicas=1))
        await until(lambda: len(pods(cluster)) == 2 and runtime.is_idle)
        await asyncio.sleep(0.1)
    assert len(pods(cluster)) == 2


async def test_a_change_is_not_kept_waiting_by_a_later_time() -> None:
    """A Job with a deadline in an hour, and so many pods that changes are collected."""
    cluster = MemoryCluster()
    await add_node(cluster)
    async with running(cluster, kubelets=True):
        spec = {"completions": 60, "parallelism": 60, "activeDeadlineSeconds": 3600}
        await cluster.create(JOBS, on_node(JOBS, "j", {"muster.dev/run-for": "300ms"}, **spec))
        await until(lambda: status(cluster, JOBS, "j").get("succeeded") == 60)


async def test_a_replica_failure_is_a_condition_up_to_the_deployment_until_it_is_over() -> None:
    """In the words of the API server."""
    cluster = MemoryCluster()
    raw = workload(DEPLOYMENTS, replicas=1)
    raw["spec"]["template"]["spec"]["priorityClassName"] = "missing"

    def failures() -> list[str]:
        conditions = status(cluster, DEPLOYMENTS).get("conditions", ())
        return [each["message"] for each in conditions if each["type"] == "ReplicaFailure"]

    async with running(cluster):
        await cluster.create(DEPLOYMENTS, raw)
        await until(lambda: bool(failures()))
        assert "no PriorityClass with name missing was found" in failures()[0]
        await cluster.create(PRIORITY_CLASSES, {"metadata": {"name": "missing"}, "value": 1})
        await until(lambda: len(pods(cluster)) == 1 and not failures())


async def test_changes_of_what_is_costly_to_reconcile_are_reconciled_together() -> None:
    """An object of which every change is related to another one: that one must not take all of the time."""
    reconciliations = 0

    def slow(owner: Raw, children: Children, now: datetime) -> Reconciliation:
        nonlocal reconciliations
        reconciliations += 1
        time.sleep(0.01)
        return Reconciliation()

    def related(_resource: Resource, raw: Raw, _children: Children) -> list[tuple[str, str]]:
        return [("default", "w")]

    cluster = MemoryCluster()
    controller = Controller(REPLICA_SETS, slow, watches=(PODS,), related=related, children=())
    async with running(cluster, {REPLICA_SETS: controller}):
        await cluster.create(REPLICA_SETS, on_node(REPLICA_SETS, replicas=0))
        await until(lambda: reconciliations > 0)
        began, before = time.monotonic(), reconciliations
        for number in range(200):
            spec = {"containers": [{"name": "c", "image": "none:1"}]}
            await cluster.create(PODS, {"metadata": {"name": f"p{number}", "namespace": "default"}, "spec": spec})
            await asyncio.sleep(0.002)
        seconds = time.monotonic() - began
    assert (reconciliations - before) * 0.01 < seconds / 2


async def test_what_fails_again_and_again_waits_longer_whatever_it_says() -> None:
    """The reason of each failure differs, and is in the status: writing that must not end the wait."""
    attempts = 0

    def failing(owner: Raw, children: Children, now: datetime) -> Reconciliation:
        nonlocal attempts
        attempts += 1
        metadata = {"name": f"bad/{attempts}", "namespace": "default"}
        return Reconciliation((Create(CONFIG_MAPS, {"metadata": metadata}),), {"replicas": attempts})

    cluster = MemoryCluster()
    async with running(cluster, {REPLICA_SETS: Controller(REPLICA_SETS, failing, ())}):
        await cluster.create(REPLICA_SETS, on_node(REPLICA_SETS, replicas=1))
        await asyncio.sleep(1.5)
        assert 2 <= attempts < 15
        before = attempts
        await cluster.patch(REPLICA_SETS, "default", "w", {"spec": {"replicas": 2}})
        await until(lambda: attempts > before)  # a spec that changed is tried at once


async def test_what_changed_while_it_failed_is_seen_once_it_works() -> None:
    seen: list[int] = []
    is_refused = True

    def counting(owner: Raw, children: Children, now: datetime) -> Reconciliation:
        seen.append(len(children.of(owner, PODS)))
        bad = Create(CONFIG_MAPS, {"metadata": {"name": "bad/name", "namespace": "default"}})
        return Reconciliation((bad,) if is_refused else ())

    cluster = MemoryCluster()
    async with running(cluster, {REPLICA_SETS: Controller(REPLICA_SETS, counting, (PODS,))}):
        owner = await cluster.create(REPLICA_SETS, on_node(REPLICA_SETS, replicas=1))
        await until(lambda: len(seen) > 1)
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": owner["metadata"]["uid"]}
        metadata = {"name": "p", "namespace": "default", "ownerReferences": [{**reference, "controller": True}]}
        spec = {"containers": [{"name": "c", "image": "none:1"}]}
        is_refused = False
        await cluster.create(PODS, {"metadata": metadata, "spec": spec})
        await until(lambda: seen[-1] == 1)

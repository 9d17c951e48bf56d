"""Simulated kubelets: bound pods and nodes, with a manual clock."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from muster.api.resources import NAMESPACES, NODES, PODS, Resource
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.controllers.replica_controller import ReplicaController
from muster.embedded.kubelet.clock import ManualClock, settled
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import FAIL, RUN_FOR, KubeletTimings
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.errors import ApiError
from tests.contract.given import plain_pod


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = ClusterStore(clock=self.clock.now)
        self.cluster = MemoryCluster(self.store)
        self.kubelets = Kubelets(self.cluster, self.clock, KubeletTimings(start_seconds=2))

    def bound(self, name: str, **annotations: str) -> None:
        raw = plain_pod("default", name)
        raw["metadata"]["annotations"] = {key.replace("_", "-"): value for key, value in annotations.items()}
        self.store.create(PODS, raw)
        self.store.bind("default", name, "", "n1")

    def phase(self, name: str) -> str:
        return str(self.store.get(PODS, "default", name)["status"]["phase"])

    def ready(self, name: str = "n1") -> bool:
        conditions = self.store.get(NODES, "", name)["status"]["conditions"]
        return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    new_scene = Scene()
    new_scene.store.create(NODES, {"metadata": {"name": "n1"}})
    async with new_scene.kubelets.running():
        await settled()
        yield new_scene


@contextmanager
def gone() -> Iterator[None]:
    with pytest.raises(ApiError) as caught:
        yield
    assert caught.value.status == 404


async def test_nodes_become_ready(scene: Scene) -> None:
    assert scene.ready()
    scene.store.create(NODES, {"metadata": {"name": "n2"}})
    await settled()
    assert scene.ready("n2")


async def test_a_bound_pod_runs_after_the_start_time(scene: Scene) -> None:
    scene.bound("a")
    await scene.clock.advance(1)
    assert scene.phase("a") == "Pending"
    await scene.clock.advance(1)
    status = scene.store.get(PODS, "default", "a")["status"]
    assert status["phase"] == "Running"
    assert {condition["type"]: condition["status"] for condition in status["conditions"]} == {
        "PodScheduled": "True", "Initialized": "True", "Ready": "True", "ContainersReady": "True"}  # fmt: skip
    assert status["containerStatuses"][0]["ready"]


async def test_an_unbound_pod_stays_pending(scene: Scene) -> None:
    scene.store.create(PODS, plain_pod("default", "a"))
    await scene.clock.advance(100)
    assert scene.phase("a") == "Pending"


async def test_a_pod_succeeds_after_its_run_time(scene: Scene) -> None:
    scene.bound("a", **{RUN_FOR: "30s"})
    scene.bound("b", **{RUN_FOR: "nonsense"})
    await scene.clock.advance(2)
    await scene.clock.advance(29)
    assert scene.phase("a") == "Running"
    await scene.clock.advance(1)
    assert (scene.phase("a"), scene.phase("b")) == ("Succeeded", "Running")


async def test_a_deleted_pod_is_removed_after_its_grace_period(scene: Scene) -> None:
    scene.bound("a")
    await scene.clock.advance(2)
    scene.store.delete(PODS, "default", "a")
    await scene.clock.advance(29)
    assert scene.phase("a") == "Running"
    await scene.clock.advance(1)
    with gone():
        scene.phase("a")


async def test_a_pod_can_be_failed(scene: Scene) -> None:
    scene.bound("a")
    await scene.clock.advance(2)
    await scene.kubelets.fail_pod("default", "a")
    assert scene.phase("a") == "Failed"


async def test_a_lost_node_fails_its_pods_and_can_heal(scene: Scene) -> None:
    scene.bound("a")
    await scene.clock.advance(2)
    await scene.kubelets.fail_node("n1")
    await settled()
    assert not scene.ready()
    assert scene.phase("a") == "Failed"
    assert {taint["key"] for taint in scene.store.get(NODES, "", "n1")["spec"]["taints"]} == {
        "node.kubernetes.io/not-ready"
    }
    scene.bound("b")
    await scene.clock.advance(10)
    assert scene.phase("b") == "Pending"
    await scene.kubelets.heal_node("n1")
    await scene.clock.advance(2)
    assert scene.ready()
    assert not scene.store.get(NODES, "", "n1")["spec"].get("taints")
    assert scene.phase("b") == "Running"


async def test_kubelets_retry_after_api_errors(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    real, answers = scene.cluster.patch, iter([500, 429])

    async def flaky(*args: Any, **options: Any) -> Any:
        status = next(answers, None)
        if status:
            raise ApiError(status, "Trouble", "not now")
        return await real(*args, **options)

    monkeypatch.setattr(scene.cluster, "patch", flaky)
    scene.bound("a")
    for _ in range(4):
        await scene.clock.advance(1)
    assert scene.phase("a") == "Running"


# failures by annotation ----------------------------------------------------------------------------------------------


def annotated(scene: Scene, resource: Resource, name: str, value: str | None) -> None:
    """As `kubectl annotate` does; None: `muster.dev/fail-`."""
    space = "default" if resource == PODS else ""
    scene.store.patch(resource, space, name, {"metadata": {"annotations": {FAIL: value}}})


async def test_a_pod_is_failed_by_an_annotation(scene: Scene) -> None:
    """`kubectl annotate` makes pods and nodes fail."""
    scene.bound("a")
    scene.bound("b")
    await scene.clock.advance(2)
    annotated(scene, PODS, "a", "disk full")
    annotated(scene, PODS, "b", "false")
    await settled()
    assert (scene.phase("a"), scene.phase("b")) == ("Failed", "Running")
    assert scene.store.get(PODS, "default", "a")["status"]["message"] == "disk full"


async def test_a_node_is_lost_while_it_is_annotated(scene: Scene) -> None:
    scene.bound("a")
    await scene.clock.advance(2)
    annotated(scene, NODES, "n1", "true")
    await settled()
    assert (scene.ready(), scene.phase("a")) == (False, "Failed")
    scene.bound("b")
    await scene.clock.advance(10)
    assert scene.phase("b") == "Pending"
    annotated(scene, NODES, "n1", None)
    scene.store.patch(NODES, "", "n1", {"metadata": {"labels": {"seen": "twice"}}})
    await settled()
    assert scene.ready()
    assert not scene.store.get(NODES, "", "n1")["spec"].get("taints")
    await scene.clock.advance(2)
    assert scene.phase("b") == "Running"


async def test_a_node_that_is_not_ready_has_no_kubelet() -> None:
    """A captured cluster keeps its lost nodes."""
    scene = Scene()
    lost = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    scene.store.create(NODES, {"metadata": {"name": "n1"}, "status": lost})
    scene.bound("a")
    async with scene.kubelets.running():
        await scene.clock.advance(10)
        assert (scene.ready(), scene.phase("a")) == (False, "Pending")
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        scene.store.patch(NODES, "", "n1", {"status": ready}, subresource="status")
        await scene.clock.advance(10)
        assert scene.phase("a") == "Running"


# deleted nodes -------------------------------------------------------------------------------------------------------


async def test_pods_of_a_deleted_node_are_removed(scene: Scene) -> None:
    """As PodGC does: first a failed status with the reason, then the deletion."""
    scene.store.create(NODES, {"metadata": {"name": "n2"}})
    scene.bound("a")
    scene.bound("terminating")
    await scene.clock.advance(5)
    scene.store.delete(PODS, "default", "terminating")
    with scene.store.watch(PODS, scene.store.version) as watch:
        scene.store.delete(NODES, "", "n1")
        await scene.clock.advance(2)
        changes = [
            (change.type, change.object["metadata"]["name"], change.object["status"]["phase"])
            for change in watch.take()
        ]
    for name in ("a", "terminating"):
        with gone():
            scene.phase(name)
        assert ("MODIFIED", name, "Failed") in changes


async def test_a_pod_bound_to_a_missing_node_is_removed_after_a_delay(scene: Scene) -> None:
    """Not at once: the event of a node may arrive after those of its pods."""
    for name, node in (("a", "nowhere"), ("b", "late")):
        scene.store.create(PODS, plain_pod("default", name))
        scene.store.bind("default", name, "", node)
    await settled()
    assert scene.phase("a") == "Pending"
    scene.store.create(NODES, {"metadata": {"name": "late"}})
    await scene.clock.advance(2)
    with gone():
        scene.phase("a")
    assert scene.phase("b") == "Running"


async def test_a_missing_node_is_read_before_its_pods_are_removed(scene: Scene) -> None:
    """The watch of nodes may be late."""
    scene.bound("a")
    await scene.clock.advance(2)
    scene.kubelets._nodes.discard("n1")
    scene.kubelets._reschedule_pods("n1")
    await scene.clock.advance(2)
    assert scene.phase("a") == "Running"


# replica controller --------------------------------------------------------------------------------------------------


async def test_the_replacement_of_an_annotated_pod_does_not_fail(scene: Scene) -> None:
    """The annotation is not copied."""
    owner = asyncio.create_task(ReplicaController(scene.cluster, ["default"]).run())
    scene.bound("a")
    await scene.clock.advance(2)
    annotated(scene, PODS, "a", "true")
    await settled()
    (back,) = scene.store.list(PODS).items
    assert back["metadata"]["name"] != "a"
    assert FAIL not in back["metadata"].get("annotations", {})
    owner.cancel()


async def test_pods_of_a_terminating_namespace_are_not_recreated(scene: Scene) -> None:
    """The controller goes on with other namespaces."""
    owner = asyncio.create_task(ReplicaController(scene.cluster, ["team", "default"]).run())
    scene.store.create(NAMESPACES, {"metadata": {"name": "team"}})
    scene.store.create(PODS, plain_pod("team", "a"))
    scene.store.create(PODS, plain_pod("default", "b"))
    await settled()
    scene.store.delete(NAMESPACES, "", "team")
    await settled()
    scene.store.delete(PODS, "default", "b")
    await settled()
    assert not owner.done()
    assert [raw["metadata"]["namespace"] for raw in scene.store.list(PODS).items] == ["default"]
    owner.cancel()

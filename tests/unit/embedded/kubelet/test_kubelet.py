"""Simulated kubelets: what becomes of bound pods and of nodes, with a clock that stands still."""

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
from tests.contract.given import pod


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = ClusterStore(clock=self.clock.now)
        self.cluster = MemoryCluster(self.store)
        self.kubelets = Kubelets(self.cluster, self.clock, KubeletTimings(start_seconds=2))

    def bound(self, name: str, **annotations: str) -> None:
        raw = pod("default", name)
        raw["metadata"]["annotations"] = {key.replace("_", "-"): value for key, value in annotations.items()}
        self.store.create(PODS, raw)
        self.store.bind("default", name, "", "n1")

    def phase(self, name: str) -> str:
        return str(self.store.get(PODS, "default", name)["status"]["phase"])

    def ready(self, name: str = "n1") -> bool:
        conditions = self.store.get(NODES, "", name)["status"]["conditions"]
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    found = Scene()
    found.store.create(NODES, {"metadata": {"name": "n1"}})
    async with found.kubelets.running():
        await settled()
        yield found


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


async def test_a_bound_pod_runs_after_a_while(scene: Scene) -> None:
    scene.bound("a")
    await scene.clock.advance(1)
    assert scene.phase("a") == "Pending"
    await scene.clock.advance(1)
    found = scene.store.get(PODS, "default", "a")["status"]
    assert found["phase"] == "Running"
    assert {one["type"]: one["status"] for one in found["conditions"]} == {
        "PodScheduled": "True", "Initialized": "True", "Ready": "True", "ContainersReady": "True"}  # fmt: skip
    assert found["containerStatuses"][0]["ready"]


async def test_an_unbound_pod_waits(scene: Scene) -> None:
    scene.store.create(PODS, pod("default", "a"))
    await scene.clock.advance(100)
    assert scene.phase("a") == "Pending"


async def test_a_pod_that_runs_for_a_time_succeeds(scene: Scene) -> None:
    scene.bound("a", **{RUN_FOR: "30s"})
    scene.bound("b", **{RUN_FOR: "nonsense"})
    await scene.clock.advance(2)
    await scene.clock.advance(29)
    assert scene.phase("a") == "Running"
    await scene.clock.advance(1)
    assert (scene.phase("a"), scene.phase("b")) == ("Succeeded", "Running")


async def test_a_deleted_pod_goes_after_its_grace(scene: Scene) -> None:
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


async def test_a_lost_node_takes_its_pods_with_it_and_can_heal(scene: Scene) -> None:
    scene.bound("a")
    await scene.clock.advance(2)
    await scene.kubelets.fail_node("n1")
    await settled()
    assert not scene.ready()
    assert scene.phase("a") == "Failed"
    assert {one["key"] for one in scene.store.get(NODES, "", "n1")["spec"]["taints"]} == {
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


async def test_kubelets_survive_a_cluster_that_says_no(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
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


# told from outside --------------------------------------------------------------------------------------------------


def annotated(scene: Scene, resource: Resource, name: str, value: str | None) -> None:
    """As `kubectl annotate` does; None: `muster.dev/fail-`."""
    space = "default" if resource == PODS else ""
    scene.store.patch(resource, space, name, {"metadata": {"annotations": {FAIL: value}}})


async def test_a_pod_is_failed_by_an_annotation(scene: Scene) -> None:
    """Issue 5: kubelets can be told to fail; kubectl can tell them."""
    scene.bound("a")
    scene.bound("b")
    await scene.clock.advance(2)
    annotated(scene, PODS, "a", "disk full")
    annotated(scene, PODS, "b", "false")
    await settled()
    assert (scene.phase("a"), scene.phase("b")) == ("Failed", "Running")
    assert scene.store.get(PODS, "default", "a")["status"]["message"] == "disk full"


async def test_a_node_is_lost_for_as_long_as_it_is_annotated(scene: Scene) -> None:
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


async def test_a_node_that_says_it_is_not_ready_has_no_kubelet() -> None:
    """A captured cluster comes up with the nodes that it had lost."""
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


# nodes that are gone ------------------------------------------------------------------------------------------------


async def test_pods_go_with_a_node_that_is_deleted(scene: Scene) -> None:
    """As Kubernetes' garbage collector of pods does: failed first, so that whoever watches knows why, then deleted."""
    scene.store.create(NODES, {"metadata": {"name": "n2"}})
    scene.bound("a")
    scene.bound("leaving")
    await scene.clock.advance(5)
    scene.store.delete(PODS, "default", "leaving")
    with scene.store.watch(PODS, scene.store.version) as watch:
        scene.store.delete(NODES, "", "n1")
        await scene.clock.advance(2)
        told = [(one.type, one.object["metadata"]["name"], one.object["status"]["phase"]) for one in watch.take()]
    for name in ("a", "leaving"):
        with gone():
            scene.phase(name)
        assert ("MODIFIED", name, "Failed") in told


async def test_a_pod_that_is_bound_to_no_node_goes_after_a_moment(scene: Scene) -> None:
    """Not at once: a node may be heard of later than its pods."""
    for name, node in (("a", "nowhere"), ("b", "late")):
        scene.store.create(PODS, pod("default", name))
        scene.store.bind("default", name, "", node)
    await settled()
    assert scene.phase("a") == "Pending"
    scene.store.create(NODES, {"metadata": {"name": "late"}})
    await scene.clock.advance(2)
    with gone():
        scene.phase("a")
    assert scene.phase("b") == "Running"


async def test_a_node_that_was_not_heard_of_is_asked_for(scene: Scene) -> None:
    """Nothing is deleted on the word of a watch that may be late."""
    scene.bound("a")
    await scene.clock.advance(2)
    scene.kubelets._nodes.discard("n1")
    scene.kubelets._reschedule_pods("n1")
    await scene.clock.advance(2)
    assert scene.phase("a") == "Running"


# owners -------------------------------------------------------------------------------------------------------------


async def test_a_pod_that_was_told_to_fail_comes_back_sound(scene: Scene) -> None:
    """What it was told was about that pod; its replacement runs."""
    owner = asyncio.create_task(ReplicaController(scene.cluster, ["default"]).run())
    scene.bound("a")
    await scene.clock.advance(2)
    annotated(scene, PODS, "a", "true")
    await settled()
    (back,) = scene.store.list(PODS).items
    assert back["metadata"]["name"] != "a"
    assert FAIL not in back["metadata"].get("annotations", {})
    owner.cancel()


async def test_nobody_wants_pods_back_where_their_namespace_goes(scene: Scene) -> None:
    """The owner goes on with those of other namespaces."""
    owner = asyncio.create_task(ReplicaController(scene.cluster, ["team", "default"]).run())
    scene.store.create(NAMESPACES, {"metadata": {"name": "team"}})
    scene.store.create(PODS, pod("team", "a"))
    scene.store.create(PODS, pod("default", "b"))
    await settled()
    scene.store.delete(NAMESPACES, "", "team")
    await settled()
    scene.store.delete(PODS, "default", "b")
    await settled()
    assert not owner.done()
    assert [raw["metadata"]["namespace"] for raw in scene.store.list(PODS).items] == ["default"]
    owner.cancel()

"""Simulated kubelets and pods that start after other cliques: the init container waits for an annotation."""

from collections.abc import AsyncIterator

import pytest

from muster.api import names
from muster.api.resources import NODES, PODS
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.kubelet.clock import ManualClock, settled
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.embedded.memory_cluster import MemoryCluster
from muster.grove.startup import CONTAINER, START, add_wait
from muster.kube.cluster import Raw
from tests.contract.given import plain_pod


class OrderScene:
    """One node, and one bound pod that waits."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = ClusterStore(clock=self.clock.now)
        self.kubelets = Kubelets(MemoryCluster(self.store), self.clock, KubeletTimings(start_seconds=2))
        self.store.create(NODES, {"metadata": {"name": "n1"}})
        raw = plain_pod("default", "a")
        raw["metadata"]["annotations"] = {names.STARTUP: "after w-0-a"}
        raw["spec"] = add_wait({**raw["spec"], "initContainers": [{"name": "download", "image": "x"}]}, "muster:1")
        self.store.create(PODS, raw)
        self.store.bind("default", "a", "", "n1")

    @property
    def status(self) -> Raw:
        return dict(self.store.get(PODS, "default", "a")["status"])

    def conditions(self) -> dict[str, str]:
        return {condition["type"]: condition["status"] for condition in self.status["conditions"]}

    def let_start(self) -> None:
        patch = {"metadata": {"annotations": {names.STARTUP: START}}}
        self.store.patch(PODS, "default", "a", patch, "application/merge-patch+json")


@pytest.fixture
async def scene() -> AsyncIterator[OrderScene]:
    new_scene = OrderScene()
    async with new_scene.kubelets.running():
        await settled()
        yield new_scene


async def test_a_pod_stays_in_its_init_container_until_it_may_start(scene: OrderScene) -> None:
    await scene.clock.advance(2)
    await scene.clock.advance(3600)
    assert scene.status["phase"] == "Pending"
    assert scene.conditions() == {
        "PodScheduled": "True",
        "Initialized": "False",
        "Ready": "False",
        "ContainersReady": "False",
    }
    states = {each["name"]: next(iter(each["state"])) for each in scene.status["initContainerStatuses"]}
    assert states == {"download": "terminated", CONTAINER: "running"}


async def test_a_pod_that_may_start_runs_and_becomes_ready(scene: OrderScene) -> None:
    await scene.clock.advance(10)
    scene.let_start()
    await scene.clock.advance(1)
    assert scene.status["phase"] == "Pending"
    await scene.clock.advance(1)
    assert scene.status["phase"] == "Running"
    assert scene.conditions()["Ready"] == "True"
    assert {next(iter(each["state"])) for each in scene.status["initContainerStatuses"]} == {"terminated"}


async def test_a_pod_that_may_start_before_it_waited_starts_as_others_do(scene: OrderScene) -> None:
    scene.let_start()
    await scene.clock.advance(2)
    assert scene.status["phase"] == "Running"


async def test_a_waiting_pod_is_removed_when_it_is_deleted(scene: OrderScene) -> None:
    await scene.clock.advance(5)
    scene.store.delete(PODS, "default", "a")
    await scene.clock.advance(60)
    assert scene.store.list(PODS, "default").items == ()

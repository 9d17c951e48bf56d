"""Simulated kubelets: what becomes of bound pods and of nodes, with a clock that stands still."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from muster.cluster.kinds import NODES, PODS
from muster.cluster.memory import Memory, Store
from muster.cluster.store import ApiError
from muster.sim.clock import ManualClock, settled
from muster.sim.kubelet import Kubelets
from muster.sim.lives import RUN_FOR, Habits
from tests.contract.given import pod


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(clock=self.clock.now)
        self.cluster = Memory(self.store)
        self.kubelets = Kubelets(self.cluster, self.clock, Habits(start_seconds=2))

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

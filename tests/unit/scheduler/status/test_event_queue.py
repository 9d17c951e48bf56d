"""Events of what was done (E1): on which objects, in which words, how many, and that they never hold up a binding."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.api.decoding import decode
from muster.api.podgroup import PodGroup
from muster.api.resources import EVENTS, POD_GROUPS, Resource
from muster.kube.cluster import Raw
from muster.kube.leadership import AlwaysLeading
from muster.planning.decision import Binding, Eviction
from muster.reporting import event_messages
from muster.scheduler.observer import NoObserver
from muster.scheduler.status import event_queue
from muster.scheduler.status.event_queue import EventQueue
from tests.support.live.faults import Call, Fault, Faulty
from tests.support.live.objects import gpu_node, group, queue
from tests.support.live.world import HASTY, World

HIGH = "`default/high`, which has a higher priority"
Lines = list[tuple[str, str, str, str]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short delays."""
    monkeypatch.setattr(event_queue, "GATHER_SECONDS", 0.005)
    monkeypatch.setattr(event_queue, "YIELD_SECONDS", 0.002)
    monkeypatch.setattr(event_queue, "LONGEST_YIELD_SECONDS", 0.05)


def stored(world: World, resource: Resource) -> list[Raw]:
    return list(world.memory.store.list(resource).items)


def events(world: World, *reasons: str) -> Lines:
    """Kind, name, reason and message of every event with one of these reasons, in order."""
    selected = [
        (raw["involvedObject"]["kind"], raw["involvedObject"]["name"], raw["reason"], raw["message"])
        for raw in stored(world, EVENTS)
        if raw["reason"] in reasons
    ]
    return sorted(selected)


def bindings(number: int, gang: str = "g", node_name: str = "a") -> list[Binding]:
    return [Binding("default", f"{gang}-{i}", node_name, gang, "", "core") for i in range(number)]


class Counted(NoObserver):
    """Counts events that are dropped."""

    def __init__(self) -> None:
        self.dropped: list[str] = []

    def event_dropped(self, reason: str) -> None:
        self.dropped.append(reason)


class Scene:
    """A queue on a cluster with one PodGroup."""

    def __init__(self, cluster: Faulty | None = None, *names: str) -> None:
        self.world = World([gpu_node("a")])
        for name in names or ("g",):
            self.world.create(POD_GROUPS, group(name, minMember=1))
        self.cluster = cluster or Faulty(self.world.memory)
        self.is_busy, self.counted = False, Counted()
        groups = {raw["metadata"]["name"]: raw for raw in stored(self.world, POD_GROUPS)}
        self.queue = EventQueue(
            self.cluster,
            AlwaysLeading(),
            lambda: self.world.seconds,
            self.world.time.now,
            lambda key: _typed(groups, key),
            lambda: self.is_busy,
            self.counted,
        )

    def add(self, done: Iterable[Binding | Eviction]) -> None:
        for write in done:
            self.queue.add(write, f"uid-{write.pod}", 0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.queue.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def sent(self) -> None:
        async with asyncio.timeout(20):
            while len(self.queue):
                await asyncio.sleep(0.002)


def _typed(groups: dict[str, Any], key: str) -> PodGroup | None:
    raw = groups.get(key.partition("/")[2])
    return None if raw is None else decode(raw, PodGroup)[0]


# words ----------------------------------------------------------------------------------------------------------------


async def test_a_placement_has_an_event_on_every_pod_and_one_on_the_podgroup() -> None:
    """E1: a thousand pods are one event of their PodGroup."""
    scene = Scene()
    async with scene.running():
        scene.add([*bindings(999), Binding("default", "g-999", "b", "g", "", "extra")])
        await scene.sent()
    recorded = events(scene.world, "Scheduled")
    assert [one for one in recorded if one[0] == "PodGroup"] == [
        ("PodGroup", "g", "Scheduled", "1000 pods assigned to 2 nodes, 1 of them extra")
    ]
    assert len(recorded) == 1001
    assert ("Pod", "g-7", "Scheduled", "assigned to node `a` with its gang `g` (core)") in recorded


async def test_an_eviction_has_events_on_pod_podgroup_and_preemptor() -> None:
    """E1: on the pod, on its PodGroup, and on the gang that it was for: which pods, for which gang, and why."""
    scene = Scene(None, "low", "high")
    async with scene.running():
        scene.add(
            Eviction("default", f"low-{i}", "a", "low", "", "Preempt", "default/high", "b" if i else "") for i in (0, 1)
        )
        await scene.sent()
    assert events(scene.world, "Preempted", "Preempting") == [
        (
            "Pod",
            "low-0",
            "Preempted",
            f"evicted from node `a` to make room for {HIGH}",
        ),
        (
            "Pod",
            "low-1",
            "Preempted",
            f"evicted from node `a` to make room for {HIGH}; its replacement has a place on node `b`",
        ),
        (
            "PodGroup",
            "high",
            "Preempting",
            "2 pods of `default/low` evicted to make room for it; 1 of them with a new place",
        ),
        (
            "PodGroup",
            "low",
            "Preempted",
            "2 pods evicted to make room for `default/high`; 1 of them with a new place",
        ),
    ]


@pytest.mark.parametrize(
    ("reason", "word"), [("Preempt", "Preempted"), ("Reclaim", "Reclaimed"), ("Consolidate", "Consolidated")]
)
def test_every_eviction_reason_has_its_event_reason(reason: Any, word: str) -> None:
    """Programs select events by their reason."""
    done = Eviction("d", "p", "n", "low", "", reason, "d/high")
    assert next(event_reason for _, event_reason in event_messages.group_events(done)) == word
    assert "`d/high`" in event_messages.pod_message(done)
    assert "`d/high`" in event_messages.group_message("d/low", [done])


async def test_a_release_is_a_warning() -> None:
    """S2, S3: the whole gang, or one SubGroup, was below its minimum for too long."""
    scene = Scene()
    async with scene.running():
        scene.add([Eviction("default", "g-0", "a", "g", "other", "Stale", "default/g", short="part")])
        await scene.sent()
    words = "SubGroup `part` was below its minimum for longer than its grace"
    assert events(scene.world, "Released") == [
        ("Pod", "g-0", "Released", f"released from node `a`: {words}"),
        ("PodGroup", "g", "Released", f"1 pod released: {words}"),
    ]
    assert {raw["type"] for raw in stored(scene.world, EVENTS)} == {"Warning"}


async def test_what_happens_again_is_counted_up() -> None:
    """As with Kubernetes' own recorders: one event on a PodGroup, with the latest words."""
    scene = Scene()
    async with scene.running():
        scene.add(bindings(2))
        await scene.sent()
        scene.add([Binding("default", "g-9", "a", "g", "", "extra")])
        await scene.sent()
    recorded = [raw for raw in stored(scene.world, EVENTS) if raw["involvedObject"]["kind"] == "PodGroup"]
    assert [(raw["count"], raw["message"]) for raw in recorded] == [(2, "1 pod assigned to 1 node, 1 of them extra")]


async def test_where_the_podgroup_is_gone_only_the_pods_have_events() -> None:
    scene = Scene()
    async with scene.running():
        scene.add(bindings(1, "gone"))
        await scene.sent()
    assert [one[:2] for one in events(scene.world, "Scheduled")] == [("Pod", "gone-0")]


# rate -----------------------------------------------------------------------------------------------------------------


async def test_events_wait_while_bindings_are_on_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """They slow down no binding: nothing is sent before the last one is answered."""
    monkeypatch.setattr(event_queue, "LONGEST_YIELD_SECONDS", 60.0)
    scene = Scene()
    scene.is_busy = True
    async with scene.running():
        scene.add(bindings(20))
        await asyncio.sleep(0.05)
        assert scene.cluster.calls == 0
        scene.is_busy = False
        await scene.sent()
    assert len(events(scene.world, "Scheduled")) == 21


async def test_a_cluster_that_never_rests_has_events_too() -> None:
    """They are held back for a while, not for ever."""
    scene = Scene()
    scene.is_busy = True
    async with scene.running():
        scene.add(bindings(3))
        await scene.sent()
    assert len(events(scene.world, "Scheduled")) == 4


async def test_a_flood_drops_the_oldest_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded: memory does not grow with what an API server cannot take; PodGroups come before pods."""
    monkeypatch.setattr(event_queue, "MOST_PODS", 10)
    scene = Scene()
    scene.add(bindings(25))
    assert len(scene.queue) == 11
    async with scene.running():
        await scene.sent()
    recorded = events(scene.world, "Scheduled")
    assert ("PodGroup", "g", "Scheduled", "25 pods assigned to 1 node") in recorded
    assert {one[1] for one in recorded if one[0] == "Pod"} == {f"g-{i}" for i in range(15, 25)}
    assert scene.counted.dropped == ["QueueFull"] * 15


@pytest.mark.parametrize("fault", ["forbidden", "busy", "broken", "lost"])
async def test_an_event_that_is_not_taken_is_counted_and_nothing_else(fault: Fault) -> None:
    """Events are worth one try."""
    scene = Scene()

    def script(call: Call) -> Fault | None:
        return fault if call.verb == "create" and call.what.startswith("events g-1.") else None

    scene.cluster.script = script
    async with scene.running():
        scene.add(bindings(3))
        await scene.sent()
    assert len(events(scene.world, "Scheduled")) == 3
    assert scene.counted.dropped == ["NotTaken"]


async def test_a_former_leader_forgets_what_was_not_sent() -> None:
    scene = Scene()
    scene.add(bindings(3))
    scene.queue.forget()
    assert len(scene.queue) == 0


# the loop -------------------------------------------------------------------------------------------------------------


async def test_the_loop_has_events_for_bindings_and_evictions() -> None:
    """E1, from end to end: two gangs, one of which makes room for the other."""
    world = World([gpu_node("a"), gpu_node("b")], [queue("team", quota=8)])
    world.submit(group("low", minMember=2, queue="team", priorityClassName="low"), {"": 4})
    async with world.running(Faulty(world.memory), HASTY) as live:
        await live.settle()
        high = group("high", minMember=2, queue="team", priorityClassName="high", preemptibility="preemptible")
        world.submit(high, {"": 2})
        await live.settle()
        await live.until(lambda: not len(live.scheduler.events))
    recorded = {
        (kind, name, reason)
        for kind, name, reason, _ in events(
            world, *event_messages.DONE.values(), *event_messages.DOING.values(), "Scheduled"
        )
    }
    assert recorded >= {
        ("PodGroup", "low", "Scheduled"),
        ("PodGroup", "high", "Scheduled"),
        ("Pod", "high-0", "Scheduled"),
    }
    assert recorded >= {("PodGroup", "low", "Preempted"), ("PodGroup", "high", "Preempting")}
    assert {name for kind, name, reason in recorded if (kind, reason) == ("Pod", "Preempted")} == {"low-2", "low-3"}

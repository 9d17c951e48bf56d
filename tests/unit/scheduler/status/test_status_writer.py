"""The status writer: its own loop, on the latest outcome, one update of one object at a time, and only changes."""

import asyncio
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from structlog.testing import capture_logs

import muster
from muster.api.core import Node, Pod
from muster.api.decoding import decode, encode
from muster.api.meta import Wire
from muster.api.podgroup import PodGroup
from muster.api.resources import EVENTS, NODES, POD_GROUPS, PODS, QUEUES, Resource
from muster.api.topology import Topology
from muster.embedded.kubelet.clock import EPOCH
from muster.kube.cache.cache import Cache
from muster.kube.cache.reflector import ObjectUpdated
from muster.kube.cluster import PatchType, Raw
from muster.kube.event_recorder import KEPT_SECONDS, EventRecorder
from muster.model.snapshot import take
from muster.planning.cycle import plan
from muster.planning.decision import Binding
from muster.reporting.outcome import Outcome, outcomes
from muster.scheduler.status import status_updates
from muster.scheduler.status.gang_events import about_stray
from muster.scheduler.status.status_updates import Address, CycleOutcome, StatusUpdate, UpdateBuilder
from muster.scheduler.status.status_writer import (
    AGAIN_SECONDS,
    AT_ONCE,
    EMPTIED_SECONDS,
    RECEIVED_SECONDS,
    SHOWN,
    StatusWriter,
)
from muster.validation.pods.membership import Stray
from tests.support.live.faults import Call, Crash, Fault, Faulty, crash_at
from tests.support.live.objects import RACK, gpu_node, gpu_pod, group, leaf, queue
from tests.support.live.world import World
from tests.unit.kube.cache.test_cache import NEWS, History, news_of


def _binding(name: str) -> Binding:
    return Binding("default", name, "a", "g", "", "core")


class Flag:
    """A leadership that is lowered by hand."""

    leading = True
    seconds_left = math.inf
    term = 0


class Gate(Faulty):
    """Patches wait until they are let go; `most` is how many were under way at once, of one object and in all."""

    def __init__(self, world: World) -> None:
        super().__init__(world.memory)
        self.go = asyncio.Event()
        self.now: Counter[str] = Counter()
        self.most_of_one = self.most = 0
        self.sent: list[tuple[str, Any]] = []

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        kind: PatchType = "application/merge-patch+json",
        subresource: str = "",
        field_manager: str = "muster",
        force: bool = False,
    ) -> Raw:
        what = f"{resource.plural} {name}"
        self.now[what] += 1
        self.most_of_one, self.most = max(self.most_of_one, self.now[what]), max(self.most, self.now.total())
        self.sent.append((what, patch))
        try:
            await self.go.wait()
            return await super().patch(resource, namespace, name, patch, kind, subresource, field_manager, force)
        finally:
            self.now[what] -= 1


class Bench:
    """A status writer, and outcomes of the world as it is."""

    def __init__(self, world: World, cluster: Faulty) -> None:
        self.world, self.cluster, self.leadership = world, cluster, Flag()
        self.number, self.failed, self.later = 0, list[bool](), list[float]()
        self.status_writer = StatusWriter(
            cluster,
            self.leadership,
            lambda: world.seconds,
            5.0,
            again=self.failed.append,
            later=self.later.append,
        )

    def news(self, **unsettled: str) -> None:
        raw = [item for kind in (NODES, PODS, POD_GROUPS, QUEUES) for item in self.world.memory.store.list(kind).items]
        snapshot = take(muster.objects(raw), self.world.time.now())
        self.number += 1
        self.status_writer.submit(
            CycleOutcome(
                self.number,
                snapshot,
                plan(snapshot),
                self.world.time.now(),
                self.leadership.term,
                {f"default/{gang}": why for gang, why in unsettled.items()},
            )
        )

    async def reported(self) -> None:
        async with asyncio.timeout(5):
            while self.status_writer.reported_cycle < self.number:
                await asyncio.sleep(0.001)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.status_writer.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


def waiting(pods: int = 1, groups: int = 1) -> World:
    """Gangs that find no place."""
    world = World([gpu_node("a", gpus=0)])
    for i in range(groups):
        world.create(POD_GROUPS, group(f"g{i}", minMember=pods))
        for j in range(pods):
            world.create(PODS, gpu_pod(f"g{i}-{j}", f"g{i}"))
    return world


def events(world: World, kind: str = "PodGroup") -> list[Raw]:
    recorded = world.memory.store.list(EVENTS).items
    return [raw for raw in recorded if raw["involvedObject"]["kind"] == kind]


def counts(raw: Raw) -> tuple[str, int, str, str]:
    return raw["reason"], raw["count"], raw["firstTimestamp"], raw["lastTimestamp"]


async def until(test: Any) -> None:
    async with asyncio.timeout(5):
        while not test():
            await asyncio.sleep(0.001)


async def test_a_status_is_one_request() -> None:
    world = waiting()
    world.create(QUEUES, queue("default"))
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        bench.news()
        await bench.reported()
    assert [line.partition(".")[0] for line in sorted(bench.cluster.log)] == [
        "create events g0",
        "patch podgroups g0 status",
        "patch pods g0-0 status",
        "patch queues default status",
    ]


async def test_what_is_stored_already_is_not_written() -> None:
    """E3: also not what was written and is not seen yet, unless that takes too long."""
    world = waiting()
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        bench.news()
        await bench.reported()
        first = len(bench.cluster.log)
        bench.news()
        await bench.reported()
        assert len(bench.cluster.log) == first
        stale = world.group("g0")
        world.memory.store.replace(POD_GROUPS, stale | {"status": {"phase": "Running"}}, "status")
        await world.time.advance(RECEIVED_SECONDS)
        bench.news()
        await bench.reported()
    assert bench.cluster.log[first:] == ["patch podgroups g0 status"]
    assert world.group("g0")["status"]["phase"] == "Pending"


async def test_only_the_latest_outcome_is_written_and_one_update_at_a_time() -> None:
    """While an update is under way its object gets no other one; what came in between is never sent."""
    world = waiting()
    gate = Gate(world)
    bench = Bench(world, gate)
    async with bench.running():
        bench.news()
        await until(lambda: gate.now.total() == 2)
        for i in (7, 8, 9):
            world.create(PODS, gpu_pod(f"g0-{i}", "g0"))
            bench.news()
            await asyncio.sleep(0.01)
        gate.go.set()
        await bench.reported()
    pending = [patch[1]["value"]["pending"] for what, patch in gate.sent if what == "podgroups g0"]
    assert pending == [1, 4]
    assert world.group("g0")["status"]["pending"] == 4
    assert gate.most_of_one == 1


async def test_few_at_once() -> None:
    world = waiting(pods=2, groups=30)
    gate = Gate(world)
    bench = Bench(world, gate)
    async with bench.running():
        bench.news()
        await until(lambda: gate.now.total() == AT_ONCE)
        await asyncio.sleep(0.02)
        gate.go.set()
        await bench.reported()
    assert gate.most == AT_ONCE
    assert len(gate.sent) == 90


async def test_first_updates_come_before_repeated_ones() -> None:
    """Else changes that keep coming for the first object would starve the last."""
    world = waiting(groups=30)
    gate = Gate(world)
    bench = Bench(world, gate)
    async with bench.running():
        bench.news()
        await until(lambda: gate.now.total() == AT_ONCE)
        first = {what for what, _ in gate.sent}
        for i in range(30):
            world.create(PODS, gpu_pod(f"g{i}-new", f"g{i}"))
        bench.news()
        await until(lambda: bench.status_writer._number == 2)
        gate.go.set()
        await bench.reported()
    after = [what for what, _ in gate.sent[AT_ONCE:]]
    last_new = max(i for i, what in enumerate(after) if what not in first and not what.endswith("new"))
    again = [i for i, what in enumerate(after) if what in first]
    assert again
    assert min(again) > last_new


@pytest.mark.parametrize("fault", ["busy", "broken", "lost", "forbidden"])
async def test_an_update_that_fails_is_sent_again(fault: Fault) -> None:
    """And the loop is woken, so that there is a next time."""
    world = waiting()
    failing = True
    bench = Bench(world, Faulty(world.memory, lambda _: fault if failing else None))
    async with bench.running():
        bench.news()
        await bench.reported()
        assert bench.failed == [True]
        failing = False
        bench.news()
        await bench.reported()
    assert bench.failed == [True, False]
    assert world.group("g0")["status"]["phase"] == "Pending"
    assert world.condition(world.pod("g0-0"), "PodScheduled")["status"] == "False"
    assert len(events(world)) == 1


async def test_no_status_is_written_while_a_binding_of_the_gang_is_unconfirmed() -> None:
    """It would be wrong, one way or the other; the last status stands."""
    world = waiting()
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        bench.news()
        await bench.reported()
        before = world.group("g0")["status"], world.pod("g0-0")["status"]
        world.create(NODES, gpu_node("z", gpus=64))
        for why in ("", "not known yet"):
            bench.news(g0=why)
            await bench.reported()
            assert (world.group("g0")["status"], world.pod("g0-0")["status"]) == before
        assert "BindingFailed" in {event["reason"] for event in world.memory.store.list(EVENTS).items}
        bench.news()
        await bench.reported()
    assert world.group("g0")["status"] != before[0]


async def test_while_nothing_works_the_log_is_not_flooded() -> None:
    """The first few failures in words, then again after a minute."""
    world = waiting()
    bench = Bench(world, Faulty(world.memory, lambda _: "forbidden"))
    with capture_logs() as lines:
        async with bench.running():
            for seconds in (0, 1, 1, 61):
                await world.time.advance(seconds)
                bench.news()
                await bench.reported()
    once = len({line["what"] for line in lines})
    assert 0 < once <= SHOWN
    assert len(lines) == 2 * once


async def test_a_gang_that_is_about_to_go_is_not_reported_as_short_of_pods() -> None:
    """A workload is deleted pod by pod, and its PodGroup last: nobody wants a warning for each of its gangs."""
    world = waiting(pods=2, groups=3)
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        bench.news()
        await bench.reported()
        first = len(bench.cluster.log)
        for i in range(3):
            for j in range(2):
                world.memory.store.delete(PODS, "default", f"g{i}-{j}", grace_seconds=0)
        for _ in range(3):
            bench.news()
            await bench.reported()
            await world.time.advance(EMPTIED_SECONDS / 4)
        for i in range(2):
            world.memory.store.delete(POD_GROUPS, "default", f"g{i}")
        assert bench.cluster.log[first:] == []
        assert bench.later == [EMPTIED_SECONDS] * 3, "a cycle comes, even if nothing else changes"
        await world.time.advance(EMPTIED_SECONDS)
        bench.news()
        await bench.reported()
    written = [line.partition(".")[0] for line in sorted(bench.cluster.log[first:])]
    assert written == ["create events g2", "patch podgroups g2 status"], "the one that stays says so, a little later"
    assert not world.group("g2")["status"].get("pending")


async def test_a_new_podgroup_without_pods_says_at_once_what_it_lacks() -> None:
    world = World([gpu_node("a")])
    world.create(POD_GROUPS, group("g0", minMember=2))
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        bench.news()
        await bench.reported()
    assert [event["reason"] for event in events(world)] == ["NotEnoughPods"]


async def test_an_object_that_is_gone_needs_no_update() -> None:
    world = waiting()
    bench = Bench(world, Faulty(world.memory))
    bench.news()
    world.memory.store.delete(POD_GROUPS, "default", "g0")
    world.memory.store.delete(PODS, "default", "g0-0", grace_seconds=0)
    async with bench.running():
        await bench.reported()
    assert bench.failed == [False]


async def test_an_object_that_was_created_again_gets_no_update_of_the_former_one() -> None:
    world = waiting()
    bench = Bench(world, Faulty(world.memory))
    bench.news()
    world.memory.store.delete(POD_GROUPS, "default", "g0")
    world.create(POD_GROUPS, group("g0", minMember=1))
    world.memory.store.delete(PODS, "default", "g0-0", grace_seconds=0)
    world.create(PODS, gpu_pod("g0-0", "g0"))
    async with bench.running():
        await bench.reported()
    assert "status" not in world.group("g0")
    assert world.condition(world.pod("g0-0"), "PodScheduled") == {}


async def test_a_replica_that_does_not_lead_writes_nothing_and_remembers_nothing() -> None:
    """I9; and a leader that returns does not know what others have written meanwhile."""
    world = waiting()
    bench = Bench(world, Faulty(world.memory))
    bench.leadership.leading = False
    async with bench.running():
        bench.news()
        await bench.reported()
        assert bench.cluster.log == []
        bench.leadership.leading = True
        bench.news()
        await bench.reported()
        requests = len(bench.cluster.log)
        bench.status_writer.forget()
        bench.news()
        await bench.reported()
    assert (requests, len(bench.cluster.log)) == (3, 5), "the pod and the event again; the status is stored"


async def test_a_pod_that_is_being_bound_gets_no_waiting_condition() -> None:
    """Updates that wait are dropped, also those of a cycle before it that come late; one on its way ends first."""
    world = waiting(pods=AT_ONCE + 2)
    gate = Gate(world)
    bench = Bench(world, gate)
    async with bench.running():
        bench.news()
        await until(lambda: gate.now.total() == AT_ONCE)
        sent = sorted(what.split()[1] for what, _ in gate.sent if what.startswith("pods"))
        (later, *_) = sorted({f"g0-{i}" for i in range(AT_ONCE + 2)} - {*sent})
        assert bench.status_writer.yield_to_binding(_binding(later)) is None, "nothing is in flight"
        waiting_for = bench.status_writer.yield_to_binding(_binding(sent[0]))
        assert waiting_for is not None
        on_its_way = asyncio.ensure_future(waiting_for)
        bench.news()  # of a cycle that is over by now: it does not know of the binding
        assert bench.status_writer._latest is not None
        bench.status_writer._latest = msgspec.structs.replace(bench.status_writer._latest, number=1)
        await asyncio.sleep(0.05)
        assert not on_its_way.done()
        gate.go.set()
        async with asyncio.timeout(5):
            await on_its_way
            while bench.status_writer._busy or bench.status_writer._updates:
                await asyncio.sleep(0.001)
    written = [what for what, _ in gate.sent]
    assert written.count(f"pods {later}") == 0
    assert written.count(f"pods {sent[0]}") == 1
    assert len({*written}) == AT_ONCE + 2, "all others, and the gang itself"


async def test_an_unexpected_failure_ends_the_status_writer() -> None:
    world = waiting(groups=30)
    bench = Bench(world, Faulty(world.memory, crash_at(5)))
    bench.news()
    async with asyncio.timeout(5):
        with pytest.raises(ExceptionGroup) as caught:
            await bench.status_writer.run()
    assert caught.group_contains(Crash)


# events ---------------------------------------------------------------------------------------------------------------


async def test_the_same_event_is_one_object_that_counts() -> None:
    """E1, as Kubernetes' own recorders do; not more often than every few minutes, and with what is true by then."""
    world = waiting()
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        for _ in range(3):
            bench.news()
            await bench.reported()
        (first,) = events(world)
        assert counts(first) == ("NoRoom", 1, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z")
        for i in range(2):
            await world.time.advance(AGAIN_SECONDS)
            world.create(PODS, gpu_pod(f"more-{i}", "g0"))
            world.memory.store.patch(POD_GROUPS, "default", "g0", {"spec": {"minMember": 2 + i}})
            bench.news()
            await bench.reported()
    (last,) = events(world)
    assert last["metadata"]["uid"] == first["metadata"]["uid"]
    assert counts(last) == ("NoRoom", 3, "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z")
    assert "needs 3 pods" in last["message"]


async def test_an_event_that_is_gone_is_created_again() -> None:
    """API servers keep events for an hour, and people delete them."""
    world = waiting()
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        bench.news()
        await bench.reported()
        (first,) = events(world)
        world.memory.store.delete(EVENTS, "default", first["metadata"]["name"])
        await world.time.advance(AGAIN_SECONDS)
        bench.news()
        await bench.reported()
    assert [counts(event) for event in events(world)] == [("NoRoom", 1, "2026-01-01T00:05:00Z", "2026-01-01T00:05:00Z")]
    assert bench.failed == [False, False]


@pytest.mark.parametrize("verb", ["create", "patch"])
async def test_an_event_without_an_answer_is_counted_once(verb: str) -> None:
    world = waiting()

    def first_time(call: Call) -> Fault | None:
        about_event = call.verb == verb and call.what.startswith("events")
        return "unanswered" if about_event and call.again == 0 else None

    bench = Bench(world, Faulty(world.memory, first_time))
    async with bench.running():
        for _ in range(2):
            for _ in range(2):
                bench.news()
                await bench.reported()
            await world.time.advance(AGAIN_SECONDS)
    assert True in bench.failed
    assert [counts(event)[:2] for event in events(world)] == [("NoRoom", 2)]


async def test_a_podgroup_that_was_created_again_has_events_of_its_own() -> None:
    """At once: it has none yet."""
    world = waiting()
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        bench.news()
        await bench.reported()
        world.memory.store.delete(POD_GROUPS, "default", "g0")
        again = world.create(POD_GROUPS, group("g0", minMember=1))
        bench.news()
        await bench.reported()
    assert [counts(event)[:2] for event in events(world)] == [("NoRoom", 1)] * 2
    assert again["metadata"]["uid"] in {event["involvedObject"]["uid"] for event in events(world)}


async def test_a_gang_with_the_longest_name_has_events() -> None:
    """Names of Events are no longer than others."""
    world, name = World([gpu_node("a", gpus=0)]), f"{'a' * 199}-{'b' * 53}"
    world.create(POD_GROUPS, group(name, minMember=1))
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        bench.news()
        await bench.reported()
    (event,) = events(world)
    assert bench.failed == [False]
    assert re.fullmatch(r"a{199}\.[0-9a-f]{16}", event["metadata"]["name"])


async def test_the_recorder_forgets_events_that_have_expired() -> None:
    """Its memory does not grow with every gang that there ever was."""
    world = World([])
    recorder = EventRecorder(world.memory, lambda: world.seconds)
    for i in range(100):
        pod = gpu_pod(f"p{i}", "")
        lost, _ = decode(pod, Pod)
        await recorder.record(about_stray(Stray(f"default/p{i}", "NoPodGroup"), lost, world.time.now()))
        await world.time.advance(KEPT_SECONDS / 10)
    assert len(recorder._recorded) == 11


# pods that belong to no gang ------------------------------------------------------------------------------------------


def lost(name: str, leaf: str = "nobody", **spec: Any) -> Raw:
    pod = gpu_pod(name, "g", leaf=leaf)
    return pod | {"spec": pod["spec"] | spec}


@pytest.mark.parametrize("mark", [True, False])
async def test_strays_have_events_on_themselves_and_on_their_podgroup(mark: bool) -> None:
    """N4: always; also where no conditions are wanted (S4), and behind gates. One that runs is scheduled already."""
    world = World([gpu_node("a")])
    world.create(POD_GROUPS, group("g", minSubGroup=1, subGroups=[leaf("w", 1)], markUnschedulable=mark))
    world.create(PODS, gpu_pod("g-0", "g", leaf="w", node_name="a"))
    for one in (
        lost("lost"),
        lost("none", ""),
        lost("gated", schedulingGates=[{"name": "x"}]),
        lost("up", nodeName="a"),
    ):
        world.create(PODS, one)
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        for _ in range(2):
            bench.news()
            await bench.reported()
    assert {(one["involvedObject"]["name"], one["reason"], one["message"]) for one in events(world, "Pod")} == {
        ("lost", "UnknownSubGroup", "the pod names subgroup `nobody`, which does not exist"),
        ("gated", "UnknownSubGroup", "the pod names subgroup `nobody`, which does not exist"),
        ("none", "NoSubGroup", "the pod names no subgroup, but the PodGroup has SubGroups"),
    }
    assert {one["involvedObject"]["uid"] for one in events(world, "Pod")} == {
        world.pod(name)["metadata"]["uid"] for name in ("lost", "gated", "none")
    }
    (on_group,) = events(world)
    assert (on_group["reason"], on_group["count"]) == ("StrayPods", 1)
    assert all(f"`default/{name}`" in on_group["message"] for name in ("lost", "none", "gated"))
    assert world.condition(world.pod("lost"), "PodScheduled").get("reason") == ("UnknownSubGroup" if mark else None)
    assert world.condition(world.pod("gated"), "PodScheduled").get("reason") in (None, "SchedulingGated")


async def test_a_pod_without_a_gang_has_one_condition_that_says_what_it_lacks() -> None:
    """N3, N4: nothing is dropped in silence; what is over, bound or behind a gate does not wait for a PodGroup."""
    world = World([gpu_node("a")])
    gated, done = gpu_pod("gated", "g"), gpu_pod("done", "g")
    gated["spec"]["schedulingGates"] = [{"name": "x"}]
    for one in (gpu_pod("lost", "g"), gpu_pod("alone", ""), gpu_pod("up", "g", node_name="a"), gated, done):
        world.create(PODS, one)
    world.memory.store.patch(PODS, "default", "done", {"status": {"phase": "Failed"}}, subresource="status")
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        for _ in range(3):
            bench.news()
            await bench.reported()
    says = {
        "lost": ("NoSuchPodGroup", "the pod names podgroup `default/g`, which does not exist"),
        "alone": ("NoPodGroup", "the pod names no podgroup in its annotation `pod-group-name`"),
    }
    for name, (reason, message) in says.items():
        condition = world.condition(world.pod(name), "PodScheduled")
        assert (condition["status"], condition["reason"], condition["message"]) == ("False", reason, message)
    assert {one["involvedObject"]["name"]: (one["reason"], one["message"]) for one in events(world, "Pod")} == says
    assert len(bench.cluster.log) == 4


@pytest.mark.parametrize("mark", [True, False])
async def test_the_condition_about_what_a_pod_lacked_goes_once_it_is_there(mark: bool) -> None:
    """The gang's own reason takes its place; where the gang wants no conditions, nothing does (S4)."""
    world = World([gpu_node("a", gpus=0)])
    world.create(PODS, gpu_pod("lost", "g"))
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        bench.news()
        await bench.reported()
        assert world.condition(world.pod("lost"), "PodScheduled")["reason"] == "NoSuchPodGroup"
        world.create(POD_GROUPS, group("g", minMember=1, markUnschedulable=mark))
        for _ in range(3):
            bench.news()
            await bench.reported()
    condition = world.condition(world.pod("lost"), "PodScheduled")
    assert condition.get("reason") == ("Unschedulable" if mark else None)
    assert bench.cluster.log.count("patch pods lost status") == 2


async def test_of_a_pod_that_is_bound_nothing_is_taken_back() -> None:
    """Its condition is what the API server made of it."""
    world = World([gpu_node("a", gpus=0)])
    for name in ("now", "seen"):
        world.create(PODS, gpu_pod(name, "g"))
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        bench.news()
        await bench.reported()
        world.memory.store.bind("default", "seen", world.pod("seen")["metadata"]["uid"], "a")
        world.create(NODES, gpu_node("b"))
        world.create(POD_GROUPS, group("g", minMember=1, markUnschedulable=False))
        bench.news()
        await bench.reported()
    assert bench.cluster.log.count("patch pods now status") == 1
    assert bench.cluster.log.count("patch pods seen status") == 1
    assert world.condition(world.pod("seen"), "PodScheduled")["status"] == "True"


# what is not looked at again ------------------------------------------------------------------------------------------


def _written(updates_by_object: Mapping[Address, list[StatusUpdate]]) -> list[tuple[Address, str, str]]:
    return sorted(
        (address, update.kind, repr(update.content))
        for address, updates in updates_by_object.items()
        for update in updates
    )


@settings(max_examples=100)
@given(NEWS)
def test_updates_with_memory_equal_updates_without(history: History) -> None:
    """Statuses are stored in between, so that many gangs become silent."""
    cache, builder = Cache(), UpdateBuilder()
    for (struct, raw), word, look in history:
        cache.handle(struct, news_of(raw, word))
        for cycle in range(3 if look else 0):
            snapshot = cache.snapshot(EPOCH)
            outcome = CycleOutcome(cycle, snapshot, plan(snapshot), EPOCH, 0)
            updates_by_object = builder.updates(outcome)
            assert _written(updates_by_object) == _written(UpdateBuilder().updates(outcome))
            for updates in updates_by_object.values():
                for update in updates:
                    _store(cache, update)


def _store(cache: Cache, update: StatusUpdate) -> None:
    """As the API server would, for PodGroups."""
    group = cache.get(PodGroup, update.namespace, update.name)
    if update.resource.plural != "podgroups" or group is None:
        return
    raw = encode(group)
    if update.kind == "status":
        raw["status"] = update.body[1]["value"]
    else:
        notes = {**raw["metadata"].get("annotations", {}), **update.body["metadata"]["annotations"]}
        raw["metadata"]["annotations"] = {name: value for name, value in notes.items() if value is not None}
    cache.handle(PodGroup, ObjectUpdated(raw))


def test_gangs_at_rest_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, builder = Cache(), UpdateBuilder()
    seen: list[int] = []

    def counted(*about: Any) -> Mapping[str, Outcome]:
        gang_outcomes = outcomes(*about)
        seen.append(len(gang_outcomes))
        return gang_outcomes

    monkeypatch.setattr(status_updates, "outcomes", counted)
    for struct, raw in (
        (Node, gpu_node("a")),
        (PodGroup, group("g", minMember=1)),
        (Pod, gpu_pod("p", "g", node_name="a")),
    ):
        cache.handle(struct, ObjectUpdated(raw))
    for cycle in range(4):
        snapshot = cache.snapshot(EPOCH)
        for updates in builder.updates(CycleOutcome(cycle, snapshot, plan(snapshot), EPOCH, 0)).values():
            for update in updates:
                _store(cache, update)
    assert seen[0] == 1
    assert seen[-1] == 0


async def test_no_condition_of_an_unconfirmed_gang_is_taken_back() -> None:
    """Its pod may be bound by now: then the condition is what the API server made of it, and not ours to remove."""
    world = World([gpu_node("a", gpus=0)])
    world.create(POD_GROUPS, group("g", minMember=1))
    world.create(PODS, gpu_pod("g-0", "g"))
    bench = Bench(world, Faulty(world.memory))
    async with bench.running():
        bench.news()
        await bench.reported()
        assert world.condition(world.pod("g-0"), "PodScheduled")["status"] == "False"
        bench.news(g="")
        await bench.reported()
    assert bench.cluster.log.count("patch pods g-0 status") == 1


async def test_timestamps_are_not_left_on_another_group_of_that_name() -> None:
    """Its timers would run from a time at which it was not there."""
    world = World([gpu_node("a")])
    world.create(POD_GROUPS, group("g", minMember=1))
    world.create(PODS, gpu_pod("g-0", "g", node_name="a"))

    def returns(call: Call) -> None:
        if (call.verb, call.what, call.again) == ("patch", "podgroups g", 0):
            world.memory.store.delete(POD_GROUPS, "default", "g")
            world.create(POD_GROUPS, group("g", minMember=1))

    bench = Bench(world, Faulty(world.memory, returns))
    async with bench.running():
        bench.news()
        await bench.reported()
    assert "patch podgroups g" in bench.cluster.log
    assert "annotations" not in world.group("g")["metadata"]


async def test_an_update_that_is_not_answered_is_given_up() -> None:
    """A binding waits for the update of its pod: it must not wait for ever."""
    world = World([gpu_node("a", gpus=0)])
    world.create(POD_GROUPS, group("g", minMember=1))
    world.create(PODS, gpu_pod("g-0", "g"))
    gate = Gate(world)
    bench = Bench(world, gate)
    bench.status_writer.seconds = 0.02
    async with bench.running(), asyncio.timeout(5):
        bench.news()
        await until(lambda: "pods g-0" in {what for what, _ in gate.sent})
        in_flight = bench.status_writer.yield_to_binding(_binding("g-0"))
        assert in_flight is not None
        await in_flight
        await until(lambda: True in bench.failed)


def _build_and_store(cache: Cache, builder: UpdateBuilder) -> list[str]:
    """The kinds of updates of PodGroups, which are stored."""
    snapshot = cache.snapshot(EPOCH)
    updates_by_object = builder.updates(CycleOutcome(1, snapshot, plan(snapshot), EPOCH, 0))
    updates = [update for some in updates_by_object.values() for update in some if update.resource == POD_GROUPS]
    for update in updates:
        _store(cache, update)
    return [update.kind for update in updates]


HAPPENS: dict[str, tuple[type[Wire], Raw]] = {
    "one more runs": (Pod, gpu_pod("q", "g", node_name="a")),
    "its rack has another name": (Node, gpu_node("a", rack="r2")),
}


@pytest.mark.parametrize(("struct", "raw"), HAPPENS.values(), ids=HAPPENS)
def test_a_gang_without_updates_gets_one_when_it_changes(struct: type[Wire], raw: Raw) -> None:
    cache, builder = Cache(), UpdateBuilder()
    racks: Raw = {"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": RACK}]}}
    where = {"topology": "racks", "requiredTopologyLevel": RACK}
    there: list[tuple[type[Wire], Raw]] = [
        (Topology, racks),
        (Node, gpu_node("a")),
        (PodGroup, group("g", minMember=1, topologyConstraint=where)),
        (Pod, gpu_pod("p", "g", node_name="a")),
    ]
    for kind, one in there:
        cache.handle(kind, ObjectUpdated(one))
    while _build_and_store(cache, builder):
        pass
    cache.handle(struct, ObjectUpdated(raw))
    assert _build_and_store(cache, builder) == ["status"]

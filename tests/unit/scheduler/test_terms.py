"""What was decided in one term of leadership is not written in another one (I9): another replica may have led between.

In every test leadership was lost and regained: `leading` holds, and only the number of the term differs.
"""

import asyncio
import math
import threading

import muster
from muster.api.core import Pod
from muster.api.decoding import decode
from muster.api.resources import NODES, POD_GROUPS, PODS
from muster.config.settings import Scheduling
from muster.model.snapshot import take
from muster.planning.cycle import plan
from muster.planning.decision import Binding, CyclePlan, Eviction
from muster.scheduler.apply.binder import Binder, Preparation
from muster.scheduler.apply.eviction_backoff import EvictionBackoff
from muster.scheduler.apply.evictor import Evictor
from muster.scheduler.apply.nominator import Nominator
from muster.scheduler.apply.plan_applier import PlanApplier
from muster.scheduler.apply.pod_api import PodApi
from muster.scheduler.apply.write_pool import WritePool
from muster.scheduler.assumed_pods import AssumedPods
from muster.scheduler.observer import NoObserver
from muster.scheduler.status.event_queue import EventQueue
from muster.scheduler.status.status_updates import CycleOutcome
from muster.scheduler.status.status_writer import StatusWriter
from tests.support.live.faults import Call, Faulty
from tests.support.live.objects import gpu_node, gpu_pod, group
from tests.support.live.world import World


class Replica:
    """A replica that leads, in a term that the test counts up."""

    leading = True
    seconds_left = math.inf
    term = 0


class Scene:
    """Three pods of a gang, and a cluster on which every call is the last one of its term."""

    def __init__(self, *placed: str) -> None:
        self.world, self.leadership = World([gpu_node("a", gpus=64)]), Replica()
        self.world.create(POD_GROUPS, group("g", minMember=9))
        for name in ("p0", "p1", "p2"):
            self.world.create(PODS, gpu_pod(name, "g", node_name="a" if name in placed else ""))
        self.cluster = Faulty(self.world.memory, self._end_term)

    def _end_term(self, _: Call) -> None:
        self.leadership.term += 1

    @property
    def pods(self) -> dict[str, Pod]:
        decoded = (decode(raw, Pod)[0] for raw in self.world.memory.store.list(PODS).items)
        return {f"default/{one.metadata.name}": one for one in decoded}

    async def apply(self, cycle_plan: CyclePlan, *preparations: Preparation) -> None:
        clock = lambda: self.world.seconds  # noqa: E731
        api, assumed_pods = PodApi(self.cluster, self.leadership, clock, 10.0, NoObserver()), AssumedPods()
        evictor = Evictor(api, assumed_pods, EvictionBackoff(clock))
        applier = PlanApplier(WritePool(1), Binder(api, assumed_pods, preparations), evictor, Nominator(api))
        await applier.apply(cycle_plan, self.pods, self.leadership.term)


def to_a(name: str) -> Binding:
    return Binding("default", name, "a", "g", "", "core")


def evict(name: str) -> Eviction:
    return Eviction("default", name, "a", "g", "", "Preempt", "default/other")


async def test_a_dry_run_eviction_is_not_sent_in_another_term() -> None:
    scene = Scene("p0", "p1")
    await scene.apply(CyclePlan(evictions=(evict("p0"), evict("p1"))))
    assert scene.cluster.log == ["probe p0"]


async def test_a_nominated_node_is_not_written_in_another_term() -> None:
    scene = Scene()
    await scene.apply(CyclePlan(nominations=(to_a("p0"), to_a("p1"))))
    assert scene.cluster.log == ["patch pods p0 status"]


async def test_a_binding_is_not_sent_where_the_term_ended_while_its_claims_were_written() -> None:
    scene = Scene()

    async def select_node(_: Binding) -> None:
        scene.leadership.term += 1

    await scene.apply(CyclePlan(bindings=(to_a("p0"),)), select_node)
    assert scene.cluster.log == []


async def test_an_event_is_not_written_in_another_term() -> None:
    scene = Scene()
    queue = EventQueue(
        scene.cluster, scene.leadership, lambda: scene.world.seconds, scene.world.time.now, lambda _: None
    )
    queue.add(to_a("p0"), "uid", scene.leadership.term)
    scene.leadership.term += 1
    sending = asyncio.create_task(queue.run())
    async with asyncio.timeout(5):
        while len(queue):
            await asyncio.sleep(0.002)
    sending.cancel()
    assert scene.cluster.log == []


class Statuses:
    """A status writer, and outcomes of cycles in the present term."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.number = scene, 0
        self.writer = StatusWriter(scene.cluster, scene.leadership, lambda: scene.world.seconds)

    def outcome(self) -> CycleOutcome:
        raw = [one for kind in (NODES, PODS, POD_GROUPS) for one in self.scene.world.memory.store.list(kind).items]
        snapshot = take(muster.objects(raw), self.scene.world.time.now())
        self.number += 1
        return CycleOutcome(
            self.number, snapshot, plan(snapshot), self.scene.world.time.now(), self.scene.leadership.term
        )

    async def write(self, outcome: CycleOutcome) -> None:
        self.writer.submit(outcome)
        writing = asyncio.create_task(self.writer.run())
        async with asyncio.timeout(5):
            while self.writer.reported_cycle < outcome.number:
                await asyncio.sleep(0.002)
        writing.cancel()


async def test_a_status_is_not_written_in_another_term() -> None:
    scene = Scene()
    statuses = Statuses(scene)
    outcome = statuses.outcome()
    scene.leadership.term += 1
    await statuses.write(outcome)
    assert scene.cluster.log == []


async def test_what_was_written_in_another_term_is_written_again() -> None:
    """Another leader may have changed it, also where this replica never stood by in between."""
    scene = Scene()
    scene.cluster.script = lambda _: None
    statuses = Statuses(scene)
    await statuses.write(statuses.outcome())
    before = scene.cluster.log.count("patch pods p0 status")
    await statuses.write(statuses.outcome())
    assert scene.cluster.log.count("patch pods p0 status") == before == 1
    scene.leadership.term += 1
    await statuses.write(statuses.outcome())
    assert scene.cluster.log.count("patch pods p0 status") == 2


async def test_nothing_of_a_long_plan_is_written_where_leadership_was_lost_and_regained_meanwhile() -> None:
    """Bindings, evictions, nominations, statuses, events: the whole cycle belongs to the term of its snapshot."""
    world = World([gpu_node("a")])
    world.submit(group("low", minMember=1, priorityClassName="low"), {"": 1}, gpus=4)
    leadership, cluster, go = Replica(), Faulty(world.memory), threading.Event()
    async with world.running(cluster, Scheduling(debounce_milliseconds=1, idle_cycle_seconds=3600), leadership) as live:
        await live.until(
            lambda: live.scheduler.reported_cycle > 0 and len(world.seats()) == 1 and not len(live.scheduler.events)
        )
        await live.until(lambda: live.scheduler.at_rest and live.scheduler.reported_cycle == live.scheduler.cycles)
        decide, cycles = live.scheduler.runner._decide, live.scheduler.cycles
        live.scheduler.runner._decide = lambda *known: (go.wait(), decide(*known))[1]  # type: ignore[method-assign]
        world.submit(group("high", minMember=1, priorityClassName="high"), {"": 1}, gpus=4)
        world.submit(group("lacking", minMember=9), {"": 1})
        await live.until(lambda: live.scheduler.began is not None)
        writes = cluster.writes()
        leadership.term += 1
        go.set()
        await live.until(lambda: live.scheduler.reported_cycle > cycles)
        assert cluster.writes() == writes


async def test_a_new_leader_prepares_for_its_backlog_once_a_term() -> None:
    """As many bindings as wait, and no more than are sent at once; pods that run need none."""

    class Expectant(Faulty):
        expected: list[int]

        async def expect_bindings(self, number: int) -> None:
            self.expected = [*getattr(self, "expected", []), number]

    world = World([gpu_node("a")])
    world.submit(group("runs", minMember=1), {"": 1})
    world.submit(group("waits", minMember=3), {"": 3}, gpus=9)
    leadership, cluster = Replica(), Expectant(world.memory)
    leadership.term = 1
    settings = Scheduling(debounce_milliseconds=1, idle_cycle_seconds=3600, bind_concurrency=64)
    async with world.running(cluster, settings, leadership) as live:
        await live.until(lambda: len(world.seats()) == 1 and live.scheduler.reported_cycle == live.scheduler.cycles)
        assert cluster.expected == [4]
        leadership.term = 2
        live.scheduler.wake()
        await live.until(lambda: len(cluster.expected) == 2)
        world.submit(group("more", minMember=100), {"": 100}, gpus=9)
        await live.until(lambda: live.scheduler.watched.cache.waiting_number(200) == 103)
        leadership.term = 3
        live.scheduler.wake()
        await live.until(lambda: len(cluster.expected) == 3)
    assert cluster.expected == [4, 3, 64]

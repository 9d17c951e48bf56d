"""The loop from outside: what it schedules, what wakes it, what holds it up and what does not, and what is counted."""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from muster.api.objects import WATCHED_KINDS
from muster.api.resources import EVENTS, NAMESPACES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, Resource
from muster.cli.assemble.servers import build_cycle_check
from muster.config.settings import Observability, Scheduling
from muster.kube.cache import reflector
from muster.kube.cluster import Change, PatchType, Raw
from muster.kube.leadership import Leadership
from muster.kube.pod_mark import PodMark
from muster.model.snapshot import Snapshot
from muster.observability.metric_table import TABLE
from muster.observability.metrics import Metrics
from muster.planning.decision import Binding
from muster.scheduler import cycle_trigger
from muster.scheduler.apply import eviction_backoff, pod_api
from muster.scheduler.cycle_runner import REPORT_SECONDS
from muster.scheduler.leader_election import Leader, LeaseSettings
from muster.scheduler.loop import Scheduler
from muster.scheduler.observer import Observer
from muster.scheduler.status.status_writer import AT_ONCE
from tests.support.live.faults import Call, Fault, Faulty
from tests.support.live.objects import gpu_node, gpu_pod, group, queue
from tests.support.live.world import HASTY, LATER_SECONDS, Live, World

PATIENT = Scheduling(debounce_milliseconds=1, idle_cycle_seconds=3600)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Followers that do not rest for long."""
    monkeypatch.setattr(reflector, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.05)
    monkeypatch.setattr(reflector, "LONGEST_SECONDS", 0.02)


@asynccontextmanager
async def observed(
    world: World, cluster: Faulty, settings: Scheduling, observer: Observer | None, leadership: Leadership | None = None
) -> AsyncIterator[Live]:
    """A scheduler whose time is ours."""
    scheduler = Scheduler(cluster, settings, leadership, lambda: world.seconds, world.time.now, observer)
    async with world.kubelets.running():
        task = asyncio.create_task(scheduler.run())
        try:
            yield Live(world, scheduler, task)
        finally:
            task.cancel()
            await asyncio.wait([task])


# whose gangs ----------------------------------------------------------------------------------------------------------


def elsewhere(raw: Raw) -> Raw:
    return raw | {"metadata": raw["metadata"] | {"namespace": "other"}}


async def test_only_gangs_of_its_namespaces_are_scheduled() -> None:
    """`scheduling.namespaces`: pods elsewhere are not bound, reported or evicted; those that run hold their node."""
    world = World([gpu_node("a"), gpu_node("b", gpus=2)])
    world.create(NAMESPACES, {"metadata": {"name": "other"}})
    world.create(POD_GROUPS, elsewhere(group("theirs", minMember=3, priorityClassName="low")))
    for i, seat in enumerate(("a", "", "")):
        world.create(PODS, elsewhere(gpu_pod(f"theirs-{i}", "theirs", node_name=seat)))
    world.submit(group("ours", minMember=2, priorityClassName="high", preemptibility="preemptible"), {"": 3})
    cluster = Faulty(world.memory)
    async with world.running(cluster, replace(HASTY, namespaces=("default",))) as live:
        await live.settle()
        await world.time.advance(61)  # theirs is below its minimum, which is none of our business (S2)
        await live.settle()
    assert world.seats() == {"theirs-0": "a", "ours-0": "a", "ours-1": "b"}
    assert not any("theirs" in line for line in cluster.log)
    assert world.judge.evicted == {}


async def test_without_namespaces_all_are_scheduled() -> None:
    world = World([gpu_node("a")])
    world.create(NAMESPACES, {"metadata": {"name": "other"}})
    world.create(POD_GROUPS, elsewhere(group("theirs", minMember=1)))
    world.create(PODS, elsewhere(gpu_pod("theirs-0", "theirs")))
    async with world.running() as live:
        await live.until(lambda: world.seats() == {"theirs-0": "a"})


async def test_pods_of_other_schedulers_are_left_alone() -> None:
    """N6: what runs for another scheduler holds its node and is never evicted, bound or written."""
    world = World([gpu_node("a"), gpu_node("b", gpus=2)])
    world.create(POD_GROUPS, group("theirs", minMember=3, priorityClassName="low"))
    for i, seat in enumerate(("a", "", "")):
        world.create(PODS, gpu_pod(f"theirs-{i}", "theirs", node_name=seat, scheduler="kai-scheduler"))
    world.submit(group("ours", minMember=2, priorityClassName="high", preemptibility="preemptible"), {"": 3})
    cluster = Faulty(world.memory)
    async with world.running(cluster) as live:
        await live.settle()
        await world.time.advance(61)
        await live.settle()
    assert world.seats() == {"theirs-0": "a", "ours-0": "a", "ours-1": "b"}
    assert not any("theirs" in line for line in cluster.log)
    assert world.judge.evicted == {}


async def test_a_second_name_is_ours_too() -> None:
    world = World([gpu_node("a")])
    world.create(POD_GROUPS, group("kai", minMember=2))
    for i, name in enumerate(("kai-scheduler", "muster")):
        world.create(PODS, gpu_pod(f"kai-{i}", "kai", scheduler=name))
    async with world.running(settings=replace(HASTY, scheduler_names=("muster", "kai-scheduler"))) as live:
        await live.until(lambda: world.seats() == {"kai-0": "a", "kai-1": "a"})


# what holds it up, and what does not ----------------------------------------------------------------------------------


class Hanging(Faulty):
    """Bindings of some pods, or statuses, are not answered until they are let go."""

    def __init__(self, world: World, *, bindings: str = "", statuses: bool = False) -> None:
        super().__init__(world.memory)
        self.bindings, self.statuses, self.go = bindings, statuses, asyncio.Event()
        self.held_up = 0

    async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:
        if self.bindings and pod.startswith(self.bindings):
            self.held_up += 1
            await self.go.wait()
        await super().bind(namespace, pod, uid, node, mark=mark)

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
        if self.statuses:
            self.held_up += 1
            await self.go.wait()
        return await super().patch(resource, namespace, name, patch, kind, subresource, field_manager, force)


async def test_scheduling_does_not_wait_for_statuses() -> None:
    """The next gang is planned and bound while no status of the first could be written yet."""
    world = World([gpu_node("a")])
    cluster = Hanging(world, statuses=True)
    async with world.running(cluster) as live:
        world.submit(group("g", minMember=1), {"": 1})
        await live.until(lambda: len(world.seats()) == 1 and cluster.held_up > 0)
        world.submit(group("h", minMember=1), {"": 1})
        await live.until(lambda: len(world.seats()) == 2)
        assert "status" not in world.group("g")
        cluster.go.set()
        await live.settle()
        assert [world.group(name)["status"]["phase"] for name in "gh"] == ["Running", "Running"]


async def test_a_pod_that_is_bound_gets_no_waiting_condition_afterwards() -> None:
    """A late update of an earlier cycle must not undo what the API server says of a pod that has a node."""
    world = World([])
    cluster = Hanging(world, statuses=True)
    async with world.running(cluster) as live:
        world.submit(group("g", minMember=3), {"": 3})
        await live.until(lambda: cluster.held_up == 4)
        world.create(NODES, gpu_node("a", gpus=8))
        await asyncio.sleep(0.05)
        cluster.go.set()
        await live.until(lambda: len(world.seats()) == 3)
        await live.settle()
    assert {world.condition(world.pod(f"g-{i}"), "PodScheduled")["status"] for i in range(3)} == {"True"}


async def test_a_binding_that_is_not_answered_in_time_keeps_its_place() -> None:
    """`bindTimeoutSeconds`: the loop goes on, no other pod gets the capacity (I2), and it is tried again."""
    world = World([gpu_node("a")])
    cluster = Hanging(world, bindings="g")
    async with world.running(cluster, replace(HASTY, bind_timeout_seconds=1)) as live:
        world.submit(group("g", minMember=1), {"": 1}, gpus=4)
        await live.until(lambda: cluster.held_up == 1)
        world.submit(group("h", minMember=1), {"": 1})
        cycles = live.scheduler.cycles
        await live.until(lambda: live.scheduler.cycles > cycles + 3)
        assert len(live.scheduler.watched.assumed_pods) == 1
        assert world.seats() == {}
        cluster.bindings = ""
        await live.until(lambda: world.seats() == {"g-0": "a"})


async def test_a_binding_that_hangs_does_not_hold_up_the_next_plan() -> None:
    """Extras and other gangs never wait behind a stuck one; its own capacity stays taken (I2)."""
    world = World([gpu_node("a")])
    cluster = Hanging(world, bindings="g")
    async with world.running(cluster, replace(PATIENT, bind_timeout_seconds=3600)) as live:
        world.submit(group("g", minMember=1), {"": 1}, gpus=2)
        await live.until(lambda: cluster.held_up == 1)
        world.submit(group("h", minMember=1), {"": 2}, gpus=2)
        await live.until(lambda: len(world.seats()) == 1)
        assert not live.scheduler.at_rest
        cluster.go.set()
        await live.until(lambda: len(world.seats()) == 2 and live.scheduler.at_rest)
    assert world.seats().keys() > {"g-0"}, "and the other one of h has no room"


async def test_a_cycle_that_hangs_is_seen_and_idleness_is_not() -> None:
    """`/livez`: counted from when the probe first saw the cycle that runs now."""
    world = World([gpu_node("a")])
    go = threading.Event()
    async with world.running(Faulty(world.memory), PATIENT) as live:
        check = build_cycle_check(Observability(), live.scheduler)
        await live.until(lambda: live.scheduler.cycles > 0 and live.scheduler.began is None)
        await world.time.advance(3000)
        assert check.problem() == "", "idle"
        decide = live.scheduler.runner._decide
        live.scheduler.runner._decide = lambda *known: (go.wait(), decide(*known))[1]  # type: ignore[method-assign]
        world.submit(group("g", minMember=1), {"": 1})
        await live.until(lambda: live.scheduler.began is not None)
        assert check.problem() == "", "it has just begun"
        await world.time.advance(301)
        assert check.problem() == "no result for 301 s, at most 300 s"
        go.set()
        await live.until(lambda: live.scheduler.began is None)
        assert check.problem() == ""


async def test_a_cycle_that_fails_ends_the_scheduler() -> None:
    """A supervisor that restarts processes must see it."""
    world = World([gpu_node("a")])
    async with observed(world, Faulty(world.memory), HASTY, None) as live:
        live.scheduler.applier.applying = None  # type: ignore[assignment,method-assign]
        async with asyncio.timeout(5):
            with pytest.raises(ExceptionGroup):
                await live.task


# leading --------------------------------------------------------------------------------------------------------------


async def test_a_new_leader_begins_at_once() -> None:
    """It does not wait for a change or for a timer; until then it stands by, knows everything and is ready."""
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=2), {"": 2})
    cluster = Faulty(world.memory)
    leader = Leader(cluster, "me", LeaseSettings(namespace="default"), lambda: world.seconds, world.time.now)
    async with observed(world, cluster, PATIENT, None, leader) as live:
        await live.until(lambda: live.scheduler.ready)
        await asyncio.sleep(0.05)
        assert (live.scheduler.cycles, live.scheduler.ready, world.seats()) == (0, True, {})
        election = asyncio.create_task(leader.run(live.scheduler.wake))
        await live.until(lambda: len(world.seats()) == 2, 2.0)
        election.cancel()
        await asyncio.wait([election])


async def test_a_leader_that_lost_its_lease_stops() -> None:
    world = World([gpu_node("a")])
    cluster = Faulty(world.memory)
    leader = Leader(cluster, "me", LeaseSettings(namespace="default"), lambda: world.seconds, world.time.now)
    await leader.acquire_or_renew()
    async with observed(world, cluster, HASTY, None, leader) as live:
        await live.until(lambda: live.scheduler.cycles > 0)
        await world.time.advance(13)
        world.submit(group("g", minMember=1), {"": 1})
        await asyncio.sleep(0.1)
        assert world.seats() == {}
        await leader.acquire_or_renew()
        await live.until(lambda: len(world.seats()) == 1)


class Deaf(Faulty):
    """A watch of pods that is silently dead as soon as `deaf` is set; lists are right."""

    deaf = False

    async def _events(self, resource: Resource, changes: AsyncIterator[Change]) -> AsyncIterator[Change]:
        async for change in super()._events(resource, changes):
            while self.deaf and resource == PODS:
                await asyncio.sleep(0.002)
            yield change


async def test_failures_that_stay_do_not_multiply_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """One alarm at a time, whatever else wakes the loop meanwhile."""
    monkeypatch.setattr(cycle_trigger, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(cycle_trigger, "LONGEST_SECONDS", 0.256)
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=1), {"": 1})
    script: Callable[[Call], Fault | None] = lambda call: "forbidden" if call.verb == "bind" else None  # noqa: E731
    async with observed(world, Faulty(world.memory, script), PATIENT, None) as live:
        for _ in range(40):
            live.scheduler.wake()
            await asyncio.sleep(0.01)
        cycles = live.scheduler.cycles
        await asyncio.sleep(1.0)
        assert live.scheduler.cycles - cycles <= 6, "every 0.256 s"


# what is counted ------------------------------------------------------------------------------------------------------


class Flag:
    """A leadership that is raised by hand."""

    leading = False
    seconds_left = math.inf
    term = 0


OTHERS = {"webhook_requests_total", "webhook_duration_seconds", "certificate_expiry_timestamp_seconds", "build_info"}
OTHERS |= {
    "cancelled_cycles_total",
    "gang_failures_total",
    "longer_searches_total",
    "lease_given_up_total",
}  # test_ends
OTHERS |= {metric.name for metric in TABLE if "group" in metric.name}  # test_grouper
OTHERS |= {"api_requests_total", "api_request_duration_seconds", "event_loop_lag_seconds"}  # test_api_requests
OTHERS |= {"searches_cut_short_total"}  # test_metrics
OTHERS |= {"queue_pending_pods", "queue_waiting_gangs"}  # test_cardinality, test_metrics
BACKLOGS = {"writes_in_flight", "unconfirmed_bindings", "assumed_pods", "events_queued"}  # empty at rest


def readings(metrics: Metrics) -> dict[str, float]:
    """Every metric of the loop, as one number: how often it was observed, or what it says."""
    values: dict[str, float] = {}
    for family in metrics.registry.collect():
        name = family.name.removeprefix("muster_") + ("_total" if family.type == "counter" else "")
        ends = ("_count",) if family.type == "histogram" else ("_total",) if family.type == "counter" else ("",)
        values[name] = sum(one.value for one in family.samples if one.name.endswith(ends))
    return {metric.name: values[metric.name] for metric in TABLE if metric.name not in OTHERS}


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"muster_{name}", labels)


async def test_every_metric_of_the_loop_moves() -> None:
    """A story with room made for a gang, and everything that can go wrong, once."""
    world = World([gpu_node("a"), gpu_node("b")], [queue("team", quota=8)])
    world.submit(group("low", minMember=2, queue="team", priorityClassName="low"), {"": 4})
    once = {("bind", "low-0"): "conflict", ("evict", "low-2"): "busy", ("evict", "low-3"): "busy"}

    def script(call: Call) -> Fault | None:
        if call.verb == "event" and call.what == "pods low-0" and not call.again:
            return "reset"
        if call.verb == "create" and call.what.startswith("events low-0."):
            return "forbidden"
        return once.get((call.verb, call.what)) if not call.again else None  # type: ignore[return-value]

    metrics, leadership = Metrics(), Flag()
    async with observed(world, Faulty(world.memory, script), HASTY, metrics, leadership) as live:
        before = readings(metrics)
        leadership.leading = True
        assert before["watch_lag_seconds"] == -11, "eleven kinds, none of them listed yet"
        await live.settle()
        world.submit(
            group("high", minMember=2, queue="team", priorityClassName="high", preemptibility="preemptible"), {"": 2}
        )
        await live.settle()
        await live.until(lambda: not len(live.scheduler.events))
        await world.time.advance(7)
        after = readings(metrics)
    still = [name for name in before if after[name] == before[name]]
    assert set(still) - BACKLOGS == {"disturbance_allowed_pods"}, "five percent of four pods are none"
    assert sample(metrics, "bindings_total", role="core") == 4
    assert sample(metrics, "bind_failures_total", reason="Conflict") == 1
    assert sample(metrics, "conflicts_total", resource="pods") == 1
    assert sample(metrics, "evictions_total", reason="Preempt", queue="team") == 2
    assert sample(metrics, "eviction_failures_total", reason="TooManyRequests") == 2
    assert sample(metrics, "events_dropped_total", reason="NotTaken") == 1
    assert sample(metrics, "nominations_total") == 4, "taken back while no pod could be evicted"
    assert sample(metrics, "watch_restarts_total", resource="pods") == 1
    assert sample(metrics, "queue_allocated", queue="team", resource="nvidia.com/gpu", unit="device") == 8
    assert sample(metrics, "gangs", verdict="Scheduled") == 2


async def test_writes_without_an_answer_show_as_backlogs() -> None:
    """In flight while the API server works on them, unconfirmed and assumed after a timeout."""
    world = World([gpu_node("a")])
    cluster = Hanging(world, bindings="g")
    metrics = Metrics()
    async with observed(world, cluster, replace(PATIENT, bind_timeout_seconds=1), metrics) as live:
        world.submit(group("g", minMember=1), {"": 1}, gpus=2)
        await live.until(lambda: sample(metrics, "writes_in_flight") == 1 and sample(metrics, "assumed_pods") == 1)
        assert sample(metrics, "unconfirmed_bindings") == 0
        await live.until(lambda: sample(metrics, "unconfirmed_bindings") == 1)
        assert (sample(metrics, "assumed_pods"), sample(metrics, "writes_in_flight")) == (1, 0)
        cluster.go.set()
        await live.until(lambda: sample(metrics, "unconfirmed_bindings") == 0)


async def test_a_decision_is_counted_from_the_change_that_caused_it() -> None:
    """From the first one that the plan knows of."""
    world = World([gpu_node("a")])
    metrics = Metrics()
    quick = replace(PATIENT, debounce_milliseconds=30)
    async with observed(world, Faulty(world.memory), quick, metrics) as live:
        await live.until(lambda: live.scheduler.cycles > 0 and live.scheduler.began is None)
        await asyncio.sleep(0.1)
        before = sample(metrics, "decision_latency_seconds_count")
        seconds = sample(metrics, "decision_latency_seconds_sum")
        world.create(NODES, gpu_node("b"))
        await live.until(lambda: live.scheduler.synced and len(live.scheduler.watched.cache.objects.nodes) == 2)
        await world.time.advance(3)
        await live.until(lambda: sample(metrics, "decision_latency_seconds_count") != before)
    assert sample(metrics, "decision_latency_seconds_sum") == pytest.approx((seconds or 0) + 3)


async def test_a_new_leader_does_not_answer_for_the_time_before() -> None:
    """Changes that it saw while it stood by were the business of another."""
    world = World([gpu_node("a")])
    metrics, leadership = Metrics(), Flag()
    async with observed(world, Faulty(world.memory), HASTY, metrics, leadership) as live:
        await live.until(lambda: live.scheduler.ready)
        await asyncio.sleep(0.05)
        await world.time.advance(100)
        await asyncio.sleep(0.05)
        leadership.leading = True
        live.scheduler.wake()
        await live.until(lambda: live.scheduler.cycles > 0)
    assert (sample(metrics, "decision_latency_seconds_sum") or 0) < 100


async def test_a_dry_run_does_not_lead_and_logs_its_decisions() -> None:
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=2), {"": 2})
    metrics = Metrics()
    with capture_logs() as lines:
        async with observed(world, Faulty(world.memory), replace(HASTY, dry_run=True), metrics) as live:
            await live.until(lambda: live.scheduler.cycles > 1)
    assert sample(metrics, "leader") == 0
    (decision,) = [line for line in lines if line["event"] == "decided" and line["verdict"] == "Scheduled"]
    assert (decision["gang"], decision["bind"], decision["dry_run"]) == ("default/g", 2, True)


async def test_what_is_refused_is_logged_with_the_gang() -> None:
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=1), {"": 1})
    script: Callable[[Call], Fault | None] = lambda call: "forbidden" if call.verb == "bind" else None  # noqa: E731
    with capture_logs() as lines:
        async with observed(world, Faulty(world.memory, script), HASTY, None) as live:
            await live.until(lambda: any(line["event"] == "not done" for line in lines))
    assert next(line for line in lines if line["event"] == "not done")["gang"] == "default/g"


async def test_a_watch_that_is_lost_is_logged_once_and_again_when_it_is_back() -> None:
    world = World([gpu_node("a")])
    deaf = True
    script: Callable[[Call], Fault | None] = lambda call: (  # noqa: E731
        "forbidden" if deaf and call.verb == "list" and call.what == "pods" else None
    )
    with capture_logs() as lines:
        async with observed(world, Faulty(world.memory, script), HASTY, None) as live:
            await asyncio.sleep(0.2)
            deaf = False
            await live.until(lambda: live.scheduler.ready)
    logged = [(line["event"], line["resource"], line.get("reason")) for line in lines if "watch" in line["event"]]
    assert logged == [("watch is lost", "pods", "Forbidden"), ("watch is back", "pods", None)]


async def test_a_former_leader_reports_no_metrics_of_gangs() -> None:
    """The one that leads does; both together would count them twice."""
    world = World([gpu_node("a")], [queue("team")])
    world.submit(group("g", minMember=1, queue="team"), {"": 1})
    metrics, leadership = Metrics(), Flag()
    leadership.leading = True
    async with observed(world, Faulty(world.memory), HASTY, metrics, leadership) as live:
        await live.settle()
        assert sample(metrics, "gangs", verdict="Scheduled") == 1
        leadership.leading = False
        await live.until(lambda: sample(metrics, "gangs", verdict="Scheduled") == 0)
        assert sample(metrics, "queue_share", queue="team", resource="nvidia.com/gpu", unit="device") is None


@pytest.mark.parametrize("kind", [POD_GROUPS, QUEUES, PODS], ids=lambda kind: kind.plural)
async def test_the_lag_of_every_watch_is_measured(kind: Resource) -> None:
    """Since its last response, on the loop's own clock."""
    world = World([gpu_node("a")])
    deaf = False
    script: Callable[[Call], Fault | None] = lambda call: (  # noqa: E731
        "reset" if deaf and call.verb == "event" else "broken" if deaf and call.verb in ("watch", "list") else None
    )
    metrics = Metrics()
    async with observed(world, Faulty(world.memory, script), HASTY, metrics) as live:
        await live.until(lambda: live.scheduler.ready)
        deaf = True
        await live.until(lambda: not live.scheduler.watched.health[kind].is_ready)
        await world.time.advance(50)
        assert sample(metrics, "watch_lag_seconds", resource=kind.plural) == 50


@pytest.mark.parametrize("kind", list(WATCHED_KINDS), ids=lambda kind: kind.plural)
async def test_nothing_is_planned_before_every_kind_was_listed(kind: Resource) -> None:
    """I2, I7: without pods nodes look empty, without queues no gang has a limit, without classes none a priority."""
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=1), {"": 1})
    deaf = True
    script: Callable[[Call], Fault | None] = lambda call: (  # noqa: E731
        "broken" if deaf and (call.verb, call.what) == ("list", kind.plural) else None
    )
    async with world.running(Faulty(world.memory, script)) as live:
        others = [health for one, health in live.scheduler.watched.health.items() if one != kind]
        await live.until(lambda: all(health.has_synced for health in others))
        await asyncio.sleep(0.05)
        assert (live.scheduler.cycles, live.scheduler.last, world.seats()) == (0, None, {})
        deaf = False
        await live.until(lambda: world.seats() == {"g-0": "a"})


async def test_a_new_leader_does_not_give_away_what_the_last_one_gave() -> None:
    """I2: its watch may be silently dead: what it has not seen is on the node all the same."""
    world = World([gpu_node("a")])
    world.create(PRIORITY_CLASSES, {"metadata": {"name": "very-high"}, "value": 99})
    way, late = Faulty(world.memory), Deaf(world.memory)
    first, heir = (
        Leader(one, f"l{i}", LeaseSettings(namespace="default"), lambda: world.seconds, world.time.now)
        for i, one in enumerate((way, late))
    )
    for name, priority in (("x", "high"), ("y", "low")):
        world.submit(group(name, minMember=2, priorityClassName=priority), {"": 2}, gpus=2)
    await first.acquire_or_renew()
    async with observed(world, late, HASTY, None, heir) as waiting:
        await waiting.until(lambda: len(waiting.scheduler.watched.cache.objects.pods) == 4)
        late.deaf = True
        async with observed(world, way, HASTY, None, first) as acting:
            await acting.settle()
            assert sorted(world.seats()) == ["x-0", "x-1"]
        world.memory.store.patch(POD_GROUPS, "default", "y", {"spec": {"priorityClassName": "very-high"}})
        await waiting.until(lambda: _priority(waiting, "default/y") == "very-high")
        await first.resign()
        await heir.acquire_or_renew()
        waiting.scheduler.wake()
        await waiting.until(lambda: waiting.scheduler.cycles > 2)
    assert world.judge.broken == []


def _priority(live: Live, gang: str) -> str:
    pod_group = live.scheduler.watched.cache.pod_group(gang)
    return pod_group.spec.priority_class_name if pod_group else ""


Happening = Callable[[World, Live], object]
MEANWHILE: dict[str, Happening] = {
    "its node was cordoned": lambda world, _: world.memory.store.patch(
        NODES, "", "a", {"spec": {"unschedulable": True}}
    ),
    "its node has gone": lambda world, _: world.memory.store.delete(NODES, "", "a"),
    "its PodGroup has gone": lambda world, _: world.memory.store.delete(POD_GROUPS, "default", "g"),
    "it has gone": lambda world, _: world.memory.store.delete(PODS, "default", "g-0", grace_seconds=0),
    "it is about to go": lambda world, _: _delete_slowly(world),
    "it is another one": lambda world, _: _replaced(world),
    "it was evicted": lambda world, live: live.scheduler.watched.assumed_pods.assume_evicted(
        "default/g-0", _uid(world)
    ),
}


def _uid(world: World) -> str:
    return str(world.pod("g-0")["metadata"]["uid"])


def _delete_slowly(world: World) -> None:
    world.memory.store.patch(PODS, "default", "g-0", {"metadata": {"finalizers": ["example.com/hold"]}})
    world.memory.store.delete(PODS, "default", "g-0", grace_seconds=0)


def _replaced(world: World) -> None:
    world.memory.store.delete(PODS, "default", "g-0", grace_seconds=0)
    world.create(PODS, gpu_pod("g-0", "g"))


@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE)
async def test_an_unconfirmed_binding_is_sent_again_only_while_it_is_wanted(meanwhile: Happening) -> None:
    """What was decided before the API server stopped answering may be wrong by now."""
    world = World([gpu_node("a"), gpu_node("b")])
    world.submit(group("g", minMember=1), {"": 1})
    async with observed(world, Faulty(world.memory), PATIENT, None, Flag()) as live:
        is_wanted, one, uid = (
            live.scheduler.applier.binder.is_wanted,
            Binding("default", "g-0", "a", "g", "", "core"),
            _uid(world),
        )
        await live.until(lambda: is_wanted(one, uid))
        meanwhile(world, live)
        await live.until(lambda: not is_wanted(one, uid))


@pytest.mark.parametrize("most", [2, 6])
async def test_no_more_bindings_at_once_than_the_settings_allow(most: int) -> None:
    """`bindConcurrency`."""
    world = World([gpu_node("a", gpus=64)])
    cluster = Hanging(world, bindings="g")
    settings = Scheduling(debounce_milliseconds=1, idle_cycle_seconds=3600, bind_concurrency=most)
    async with world.running(cluster, settings) as live:
        for i in range(10):
            world.submit(group(f"g{i}", minMember=1), {"": 1})
        await live.until(lambda: cluster.held_up > 0)
        await asyncio.sleep(0.1)
        assert cluster.held_up == most
        cluster.go.set()
        await live.until(lambda: len(world.seats()) == 10)


class Failing(Faulty):
    """Bindings fail, and pods are read slowly; counts requests about pods that are in flight."""

    def __init__(self, world: World) -> None:
        super().__init__(world.memory, lambda call: "broken" if call.verb == "bind" else None)
        self.in_flight = self.most_in_flight = self.readings = 0

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        self.readings += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0.005)
            return await super().get(resource, namespace, name)
        finally:
            self.in_flight -= 1


async def test_unconfirmed_bindings_are_followed_up_a_bounded_number_at_once() -> None:
    """`bindConcurrency` bounds what is sent for the first time, and as much again of what is followed up."""
    world = World([gpu_node("a", gpus=64)])
    cluster = Failing(world)
    async with world.running(cluster, replace(HASTY, bind_concurrency=2)) as live:
        for i in range(20):
            world.submit(group(f"g{i}", minMember=1), {"": 1})
        await live.until(lambda: len(live.scheduler.applier.write_pool.unsettled) == 20)
        readings = cluster.readings
        await live.until(lambda: cluster.readings > readings + 60)
        assert cluster.most_in_flight <= 4


async def test_a_binding_is_given_up_when_its_time_is_over() -> None:
    """`bindTimeoutSeconds`: the pod is read, and the binding is sent again."""
    world = World([gpu_node("a")])
    cluster = Hanging(world, bindings="g")
    async with world.running(cluster, replace(PATIENT, bind_timeout_seconds=1)) as live:
        world.submit(group("g", minMember=1), {"": 1})
        await live.until(lambda: cluster.held_up == 1)
        await live.until(lambda: cluster.held_up > 1, 5.0)


async def test_nothing_is_bound_after_the_end() -> None:
    """Neither what hangs since an earlier cycle, nor what is unconfirmed: another process may have taken over."""
    world = World([gpu_node("a")])
    cluster = Hanging(world, bindings="g")
    async with observed(world, cluster, HASTY, None) as live:
        world.submit(group("g", minMember=1), {"": 1})
        await live.until(lambda: cluster.held_up == 1)
        cycles = live.scheduler.cycles
        await live.until(lambda: live.scheduler.cycles > cycles and live.scheduler.began is None)
        live.task.cancel()
        await asyncio.wait([live.task])
        cluster.go.set()
        await asyncio.sleep(0.05)
    assert world.seats() == {}


async def test_a_former_leader_writes_no_status() -> None:
    """I9: what waits to be written is the business of the next leader; only what is on its way arrives."""
    world = World([])
    cluster, leadership = Hanging(world, statuses=True), Flag()
    leadership.leading = True
    for i in range(40):
        world.submit(group(f"g{i}", minMember=1), {"": 1})
    async with observed(world, cluster, PATIENT, None, leadership) as live:
        await live.until(lambda: cluster.held_up == AT_ONCE)
        leadership.leading = False
        cluster.go.set()
        await asyncio.sleep(0.1)
        assert cluster.held_up == AT_ONCE


async def test_a_leader_that_returns_writes_again_what_others_may_have_changed() -> None:
    """What it remembers to have written was written in another term."""
    world = World([])
    world.submit(group("g", minMember=1), {"": 1})
    leadership = Flag()
    leadership.leading = True

    def reason() -> object:
        return world.condition(world.pod("g-0"), "PodScheduled").get("reason")

    async with observed(world, Faulty(world.memory), HASTY, None, leadership) as live:
        await live.until(lambda: reason() == "Unschedulable")
        await live.settle()
        leadership.leading = False
        await asyncio.sleep(0.05)
        await world.memory.patch(PODS, "default", "g-0", {"status": {"conditions": []}}, subresource="status")
        assert reason() is None
        leadership.leading = True
        live.scheduler.wake()
        await live.until(lambda: reason() == "Unschedulable", 3.0)


async def test_what_was_turned_away_is_tried_again_soon() -> None:
    """Neither a change nor the next timer is waited for."""
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=1), {"": 1})
    cluster = Faulty(world.memory, lambda call: "busy" if call.verb == "bind" and not call.again else None)
    async with world.running(cluster, PATIENT) as live:
        await live.until(lambda: world.seats() == {"g-0": "a"}, 3.0)
    assert cluster.log.count("bind g-0: busy") == 1


async def test_a_refused_eviction_is_tried_again_when_its_backoff_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile no pod is evicted, and nothing else happens."""
    monkeypatch.setattr(eviction_backoff, "FIRST_SECONDS", 0.1)
    world = World([gpu_node("a")])
    world.submit(group("low", minMember=1, priorityClassName="low"), {"": 1}, gpus=4)
    cluster = Faulty(world.memory, lambda call: "forbidden" if call.verb == "evict" and not call.again else None)
    async with world.running(cluster, PATIENT) as live:
        await live.until(lambda: world.seats() == {"low-0": "a"})
        world.submit(group("high", minMember=1, priorityClassName="high"), {"": 1}, gpus=4)
        await live.until(lambda: "evict low-0: forbidden" in cluster.log)
        await asyncio.sleep(0.05)
        await world.time.advance(1)
        await live.until(lambda: "evict low-0" in cluster.log, 3.0)


async def test_a_binding_that_stays_unconfirmed_has_an_event_on_the_gang() -> None:
    """E1: an event says that the binding is unconfirmed, and of which pod."""
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=1), {"": 1})
    cluster = Faulty(world.memory, lambda call: "lost" if call.verb == "bind" else None)

    def messages() -> list[str]:
        return [str(raw["message"]) for raw in world.memory.store.list(EVENTS).items]

    async with world.running(cluster) as live:
        await live.until(lambda: live.scheduler.applier.write_pool.unsettled == {"default/g"})
        await world.time.advance(REPORT_SECONDS + 1)
        await live.until(
            lambda: any("it is not known yet whether pod `g-0` was bound" in message for message in messages()), 3.0
        )


async def test_extras_are_not_bound_where_their_core_is_rejected_after_the_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G1: the snapshot has the core on its node, as its binding is unconfirmed; then the binding is rejected."""
    world = World([gpu_node("a", gpus=8)])
    world.submit(group("g", minMember=1), {"": 1})
    cluster = Faulty(world.memory, lambda call: "lost" if (call.verb, call.what) == ("bind", "g-0") else None)
    async with world.running(cluster) as live:
        pool, watched = live.scheduler.applier.write_pool, live.scheduler.watched
        await live.until(lambda: pool.unsettled == {"default/g"})
        take_snapshot, sent_before = watched.snapshot, list[tuple[str, ...]]()  # the next snapshot

        async def reject_after(now: datetime) -> Snapshot:
            if rejected.is_set():
                sent_before.append(cluster.writes())
            snapshot = await take_snapshot(now)
            if "default/g-1" in snapshot.pods and not rejected.is_set():
                await world.time.advance(LATER_SECONDS)
                await live.until(lambda: pool.at_rest)
                rejected.set()
            return snapshot

        rejected = asyncio.Event()
        monkeypatch.setattr(watched, "snapshot", reject_after)
        world.want(gpu_pod("g-1", "g"))
        await live.until(lambda: bool(sent_before))
        assert "bind g-1" not in sent_before[0]

"""A cycle never stops the lease or a shutdown (X7): plans that are given up, and leaders that get nowhere."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from muster.api.resources import LEASES, NAMESPACES, POD_GROUPS, PODS
from muster.cli import shutdown
from muster.cli.assemble import control_plane
from muster.config.settings import Config, Scheduling
from muster.kube.cache import reflector
from muster.kube.cache.cache import Cache
from muster.observability.metrics import Metrics
from muster.placement.requirements.tree import subtree
from muster.placement.requirements.types import Requirement
from muster.placement.search import flat, preferences
from muster.planning import cycle_state
from muster.scheduler import longer_searches
from muster.scheduler.apply import pod_api
from muster.scheduler.cycle_runner import CycleRunner
from muster.scheduler.daemon_threads import in_daemon_thread
from muster.scheduler.leader_election import Leader, LeaseSettings
from muster.scheduler.leader_health import LeaderHealth
from muster.scheduler.loop import Scheduler
from muster.scheduler.progress import Progress
from tests.support.live.faults import Faulty
from tests.support.live.objects import gpu_node, gpu_pod, group, leaf
from tests.support.live.world import Live, World

PATIENT = Scheduling(
    debounce_milliseconds=1, idle_cycle_seconds=3600, search_steps=10**9, cycle_steps=10**10, long_search_steps=0
)
CUT_SHORT = replace(PATIENT, search_steps=1_000, long_search_steps=100_000)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)


class Spin:
    """Searches for goals with a group called `endless` do nothing but spend; those called `hard` cost 5,000 steps."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.threads: set[str] = set()

    def find(self, search: Any, requirement: Requirement) -> Any:
        names = {one.name for one in subtree(requirement)}
        while "endless" in names:
            self.begun.set()
            self.threads.add(threading.current_thread().name)
            search.budget.spend()
        if "hard" in names:
            for _ in range(5_000):
                search.budget.spend()
        if "broken" in names:
            raise KeyError("lost")
        return preferences.find_with_growth(search, requirement)


@pytest.fixture
def spin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spin]:
    spinning = Spin()
    monkeypatch.setattr(flat, "applies", lambda *_, **__: False)  # flat gangs are searched for like others
    monkeypatch.setattr(cycle_state, "find_with_growth", spinning.find)
    yield spinning
    end = time.monotonic() + 5
    while any(thread.name in ("plan", "longer search") for thread in threading.enumerate()):
        assert time.monotonic() < end, "a thread goes on after all has ended"
        time.sleep(0.01)


def endless(name: str = "endless") -> dict[str, Any]:
    return group(name, subGroups=[leaf(name, 1)])


def submit(world: World, name: str) -> None:
    """Gangs that are alike would share their answers, whatever they are called."""
    world.submit(endless(name), {name: 1}, gpus=3 if name == "endless" else 1)


async def begun(live: Live, spin: Spin) -> None:
    await live.until(spin.begun.is_set)


# a plan that is given up ----------------------------------------------------------------------------------------------


async def test_a_plan_that_is_given_up_leaves_what_was_granted_and_nothing_else(spin: Spin) -> None:
    """Bindings that were decided before are sent; no status, no eviction, no nomination of the rest."""
    world = World([gpu_node("a")])
    submit(world, "first")
    await world.time.advance(1)
    submit(world, "endless")
    metrics = Metrics()
    scheduler = Scheduler(world.memory, PATIENT, None, lambda: world.seconds, world.time.now, metrics)
    async with world.kubelets.running():
        live = Live(world, scheduler, asyncio.create_task(scheduler.run()))
        await begun(live, spin)
        await live.until(lambda: world.seats() == {"first-first-0": "a"})
        with capture_logs() as logs:
            scheduler.cancel_plan()
            await live.until(lambda: scheduler.runner.ended_cycles == 1, 2.0)
        assert scheduler.cycles == 0, "it was not carried out"
        assert [line["event"] for line in logs if line["log_level"] == "warning"] == ["cycle is given up"]
        assert metrics.registry.get_sample_value("muster_cancelled_cycles_total") == 1
        assert "status" not in world.group("endless")
        scheduler.stop()
        live.task.cancel()
        await asyncio.wait([live.task])


async def test_a_scheduler_that_is_stopped_begins_no_more_cycles(spin: Spin) -> None:
    world = World([gpu_node("a")])
    async with world.running(settings=PATIENT) as live:
        await live.until(lambda: live.scheduler.cycles > 0 and live.scheduler.began is None)
        live.scheduler.stop()
        submit(world, "late")
        await asyncio.sleep(0.1)
        assert (world.seats(), live.scheduler.at_rest) == ({}, True)
        assert not live.task.done(), "the watches go on until all is ended"
    assert not spin.begun.is_set()


async def test_the_end_of_the_loop_ends_the_thread_of_its_plan(spin: Spin) -> None:
    """However it ends: the fixture looks for threads that go on."""
    world = World([gpu_node("a")])
    submit(world, "endless")
    async with world.running(settings=PATIENT) as live:
        await begun(live, spin)
    assert spin.threads == {"plan"}


async def test_muster_run_ends_within_seconds_in_the_middle_of_a_plan(
    spin: Spin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And gives the lease back."""
    world = World([gpu_node("a")])
    world.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
    world.create(POD_GROUPS, endless())
    world.create(PODS, gpu_pod("endless-0", "endless", 1, leaf="endless"))
    monkeypatch.setattr(control_plane, "build_servers", lambda *_: {})
    monkeypatch.setattr(shutdown, "_watch", lambda *_: None)  # it would end the tests
    task = asyncio.create_task(control_plane.run(replace(Config(), scheduling=PATIENT), Faulty(world.memory)))
    while not spin.begun.is_set():
        await asyncio.sleep(0.01)
    began = time.monotonic()
    signal.raise_signal(signal.SIGTERM)
    await asyncio.wait_for(task, 4)
    assert time.monotonic() - began < 4
    lease = await world.memory.get(LEASES, "muster-system", "muster")
    assert not lease["spec"]["holderIdentity"]


STUCK = """
import asyncio, signal, sys, time
from muster.cli.shutdown import stop_on
async def main():
    stop = stop_on((signal.SIGTERM, signal.SIGINT), float(sys.argv[1]))
    print("ready", flush=True)
    await stop.wait()
    print("asked", flush=True)
    time.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize(("seconds", "again", "code"), [("60", True, 143), ("0.2", False, 143)])
def test_a_second_signal_ends_at_once_and_so_does_time(seconds: str, again: bool, code: int) -> None:
    """Whatever keeps the process from its orderly end."""
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, seconds], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.stdout.readline() == "asked\n"
        if again:
            process.terminate()
        assert process.wait(5) == code


async def test_a_task_that_is_cancelled_does_not_wait_for_its_thread() -> None:
    go, ended = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(5)
        ended.set()

    task = asyncio.create_task(in_daemon_thread("work", work))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not ended.is_set()
    go.set()
    assert await asyncio.to_thread(ended.wait, 5)


async def test_what_a_thread_raises_is_raised() -> None:
    def fails() -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError):
        await in_daemon_thread("work", fails)


# progress -------------------------------------------------------------------------------------------------------------


def test_steps_are_no_progress_and_results_are() -> None:
    """Counted from the last result, and only while there is work."""
    now = [0.0]
    progress = Progress(100, lambda: now[0])

    def stuck(at: float, is_working: bool, results: object) -> bool:
        now[0] = at
        return progress.is_stuck(is_working, results)

    assert not stuck(0, False, 1)
    assert not stuck(1_000, True, 1), "idle until now"
    assert not stuck(1_100, True, 1)
    assert stuck(1_101, True, 1)
    assert not stuck(1_102, True, 2), "something came of it"
    assert not stuck(1_202, True, 2)
    assert stuck(1_203, True, 2)
    assert not stuck(1_204, False, 2)
    assert not stuck(1_500, True, 2)


async def test_a_leader_that_gets_nowhere_gives_the_lease_up_and_another_takes_over(spin: Spin) -> None:
    """The plan is cancelled, nothing of it is written, and the next leader has the lease within one try."""
    world = World([gpu_node("a")])
    submit(world, "endless")
    terms = LeaseSettings(namespace="default", renew_seconds=0.01)
    cluster, metrics = Faulty(world.memory), Metrics()
    leader = Leader(cluster, "me", terms, lambda: world.seconds, world.time.now)
    scheduler = Scheduler(cluster, PATIENT, leader, lambda: world.seconds, world.time.now, metrics)
    task = asyncio.create_task(scheduler.run())
    live = Live(world, scheduler, task)
    health = LeaderHealth(scheduler, 120, 10_000, lambda: world.seconds)
    election = asyncio.create_task(control_plane.compete(leader, scheduler, health))
    try:
        await begun(live, spin)
        for _ in range(60):  # two minutes, and a lease that is renewed meanwhile
            await world.time.advance(2)
            await asyncio.sleep(0.02)
        assert leader.cooldown_seconds_left == 0, "not yet"
        await world.time.advance(4)
        await live.until(lambda: leader.cooldown_seconds_left > 0)
        await live.until(lambda: scheduler.began is None)
        assert metrics.registry.get_sample_value("muster_lease_given_up_total", {"reason": "CycleStuck"}) == 1
        other = Leader(cluster, "other", terms, lambda: world.seconds, world.time.now)
        await live.until(lambda: world.memory.store.get(LEASES, "default", "muster")["spec"]["holderIdentity"] == "")
        await other.acquire_or_renew()
        assert [one.leading for one in (other, leader)] == [True, False]
        assert not any("endless" in line and "lease" not in line for line in cluster.log if "patch" in line)
    finally:
        scheduler.stop()
        election.cancel()
        task.cancel()
        await asyncio.wait([task, election])


async def test_what_was_planned_in_one_term_is_not_done_in_another(spin: Spin) -> None:
    """I9: another leader may have acted in between."""

    class Terminal:
        leading, seconds_left, term = True, 3600.0, 1

    leadership = Terminal()
    world = World([gpu_node("a")])
    go = threading.Event()
    async with world.running(settings=PATIENT, leadership=leadership) as live:
        await live.until(lambda: live.scheduler.cycles > 0 and live.scheduler.began is None)
        decide = live.scheduler.runner._decide
        live.scheduler.runner._decide = lambda *known: (go.wait(5), decide(*known))[1]  # type: ignore[method-assign]
        submit(world, "late")
        await live.until(lambda: live.scheduler.began is not None)
        leadership.term = 2
        cycles = live.scheduler.cycles
        go.set()
        await live.until(lambda: live.scheduler.cycles > cycles)
        assert world.seats() == {}
    assert not spin.begun.is_set()


# failures and longer searches -----------------------------------------------------------------------------------------


async def test_a_failure_for_one_gang_is_counted_logged_and_reported(spin: Spin) -> None:
    world = World([gpu_node("a")])
    submit(world, "broken")
    submit(world, "good")
    metrics = Metrics()
    scheduler = Scheduler(world.memory, PATIENT, None, lambda: world.seconds, world.time.now, metrics)
    with capture_logs() as logs:
        async with world.kubelets.running():
            live = Live(world, scheduler, asyncio.create_task(scheduler.run()))
            await live.until(lambda: world.seats() == {"good-good-0": "a"})
            await live.until(lambda: "status" in world.group("broken"))
            scheduler.stop()
            live.task.cancel()
            await asyncio.wait([live.task])
    (condition,) = [one for one in world.group("broken")["status"]["conditions"] if one["type"] == "Scheduled"]
    assert condition["reason"] == "InternalError"
    assert "Traceback" not in str(world.group("broken"))
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert (line["gang"], line["error"]) == ("default/broken", "KeyError")
    assert "Traceback" in line["traceback"]
    assert (metrics.registry.get_sample_value("muster_gang_failures_total", {"error": "KeyError"}) or 0) >= 1
    assert not spin.begun.is_set()


async def test_a_gang_that_was_cut_short_is_searched_for_beside_the_cycles(spin: Spin) -> None:
    """And bound in the next cycle, without any change to wake it."""
    world = World([gpu_node("a")])
    submit(world, "hard")
    async with world.running(settings=CUT_SHORT) as live:
        await live.until(lambda: world.seats() == {"hard-hard-0": "a"})
    assert not spin.begun.is_set()


async def test_a_longer_search_stands_still_while_a_cycle_runs_and_ends_with_the_loop(
    spin: Spin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cycle has the interpreter to itself."""
    monkeypatch.setattr(longer_searches, "REST_SECONDS", 0.0)
    world = World([gpu_node("a")])
    submit(world, "endless")
    async with world.running(settings=replace(CUT_SHORT, long_search_steps=10**10)) as live:
        await live.until(lambda: "longer search" in spin.threads)
        with live.scheduler.longer.paused():
            await asyncio.sleep(0.05)
            spin.threads.clear()
            await asyncio.sleep(0.1)
            assert spin.threads == set()
        await live.until(lambda: spin.threads == {"longer search"})
        submit(world, "other")
        await live.until(lambda: world.seats() == {"other-other-0": "a"})


async def test_a_replica_that_does_not_lead_does_not_search(spin: Spin) -> None:
    world = World([gpu_node("a")])
    submit(world, "endless")

    class Flag:
        leading, seconds_left, term = True, 3600.0, 1

    leadership = Flag()
    settings = replace(CUT_SHORT, long_search_steps=10**10, idle_cycle_seconds=1)
    async with world.running(settings=settings, leadership=leadership) as live:
        await live.until(lambda: "longer search" in spin.threads)
        leadership.leading = False
        live.scheduler.wake()
        await live.until(lambda: not any(one.name == "longer search" for one in threading.enumerate()))


# the loop while a plan is made ----------------------------------------------------------------------------------------


async def test_snapshots_and_plans_are_made_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease, the webhook and probes live on the loop: work that grows with the cluster runs in other threads."""
    world = World([gpu_node("n0", "r0", gpus=8)])
    world.create(POD_GROUPS, group("g", minMember=1))
    world.create(PODS, gpu_pod("g-0", "g", 1))
    threads: dict[str, set[int]] = {"snapshot": set(), "plan": set()}
    build, decide = Cache.build, CycleRunner._decide
    monkeypatch.setattr(Cache, "build", lambda *given: _noted(threads["snapshot"], lambda: build(*given)))
    monkeypatch.setattr(CycleRunner, "_decide", lambda *given: _noted(threads["plan"], lambda: decide(*given)))
    scheduler = Scheduler(world.memory, replace(PATIENT, dry_run=True), None, time.monotonic, world.time.now)
    task = asyncio.create_task(scheduler.run())
    async with asyncio.timeout(60):
        while scheduler.runner.ended_cycles == 0:
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait([task])
    assert all(threads.values()), "both were called"
    assert threading.get_ident() not in threads["snapshot"] | threads["plan"]


def _noted(threads: set[int], work: Any) -> Any:
    threads.add(threading.get_ident())
    return work()

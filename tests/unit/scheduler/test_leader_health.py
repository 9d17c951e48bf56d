"""Health that is true: a leader that is deaf or gets nowhere does not keep its lease, and a candidate takes none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.api.resources import EVENTS, LEASES, PODS
from muster.cli.assemble import control_plane
from muster.config.settings import Scheduling
from muster.kube.cache import reflector
from muster.kube.cache.reflector import ReflectorHealth
from muster.kube.errors import ApiError
from muster.kube.leadership import AlwaysLeading
from muster.observability.metrics import Metrics
from muster.scheduler.apply import pod_api
from muster.scheduler.leader_election import Leader, LeaderProblem, LeaseSettings
from muster.scheduler.leader_health import LeaderHealth
from muster.scheduler.loop import Scheduler
from tests.support.live.faults import Call, Fault, Faulty
from tests.support.live.objects import gpu_node, group
from tests.support.live.world import Live, World

SILENT_SECONDS = 100.0
SETTINGS = Scheduling(debounce_milliseconds=1, idle_cycle_seconds=3600, bind_timeout_seconds=1)
TERMS = LeaseSettings(namespace="default", renew_seconds=0.01)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(reflector, "LONGEST_SECONDS", 0.02)
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.02)


class Replica:
    """A scheduler that competes, on the clock of a world; its own way to the cluster can be made deaf or mute."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.deaf, self.mute = world, False, False
        self.cluster = Faulty(world.memory, self._script)
        self.metrics = Metrics()
        self.leader = Leader(self.cluster, name, TERMS, lambda: world.seconds, world.time.now)
        clocks = (lambda: world.seconds), world.time.now
        self.scheduler = Scheduler(self.cluster, SETTINGS, self.leader, *clocks, self.metrics)
        self.health = LeaderHealth(self.scheduler, 120, SILENT_SECONDS, lambda: world.seconds)

    def _script(self, call: Call) -> Fault | None:
        if self.deaf and call.verb in ("list", "watch"):
            return "lost"
        if self.deaf and call.verb == "event":
            return "reset"
        return "lost" if self.mute and (call.verb == "bind" or call.what.startswith("pods")) else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Live]:
        task = asyncio.create_task(self.scheduler.run())
        election = asyncio.create_task(control_plane.compete(self.leader, self.scheduler, self.health))
        try:
            yield Live(self.world, self.scheduler, task)
        finally:
            self.scheduler.stop()
            for each in (election, task):
                each.cancel()
            await asyncio.wait([task, election])

    async def until_leading(self, live: Live) -> None:
        await live.until(lambda: self.leader.leading and self.scheduler.cycles > 0 and self.scheduler.began is None)


def holder(world: World) -> str:
    return str(world.memory.store.get(LEASES, "default", "muster")["spec"]["holderIdentity"])


async def advance(world: World, seconds: float) -> None:
    """Two seconds at a time, and leases are renewed meanwhile."""
    for _ in range(int(seconds / 2)):
        await world.time.advance(2)
        await asyncio.sleep(0.02)


async def test_a_leader_whose_watch_is_dead_gives_the_lease_up_and_a_standby_takes_over_and_binds() -> None:
    """Its renewals are answered all the time: the lease alone would stay with it for ever."""
    world = World([gpu_node("a")])
    first, second = Replica(world, "first"), Replica(world, "second")
    with capture_logs() as logs:
        async with first.running() as live, second.running() as other:
            await first.until_leading(live)
            await other.until(lambda: second.scheduler.ready)
            first.deaf = True
            world.submit(group("g", minMember=1), {"": 1})  # an event that finds the watch dead
            await live.until(lambda: not first.scheduler.ready)
            await advance(world, SILENT_SECONDS - 10)
            assert first.leader.leading, "not yet"
            await advance(world, 20)
            await other.until(lambda: second.leader.leading)
            await other.until(lambda: world.seats() == {"g-0": "a"})
            assert first.leader.abstention.startswith("was given up: the watch of ")
            events = (await world.memory.list(EVENTS, "default")).items
            assert [raw["reason"] for raw in events if raw["involvedObject"]["kind"] == "Lease"] == ["LeaseGivenUp"]
            await advance(world, 100)
            assert holder(world) == "second", "its cooldown is over, its problem is not"
            assert first.leader.abstention.startswith("is not competed for: the watch of ")
            first.deaf = False
            await live.until(lambda: first.scheduler.ready and first.leader.abstention == "")
            await advance(world, 10)
            assert holder(world) == "second", "a standby like any other"
    given_up = [line for line in logs if line["event"] == "gives the lease up"]
    assert [(line["identity"], line["reason"], line["log_level"]) for line in given_up] == [
        ("first", "WatchDead", "error")
    ]
    counted = {"reason": "WatchDead"}
    assert first.metrics.registry.get_sample_value("muster_lease_given_up_total", counted) == 1
    assert not second.metrics.registry.get_sample_value("muster_lease_given_up_total", counted)


async def test_where_every_watch_is_dead_no_replica_leads_until_one_is_back() -> None:
    """No ping-pong: a replica that is deaf does not compete, whatever the others do."""
    world = World([gpu_node("a")])
    replicas = [Replica(world, "first"), Replica(world, "second")]
    async with replicas[0].running() as live, replicas[1].running() as other:
        await live.until(lambda: any(one.leader.leading for one in replicas))
        await other.until(lambda: all(one.scheduler.ready for one in replicas))
        for one in replicas:
            one.deaf = True
        world.submit(group("g", minMember=1), {"": 1})
        await advance(world, SILENT_SECONDS + 10)
        await live.until(lambda: not any(one.leader.leading for one in replicas))
        await advance(world, 200)
        assert sum(one.leader.term for one in replicas) == 1
        assert holder(world) == ""
        replicas[1].deaf = False
        await other.until(lambda: replicas[1].leader.leading)
        await other.until(lambda: world.seats() == {"g-0": "a"})


async def test_a_leader_whose_writes_are_never_answered_gives_the_lease_up() -> None:
    """Cycles end all the same, as none waits for late writes: that is no progress."""
    world = World([gpu_node("a")])
    replica = Replica(world, "me")
    async with replica.running() as live:
        await replica.until_leading(live)
        replica.mute = True
        world.submit(group("g", minMember=1), {"": 1})
        await live.until(lambda: not replica.scheduler.applier.write_pool.at_rest)
        await advance(world, 110)
        assert replica.leader.leading, "not yet"
        await advance(world, 20)
        await live.until(lambda: not replica.leader.leading)
        assert replica.leader.given_up is not None
        assert replica.leader.given_up.reason == "WritesUnanswered"
        assert holder(world) == "me", "the API server may still apply the write: the lease expires by itself (I9)"


async def test_writes_that_are_settled_late_are_progress() -> None:
    """One that times out is found bound or not within a minute or so, while others go on."""
    world = World([gpu_node("a")])
    replica = Replica(world, "me")
    async with replica.running() as live:
        await replica.until_leading(live)
        for number in range(3):
            replica.mute = True
            world.submit(group(f"g{number}", minMember=1), {"": 1}, gpus=1)
            await live.until(lambda: not replica.scheduler.applier.write_pool.at_rest)
            await advance(world, 50)
            replica.mute = False
            await advance(world, 20)
            await live.until(lambda n=number: len(world.seats()) == n + 1)  # type: ignore[misc]
        assert (replica.leader.leading, replica.leader.term) == (True, 1)
        assert replica.scheduler.settled_writes[1] >= 3


# each problem by itself -----------------------------------------------------------------------------------------------


class Clocked:
    """What `LeaderHealth` reads of a scheduler, on a clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.settings, self.leadership = SETTINGS, AlwaysLeading()
        self.began: float | None = None
        self.results = self.settled_writes = (0, 0)
        self.watched: Any = self
        self.assumed_pods: list[str] = []
        self.health = {resource: ReflectorHealth(lambda: self.seconds) for resource in (PODS, LEASES)}
        self.applier: Any = self
        self.write_pool: Any = self
        self.at_rest, self.unsettled = True, frozenset({"team/g"})
        for each in self.health.values():
            each.received()
            each.opened()

    def polled(self, health: LeaderHealth, seconds: float) -> LeaderProblem | None:
        self.seconds = seconds
        return health.poll()


def judged() -> tuple[Clocked, LeaderHealth]:
    clocked = Clocked()
    return clocked, LeaderHealth(clocked, 120, SILENT_SECONDS, lambda: clocked.seconds)  # type: ignore[arg-type]


def test_a_quiet_watch_that_is_reopened_is_alive_also_after_a_short_failure() -> None:
    """A kind without writes: the failure that ends its watch is no older than the opening of the next."""
    clocked, health = judged()
    quiet = clocked.health[LEASES]
    for moment in range(0, 1000, 50):
        clocked.seconds = moment
        for each in clocked.health.values():
            each.opened()
        assert health.poll() is None
    clocked.seconds = 999
    quiet.failed(ApiError(503, "ServiceUnavailable", "connection refused"))
    assert quiet.lag_seconds() == 49
    assert clocked.polled(health, 1050) is None
    clocked.health[PODS].received()
    assert clocked.polled(health, 1051) == LeaderProblem(
        "WatchDead", "the watch of leases is dead: silent for 101 s: connection refused"
    )


def test_a_watch_that_opens_but_does_not_show_own_writes_is_dead() -> None:
    """An API server whose watch cache hangs opens watches, and sends nothing through them."""
    clocked, health = judged()
    clocked.assumed_pods = ["team/p"]
    for moment in range(0, 101, 20):
        clocked.seconds = moment
        for each in clocked.health.values():
            each.opened()
        assert health.poll() is None
    problem = clocked.polled(health, 102)
    assert problem is not None
    assert problem.message == (
        "the watch of pods is dead: it has shown nothing for 100 s, although 1 pods were bound or evicted"
    )
    clocked.health[PODS].received()
    assert health.poll() is None
    for each in clocked.health.values():
        each.received()
    clocked.leadership.leading = False
    for moment in (110, 160, 215, 260):
        clocked.seconds = moment
        for each in clocked.health.values():
            each.opened()
        assert health.poll() is None, "a standby may assume pods for ever: it makes no cycles"


def test_a_cycle_and_writes_have_limits_of_their_own() -> None:
    """A write may take as long as it takes to settle it: longer than a short `progressSeconds`."""
    clocked = Clocked()
    health = LeaderHealth(clocked, 30, 10_000, lambda: clocked.seconds)  # type: ignore[arg-type]
    clocked.at_rest = False
    assert [clocked.polled(health, moment) for moment in (0, 31, 80)] == [None] * 3
    problem = clocked.polled(health, 82)
    assert problem is not None
    assert problem.reason == "WritesUnanswered"
    clocked.settled_writes = (0, 1)
    assert clocked.polled(health, 83) is None
    clocked.began, clocked.at_rest = 83.0, True
    assert [clocked.polled(health, moment) for moment in (84, 114)] == [None] * 2
    problem = clocked.polled(health, 115)
    assert problem == LeaderProblem("CycleStuck", "the cycle makes no progress: it has had no result for 30 s")
    clocked.results = (0, 1)
    assert clocked.polled(health, 116) is None

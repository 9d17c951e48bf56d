"""The live loop under faults: a crash at every call, seeded trouble of all kinds, and two leaders (I1-I9)."""

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from itertools import count
from random import Random

import pytest
from msgspec.structs import replace

from muster.api.objects import WATCHED_KINDS
from muster.api.resources import NODES as NODE
from muster.api.resources import PODS
from muster.kube.cache import reflector
from muster.kube.cache.reflector import ObjectUpdated
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.kube.pod_mark import PodMark
from muster.scheduler.apply import pod_api
from muster.scheduler.leader_election import Leader, LeaseSettings
from muster.scheduler.loop import Scheduler
from tests.support.live.faults import Call, Fault, Faulty, Script, crash_at, seeded
from tests.support.live.objects import gpu_node, group, leaf, queue
from tests.support.live.world import HASTY, Live, World

SEEDS = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 30


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Followers that do not rest for long."""
    monkeypatch.setattr(reflector, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.05)
    monkeypatch.setattr(reflector, "LONGEST_SECONDS", 0.02)


# the scenario ---------------------------------------------------------------------------------------------------------

NODES = (gpu_node("a"), gpu_node("b"), gpu_node("c", "r2"), gpu_node("d", "r2"))
NESTED = group(
    "nested",
    queue="team",
    preemptibility="semi-preemptible",
    subGroups=[leaf("left", 2, rack=True), leaf("right", 2, rack=True)],
)
ELASTIC = group("elastic", queue="team", priorityClassName="low", minMember=2)
URGENT = group("urgent", queue="team", priorityClassName="high", preemptibility="preemptible", minMember=2)


class Story:
    """Two gangs fill the cluster, one of them with extras; then a third needs the room of the extras."""

    def __init__(self) -> None:
        self.world = World(NODES, [queue("team", quota=16, limit=16)])
        self.calls, self.starts, self.log = 0, 0, [""]

    async def run(self, *scripts: Script) -> None:
        """Each script is one process' life; where one has crashed, the next begins; the last has no faults."""
        lives = iter([*scripts, lambda _: None])
        self.world.submit(NESTED, {"left": 2, "right": 2})
        self.world.submit(ELASTIC, {"": 4})
        steps = iter([self._urgent, self._nothing])
        step = next(steps)
        for script in lives:
            faulty = Faulty(self.world.memory, script)
            self.starts += 1
            async with self.world.running(faulty) as live:
                while await live.settle():
                    if step == self._nothing:
                        self._judge(live)
                        return
                    step()
                    step = next(steps)
            self.calls += faulty.calls
            self.log += faulty.log
        raise AssertionError("the last life had no faults and crashed")

    def _urgent(self) -> None:
        self.world.submit(URGENT, {"": 2})

    def _nothing(self) -> None:
        return

    def _judge(self, live: Live) -> None:
        cluster = live.scheduler.cluster
        assert isinstance(cluster, Faulty)
        self.calls += cluster.calls
        self.log += cluster.log

    def end(self) -> Raw:
        """Where it ends: seats, and the status of every gang, but for times."""
        statuses = {}
        for name in ("nested", "elastic", "urgent"):
            status = self.world.group(name)["status"]
            conditions = [(one["type"], one["status"], one["reason"]) for one in status["conditions"]]
            statuses[name] = status["phase"], status.get("running", 0), status.get("pending", 0), conditions
        return {"seats": self.world.seats(), "statuses": statuses}

    def wrong(self) -> list[str]:
        return self.world.judge.broken + self.world.judge.halves()


async def _story(*scripts: Script) -> Story:
    story = Story()
    await story.run(*scripts)
    return story


@cache
def undisturbed() -> Story:
    """The story without faults."""
    return asyncio.run(_story())


def test_without_faults_the_story_ends_well() -> None:
    story = undisturbed()
    assert story.wrong() == []
    assert sorted(story.world.judge.evicted.values()) == ["elastic-2", "elastic-3"]
    assert {name: status[:3] for name, status in story.end()["statuses"].items()} == {
        "nested": ("Running", 4, 0),
        "elastic": ("Running", 2, 2),
        "urgent": ("Running", 2, 0),
    }


@pytest.mark.parametrize("part", range(4))
async def test_a_crash_at_any_call_ends_in_the_same_place(part: int) -> None:
    """I8, enumerated: the process dies right before its n-th call, for every n, and another takes over."""
    expected = await asyncio.to_thread(undisturbed)
    for number in count(1 + part, 4):
        story = await _story(crash_at(number))
        where = f"crash at call {number}: {' '.join(story.log[number : number + 1])}"
        assert story.wrong() == [], where
        assert story.end() == expected.end(), where
        assert len(story.world.judge.evicted) == 2, where
        if story.starts == 1:
            break  # it ended well before so many calls
    assert number > 45


@pytest.mark.parametrize("part", range(3))
async def test_any_trouble_is_overcome(part: int) -> None:
    """I1-I8 under conflicts, 429, 500, lost calls, lost answers, crashes, and events late, twice or cut off."""
    expected = await asyncio.to_thread(undisturbed)
    for seed in range(part, SEEDS, 3):
        story = await _story(seeded(3 * seed), seeded(3 * seed + 1), seeded(3 * seed + 2))
        where = f"seed {seed}"
        assert story.wrong() == [], where
        assert counts(story) == counts(expected), where


def counts(story: Story) -> dict[str, int]:
    """How many pods of each leaf are placed: a gang that was helped on its way may sit elsewhere."""
    placed: dict[str, int] = {}
    for name in story.world.seats():
        placed[name.rpartition("-")[0]] = placed.get(name.rpartition("-")[0], 0) + 1
    return placed


async def test_a_crash_after_a_crash_ends_in_the_same_place() -> None:
    """The second life dies while it repairs what the first has left."""
    expected = await asyncio.to_thread(undisturbed)
    for first, second in ((23, 21), (26, 22), (35, 22), (43, 21)):
        story = await _story(crash_at(first), crash_at(second))
        assert (story.starts, story.wrong(), story.end()) == (3, [], expected.end()), f"{first}, then {second}"


# two leaders ----------------------------------------------------------------------------------------------------------


class Hasty(Faulty):
    """A cluster on the way to which something happens, once, right before a pod is bound."""

    def __init__(self, world: World, pod: str) -> None:
        super().__init__(world.memory)
        self.pod, self.meanwhile = pod, asyncio.Event()
        self.go_on = asyncio.Event()

    async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:
        if pod == self.pod:
            self.meanwhile.set()
            await self.go_on.wait()
        await super().bind(namespace, pod, uid, node, mark=mark)


def candidate(world: World, name: str, cluster: Faulty) -> tuple[Leader, Scheduler]:
    terms = LeaseSettings(namespace="default")
    leader = Leader(cluster, name, terms, lambda: world.seconds, world.time.now)
    settings = replace(HASTY, bind_concurrency=1)
    return leader, Scheduler(cluster, settings, leader, lambda: world.seconds, world.time.now)


async def received(world: World, scheduler: Scheduler) -> None:
    """Hands every object to a scheduler that does nothing by itself."""
    for resource, struct in WATCHED_KINDS.items():
        for raw in world.memory.store.list(resource).items:
            scheduler.watched.cache.handle(struct, ObjectUpdated(raw))


async def test_a_stale_leader_cannot_bind() -> None:
    """I9: it was held up between two bindings for longer than its lease, and another has taken over."""
    world = World([gpu_node("a"), gpu_node("b")])
    world.submit(group("g", minMember=2), {"": 2})
    world.submit(group("h", minMember=2), {"": 2})
    slow = Hasty(world, "g-1")
    first, scheduler = candidate(world, "first", slow)
    second, heir = candidate(world, "second", Faulty(world.memory))
    await first.acquire_or_renew()
    await second.acquire_or_renew()
    assert (first.leading, second.leading) == (True, False)
    await received(world, scheduler)
    cycle = asyncio.create_task(scheduler.cycle())
    await slow.meanwhile.wait()
    await world.time.advance(16)
    await second.acquire_or_renew()
    assert (first.leading, second.leading) == (False, True)
    early = len(world.seats())
    await received(world, heir)
    assert (await heir.cycle()).bound == 4 - early
    before = world.seats()
    slow.go_on.set()
    done = await cycle
    assert (done.bound, len(done.failures)) == (early, 2), "the late one is refused by the API"
    assert "another leader may be acting" in done.failures[1], "and no other binding is sent"
    assert len([line for line in slow.writes() if line.startswith("bind")]) == early + 1
    assert world.seats() == before
    assert world.judge.broken == []


async def test_a_leader_that_is_not_one_does_nothing() -> None:
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=1), {"": 1})
    cluster = Faulty(world.memory)
    leader, scheduler = candidate(world, "nobody", cluster)
    await received(world, scheduler)
    done = await scheduler.cycle()
    assert done.bound == 0
    assert not leader.leading
    assert cluster.writes() == ()


async def test_two_schedulers_lead_alternately() -> None:
    """The one that waits knows everything already; when the other is gone it goes on, and nothing is bound twice."""
    world = World([gpu_node("a"), gpu_node("b")])
    world.submit(group("g", minMember=2), {"": 2})
    ways = [Faulty(world.memory), Faulty(world.memory)]
    terms = LeaseSettings(namespace="default")
    leaders = [Leader(way, f"l{i}", terms, lambda: world.seconds, world.time.now) for i, way in enumerate(ways)]
    await leaders[0].acquire_or_renew()
    await leaders[1].acquire_or_renew()
    acting = Scheduler(ways[0], HASTY, leaders[0], lambda: world.seconds, world.time.now)
    async with world.running(ways[1], leadership=leaders[1]) as waiting:
        task = asyncio.create_task(acting.run())
        await Live(world, acting, task).settle()
        assert sorted(world.seats()) == ["g-0", "g-1"]
        ways[0].dead = True
        assert not any(line.startswith("bind") for line in ways[1].log)
        world.submit(group("h", minMember=2), {"": 2})
        await world.time.advance(16)
        await leaders[1].acquire_or_renew()
        await waiting.until(lambda: len(world.seats()) == 4)
    await asyncio.gather(task, return_exceptions=True)
    assert world.judge.broken == []


class Ballot(Faulty):
    """The way of one of several candidates to the cluster: faults by seed, perhaps none to the lease; all on call."""

    def __init__(self, world: World, script: Script) -> None:
        super().__init__(world.memory, self._script)
        self.faults, self.cut = script, False
        self.rivals: list[Leader] = []
        self.crowded: list[str] = []

    def _script(self, call: Call) -> Fault | None:
        if call.what.startswith("leases"):
            return "lost" if self.cut else None
        return (fault := self.faults(call)) and ("lost" if fault == "crash" else fault)

    async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:
        self._alone(f"bind {pod}")
        await super().bind(namespace, pod, uid, node, mark=mark)

    async def evict(self, namespace: str, pod: str, uid: str, *, dry_run: bool = False) -> None:
        self._alone(f"evict {pod}")
        await super().evict(namespace, pod, uid, dry_run=dry_run)

    def _alone(self, deed: str) -> None:
        self.crowded += [f"I9: {deed}, while {one.identity} leads" for one in self.rivals if one.leading]


async def votes(leaders: Iterable[Leader]) -> None:
    for leader in leaders:
        with suppress(ApiError):
            await leader.acquire_or_renew()


@pytest.mark.parametrize("fault", ["lost", "broken", "busy", "conflict"])
async def test_a_leader_that_is_cut_off_from_its_lease_stops_before_the_next_begins(fault: Fault) -> None:
    """I9: its renewals fail, its bindings would get through; between the two of them none acts."""
    world = World([gpu_node(f"n{i}") for i in range(10)])
    cut = False
    first = candidate(
        world, "first", Faulty(world.memory, lambda call: fault if cut and "leases" in call.what else None)
    )
    second = candidate(world, "second", Faulty(world.memory))
    await votes([first[0], second[0]])
    cut = True
    acted = []
    for i in range(20):
        world.submit(group(f"g{i}", minMember=1), {"": 1})
        await votes([first[0], second[0]])
        for leader, scheduler in (first, second):
            await received(world, scheduler)
            if (await scheduler.cycle()).bound:
                acted.append((i, leader.identity))
        await world.time.advance(1)
    assert acted == [(i, "first") for i in range(12)] + [(i, "second") for i in range(15, 20)]
    cut = False
    await votes([first[0], second[0]])
    assert (first[0].leading, second[0].leading) == (False, True)
    assert len(world.seats()) == 20
    assert world.judge.broken == []


@pytest.mark.parametrize("part", range(2))
async def test_two_schedulers_overcome_any_trouble(part: int) -> None:
    """I1-I9 with two at work, faults on the ways of both, and now one, now the other cut off from the lease."""
    expected = await asyncio.to_thread(undisturbed)
    for seed in range(part, SEEDS // 5, 2):
        rivalry = Rivalry(seed)
        await rivalry.run()
        where = f"seed {seed}"
        assert rivalry.crowded() == [], where
        assert rivalry.story.wrong() == [], where
        assert counts(rivalry.story) == counts(expected), where


class Rivalry:
    """The story again, with two schedulers."""

    def __init__(self, seed: int) -> None:
        self.story, self.dice = Story(), Random(f"rivalry/{seed}")
        self.world = self.story.world
        self.ways = [Ballot(self.world, seeded(2 * seed + i)) for i in range(2)]
        pairs = [candidate(self.world, f"l{i}", way) for i, way in enumerate(self.ways)]
        self.leaders, self.schedulers = [leader for leader, _ in pairs], [scheduler for _, scheduler in pairs]
        for i, way in enumerate(self.ways):
            way.rivals = [self.leaders[1 - i]]

    def crowded(self) -> list[str]:
        return [line for way in self.ways for line in way.crowded]

    async def run(self) -> None:
        self.world.submit(NESTED, {"left": 2, "right": 2})
        self.world.submit(ELASTIC, {"": 4})
        async with self.world.running(self.ways[0], leadership=self.leaders[0]) as live:
            rival = Live(self.world, self.schedulers[1], asyncio.create_task(self.schedulers[1].run()))
            for number in range(20):
                if number == 10:
                    self.world.submit(URGENT, {"": 2})
                if number % 5 == 0:
                    lonely = self.dice.choice((*self.ways, None))
                await self.step(lonely)
            await self.rest([live, rival])

    async def step(self, lonely: Ballot | None) -> None:
        """Time goes on, one may be cut off, both try to lead, a pod is lost, and the leader acts a little."""
        await self.world.time.advance(self.dice.choice((1, 2, 3, 5, 8)))
        for way in self.ways:
            way.cut = way is lonely
        await votes(self.dice.sample(self.leaders, 2))
        self.world.replicate()
        self.world.memory.store.delete(PODS, "default", self.dice.choice(sorted(self.world.wanted)), grace_seconds=0)
        self.world.replicate()
        await asyncio.sleep(0.01)

    async def rest(self, lives: list[Live]) -> None:
        """All is well again; the leader by then stays the leader and brings it to its end, grace of S2 included."""
        for way in self.ways:
            way.cut, way.faults = False, lambda _: None
        await votes(self.leaders)
        await self.world.time.advance(16)
        await votes(self.leaders)
        live, leader = next(pair for pair in zip(lives, self.leaders, strict=True) if pair[1].leading)
        staying = asyncio.create_task(stay(leader))
        await live.settle()
        await self.world.time.advance(61)
        await live.settle()
        staying.cancel()


async def stay(leader: Leader) -> None:
    while True:
        await leader.acquire_or_renew()
        await asyncio.sleep(0.001)


# silent watches -------------------------------------------------------------------------------------------------------


async def test_what_was_sent_counts_until_a_watch_shows_otherwise() -> None:
    """I2: the watch of pods is silent for longer than a binding is unconfirmed; their nodes are not given out again."""
    world = World([gpu_node("a")])
    deaf = False

    def script(call: Call) -> Fault | None:
        if not deaf or not call.what.startswith("pods"):
            return None
        return {"event": "reset", "watch": "broken", "list": "broken"}.get(call.verb)  # type: ignore[return-value]

    cluster = Faulty(world.memory, script)
    world.submit(group("big", minMember=4, priorityClassName="high", preemptibility="preemptible"), {"": 4})
    async with world.running(cluster) as live:
        await live.settle()
        world.submit(group("small", minMember=2, preemptibility="non-preemptible"), {"": 2})
        await live.until(lambda: len(live.scheduler.watched.cache.objects.pods) == 6)
        deaf = True
        await live.until(lambda: len(world.seats()) == 2)
        await live.until(lambda: not live.scheduler.ready)
        await world.time.advance(61)
        world.create(NODE, gpu_node("b"))
        cycles = live.scheduler.cycles
        await live.until(lambda: live.scheduler.cycles > cycles + 5)
        assert world.judge.broken == []
        deaf = False
        await live.settle()
    assert sorted(world.seats()) == ["small-0", "small-1"]
    assert world.judge.broken == []

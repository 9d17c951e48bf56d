"""The live loop on the embedded cluster: what people see when gangs come, wait, grow, are disturbed and heal."""

import asyncio

import pytest
from msgspec.structs import replace

from muster.api.resources import EVENTS, NODES, PODS, QUEUES
from muster.config.settings import Scheduling
from muster.kube.cache import reflector
from muster.kube.cluster import Raw
from muster.scheduler.apply import pod_api
from tests.support.live.faults import Call, Fault, Faulty
from tests.support.live.objects import gpu_node, gpu_pod, group, leaf, queue
from tests.support.live.world import HASTY, World


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Followers that do not rest for long."""
    monkeypatch.setattr(reflector, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.05)
    monkeypatch.setattr(reflector, "LONGEST_SECONDS", 0.02)


def events(world: World, about: str) -> list[Raw]:
    return [raw for raw in world.memory.store.list(EVENTS).items if raw["involvedObject"]["name"] == about]


# waiting and starting -------------------------------------------------------------------------------------------------


async def test_a_gang_waits_with_a_reason_until_one_more_node_lets_it_in() -> None:
    """Six GPUs of eight: no pod is started (I3), every pod has the reason, and the missing node is all it takes."""
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=4), {"": 4})
    async with world.running() as live:
        await live.settle()
        assert world.seats() == {}
        condition = world.condition(world.group("g"), "Scheduled")
        assert (condition["status"], condition["reason"]) == ("False", "NoRoom")
        for i in range(4):
            waits = world.condition(world.pod(f"g-{i}"), "PodScheduled")
            assert (waits["status"], waits["reason"], waits["message"]) == (
                "False",
                "Unschedulable",
                condition["message"],
            )
        assert world.group("g")["status"]["phase"] == "Pending"
        world.create(NODES, gpu_node("b"))
        await live.settle()
    assert sorted(world.seats().values()) == ["a", "a", "b", "b"]
    assert world.condition(world.pod("g-0"), "PodScheduled")["status"] == "True"
    status = world.group("g")["status"]
    assert (status["phase"], status["running"], status["satisfied"]) == ("Running", 4, True)
    assert world.judge.broken == []


async def test_the_loop_wakes_by_itself() -> None:
    """Without any timer: pods that come are a reason to plan."""
    world = World([gpu_node("a")])
    settings = Scheduling(debounce_milliseconds=1, idle_cycle_seconds=3600)
    async with world.running(settings=settings) as live:
        await live.until(lambda: live.scheduler.synced)
        await asyncio.sleep(0.05)
        world.submit(group("g", minMember=2), {"": 2})
        await live.until(lambda: len(world.seats()) == 2)
        await live.until(lambda: world.group("g").get("status", {}).get("phase") == "Running")


async def test_a_scheduler_that_is_cancelled_stops() -> None:
    """Also where it is woken at the very same moment: `wait_for` of Python 3.11 then forgets that it was cancelled."""
    world = World([gpu_node("a")])
    for i in range(16):
        async with world.running(settings=Scheduling(debounce_milliseconds=1)) as live:
            await live.until(lambda: live.scheduler.synced)
            await asyncio.sleep(0.01)
            world.create(NODES, gpu_node(f"n{i}"))
            loops = [task for task in asyncio.all_tasks() if task.get_name() == "cycles"]
            for _ in range(i):
                await asyncio.sleep(0)
            loops[0].cancel()
            await asyncio.wait(loops, timeout=1.0)
            assert loops[0].done()


async def test_a_pod_that_comes_back_under_its_name_gets_a_condition_as_well() -> None:
    """The condition of the pod before it is not its own."""
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=3), {"": 3})
    async with world.running() as live:
        await live.settle()
        world.memory.store.delete(PODS, "default", "g-1")
        await live.settle()
    assert world.condition(world.pod("g-1"), "PodScheduled")["status"] == "False"


async def test_a_status_that_could_not_be_written_is_written_later() -> None:
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=3), {"": 3})

    def first_time(call: Call) -> Fault | None:
        return "busy" if call.verb in ("patch", "create", "replace") and call.again == 0 else None

    async with world.running(Faulty(world.memory, first_time)) as live:
        await live.settle()
    assert all(world.condition(world.pod(f"g-{i}"), "PodScheduled").get("status") == "False" for i in range(3))
    assert world.condition(world.group("g"), "Scheduled")["reason"] == "NoRoom"
    assert len(events(world, "g")) == 1


async def test_the_same_event_is_not_recorded_again_and_again() -> None:
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=4), {"": 4})
    async with world.running() as live:
        await live.settle()
        first = events(world, "g")
        assert [(event["reason"], event["type"], event["source"]["component"]) for event in first] == [
            ("NoRoom", "Warning", "muster")
        ]
        cycles = live.scheduler.cycles
        await live.until(lambda: live.scheduler.cycles > cycles + 20)
        assert events(world, "g") == first
        await world.time.advance(301)
        await live.settle()
        assert [(event["metadata"]["uid"], event["count"]) for event in events(world, "g")] == [
            (first[0]["metadata"]["uid"], 2)
        ]


async def test_a_pod_whose_podgroup_comes_late_gets_a_condition_and_is_then_bound() -> None:
    """N4: it names the PodGroup that it lacks; that one is all it takes."""
    world = World([gpu_node("a")])
    world.want(gpu_pod("g-0", "g"))
    world.want(gpu_pod("not-ours", "g", scheduler="default-scheduler"))
    async with world.running() as live:
        await live.settle()
        condition = world.condition(world.pod("g-0"), "PodScheduled")
        assert (condition["status"], condition["reason"]) == ("False", "NoSuchPodGroup")
        assert "`default/g`" in condition["message"]
        assert [(event["reason"], event["count"]) for event in events(world, "g-0")] == [("NoSuchPodGroup", 1)]
        world.submit(group("g", minMember=1), {})
        await live.settle()
    assert world.seats() == {"g-0": "a"}
    assert world.condition(world.pod("g-0"), "PodScheduled")["status"] == "True"
    assert world.condition(world.pod("not-ours"), "PodScheduled") == {}
    assert events(world, "not-ours") == []


async def test_queues_report_what_they_hold_and_never_pass_their_limit() -> None:
    world = World([gpu_node("a"), gpu_node("b")], [queue("team", quota=4, limit=4)])
    world.submit(group("g", minMember=2, queue="team"), {"": 2})
    world.submit(group("h", minMember=1, queue="team"), {"": 1})
    async with world.running() as live:
        await live.settle()
    assert sorted(world.seats()) == ["g-0", "g-1"]
    assert world.condition(world.group("h"), "Scheduled")["reason"] == "OverLimit"
    status = world.memory.store.get(QUEUES, "", "team")["status"]
    assert status["allocated"]["nvidia.com/gpu"] == "4"
    assert status["requested"]["nvidia.com/gpu"] == "6"
    assert world.judge.broken == []


# disturbing and healing -----------------------------------------------------------------------------------------------


async def test_preemption_takes_extras_only() -> None:
    """I5, I6: four of six pods are extras; the two that make room are among them, and the core runs on."""
    world = World([gpu_node("a"), gpu_node("b"), gpu_node("c")], [queue("team", quota=12)])
    elastic = group("elastic", minMember=2, queue="team", priorityClassName="low", preemptibility="semi-preemptible")
    urgent = group("urgent", minMember=2, queue="team", priorityClassName="high", preemptibility="preemptible")
    world.submit(elastic, {"": 6})
    async with world.running() as live:
        await live.settle()
        assert len(world.seats()) == 6
        core = {raw["metadata"]["uid"] for raw in map(world.pod, ("elastic-0", "elastic-1"))}
        world.submit(urgent, {"": 2})
        await live.settle()
    assert len(world.judge.evicted) == 2
    assert not core & set(world.judge.evicted)
    assert {"urgent-0", "urgent-1", "elastic-0", "elastic-1"} < set(world.seats())
    assert len(world.seats()) == 6
    assert world.judge.broken + world.judge.halves() == []


async def test_extras_come_and_go() -> None:
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=1), {"": 3})
    async with world.running() as live:
        await live.settle()
        assert len(world.seats()) == 2
        world.create(NODES, gpu_node("b"))
        await live.settle()
        assert len(world.seats()) == 3
        del world.wanted["g-2"]
        world.memory.store.delete(PODS, "default", "g-2")
        await live.settle()
        assert sorted(world.seats()) == ["g-0", "g-1"]
        world.want(gpu_pod("g-9", "g"))
        await live.settle()
    assert sorted(world.seats()) == ["g-0", "g-1", "g-9"]
    assert world.judge.evicted == {}


async def test_a_lost_node_is_replaced_within_the_same_rack() -> None:
    """I4: the pods that come back join those that are left; a node in another rack does not tempt them."""
    world = World([gpu_node("a"), gpu_node("b"), gpu_node("c"), gpu_node("x", "r2", 6)])
    world.submit(group("g", subGroups=[leaf("w", 4, rack=True)]), {"w": 4}, gpus=2)
    async with world.running() as live:
        await live.settle()
        home = set(world.seats().values())
        lost = min(home)
        await world.kubelets.fail_node(lost)
        await live.settle()
    assert len(world.seats()) == 4
    assert lost not in world.seats().values()
    assert "x" not in world.seats().values()
    assert world.judge.broken + world.judge.halves() == []


async def test_a_gang_that_cannot_be_made_whole_again_is_released_after_its_grace() -> None:
    """S2: it holds its places for a minute in case a node comes back, and not for longer."""
    world = World([gpu_node("a"), gpu_node("b")])
    world.submit(group("g", minMember=4), {"": 4})
    async with world.running() as live:
        await live.settle()
        await world.kubelets.fail_node("b")
        await live.settle()
        assert len(world.seats()) == 2
        assert world.condition(world.group("g"), "Stale")["status"] == "True"
        await world.time.advance(61)
        await live.settle()
        assert world.seats() == {}
        await world.kubelets.heal_node("b")
        await live.settle()
    assert len(world.seats()) == 4


# leaving alone --------------------------------------------------------------------------------------------------------


async def test_pods_of_another_scheduler_are_left_alone_and_counted() -> None:
    world = World([gpu_node("a")])
    world.want(gpu_pod("running", "", 2, scheduler="default-scheduler", node_name="a"))
    world.want(gpu_pod("waiting", "g", 2, scheduler="default-scheduler"))
    world.submit(group("g", minMember=1), {"": 3})
    async with world.running() as live:
        await live.settle()
    assert world.seats() == {"running": "a", "g-0": "a"}
    assert world.condition(world.pod("waiting"), "PodScheduled") == {}
    assert world.judge.broken == []


async def test_a_dry_run_writes_nothing() -> None:
    world = World([gpu_node("a")], [queue("default")])
    world.submit(group("g", minMember=2), {"": 3})
    cluster = Faulty(world.memory)
    async with world.running(cluster, replace(HASTY, dry_run=True)) as live:
        await live.until(lambda: live.scheduler.cycles > 3)
        assert live.scheduler.last is not None
        assert [binding.pod for binding in live.scheduler.last[1].bindings] == ["g-0", "g-1"]
    assert cluster.writes() == ()
    assert world.seats() == {}


# readiness ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plural", ["pods", "queues"])
async def test_it_is_not_ready_where_it_may_not_look(plural: str) -> None:
    """A scheduler that may not list a kind plans nothing, and says that it is not well."""
    world = World([gpu_node("a")])
    world.submit(group("g", minMember=1), {"": 1})
    allowed = False

    def script(call: Call) -> Fault | None:
        return "forbidden" if call.verb == "list" and call.what == plural and not allowed else None

    async with world.running(Faulty(world.memory, script)) as live:
        await live.until(lambda: any(health.is_unauthorised for health in live.scheduler.watched.health.values()))
        assert (live.scheduler.ready, live.scheduler.synced) == (False, False)
        assert world.seats() == {}
        allowed = True
        await live.settle()
        assert live.scheduler.ready
    assert world.seats() == {"g-0": "a"}


async def test_it_is_not_ready_while_a_watch_is_dead() -> None:
    world = World([gpu_node("a")])
    dead = False

    def script(call: Call) -> Fault | None:
        if not dead:
            return None
        return "reset" if call.verb == "event" else "broken" if call.verb in ("watch", "list") else None

    async with world.running(Faulty(world.memory, script)) as live:
        await live.until(lambda: live.scheduler.ready)
        dead = True
        world.submit(group("g", minMember=1), {"": 1})
        await live.until(lambda: not live.scheduler.ready)
        assert not live.scheduler.watched.health[PODS].is_ready
        dead = False
        await live.settle()
        assert live.scheduler.ready
    assert world.seats() == {"g-0": "a"}

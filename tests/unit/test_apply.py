"""A plan carried out: what is written in which order, how many at once, and what a failure stops."""

import asyncio

import pytest

from muster.cluster.kinds import PODS
from muster.control.apply import Applier, Done
from muster.control.inflight import Inflight
from muster.planning.decision import Binding, Eviction, Plan, Role
from tests.live import GROUPS, Call, Fault, Faulty, Script, World, group, node, pod


class Flag:
    """A fence that is lowered by hand."""

    leading = True


class Bench:
    """One applier on a small cluster."""

    def __init__(self, pods: int = 3, script: Script = lambda _: None, at_once: int = 64) -> None:
        self.world = World([node("a", gpus=64)])
        self.world.create(GROUPS, group("g"))
        for i in range(pods):
            self.world.create(PODS, pod(f"p{i}", "g"))
        self.cluster, self.inflight, self.fence = Faulty(self.world.memory, script), Inflight(), Flag()
        self.applier = Applier(self.cluster, self.inflight, self.fence, lambda: self.world.seconds, at_once)
        self.uids = {f"default/p{i}": self.world.pod(f"p{i}")["metadata"]["uid"] for i in range(pods)}

    async def do(self, plan: Plan) -> Done:
        return await self.applier.carry_out(plan, self.uids)


def to_a(name: str, role: Role = "core", gang: str = "g") -> Binding:
    return Binding("default", name, "a", gang, "", role)


def out(name: str) -> Eviction:
    return Eviction("default", name, "a", "g", "", "Preempt", "default/other")


def fails(verb: str, what: str, fault: Fault) -> Script:
    def script(call: Call) -> Fault | None:
        return fault if (call.verb, call.what) == (verb, what) else None

    return script


async def test_evictions_then_nominations_then_bindings() -> None:
    """Places are noted before anybody is bound, and nobody is bound before those who must leave were told."""
    bench = Bench()
    bench.world.memory.store.bind("default", "p0", bench.uids["default/p0"], "a")
    plan = Plan(bindings=(to_a("p2"),), nominations=(to_a("p1"),), evictions=(out("p0"),))
    assert await bench.do(plan) == Done(bound=1, evicted=1, nominated=1)
    assert bench.cluster.log == ["evict p0", "patch pods p1 status", "bind p2"]
    assert bench.world.pod("p1")["status"]["nominatedNodeName"] == "a"


async def test_the_core_comes_before_the_extras() -> None:
    bench = Bench()
    plan = Plan(bindings=(to_a("p0", "extra"), to_a("p1"), to_a("p2")))
    assert (await bench.do(plan)).bound == 3
    assert bench.cluster.log == ["bind p1", "bind p2", "bind p0"]


@pytest.mark.parametrize("fault", ["conflict", "busy", "broken", "lost", "unanswered"])
async def test_extras_stay_where_a_pod_of_the_core_failed(fault: Fault) -> None:
    bench = Bench(script=fails("bind", "p1", fault))
    done = await bench.do(Plan(bindings=(to_a("p0", "extra"), to_a("p1"), to_a("p2"))))
    assert done.bound == 1
    assert [line.split(":")[0] for line in done.failures] == ["default/p1"]
    assert "bind p0" not in bench.cluster.log


async def test_one_gang_does_not_stop_another() -> None:
    bench = Bench(script=fails("bind", "p0", "conflict"))
    done = await bench.do(Plan(bindings=(to_a("p0"), to_a("p1", gang="h"), to_a("p2", "extra", gang="h"))))
    assert (done.bound, len(done.failures)) == (2, 1)


@pytest.mark.parametrize(("fault", "counts"), [("conflict", 0), ("busy", 0), ("broken", 1), ("lost", 1)])
async def test_only_a_clear_no_gives_the_place_back(fault: Fault, counts: int) -> None:
    """After a timeout or a server's failure nobody knows: the place is kept until it is seen."""
    bench = Bench(script=fails("bind", "p0", fault))
    await bench.do(Plan(bindings=(to_a("p0"),)))
    assert len(bench.inflight) == counts


async def test_a_pod_that_came_back_under_its_name_is_not_bound_evicted_or_nominated() -> None:
    """Every write names the uid that the plan was made from."""
    bench = Bench()
    for name in ("p0", "p1", "p2"):
        bench.world.memory.store.delete(PODS, "default", name)
        bench.world.create(PODS, pod(name, "g"))
    done = await bench.do(Plan(bindings=(to_a("p0"),), nominations=(to_a("p2"),), evictions=(out("p1"),)))
    assert (done.bound, done.evicted, done.nominated, len(done.failures)) == (0, 0, 0, 3)
    assert bench.world.seats() == {}
    assert "nominatedNodeName" not in bench.world.pod("p2")["status"]
    assert "deletionTimestamp" not in bench.world.pod("p1")["metadata"]
    assert len(bench.inflight) == 0


async def test_who_is_gone_need_not_be_evicted() -> None:
    bench = Bench()
    bench.world.memory.store.delete(PODS, "default", "p0")
    assert await bench.do(Plan(evictions=(out("p0"),))) == Done()


async def test_the_fence_is_asked_before_every_single_write() -> None:
    """I9: leadership that ends between two bindings ends them."""
    bench = Bench(at_once=1)

    def script(call: Call) -> None:
        bench.fence.leading = call.number < 2

    bench.cluster.script = script
    done = await bench.do(Plan(bindings=(to_a("p0"), to_a("p1"), to_a("p2"))))
    assert (done.bound, len(done.failures)) == (2, 1)
    assert bench.cluster.log == ["bind p0", "bind p1"]
    assert await bench.do(Plan(nominations=(to_a("p2"),))) == Done()
    assert (await bench.do(Plan(evictions=(out("p0"),)))).evicted == 0
    assert bench.cluster.calls == 2


async def test_no_more_at_once_than_allowed() -> None:
    now, most = 0, 0

    class Counting(Faulty):
        async def bind(self, namespace: str, pod: str, uid: str, node: str) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.001)
            await super().bind(namespace, pod, uid, node)
            now -= 1

    bench = Bench(pods=12)
    applier = Applier(Counting(bench.world.memory), bench.inflight, bench.fence, lambda: 0.0, at_once=4)
    done = await applier.carry_out(Plan(bindings=tuple(to_a(f"p{i}") for i in range(12))), bench.uids)
    assert (done.bound, most) == (12, 4)

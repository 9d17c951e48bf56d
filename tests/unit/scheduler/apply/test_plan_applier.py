"""A plan carried out: what is written in which order, how many at once, and what a failure stops."""

import asyncio
import math
import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

import muster
from muster.api.core import Pod, PodStatus
from muster.api.decoding import decode
from muster.api.objects import key
from muster.api.resources import POD_GROUPS, PODS, Resource
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.kube.pod_mark import PodMark
from muster.model.snapshot import take
from muster.planning.decision import Binding, CyclePlan, Eviction, GangPlan, Role, Verdict
from muster.planning.disturbance import EvictionReason
from muster.reporting.explain import sentence
from muster.scheduler.apply import binder as binder_module
from muster.scheduler.apply import plan_applier, pod_api
from muster.scheduler.apply.apply_result import ApplyResult
from muster.scheduler.apply.binder import Binder
from muster.scheduler.apply.eviction_backoff import EvictionBackoff
from muster.scheduler.apply.evictor import Evictor
from muster.scheduler.apply.nominator import Nominator
from muster.scheduler.apply.plan_applier import PlanApplier, concerned_pods
from muster.scheduler.apply.pod_api import PodApi
from muster.scheduler.apply.write_pool import WritePool
from muster.scheduler.apply.write_state import LOST_SECONDS, RESEND_SECONDS
from muster.scheduler.assumed_pods import AssumedPods
from muster.scheduler.observer import NoObserver
from tests.support.live.faults import Call, Crash, Fault, Faulty, Script
from tests.support.live.objects import gpu_node, gpu_pod, group
from tests.support.live.world import World


@pytest.fixture(autouse=True)
def no_prompt_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unclear answers are settled beside the cycle; `test_binder` has those that are followed up at once."""
    monkeypatch.setattr(binder_module, "PROMPT_SECONDS", 0.0)


class Flag:
    """A leadership that is lowered by hand."""

    leading = True
    seconds_left = math.inf
    term = 0


class Seen(NoObserver):
    """Records every call."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def bound(self, role: Role, seconds: float) -> None:
        self.lines.append(f"bound {role} {seconds:g}")

    def bind_failed(self, reason: str, seconds: float) -> None:
        self.lines.append(f"not bound {reason} {seconds:g}")

    def evicted(self, reason: EvictionReason, gang: str) -> None:
        self.lines.append(f"evicted {reason} {gang}")

    def eviction_failed(self, reason: str) -> None:
        self.lines.append(f"not evicted {reason}")

    def nominated(self) -> None:
        self.lines.append("nominated")

    def conflict(self, resource: str) -> None:
        self.lines.append(f"conflict {resource}")


class Bench:
    """One applier on a small cluster."""

    def __init__(self, pods: int = 3, script: Script = lambda _: None, at_once: int = 64) -> None:
        self.world = World([gpu_node("a", gpus=64)])
        self.world.create(POD_GROUPS, group("g"))
        for i in range(pods):
            self.world.create(PODS, gpu_pod(f"p{i}", "g"))
        self.cluster, self.assumed_pods, self.leadership = Faulty(self.world.memory, script), AssumedPods(), Flag()
        self.seen = Seen()
        self.applier = self.applying(self.cluster, at_once)
        self.look()

    def applying(
        self,
        cluster: Cluster,
        at_once: int = 64,
        seconds: float = 10.0,
        settled_late: Callable[[bool], None] = lambda _: None,
    ) -> PlanApplier:
        api = PodApi(cluster, self.leadership, lambda: self.world.seconds, seconds, self.seen)
        binder = Binder(api, self.assumed_pods)
        evictor = Evictor(api, self.assumed_pods, EvictionBackoff(lambda: self.world.seconds))
        return PlanApplier(WritePool(at_once, settled_late), binder, evictor, Nominator(api))

    def look(self) -> None:
        """What the next plan is made from."""
        pods = (decode(raw, Pod)[0] for raw in self.world.memory.store.list(PODS).items)
        self.pods = {key(one.metadata): one for one in pods}

    async def do(self, plan: CyclePlan) -> ApplyResult:
        return await self.applier.apply(plan, self.pods, self.leadership.term)


def to_a(name: str, role: Role = "core", gang: str = "g") -> Binding:
    return Binding("default", name, "a", gang, "", role)


def out(name: str) -> Eviction:
    return Eviction("default", name, "a", "g", "", "Preempt", "default/other")


def fails(verb: str, what: str, fault: Fault) -> Script:
    def script(call: Call) -> Fault | None:
        return fault if (call.verb, call.what) == (verb, what) else None

    return script


async def test_evictions_come_before_nominations_and_bindings_wait_for_neither() -> None:
    """A binding takes capacity that is free now; a node is nominated once its victims are evicted."""
    bench = Bench()
    bench.world.memory.store.bind("default", "p0", bench.pods["default/p0"].metadata.uid, "a")
    plan = CyclePlan(bindings=(to_a("p2"),), nominations=(to_a("p1"),), evictions=(out("p0"),))
    assert await bench.do(plan) == ApplyResult(bound=1, evicted=1, nominated=1)
    assert [line for line in bench.cluster.log if "bind" not in line] == ["evict p0", "patch pods p1 status"]
    assert "bind p2" in bench.cluster.log
    assert bench.world.pod("p1")["status"]["nominatedNodeName"] == "a"


async def test_the_core_comes_before_the_extras() -> None:
    bench = Bench()
    plan = CyclePlan(bindings=(to_a("p0", "extra"), to_a("p1"), to_a("p2")))
    assert (await bench.do(plan)).bound == 3
    assert bench.cluster.log == ["bind p1", "bind p2", "bind p0"]


@pytest.mark.parametrize("fault", ["conflict", "busy", "forbidden"])
async def test_extras_stay_where_a_pod_of_the_core_failed(fault: Fault) -> None:
    bench = Bench(script=fails("bind", "p1", fault))
    done = await bench.do(CyclePlan(bindings=(to_a("p0", "extra"), to_a("p1"), to_a("p2"))))
    assert done.bound == 1
    assert [line.split(":")[0] for line in done.failures] == ["default/p1"]
    assert "bind p0" not in bench.cluster.log


@pytest.mark.parametrize("fault", ["broken", "lost", "unanswered"])
async def test_extras_wait_while_a_binding_of_the_core_is_unconfirmed(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G1: they are not worth having without it. The pod is read, and bound again where it was not (I1, I2)."""
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.02)
    bench = Bench(script=lambda call: fault if (call.verb, call.what, call.again) == ("bind", "p1", 0) else None)
    done = await bench.do(CyclePlan(bindings=(to_a("p0", "extra"), to_a("p1"), to_a("p2"))))
    assert [line.split(":")[0] for line in done.failures] == ["default/p1"]
    assert bench.applier.write_pool.unsettled == {"default/g"}
    assert len(bench.assumed_pods) == 2, "both hold their node"
    await until(lambda: bench.applier.write_pool.at_rest)
    assert set(bench.world.seats()) == {"p1", "p2"}
    assert bench.cluster.log.count("bind p1") == (0 if fault == "unanswered" else 1)
    assert "bind p0" not in bench.cluster.log, "that is for the next plan"


async def test_an_unconfirmed_binding_is_not_sent_again_where_it_is_not_wanted_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its node has gone, say. It holds its node until no request can be on its way any more."""
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.002)
    bench = Bench(script=lambda call: "lost" if call.verb == "bind" else None)
    bench.applier.binder.is_wanted = lambda *_: False
    await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    await asyncio.sleep(0.02)
    assert (bench.cluster.log.count("bind p0: lost"), len(bench.assumed_pods)) == (1, 1)
    await bench.world.time.advance(LOST_SECONDS)
    await until(lambda: bench.applier.write_pool.at_rest)
    assert len(bench.assumed_pods) == 0


@pytest.mark.parametrize("fate", ["gone", "another", "elsewhere"])
async def test_reading_the_pod_settles_an_unconfirmed_binding(fate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.02)
    bench = Bench(script=lambda call: "lost" if call.verb == "bind" else None)
    await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    store = bench.world.memory.store
    if fate == "elsewhere":
        store.bind("default", "p0", "", "b")
    else:
        store.delete(PODS, "default", "p0", grace_seconds=0)
    if fate == "another":
        bench.world.create(PODS, gpu_pod("p0", "g"))
    await until(lambda: bench.applier.write_pool.at_rest)
    assert (len(bench.assumed_pods), bench.cluster.log.count("bind p0: lost")) == (0, 1)


async def test_a_pod_that_was_bound_by_an_earlier_try_keeps_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first try arrives after the pod was read, so the second one is refused: that is no clear no (I2)."""
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    bench = Bench()
    store, rooms = bench.world.memory.store, []

    def script(call: Call) -> Fault | None:
        if call.verb == "bind" and call.again:
            store.bind("default", "p0", "", "a")
        rooms.append(len(bench.assumed_pods))
        return "lost" if call.verb == "bind" and not call.again else None

    bench.cluster.script = script
    await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    await until(lambda: bench.applier.write_pool.at_rest)
    assert set(rooms) == {1}
    assert [line.split()[0] for line in bench.cluster.log] == ["bind", "get", "bind", "get"]
    assert bench.seen.lines[-1] == "bound core 0"


async def test_a_former_leader_does_not_assume_that_what_it_sent_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.02)
    bench = Bench(script=fails("bind", "p0", "lost"))
    await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    bench.leadership.leading = False
    await asyncio.sleep(0.1)
    assert (len(bench.assumed_pods), bench.applier.write_pool.at_rest) == (1, False), "so the lease is not given back"
    assert bench.cluster.log.count("bind p0: lost") == 1, "and it sends nothing"
    await bench.world.time.advance(LOST_SECONDS)
    await until(lambda: bench.applier.write_pool.at_rest)
    assert len(bench.assumed_pods) == 0


@pytest.mark.parametrize("fault", ["busy", "forbidden", "conflict", "broken"])
async def test_only_reading_the_pod_rejects_an_unconfirmed_binding(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2: the first try may still arrive, whatever is said to the second one; after a while nothing more is sent."""
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.002)
    bench = Bench(script=lambda call: None if call.verb != "bind" else fault if call.again else "lost")
    await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    await until(lambda: bench.cluster.log.count(f"bind p0: {fault}") > 1)
    assert len(bench.assumed_pods) == 1
    await bench.world.time.advance(RESEND_SECONDS + 1)
    await asyncio.sleep(0.05)
    tries = bench.cluster.log.count(f"bind p0: {fault}")
    await bench.world.time.advance(LOST_SECONDS - 1)
    await until(lambda: bench.applier.write_pool.at_rest)
    assert (len(bench.assumed_pods), bench.cluster.log.count(f"bind p0: {fault}")) == (0, tries)


async def test_what_was_promised_goes_with_the_next_list_that_does_not_show_it() -> None:
    bench = Bench()
    await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    assert len(bench.assumed_pods.overlay(bench.pods.get, bench.world.time.now(), 0)) == 1
    assert len(bench.assumed_pods.overlay(bench.pods.get, bench.world.time.now(), 1)) == 0


async def test_one_gang_does_not_stop_another() -> None:
    bench = Bench(script=fails("bind", "p0", "conflict"))
    done = await bench.do(CyclePlan(bindings=(to_a("p0"), to_a("p1", gang="h"), to_a("p2", "extra", gang="h"))))
    assert (done.bound, len(done.failures)) == (2, 1)


@pytest.mark.parametrize(("fault", "counts"), [("conflict", 0), ("busy", 0), ("broken", 1), ("lost", 1)])
async def test_only_a_clear_no_gives_the_place_back(fault: Fault, counts: int) -> None:
    """After a timeout or a server's failure the binding is unconfirmed: its node is held until it is seen."""
    bench = Bench(script=fails("bind", "p0", fault))
    await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    assert len(bench.assumed_pods) == counts


async def test_a_pod_that_came_back_under_its_name_is_not_bound_evicted_or_nominated() -> None:
    """Every write names the uid that the plan was made from."""
    bench = Bench()
    for name in ("p0", "p1", "p2"):
        bench.world.memory.store.delete(PODS, "default", name)
        bench.world.create(PODS, gpu_pod(name, "g"))
    done = await bench.do(CyclePlan(bindings=(to_a("p0"),), nominations=(to_a("p2"),), evictions=(out("p1"),)))
    assert (done.bound, done.evicted, done.nominated, len(done.failures)) == (0, 0, 0, 3)
    assert bench.world.seats() == {}
    assert "nominatedNodeName" not in bench.world.pod("p2")["status"]
    assert "deletionTimestamp" not in bench.world.pod("p1")["metadata"]
    assert len(bench.assumed_pods) == 0


async def test_a_pod_that_is_gone_need_not_be_evicted() -> None:
    bench = Bench()
    bench.world.memory.store.delete(PODS, "default", "p0")
    assert await bench.do(CyclePlan(evictions=(out("p0"),))) == ApplyResult()


async def test_leadership_is_checked_before_every_single_write() -> None:
    """I9: leadership that ends between two bindings ends them."""
    bench = Bench(at_once=1)

    def script(call: Call) -> None:
        bench.leadership.leading = call.number < 2

    bench.cluster.script = script
    done = await bench.do(CyclePlan(bindings=(to_a("p0"), to_a("p1"), to_a("p2"))))
    assert (done.bound, len(done.failures)) == (2, 1)
    assert bench.cluster.log == ["bind p0", "bind p1"]
    assert await bench.do(CyclePlan(nominations=(to_a("p2"),))) == ApplyResult()
    assert (await bench.do(CyclePlan(evictions=(out("p0"),)))).evicted == 0
    assert bench.cluster.calls == 2


async def test_no_pod_is_evicted_for_a_gang_unless_all_can_be() -> None:
    """I6: with one of them refused, the others would be evicted in vain. The refused one has a backoff."""
    bench = Bench(script=fails("probe", "p1", "forbidden"))
    for name in ("p0", "p1"):
        bench.world.memory.store.bind("default", name, bench.pods[f"default/{name}"].metadata.uid, "a")
    bench.look()
    done = await bench.do(CyclePlan(evictions=(out("p0"), out("p1"))))
    assert (done.evicted, len(done.failures)) == (0, 1)
    assert not any(line.startswith("evict") for line in bench.cluster.log)
    assert bench.applier.evictor.backoff.untouchable(bench.pods.get) == {"default/p1"}


async def test_the_pods_of_a_stale_gang_are_evicted_one_by_one() -> None:
    """S2: no gang waits for their capacity, so one that cannot be evicted holds up no other."""
    bench = Bench(script=fails("evict", "p1", "forbidden"))
    for name in ("p0", "p1"):
        bench.world.memory.store.bind("default", name, bench.pods[f"default/{name}"].metadata.uid, "a")
    bench.look()
    stale = tuple(replace(out(name), reason="Stale", preemptor="default/g") for name in ("p0", "p1"))
    done = await bench.do(CyclePlan(evictions=stale))
    assert (done.evicted, len(done.failures)) == (1, 1)


@pytest.mark.parametrize(("fault", "counts"), [("broken", 0), ("lost", 0), ("unanswered", 1)])
async def test_an_eviction_counts_once_it_is_known(fault: Fault, counts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """I7: until then the pod holds its share of its queue; where the API server says no, it is left alone."""
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 60.0)
    bench = Bench(script=fails("evict", "p0", fault))
    bench.world.memory.store.bind("default", "p0", bench.pods["default/p0"].metadata.uid, "a")
    bench.look()
    await bench.do(CyclePlan(evictions=(out("p0"),)))
    assert len(bench.assumed_pods) == counts
    assert bench.applier.evictor.backoff.untouchable(bench.pods.get) == ({"default/p0"} if fault == "broken" else set())
    assert bench.applier.write_pool.at_rest == (fault != "lost"), "read again later"
    await bench.applier.write_pool.stop()


class Slow(Faulty):
    """Some bindings take until they are let go."""

    def __init__(self, cluster: Cluster, *slow: str) -> None:
        super().__init__(cluster)
        self.slow, self.go, self.now, self.most = set(slow), asyncio.Event(), 0, 0

    async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await (self.go.wait() if pod in self.slow else asyncio.sleep(0.001))
            await super().bind(namespace, pod, uid, node, mark=mark)
        finally:
            self.now -= 1


async def test_no_more_at_once_than_allowed() -> None:
    bench = Bench(pods=12)
    slow = Slow(bench.world.memory)
    plan = CyclePlan(bindings=tuple(to_a(f"p{i}", gang=f"g{i % 3}") for i in range(12)))
    done = await bench.applying(slow, at_once=4).apply(plan, bench.pods, 0)
    assert (done.bound, slow.most) == (12, 4)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("stuck", [1, 6])
async def test_a_gang_that_gets_no_answer_does_not_hold_up_the_others(stuck: int) -> None:
    """Neither their cores nor their extras, however many of its own bindings hang."""
    bench = Bench(pods=12)
    slow = Slow(bench.world.memory, *(f"p{i}" for i in range(stuck)))
    core = tuple(to_a(f"p{i}", gang="a") for i in range(6))
    extras = tuple(to_a(f"p{i}", "extra", gang=f"g{i % 2}") for i in range(8, 12))
    plan = CyclePlan(bindings=(*core, to_a("p6", gang="g0"), to_a("p7", gang="g1"), *extras))
    work = asyncio.create_task(bench.applying(slow, at_once=4).apply(plan, bench.pods, 0))
    await until(lambda: len(bench.world.seats()) == 12 - stuck)
    assert not work.done()
    slow.go.set()
    assert (await work).bound == 12
    assert slow.most <= 4


class Late:
    """A gang of four whose first binding gets no answer, beside another; it may have one of two requests at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, hangs: str = "p0") -> None:
        monkeypatch.setattr(plan_applier, "QUIET_SECONDS", 0.02)
        self.bench = Bench(pods=6)
        self.cluster = Slow(self.bench.world.memory, hangs)
        self.woken: list[bool] = []
        self.use(self.cluster)

    def use(self, cluster: Cluster) -> None:
        self.bench.applier = self.applier = self.bench.applying(cluster, 2, settled_late=self.woken.append)

    async def first_cycle(self) -> ApplyResult:
        core = (to_a("p0"), to_a("p1"), to_a("p2"))
        return await self.bench.do(CyclePlan(bindings=(*core, to_a("p3", "extra"), to_a("p5", gang="x"))))

    def laid(self) -> dict[str, str]:
        """Where the next plan assumes the pods to be."""
        seen = {key: one for key, one in self.bench.pods.items() if one.metadata.name not in self.bench.world.seats()}
        return {
            one.metadata.name: one.spec.node_name
            for one in self.bench.assumed_pods.overlay(seen.get, self.bench.world.time.now(), 0).values()
        }


async def test_a_cycle_does_not_wait_for_writes_that_are_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one binds others meanwhile. What was sent holds its node (I2); the rest is planned again."""
    late = Late(monkeypatch)
    done = await late.first_cycle()
    assert (done.bound, done.failures, late.applier.write_pool.at_rest) == (1, (), False)
    assert late.laid() == {"p0": "a"}
    rest = (to_a("p1"), to_a("p2"), to_a("p3", "extra"))
    assert (await late.bench.do(CyclePlan(bindings=(*rest, to_a("p4", gang="h"))))).bound == 1
    late.cluster.go.set()
    await until(lambda: late.applier.write_pool.at_rest)
    assert set(late.bench.world.seats()) == {"p0", "p4", "p5"}
    assert late.woken == [True], "the next cycle is triggered"
    assert (await late.bench.do(CyclePlan(bindings=rest))).bound == 3


async def test_a_late_failure_frees_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Late(monkeypatch)
    late.cluster.script = lambda call: "busy" if call.what == "p0" else None
    await late.first_cycle()
    late.cluster.go.set()
    await until(lambda: late.applier.write_pool.at_rest)
    assert late.laid() == {}
    assert set(late.bench.world.seats()) == {"p5"}
    assert late.woken == [False]
    late.cluster.slow, late.cluster.script = set(), lambda _: None
    again = await late.bench.do(CyclePlan(bindings=(to_a("p0"), to_a("p1"), to_a("p2"), to_a("p3", "extra"))))
    assert again.bound == 4


async def test_what_was_not_sent_is_left_to_the_next_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the API server answers nothing, a decision does not grow old in a queue; the next plan tries again."""
    late = Late(monkeypatch)
    late.cluster.slow = {"p0", "p1"}
    done = await late.bench.do(CyclePlan(bindings=(to_a("p0", gang="g"), to_a("p1", gang="h"), to_a("p2", gang="i"))))
    assert done.failures == ("default/i: not sent yet: the API server does not answer",)
    assert late.laid() == {"p0": "a", "p1": "a"}
    late.cluster.go.set()
    await until(lambda: late.applier.write_pool.at_rest)
    assert set(late.bench.world.seats()) == {"p0", "p1"}


async def test_what_was_decided_in_one_term_is_not_sent_in_another() -> None:
    """I9: another replica may have led in between."""
    bench = Bench(at_once=2)

    def script(_: Call) -> None:
        bench.leadership.term += 1

    bench.cluster.script = script
    done = await bench.do(CyclePlan(bindings=(to_a("p0"), to_a("p1"), to_a("p2"))))
    assert (done.bound, len(done.failures)) == (1, 1)
    assert bench.cluster.log == ["bind p0"]


@pytest.mark.parametrize("wish", ["eviction", "note"])
async def test_no_write_is_sent_again_while_it_is_not_answered(wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    late = Late(monkeypatch, hangs="")
    go, log = asyncio.Event(), late.cluster.log

    class Hangs(Slow):
        async def evict(self, namespace: str, pod: str, uid: str, *, dry_run: bool = False) -> None:
            assert not dry_run
            log.append("evict")
            await go.wait()
            await super().evict(namespace, pod, uid)

        async def patch(self, *_: object, **__: object) -> Raw:
            log.append("note")
            await go.wait()
            return {}

    late.use(Hangs(late.bench.world.memory))
    plan = CyclePlan(evictions=(out("p2"),)) if wish == "eviction" else CyclePlan(nominations=(to_a("p2"),))
    for _ in range(3):
        assert await late.bench.do(plan) == ApplyResult()
    assert len(log) == 1
    go.set()
    await until(lambda: late.applier.write_pool.at_rest)
    assert late.woken == [True]


async def test_where_the_core_fails_the_rest_of_the_gang_is_left_to_the_next_plan() -> None:
    """G5; and a gang of a thousand pods whose bindings are not answered costs one timeout, not a thousand."""

    def script(call: Call) -> Fault | None:
        return "unanswered" if call.verb == "bind" and call.what == "p0" else None

    bench = Bench(pods=8)
    faulty = Faulty(bench.world.memory, script)
    plan = CyclePlan(
        bindings=(*(to_a(f"p{i}", gang="a") for i in range(6)), to_a("p6", gang="b"), to_a("p7", gang="b"))
    )
    done = await bench.applying(faulty, at_once=1).apply(plan, bench.pods, 0)
    assert faulty.writes() == ("bind p0: unanswered", "bind p6", "bind p7")
    assert (done.bound, len(done.failures)) == (2, 1)


async def test_a_binding_that_is_not_answered_in_time_may_have_happened() -> None:
    """bindTimeoutSeconds: it is given up, stays in flight, and is not believed to have failed."""
    bench = Bench()
    bench.applier = bench.applying(Slow(bench.world.memory, "p0"), seconds=0.3)
    done = await bench.do(CyclePlan(bindings=(to_a("p0"), to_a("p1", "extra"), to_a("p2", gang="h"))))
    assert (done.bound, done.failures) == (1, ("default/p0: not bound to a: no answer in time",))
    assert len(bench.assumed_pods) == 2
    assert bench.seen.lines == ["bound core 0", "not bound Timeout 0"]
    await bench.applier.write_pool.stop()


async def test_no_write_outlasts_leadership() -> None:
    """I9: however long the timeouts are, a request ends before another leader may begin."""
    bench = Bench()
    bench.leadership.seconds_left = 0.02
    bench.applier = bench.applying(Slow(bench.world.memory, "p0"), seconds=300)
    async with asyncio.timeout(5):
        done = await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    assert (done.bound, len(done.failures), len(bench.assumed_pods)) == (0, 1, 1)


async def test_nothing_is_written_after_an_unexpected_failure() -> None:
    """A crash of one ends the others as well, before it is raised."""
    bench = Bench(pods=12, script=fails("bind", "p3", "crash"), at_once=4)
    with pytest.raises(Crash):
        await bench.do(CyclePlan(bindings=tuple(to_a(f"p{i}") for i in range(12))))
    calls = bench.cluster.calls
    await asyncio.sleep(0.02)
    assert bench.cluster.calls == calls < 12


async def test_nothing_is_written_after_it_was_cancelled() -> None:
    bench = Bench(pods=6)
    slow = Slow(bench.world.memory, "p0")
    plan = CyclePlan(bindings=tuple(to_a(f"p{i}") for i in range(6)))
    work = asyncio.create_task(bench.applying(slow, at_once=4).apply(plan, bench.pods, 0))
    await until(lambda: slow.now == 2)
    work.cancel()
    await asyncio.wait([work])
    calls = slow.calls
    slow.go.set()
    await asyncio.sleep(0.02)
    assert (slow.calls, slow.now) == (calls, 0)


async def test_ten_thousand_bindings_are_no_burden() -> None:
    """Bounded, whatever the plan: far less time than an API server takes to answer them."""
    bench = Bench(pods=0)
    most, now = 0, 0

    class Instant(Faulty):
        async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:  # noqa: ARG002
            nonlocal most, now
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    bindings = tuple(to_a(f"p{i}", "core" if i % 10 < 8 else "extra", f"g{i // 10}") for i in range(10_000))
    began = time.process_time()
    done = await bench.applying(Instant(bench.world.memory)).apply(CyclePlan(bindings=bindings), {}, 0)
    assert (done.bound, most) == (10_000, 64)
    assert time.process_time() - began < 5.0


# places (P7) ----------------------------------------------------------------------------------------------------------


def about(*pods: str, verdict: Verdict = "Infeasible", name: str = "g") -> GangPlan:
    """A plan says something about a gang of these pods."""
    raw = [group(name), *(gpu_pod(one, name) for one in pods)]
    (gang,) = take(muster.objects(raw)).gangs
    return GangPlan(gang, verdict)


async def test_a_place_is_noted_once() -> None:
    bench = Bench()
    plan = CyclePlan(nominations=(to_a("p1"),))
    assert (await bench.do(plan)).nominated == 1
    bench.look()
    assert (await bench.do(plan)).nominated == 0
    assert bench.cluster.log == ["patch pods p1 status"]
    assert bench.seen.lines == ["nominated"]


@pytest.mark.parametrize("gangs", [(about("p0", "p1", "p2"),), ()], ids=["it goes elsewhere", "its PodGroup is gone"])
async def test_a_place_that_is_not_kept_any_more_is_taken_off_the_pod(gangs: tuple[GangPlan, ...]) -> None:
    """P7: the gang changed or can go elsewhere; a stale nomination would keep its node free for ever."""
    bench = Bench()
    await bench.do(CyclePlan(nominations=(to_a("p1"), to_a("p2"))))
    bench.look()
    await bench.do(CyclePlan(nominations=(to_a("p2"),), gangs=gangs))
    assert "nominatedNodeName" not in bench.world.pod("p1")["status"]
    assert bench.world.pod("p2")["status"]["nominatedNodeName"] == "a"
    assert bench.seen.lines == ["nominated", "nominated"]


@pytest.mark.parametrize(
    "plan",
    [
        CyclePlan(gangs=(about("p1", verdict="Unknown"),)),  # the search was cut short
        CyclePlan(gangs=(about("p1"),), evictions=(out("p0"),)),  # it lost pods: planned again when they are gone
        CyclePlan(gangs=(about("p1", verdict="Scheduled"),), bindings=(to_a("p1"),)),  # it arrives
    ],
)
async def test_a_nomination_that_the_plan_does_not_mention_stays(plan: CyclePlan) -> None:
    bench = Bench()
    bench.world.memory.store.bind("default", "p0", bench.pods["default/p0"].metadata.uid, "a")
    await bench.do(CyclePlan(nominations=(to_a("p1"),)))
    bench.look()
    await bench.do(plan)
    assert bench.cluster.log.count("patch pods p1 status") == 1


def test_a_plan_is_about_few_pods() -> None:
    """Those it does something to, and those with a note."""
    bench = Bench(pods=5)
    noted = replace(bench.pods["default/p4"], status=PodStatus(nominated_node_name="a"))
    plan = CyclePlan(bindings=(to_a("p0"),), nominations=(to_a("p1"),), evictions=(out("p2"),))
    concerned = concerned_pods(plan, {key(one.metadata): one for one in (*list(bench.pods.values())[:4], noted)})
    assert sorted(concerned) == ["default/p0", "default/p1", "default/p2", "default/p4"]


# the observer ---------------------------------------------------------------------------------------------------------


async def test_the_observer_sees_every_write() -> None:
    faults: dict[tuple[str, str], Fault] = {("bind", "p1"): "conflict", ("evict", "p3"): "busy"}
    bench = Bench(pods=5, script=lambda call: faults.get((call.verb, call.what)))
    for name in ("p2", "p3"):
        bench.world.memory.store.bind("default", name, bench.pods[f"default/{name}"].metadata.uid, "a")
    await bench.do(CyclePlan(bindings=(to_a("p0"), to_a("p1", gang="h")), evictions=(out("p2"), out("p3"))))
    assert sorted(bench.seen.lines) == [
        "bound core 0",
        "conflict pods",
        "evicted Preempt default/g",
        "not bound Conflict 0",
        "not evicted TooManyRequests",
    ]


# as it went -----------------------------------------------------------------------------------------------------------


async def test_a_plan_is_reported_as_it_was_applied() -> None:
    """E1: a gang whose bindings were refused waits, with the reason; one that lost only extras runs."""
    bench = Bench(pods=6, script=lambda call: "forbidden" if call.what in ("p0", "p4") else None)
    gangs = (about("p0", "p1", verdict="Scheduled"), about("p2", "p3", "p4", name="h", verdict="Scheduled"))
    bindings = (to_a("p0"), to_a("p1"), to_a("p2", gang="h"), to_a("p3", "extra", "h"), to_a("p4", "extra", "h"))
    async with bench.applier.applying(bench.pods, 0) as work:
        work.finish(CyclePlan(bindings=bindings, gangs=gangs), bench.pods)
    first, second = work.plan.gangs
    assert (first.verdict, [refusal.reason for refusal in first.refusals]) == ("Waiting", ["BindingFailed"])
    assert "p0" in sentence(first.refusals[0])
    assert (second.verdict, [refusal.reason for refusal in second.refusals]) == ("Scheduled", ["BindingFailed"])
    assert {one.pod for one in work.plan.bindings} == set(bench.world.seats())


def seated(bench: Bench, *names: str) -> None:
    """These are on node a, and the next plan knows it."""
    for name in names:
        bench.world.memory.store.bind("default", name, bench.pods[f"default/{name}"].metadata.uid, "a")
    bench.look()


async def test_no_pod_is_evicted_in_a_term_in_which_that_was_not_decided() -> None:
    """I9: leadership came back, but another replica may have led in between."""
    bench = Bench(at_once=2)
    seated(bench, "p0", "p1")

    def script(call: Call) -> None:
        bench.leadership.term += call.number == 2  # both were tried without effect

    bench.cluster.script = script
    done = await bench.do(CyclePlan(evictions=(out("p0"), out("p1"))))
    assert (done.evicted, len(done.failures)) == (0, 2)
    assert [line.split()[0] for line in bench.cluster.log] == ["probe", "probe"]


async def test_an_unconfirmed_binding_is_not_sent_again_in_another_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """I9: another leader may have given the node away meanwhile. It is held until nothing can be on its way."""
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.002)
    bench = Bench(script=fails("bind", "p0", "lost"))
    await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    bench.leadership.term += 1
    tries = bench.cluster.log.count("bind p0: lost")
    await asyncio.sleep(0.05)
    assert (bench.cluster.log.count("bind p0: lost"), len(bench.assumed_pods)) == (tries, 1)
    await bench.world.time.advance(LOST_SECONDS)
    await until(lambda: bench.applier.write_pool.at_rest)
    assert len(bench.assumed_pods) == 0


async def test_a_binding_holds_its_node_until_its_last_try_can_not_arrive_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I2: counted from the last try that was not answered, not from the first one."""
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.002)
    bench = Bench(script=fails("bind", "p0", "lost"))
    await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    await bench.world.time.advance(RESEND_SECONDS - 1)
    tries = bench.cluster.log.count("bind p0: lost")
    await until(lambda: bench.cluster.log.count("bind p0: lost") > tries + 1)
    await bench.world.time.advance(LOST_SECONDS - 5)
    reads = bench.cluster.log.count("get pods p0")
    await until(lambda: bench.cluster.log.count("get pods p0") > reads + 2)
    assert (len(bench.assumed_pods), bench.applier.write_pool.at_rest) == (1, False)
    await bench.world.time.advance(6)
    await until(lambda: bench.applier.write_pool.at_rest)
    assert len(bench.assumed_pods) == 0


async def test_a_request_that_timed_out_on_its_way_may_have_happened() -> None:
    """408 is no clear no, although it is a 4xx: the node stays taken (I2)."""

    class Impatient(Faulty):
        async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:  # noqa: ARG002
            raise ApiError(408, "Timeout", "the request took too long")

    bench = Bench()
    bench.applier = bench.applying(Impatient(bench.world.memory))
    await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    assert (len(bench.assumed_pods), bench.applier.write_pool.at_rest) == (1, False)
    await bench.applier.write_pool.stop()


async def test_a_read_that_is_not_answered_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is dead for one read must not leave a gang unconfirmed for ever."""
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)

    class Mute(Faulty):
        reads = 0

        async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
            self.reads += 1
            if self.reads == 1:
                await asyncio.Event().wait()
            return await super().get(resource, namespace, name)

    bench = Bench()
    mute = Mute(bench.world.memory, fails("bind", "p0", "unanswered"))
    bench.applier = bench.applying(mute, seconds=0.05)
    await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    await until(lambda: bench.applier.write_pool.at_rest)
    assert mute.reads == 2


@pytest.mark.parametrize("fault", ["lost", "unanswered"])
async def test_a_gang_is_not_unconfirmed_any_more_when_its_binding_is_settled(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next one would be reported at once, as if it had lasted since then."""
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    bench = Bench(script=lambda call: fault if (call.verb, call.again) == ("bind", 0) else None)
    await bench.do(CyclePlan(bindings=(to_a("p0"),)))
    assert set(bench.applier.binder.unconfirmed) == {"default/g"}
    await until(lambda: bench.applier.write_pool.at_rest)
    assert (bench.applier.binder.unconfirmed, set(bench.world.seats())) == ({}, {"p0"})


async def test_no_pod_is_evicted_where_one_of_them_is_another_pod_by_now() -> None:
    """I6: what is tried without effect is the pod that the plan is about, not one of the same name."""
    bench = Bench()
    seated(bench, "p0", "p1")
    bench.world.memory.store.delete(PODS, "default", "p1", grace_seconds=0)
    bench.world.create(PODS, gpu_pod("p1", "g", node_name="a"))
    done = await bench.do(CyclePlan(evictions=(out("p0"), out("p1"))))
    assert done.evicted == 0
    assert not any(line.startswith("evict") for line in bench.cluster.log)
    assert "deletionTimestamp" not in bench.world.pod("p0")["metadata"]


async def test_a_probe_without_an_answer_starts_no_backoff() -> None:
    """A try without an answer says nothing about the pod: the next plan may choose it."""
    bench = Bench(script=fails("probe", "p1", "lost"))
    seated(bench, "p0", "p1")
    assert (await bench.do(CyclePlan(evictions=(out("p0"), out("p1"))))).evicted == 0
    assert bench.applier.evictor.backoff.untouchable(bench.pods.get) == frozenset()
    bench.cluster.script = lambda _: None
    assert await bench.do(CyclePlan(evictions=(out("p0"), out("p1")))) == ApplyResult(evicted=2)


async def test_a_replica_that_does_not_lead_does_not_even_probe_an_eviction() -> None:
    """I9: nothing at all is sent."""
    bench = Bench()
    seated(bench, "p0", "p1")
    bench.leadership.leading = False
    assert (await bench.do(CyclePlan(evictions=(out("p0"), out("p1"))))).evicted == 0
    assert bench.cluster.log == []


async def test_a_gang_is_unconfirmed_until_its_last_binding_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """E1: that one of them is confirmed does not settle the other one."""
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.002)

    def script(call: Call) -> Fault | None:
        if call.verb == "bind":
            return "unanswered" if call.what == "p0" else "lost"
        return None

    bench = Bench(script=script)
    await bench.do(CyclePlan(bindings=(to_a("p0"), to_a("p1"))))
    await until(lambda: "default/p0" in bench.applier.write_pool.unsettled or "p0" in bench.world.seats())
    reads = bench.cluster.log.count("get pods p1")
    await until(lambda: bench.cluster.log.count("get pods p1") > reads + 2)
    await asyncio.sleep(0.02)
    assert bench.applier.write_pool.unsettled == {"default/g"}
    assert set(bench.applier.binder.unconfirmed) == {"default/g"}
    await bench.applier.write_pool.stop()

"""The live model: what is published when, to whom it costs something, and what a replica shows that does not lead."""

import asyncio
from copy import deepcopy
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from muster.dashboard import model as model_module
from muster.dashboard.history import DashboardHistory, Publication
from muster.reporting.dashboard.cycles import RecordedCycle
from muster.reporting.dashboard.rows import CycleRow
from tests.support.drawing import draw
from tests.support.factories import Raw, node, pod, podgroup, pods, priority_class, queue, topology
from tests.support.shown_cluster import ShownCluster

GPU = "nvidia.com/gpu"
ONE_GPU: dict[str, Any] = {GPU: 1}
TWO_GPUS: dict[str, Any] = {GPU: 2}
PICTURE = """
    z1/r1  a:2 b:2
    z1/r2  c:1
"""


def gpu_pods(number: int, **more: Any) -> list[Raw]:
    return [pod(f"pod-{i}", **ONE_GPU, **more) for i in range(number)]


async def test_a_node_shows_what_uses_it() -> None:
    """Core and extra by gang, others without a name, and what is still being freed apart."""
    shown = ShownCluster(
        *draw(PICTURE),
        podgroup(minMember=1),
        pod("first", on="a", created="2026-01-01T00:00:00Z", **ONE_GPU),
        pod("second", on="a", created="2026-01-02T00:00:00Z", **ONE_GPU),
        pod("third", on="b", terminating=True, **ONE_GPU),
        pod("other", gang="", on="b", **ONE_GPU),
    )
    await shown.cycle()
    nodes = shown.state()["nodes"]
    assert nodes["a"]["used"] == [
        ["team/gang", "core", {GPU: 1, "pods": 1}],
        ["team/gang", "extra", {GPU: 1, "pods": 1}],
    ]
    assert nodes["b"]["used"] == [
        ["", "foreign", {GPU: 1, "pods": 1}],
        ["team/gang", "terminating", {GPU: 1, "pods": 1}],
    ]
    assert nodes["a"]["domains"] == {"cluster": "z1/r1"}
    assert nodes["a"]["allocatable"][GPU] == 2
    assert nodes["c"]["used"] == []


async def test_flags_say_what_is_wrong_with_a_node() -> None:
    lost, cordoned, tainted = (raw for raw in draw(PICTURE) if raw["kind"] == "Node")
    lost["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    cordoned["spec"] = {"unschedulable": True}
    tainted["spec"] = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    shown = ShownCluster(lost, cordoned, tainted)
    await shown.cycle()
    flags = {name: row["flags"] for name, row in shown.state()["nodes"].items()}
    assert flags == {"a": ["lost"], "b": ["cordoned"], "c": ["tainted"]}


async def test_nothing_is_published_where_nothing_changed() -> None:
    shown = ShownCluster(*draw(PICTURE), podgroup(minMember=1), *gpu_pods(1, on="a"))
    await shown.cycle()
    seq = shown.model.seq
    await shown.model.update()
    running = [pod("pod-0", on="a", phase="Running", **ONE_GPU)]
    shown.put(*running)
    await shown.model.update()
    assert shown.model.seq == seq, "a pod that starts looks the same"


async def test_a_change_holds_only_what_changed() -> None:
    shown = ShownCluster(*draw(PICTURE), podgroup(minMember=1), *gpu_pods(2))
    await shown.cycle()
    seq = shown.model.seq
    shown.put(pod("pod-0", on="c", **ONE_GPU))
    await shown.cycle()
    [publication] = shown.model.history.since(seq) or []
    assert {table: sorted(rows) for table, rows in publication.replaced.items()} == {
        "nodes": ["c"],
        "sections": ["queues"],
    }, "the gang stands as the plan before had it"


async def test_what_is_gone_is_gone() -> None:
    shown = ShownCluster(*draw(PICTURE), podgroup(minMember=1), *gpu_pods(1, on="a"))
    await shown.cycle()
    shown.set(raw for raw in [*shown.raws.values()] if raw["metadata"]["name"] in ("b", "cluster"))
    await shown.cycle()
    state = shown.state()
    assert (list(state["nodes"]), state["gangs"]) == (["b"], {})


async def test_the_model_keeps_no_snapshot() -> None:
    """A plan of a gang leads to the snapshot that it was made on: a thousand of them would fill the memory."""
    shown = ShownCluster(*draw(PICTURE), podgroup(minMember=9), *gpu_pods(3))
    for _ in range(3):
        await shown.cycle()
    records = list(shown.model.gangs.values())
    publications = shown.model.history.since(0) or []
    replaced = [row for each in publications for row in each.replaced.get("gangs", {}).values() if row is not None]
    assert records
    assert all(record.plan.snapshot is None for record in [*records, *replaced])  # type: ignore[union-attr]


async def test_a_gang_remembers_its_verdicts() -> None:
    """Newest first; one that stays as it is is one verdict."""
    shown = ShownCluster(*draw(PICTURE), podgroup(minMember=2), *gpu_pods(1))
    await shown.cycle()
    shown.put(*gpu_pods(9))
    await shown.cycle()
    await shown.cycle()
    verdicts = [(each.cycle, each.verdict, each.reason) for each in shown.model.gangs["team/gang"].history]
    assert verdicts == [(2, "Scheduled", "NoRoom"), (1, "Waiting", "NotEnoughPods")]
    cycles = [(row["cycle"], [each["reason"] for each in row["refused"]]) for row in shown.state()["cycles"]]
    assert cycles == [(1, ["NotEnoughPods"]), (2, []), (3, [])]


async def test_a_replica_that_does_not_lead_shows_what_the_leader_wrote_while_it_is_viewed() -> None:
    group = podgroup(minMember=5)
    condition = {"type": "Scheduled", "status": "False", "reason": "NoRoom", "message": "no room for the gang"}
    group["status"] = {"conditions": [condition]}
    shown = ShownCluster(*draw(PICTURE), queue("default"), group, *gpu_pods(5))
    shown.is_leading = False
    await shown.model.update()
    assert shown.state()["gangs"] == {}, "none looks"
    shown.model.viewers = 1
    await shown.model.update()
    state = shown.state()
    row = state["gangs"]["team/gang"]
    assert (state["leads"], state["cycle"], state["cycles"]) == (False, 0, [])
    assert (row["verdict"], row["reason"], row["message"]) == ("Infeasible", "NoRoom", "no room for the gang")
    assert [each["name"] for each in state["queues"]["queues"]] == ["default"]
    seq = shown.model.seq
    shown.put(*gpu_pods(6))
    await shown.model.update()
    assert shown.model.seq == seq, "five seconds are not over"


async def test_an_event_is_shown_within_half_a_second() -> None:
    shown = ShownCluster(*draw(PICTURE))
    running = asyncio.create_task(shown.model.run())
    shown.model.viewers = 1
    await model_module.is_set(shown.model.news, 1)
    seq, news = shown.model.seq, shown.model.news
    shown.put(pod("other", gang="", on="b", **ONE_GPU))
    assert await model_module.is_set(news, model_module.VIEWED_SECONDS + 0.25)
    assert shown.model.seq == seq + 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert shown.model.is_closed


async def test_a_cycle_is_shown_without_waiting_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a state of its own to go back to: the pod is on another node after each."""
    monkeypatch.setattr(model_module, "UNVIEWED_SECONDS", 60.0)
    monkeypatch.setattr(model_module, "REST_SHARE", 0)
    shown = ShownCluster(*draw(PICTURE), podgroup(minMember=1))
    running = asyncio.create_task(shown.model.run())
    async with asyncio.timeout(30):
        for number in range(6):
            shown.put(pod("one", on="ab"[number % 2], **ONE_GPU))
            shown.finish_cycle()
            while shown.model.cycle <= number:
                await asyncio.sleep(0.001)
    seen = [[name for name, row in shown.state(cycle=i + 1)["nodes"].items() if row["used"]] for i in range(6)]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert seen == [["a"], ["b"]] * 3


async def test_updates_take_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes long is followed by a rest, also where cycles come meanwhile."""
    monkeypatch.setattr(model_module, "REST_SHARE", 20)
    shown = ShownCluster(*draw(PICTURE), podgroup(minMember=1))
    make_records, began = shown.model.uses.make_records, []

    async def slowly() -> Any:
        began.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.01)
        return await make_records()

    monkeypatch.setattr(shown.model.uses, "make_records", slowly)
    running = asyncio.create_task(shown.model.run())
    async with asyncio.timeout(30):
        while len(began) < 3:
            shown.finish_cycle()
            await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert min(after - before for before, after in pairwise(began)) >= 0.2


async def test_viewers_are_woken_once_for_changes_in_quick_succession(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "ANNOUNCED_SECONDS", 1.0)
    shown = ShownCluster(*draw(PICTURE), podgroup(minMember=1))
    await shown.cycle()
    assert await model_module.is_set(shown.model.news, 5)
    news = shown.model.news
    for number in range(3):
        shown.put(pod("one", on="ab"[number % 2], **ONE_GPU))
        await shown.model.update()
    assert await model_module.is_set(news, 5)
    assert shown.model.seq == 4
    assert not await model_module.is_set(shown.model.news, 1.5), "one wake for three changes"


async def test_history_is_bounded_in_bytes_and_says_what_is_left() -> None:
    shown = ShownCluster(*draw(PICTURE), podgroup(minMember=1), history_bytes=20_000)
    for number in range(60):
        shown.put(pod("other", gang="", on="ab"[number % 2], **ONE_GPU))
        await shown.cycle()
    history = shown.model.history
    assert history.bytes <= 20_000
    assert history.oldest_cycle is not None
    assert 1 < history.oldest_cycle < 60
    assert shown.state(cycle=history.oldest_cycle)["cycle"] == history.oldest_cycle


def test_history_is_bounded_in_cycles() -> None:
    history = DashboardHistory(10**9, 10)
    for number in range(1, 31):
        cycle = RecordedCycle(CycleRow(number, "", 0.0, 0), {})
        history.add(Publication(number, number, "", {}, (cycle,)))
    assert (history.oldest_cycle, history.newest_cycle, history.cycles) == (21, 30, 10)
    assert history.since(5) is None
    assert [each.seq for each in history.since(28) or ()] == [29, 30]
    assert [each.row.cycle for each in history.recent_cycles(25, 2)] == [24, 23]


async def test_pods_of_large_gangs_are_all_shown() -> None:
    shown = ShownCluster(*draw(PICTURE), podgroup(minMember=1), *pods(4, on="a"))
    await shown.cycle()
    row = msgspec.json.decode(shown.model.gangs["team/gang"].row)
    assert (row["core"], row["extra"], row["pods"]) == (1, 3, 4)


async def test_a_topology_changes_although_no_node_is_in_it() -> None:
    """A Topology whose labels no node has: its levels are shown all the same."""
    shown = ShownCluster(node("a", cpu=1), topology("t/rack", name="racks"))
    await shown.cycle()
    shown.put(topology("t/block", name="racks"))
    await shown.model.update()
    assert shown.state()["topologies"] == {"racks": ["t/block"]}


async def test_a_node_that_is_labelled_again_takes_its_gangs_along() -> None:
    """Nothing of the gang itself has changed: it is the same value in both plans."""
    level = {"topology": "cluster", "requiredTopologyLevel": "topology/rack"}
    raws = draw(PICTURE)
    shown = ShownCluster(*raws, podgroup(minMember=1, topologyConstraint=level), pod("first", on="a", **ONE_GPU))
    await shown.cycle()
    moved = next(raw for raw in raws if raw["metadata"]["name"] == "a")
    moved["metadata"]["labels"]["topology/rack"] = "r9"
    shown.put(moved)
    await shown.cycle()
    assert shown.state()["gangs"]["team/gang"]["domain"] == "z1/r9"
    assert shown.plan.gang("team/gang").domains == {"": "z1/r9"}


async def test_a_node_that_comes_makes_no_other_gang_again() -> None:
    """A large cluster that grows and shrinks all the time would make all of its gangs again with every node."""
    level = {"topology": "cluster", "requiredTopologyLevel": "topology/rack"}
    raws = draw(PICTURE)
    shown = ShownCluster(
        *raws,
        *(podgroup(name=name, minMember=1, topologyConstraint=level) for name in ("first", "second")),
        *(pod(f"{name}-0", gang=name, on=node, **ONE_GPU) for name, node in (("first", "a"), ("second", "b"))),
    )
    await shown.cycle()
    before = dict(shown.model.gangs)
    moved, new = deepcopy(raws[1]), deepcopy(raws[1])
    assert moved["metadata"]["name"] == "a"
    moved["metadata"]["labels"]["topology/rack"] = "r9"
    new["metadata"]["name"] = "0-first-of-all"
    shown.put(moved, new)
    await shown.cycle()
    assert shown.model.gangs["team/first"].domains == {"": "z1/r9"}
    assert shown.model.gangs["team/second"] is before["team/second"]


async def test_a_gang_is_behind_others_although_its_place_is_the_same() -> None:
    """The gang ahead is gone, and another is in its place."""

    def waiting(name: str, day: int) -> list[Raw]:
        made = podgroup(name=name, minMember=3)
        made["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
        return [made, *(pod(f"{name}-{i}", gang=name, **TWO_GPUS) for i in range(3))]

    rest = [*draw(PICTURE), queue("default"), *waiting("last", 3)]
    shown = ShownCluster(*rest, *waiting("first", 1))
    await shown.cycle()
    shown.set([*rest, *waiting("other", 2)])
    await shown.cycle()
    record = shown.model.gangs["team/last"]
    assert (record.plan.position, record.plan.ahead) == (2, ("team/other",))


async def test_an_error_in_what_is_shown_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler ends with any of its loops: the dashboard's goes on, and misses nothing that was reported to it."""
    monkeypatch.setattr(model_module, "FAILED_SECONDS", 0.01)
    monkeypatch.setattr(model_module, "UNVIEWED_SECONDS", 0.01)
    shown = ShownCluster(*draw(PICTURE), podgroup(minMember=1))
    make_records, failures = shown.model.uses.make_records, iter(range(3))

    async def fail_at_first() -> Any:
        records = await make_records()
        if next(failures, None) is not None:
            raise ValueError("no such row")
        return records

    monkeypatch.setattr(shown.model.uses, "make_records", fail_at_first)
    shown.put(pod("first", on="a", **ONE_GPU))
    with pytest.raises(ValueError, match="no such row"):
        await shown.cycle()
    shown.model.cycle_finished(shown.finished())
    running = asyncio.create_task(shown.model.run())
    assert await model_module.is_set(shown.model.news, 60)
    assert not running.done()
    state = shown.state()
    assert state["nodes"]["a"]["used"] == [["team/gang", "core", {GPU: 1, "pods": 1}]]
    assert state["gangs"]["team/gang"]["verdict"] == "Scheduled"
    assert [row["cycle"] for row in state["cycles"]] == [2]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_replica_that_leads_no_more_nominates_nothing() -> None:
    """Its last plan is not carried out: the next leader makes another one."""
    shown = ShownCluster(
        *draw("z1/r1 a:1"),
        queue("default"),
        priority_class("low", 1),
        priority_class("high", 10),
        podgroup(name="old", minMember=1, priorityClassName="low", preemptibility="preemptible", queue="default"),
        podgroup(name="new", minMember=1, priorityClassName="high", queue="default", preemptibility="preemptible"),
        pod("old-0", gang="old", on="a", **ONE_GPU),
        pod("new-0", gang="new", **ONE_GPU),
    )
    await shown.cycle()
    assert [use[1] for use in shown.state()["nodes"]["a"]["used"]] == ["nominated", "extra"]
    shown.is_leading = False
    await shown.model.update()
    assert [use[1] for use in shown.state()["nodes"]["a"]["used"]] == ["extra"]

"""N6: pods that ask for one of our schedulers are ours; all others only take room on their nodes."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import muster
from muster.fairness.shares import divide_cluster
from muster.model.snapshot import take
from muster.planning.cycle import plan as make_plan
from muster.reporting.explain import reasons
from muster.scheduler.status.status_updates import CycleOutcome, UpdateBuilder
from tests.spec.scene import run
from tests.support.factories import Raw, group, node, pod, podgroup, pods, priority_class, queue

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LONG_AGO = "2026-05-01T11:00:00Z"
CLASSES = (priority_class("low", 10), priority_class("high", 90))


def of(scheduler: str, *raws: Raw) -> list[Raw]:
    """Pods that ask for this scheduler."""
    return [{**raw, "spec": {**raw["spec"], "schedulerName": scheduler}} for raw in raws]


def planned(*raws: Raw, names: tuple[str, ...] = ("muster",)) -> muster.Plan:
    return muster.plan(muster.objects(raws), muster.Policy(scheduler_names=names), NOW)


def reasons_of(plan: muster.Plan, key: str = "team/gang") -> list[dict[str, Any]]:
    return reasons(plan.decided.gang(key))


def test_a_pod_of_another_scheduler_is_not_preempted() -> None:
    """It carries our annotation and runs in a gang of a lower priority, in the only room there is."""
    low = podgroup(name="low", minMember=1, priorityClassName="low")
    new = [podgroup(name="new", minMember=1, priorityClassName="high"), pod("new", gang="new", cpu=1)]
    victim = pod("v", gang="low", on="a", phase="Running", cpu=1)
    scene = [node("a", cpu=1), *CLASSES, low, *new]
    assert [one.pod for one in planned(*scene, victim).evictions] == ["v"]
    plan = planned(*scene, *of("kai-scheduler", victim))
    assert (plan.evictions, plan.bindings) == ((), ())
    assert plan.verdict("team/new") == "Infeasible"


def test_a_pod_of_another_scheduler_is_not_reclaimed_and_counts_in_no_queue() -> None:
    share = {"quota": 1000, "limit": 1000}
    scene = [node("a", cpu=2), queue("mine", cpu=share), queue("theirs", cpu={"quota": 0, "limit": -1})]
    rich = podgroup(name="rich", minMember=2, queue="theirs")
    poor = [podgroup(name="poor", minMember=1, queue="mine"), pod("poor", gang="poor", cpu=1)]
    running = pods(2, gang="rich", on="a", phase="Running", cpu=1)
    assert planned(*scene, rich, *poor, *running).evictions
    foreign = of("default-scheduler", *running)
    assert planned(*scene, rich, *poor, *foreign).evictions == ()
    uses = divide_cluster(take(muster.objects([*scene, rich, *poor, *foreign]))).uses
    assert uses.allocated["theirs"] == uses.requested["theirs"] == uses.terminating["theirs"] == {}


def test_a_pod_of_another_scheduler_is_never_released_as_stale() -> None:
    """S2 is about our gangs: one of two foreign pods runs, and the mark on the PodGroup is old."""
    short = podgroup(minMember=2)
    short["metadata"]["annotations"] = {"kai.scheduler/stale-podgroup-timestamp": LONG_AGO}
    runs = pod("p", on="a", phase="Running", cpu=1)
    assert [one.reason for one in planned(node("a"), short, runs).evictions] == ["Stale"]
    assert planned(node("a"), short, *of("another", runs)).evictions == ()


def test_a_pod_of_another_scheduler_counts_for_no_minimum_and_takes_its_room() -> None:
    scene = [node("a", cpu=3), podgroup(minMember=2), *of("another", pod("theirs", on="a", phase="Running", cpu=2))]
    one_more = planned(*scene, pod("p", cpu=1))
    assert one_more.verdict("team/gang") == "Waiting", "it would be the second of two"
    assert planned(*scene, *pods(2, cpu=1)).bindings == (), "one cpu is left for two pods"
    assert len(planned(*scene, *pods(2, cpu="500m")).bindings) == 2


def test_a_pod_that_waits_for_another_scheduler_is_not_bound() -> None:
    plan = planned(node("a"), podgroup(minMember=1), *of("another", pod("p", cpu=1)))
    assert (plan.bindings, plan.verdict("team/gang")) == ((), "Waiting")


def test_a_gang_of_foreign_pods_names_its_scheduler() -> None:
    plan = planned(node("a"), podgroup(minMember=2), *of("kai-scheduler", *pods(2, cpu=1)))
    (reason,) = reasons_of(plan)
    assert (reason["reason"], reason["details"]["schedulers"]) == ("OtherScheduler", ["kai-scheduler"])
    assert "`kai-scheduler`" in reason["message"]


def test_a_gang_that_lacks_pods_names_the_scheduler_that_the_others_ask_for() -> None:
    """One of two pods names another scheduler: that is what is wrong with it."""
    plan = planned(node("a"), podgroup(minMember=2), pod("ours", cpu=1), *of("another", pod("theirs", cpu=1)))
    assert [reason["reason"] for reason in reasons_of(plan)] == ["OtherScheduler", "NotEnoughPods"]
    assert "some of its pods ask for `another`" in reasons_of(plan)[0]["message"]


def test_a_foreign_gang_blocks_no_other() -> None:
    """It stands in no queue: no other gang waits behind it."""
    foreign = [podgroup(name="a", minMember=1), *of("another", pod("f", gang="a", cpu=1))]
    waits = [podgroup(name="b", minMember=1), pod("w", gang="b", cpu=99)]
    (mine,) = [one for one in planned(node("n"), *foreign, *waits).to_dict()["podGroups"] if one["name"] == "b"]
    assert (mine["position"], mine["ahead"]) == (1, [])


@pytest.mark.parametrize("names", [("kai-scheduler",), ("muster", "kai-scheduler")])
def test_several_names_are_ours(names: tuple[str, ...]) -> None:
    plan = planned(node("a"), podgroup(minMember=1), *of("kai-scheduler", pod("p", cpu=1)), names=names)
    assert [one.pod for one in plan.bindings] == ["p"]


def test_in_files_a_pod_without_a_scheduler_is_ours() -> None:
    """API servers fill the field in; people who write files do not."""
    assert planned(node("a"), podgroup(minMember=1), pod("p", cpu=1), names=("any",)).bindings


def test_drained_pods_of_other_schedulers_do_not_wait_again() -> None:
    scene = [node("a"), podgroup(minMember=1), *of("another", pod("p", on="a", phase="Running", cpu=1))]
    (change,) = muster.what_if(muster.objects(scene), drain="a").changes
    assert change == "node `a` is drained: 1 other pod leaves"


# what is written ----------------------------------------------------------------------------------------------------


def updates(*raws: Raw, names: tuple[str, ...] = ("muster",)) -> set[tuple[str, str]]:
    """Objects that something is written about, as (kind, name)."""
    snapshot = take(muster.objects(raws), NOW, names)
    drafted = UpdateBuilder().updates(CycleOutcome(1, snapshot, make_plan(snapshot), NOW, 0))
    return {(address[0], address[2].split("/")[1 if address[0] == "events" else 0]) for address in drafted}


def test_two_schedulers_do_not_write_about_each_others_gangs() -> None:
    """One writes what the other leaves alone, on PodGroups, pods, queues and in events."""
    queues = [queue("mine"), queue("yours"), queue("nobodys")]
    mine = [podgroup(name="m", minMember=2, queue="mine"), *of("muster", pod("mp", gang="m"))]
    yours = [podgroup(name="y", minMember=2, queue="yours"), *of("other", pod("yp", gang="y"), pod("yo", gang=""))]
    scene = [node("n"), *queues, *mine, *yours]
    one, other = updates(*scene), updates(*scene, names=("other",))
    assert {("podgroups", "m"), ("pods", "mp"), ("queues", "mine")} <= one
    assert {("podgroups", "y"), ("pods", "yp"), ("pods", "yo"), ("queues", "yours")} <= other
    assert one & other == {("queues", "nobodys")}, "of which both say that nothing is there"


def written(raws: list[Raw], name: str) -> list[Raw]:
    """The objects after the scheduler of that name has reported what it sees."""
    snapshot = take(muster.objects(raws), NOW, (name,))
    stored = {(raw["kind"], raw["metadata"]["name"]): raw for raw in raws}
    for drafted in UpdateBuilder().updates(CycleOutcome(1, snapshot, make_plan(snapshot), NOW, 0)).values():
        for update in drafted:
            about = update.resource.kind, update.name
            if update.kind == "status":
                stored[about] = {**stored[about], "status": update.body[1]["value"]}
    return list(stored.values())


def test_two_schedulers_agree_on_which_one_reports_on_a_gang_with_pods_of_both() -> None:
    """Each counts other pods, so both would write without end. One begins, the other leaves it alone."""
    mixed = [*of("muster", pod("mine")), *of("other", pod("yours"))]
    first = written([node("n"), queue("q"), podgroup(minMember=3, queue="q"), *mixed], "muster")
    second = written(first, "other")
    assert [raw["status"]["schedulerName"] for raw in second if "levels" in raw.get("status", {})] == ["muster"]
    assert written(second, "muster") == written(second, "other") == second == first


def test_a_scheduler_that_does_not_report_still_says_why_its_own_pods_wait() -> None:
    mixed = [*of("muster", pod("mine")), *of("other", pod("yours"))]
    scene = written([node("n"), podgroup(minMember=3), *mixed], "muster")
    assert updates(*scene, names=("other",)) >= {("pods", "yours")}
    assert ("podgroups", "gang") not in updates(*scene, names=("other",))


def test_a_scheduler_that_is_left_alone_with_a_gang_reports_on_it() -> None:
    """The other scheduler's pods are gone, and with them its say."""
    gang, mine = podgroup(minMember=3), of("other", pod("yours"))
    before = written([node("n"), gang, *of("muster", pod("mine")), *mine], "muster")
    after = written([raw for raw in before if raw["metadata"]["name"] != "mine"], "other")
    (status,) = [raw["status"] for raw in after if raw["kind"] == "PodGroup"]
    assert "schedulerName" not in status
    assert status["pending"] == 1


def test_a_gang_without_any_pods_says_that_it_has_none() -> None:
    """E1: no other scheduler will; every verb says the same."""
    assert ("podgroups", "gang") in updates(node("n"), podgroup(minMember=2))


# the command line ---------------------------------------------------------------------------------------------------


def test_verbs_take_the_scheduler_names_to_plan_for(tmp_path: Any) -> None:
    scene = [node("a"), podgroup(group("g", 1), minSubGroup=1), *of("kai-scheduler", pod("p", "g", cpu=1))]
    file = tmp_path / "all.yaml"
    file.write_text(muster_yaml(scene))
    assert "1 pod to bind" in run("plan", str(file), "--scheduler-name", "kai-scheduler").out
    assert "0 pods to bind" in run("plan", str(file)).out
    assert "left to another scheduler: its pods ask for `kai-scheduler`" in run("explain", "team/gang", str(file)).out
    assert "0/1" in run("tree", str(file)).out
    outputs = [run("queues", str(file), *more).out for more in ([], ["--scheduler-name", "kai-scheduler"])]
    assert outputs[0] != outputs[1]


def muster_yaml(raws: list[Raw]) -> str:
    from muster.api.codec import to_yaml

    return to_yaml(raws)


def test_a_policy_carries_the_names() -> None:
    """The same policy with other names is another plan."""
    objects = muster.objects([node("a"), podgroup(minMember=1), *of("x", pod("p", cpu=1))])
    policy = muster.Policy()
    assert not muster.plan(objects, policy).bindings
    assert muster.plan(objects, replace(policy, scheduler_names=("x",))).bindings


def test_tree_and_explain_say_whose_pods_they_are(tmp_path: Path) -> None:
    """N6, E1: `0 of 2 pods exist` would be false where two exist and ask for another scheduler."""
    foreign = of("other", *pods(2, cpu=1))
    file = tmp_path / "some.json"
    scene = [node("n"), podgroup(minMember=2), *foreign]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": scene}))
    for verb in (["tree"], ["explain", "team/gang"], ["plan"]):
        output = run(*verb, str(file)).out
        assert "left to another scheduler: its pods ask for `other`" in output, verb
        assert "not enough pods" not in output, verb
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*scene, pod("ours", cpu=1)]}))
    output = run("tree", str(file)).out
    assert "some of its pods ask for `other`; not enough pods: 1 of 2 pods exist" in output

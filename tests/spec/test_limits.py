"""Q4: nothing passes a limit at any moment, pods that are still terminating included."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import muster
from muster.fairness.shares import divide_cluster
from muster.model.snapshot import take
from muster.planning.refusal import OverLimit
from tests.support.factories import Raw, node, pod, podgroup, pods, priority_class, queue

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
CLASSES = (priority_class("low", 10), priority_class("high", 90))
CAPPED = queue("team", cpu={"quota": 0, "limit": 2000})


def planned(raws: list[Raw], now: datetime = NOW) -> muster.Plan:
    return muster.plan(muster.objects(raws), now=now)


def applied(raws: list[Raw], plan: muster.Plan) -> list[Raw]:
    """The cluster right after a plan: pods that are bound run, and pods that are evicted have not left yet."""
    nodes = {one.key: one.node for one in plan.bindings}
    promised = {one.key: one.node for one in plan.nominations}
    evicted = {one.key for one in plan.evictions}

    def after(raw: Raw) -> Raw:
        name = f"{raw['metadata'].get('namespace')}/{raw['metadata']['name']}"
        if raw["kind"] != "Pod":
            return raw
        if name in nodes:
            return {**raw, "spec": {**raw["spec"], "nodeName": nodes[name]}, "status": {"phase": "Running"}}
        if name in promised:
            return {**raw, "status": {"nominatedNodeName": promised[name]}}
        if name in evicted:
            return {**raw, "metadata": {**raw["metadata"], "deletionTimestamp": "2026-05-01T12:00:00Z"}}
        return raw

    return [after(raw) for raw in raws]


def gone(raws: list[Raw]) -> list[Raw]:
    """The same once those who leave have left."""
    return [raw for raw in raws if "deletionTimestamp" not in raw["metadata"]]


def held(raws: list[Raw]) -> int:
    """Cpus on nodes, counted without muster."""
    bound = (raw for raw in raws if raw["kind"] == "Pod" and raw["spec"].get("nodeName"))
    return sum(int(raw["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for raw in bound)


def scene(*more: Raw, cpu: int = 8) -> list[Raw]:
    return [node("n", cpu=cpu), *CLASSES, CAPPED, *more]


def gang(name: str, number: int, priority: str = "low", **running: Any) -> list[Raw]:
    group = podgroup(name=name, minMember=number, queue="team", priorityClassName=priority)
    return [group, *(pod(f"{name}-{i}", gang=name, cpu=1, **running) for i in range(number))]


def test_a_queue_stays_within_its_limit_while_pods_are_terminating() -> None:
    """From plan to plan: the more important gang gets the place of the other one, and not a moment earlier."""
    raws = scene(*gang("old", 2, on="n", phase="Running"), *gang("new", 2, "high"))
    first = planned(raws)
    assert (len(first.evictions), first.bindings, len(first.nominations)) == (2, (), 2)
    between = applied(raws, first)
    for _ in range(3):
        again = planned(between)
        assert (again.bindings, again.evictions) == ((), ())
        assert len(again.nominations) == 2, "the place is kept (P7)"
        between = applied(between, again)
        assert held(between) == 2
    last = planned(gone(between))
    assert {one.pod for one in last.bindings} == {"new-0", "new-1"}


def test_terminating_pods_count_for_gangs_that_come_later() -> None:
    """There is room for all on the nodes; the queue has none until the pods are gone."""
    old = gang("old", 2, on="n", phase="Running", terminating=True)
    raws = scene(*old, *gang("new", 1))
    plan = planned(raws)
    (refusal,) = plan.decided.gang("team/new").refusals
    assert isinstance(refusal, OverLimit)
    assert (plan.bindings, refusal.excess.held) == ((), 2000)
    assert len(planned(gone(raws)).bindings) == 1


def test_terminating_pods_count_for_extras() -> None:
    group = podgroup(name="g", minMember=1, queue="team")
    raws = scene(group, pod("g-0", gang="g", on="n", phase="Running", cpu=1), pod("g-1", gang="g", cpu=1))
    assert len(planned(raws).bindings) == 1
    assert planned([*raws, *gang("old", 1, on="n", terminating=True)]).bindings == ()


def test_terminating_pods_on_no_node_hold_nothing() -> None:
    """N5: deleted before they were bound, or after their work was done."""
    waits, done = pod("w", gang="old", terminating=True, cpu=2), pod("d", gang="old", on="n", terminating=True, cpu=2)
    done["status"] = {"phase": "Succeeded"}
    raws = scene(podgroup(name="old", minMember=1, queue="team"), waits, done, *gang("new", 2))
    assert divide_cluster(take(muster.objects(raws))).uses.terminating["team"] == {}
    assert len(planned(raws).bindings) == 2


@pytest.mark.parametrize(("preemptibility", "protected"), [("non-preemptible", 1000), ("preemptible", 0)])
def test_terminating_pods_of_a_queue_are_counted_apart(preemptibility: str, protected: int) -> None:
    """Terminating pods are no part of what is allocated or asked for; they are added up beside it, to the top."""
    top, below = queue("top"), queue("team", "top", cpu={"quota": 9000, "limit": 2000})
    group = podgroup(name="g", minMember=1, queue="team", preemptibility=preemptibility)
    raws = [node("n"), top, below, group, pod("a", gang="g", on="n", cpu=1)]
    raws += [pod("b", gang="g", on="n", cpu=1, terminating=True)]
    uses = divide_cluster(take(muster.objects(raws))).uses
    for name in ("team", "top"):
        assert uses.allocated[name] == uses.requested[name] == uses.terminating[name] == {"cpu": 1000}
        assert uses.holding[name] == {"cpu": 2000}
        assert uses.terminating_non_preemptible[name].get("cpu", 0) == protected


def test_the_protected_stay_within_the_quota_while_others_terminate() -> None:
    """Q4: a non-preemptible pod and its replacement are both there until the first is gone."""
    fixed = queue("team", cpu={"quota": 1000, "limit": -1})
    group = podgroup(name="g", minMember=1, queue="team", preemptibility="non-preemptible")
    raws = [node("n"), fixed, group, pod("old", gang="g", on="n", cpu=1, terminating=True), pod("new", gang="g", cpu=1)]
    plan = planned(raws)
    (refusal,) = plan.decided.gang("team/g").refusals
    assert (plan.bindings, refusal.reason) == ((), "NonPreemptibleOverQuota")
    assert len(planned(gone(raws)).bindings) == 1


def test_other_queues_do_not_wait_for_the_terminating_pods_of_one() -> None:
    other = queue("other", cpu={"quota": 0, "limit": 2000})
    new = podgroup(name="new", minMember=2, queue="other")
    raws = [*scene(*gang("old", 2, on="n", terminating=True), other, new), *pods(2, gang="new", cpu=1)]
    assert len(planned(raws, NOW + timedelta(seconds=1)).bindings) == 2

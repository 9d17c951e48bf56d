"""N4: a pod that runs after its SubGroup was removed counts as used in its queue, shows in status and leaves first."""

from typing import Any

import pytest

import muster
from muster.fairness.shares import divide_cluster, pool
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.roles import leftovers, units_of
from muster.model.snapshot import take
from muster.planning.cycle_state import CycleState
from muster.planning.policy import Policy
from muster.reporting import views
from muster.reporting.text import plain
from tests.support.factories import Raw, gang, group, node, pod, podgroup, pods, priority_class, queue
from tests.support.planned_gang import NOW, planned

TREE = podgroup(group("a", 1), group("b", 1), minSubGroup=1, queue="team")
TEAM = queue("team", cpu={"quota": 0, "limit": -1})
NAMED = {"removed": "removed", "a branch": "top", "none": ""}


def left(name: str = "old", leaf: str = "removed", **more: Any) -> Raw:
    """A pod that runs, of a SubGroup that is not there."""
    return pod(name, leaf, on="n", phase="Running", cpu=1, **more)


def running(name: str, leaf: str, **more: Any) -> Raw:
    return pod(name, leaf, on="n", phase="Running", cpu=1, **more)


def order(built: Gang) -> list[list[str]]:
    """Who leaves, first to leave first."""
    return [[member.name for _, member in unit.pods] for unit in units_of(built)]


@pytest.mark.parametrize("leaf", NAMED.values(), ids=NAMED)
def test_a_leftover_counts_as_used_in_its_queue_and_for_no_minimum(leaf: str) -> None:
    tree = podgroup(group("top"), group("a", 1, parent="top"), queue="team")
    snapshot = take(muster.objects([node("n", cpu=4), TEAM, tree, left(leaf=leaf)]), NOW)
    (built,) = snapshot.gangs
    assert not built.standing.satisfied
    assert built.standing.placed == 0
    uses = divide_cluster(snapshot).uses
    assert uses.allocated["team"] == {"cpu": 1000}
    assert pool(snapshot, ["cpu"]) == {"cpu": 4000}, "what a queue holds is not outside every queue"


def test_a_limit_holds_for_leftovers() -> None:
    """Q4: one of two cpus is held by a pod whose SubGroup is gone."""
    capped = queue("team", cpu={"quota": 0, "limit": 2000})
    waits = podgroup(name="new", minMember=2, queue="team")
    scene = [node("n", cpu=4), capped, TREE, waits, *pods(2, gang="new", cpu=1)]
    assert len(muster.plan(muster.objects(scene), now=NOW).bindings) == 2
    plan = muster.plan(muster.objects([*scene, left()]), now=NOW)
    assert (plan.bindings, plan.decided.gang("team/new").refusals[0].reason) == ((), "OverLimit")


@pytest.mark.parametrize("preemptibility", ["preemptible", "semi-preemptible", "non-preemptible"])
def test_leftovers_leave_first_whatever_the_gang_is(preemptibility: str) -> None:
    """Before a spare pod, a further SubGroup and the core; none of them is protected."""
    tree = TREE | {"spec": TREE["spec"] | {"preemptibility": preemptibility}}
    here = [running("a0", "a"), running("a1", "a"), running("b0", "b"), left("x", priority=1), left("y")]
    built = gang(tree, here)
    assert order(built) == [["y"], ["x"], ["a1"], ["b0"], ["a0"]]
    assert [unit.leftover for unit in units_of(built)] == [True, True, False, False, False]
    assert units_of(built)[-1].inside == (0, 1, 2, 3), "if the core has to leave, so has everything else"
    uses = divide_cluster(take(muster.objects([node("n"), TEAM, tree, *here]))).uses
    protected = {"preemptible": {}, "semi-preemptible": {"cpu": 1000}, "non-preemptible": {"cpu": 3000}}
    assert uses.non_preemptible["team"] == protected[preemptibility]


def test_pods_that_wait_or_are_done_are_no_leftovers() -> None:
    """N4, N5: who waits is never scheduled, and who is done holds nothing."""
    done = [pod(f"p{i}", "removed", on="n", phase=phase, cpu=1) for i, phase in enumerate(("Succeeded", "Failed"))]
    done += [pod("gone", "removed", on="n", phase="Succeeded", terminating=True, cpu=1), pod("waits", "removed", cpu=1)]
    built = gang(TREE, done)
    assert (built.leftovers, len(built.strays)) == ((), 4)
    assert built.held == built.terminating == {}


def test_a_leftover_that_is_terminating_holds_until_it_is_gone() -> None:
    built = gang(TREE, [left(terminating=True)])
    assert (leftovers(built), built.held, built.terminating) == ((), {}, {"cpu": 1000})


def test_an_evicted_leftover_is_gone_from_what_is_allocated() -> None:
    """The caller that evicts it passes its unit, as of every other pod; it is terminating until it is gone (Q4)."""
    cycle_state = CycleState(take(muster.objects([node("n"), TEAM, TREE, left()]), NOW), Policy())
    (unit,) = [one for one in units_of(cycle_state.gang_states["team/gang"].gang) if one.leftover]
    cycle_state.evict("team/gang", unit.pods, "Preempt", "team/other")
    after = cycle_state.gang_states["team/gang"]
    assert [one.state for one in after.gang.leftovers] == [PodState.TERMINATING]
    assert [(one.pod, one.sub_group) for one in after.evictions] == [("old", "removed")]
    assert (cycle_state.usage.allocated["team"], cycle_state.usage.terminating["team"]) == ({"cpu": 0}, {"cpu": 1000})


def test_leftovers_show_in_status_and_tree() -> None:
    plan = planned(node("n"), TEAM, TREE, running("a0", "a"), left())
    status = plan.status()
    assert (status.leftovers, status.running) == (1, 1)
    assert status.resources_status.allocated == {"cpu": 2000}
    (condition,) = [one for one in status.conditions if one.type == "StrayPods"]
    assert "`team/old` names subgroup `removed`, which does not exist" in condition.message
    (built,) = plan.snapshot.gangs
    seen = views.inspect_gang(built)
    assert "it runs on `n` as a leftover, and leaves first (N4)" in plain(views.draw_tree(seen))
    assert views.data(seen)["leftovers"] == ["old"]


def test_a_leftover_is_the_first_victim_whatever_its_gang_is() -> None:
    """N4: before any extra, and also where nothing else of the gang may leave."""
    classes = [priority_class("low", 10), priority_class("high", 90)]
    new = [podgroup(name="new", minMember=1, priorityClassName="high"), pod("new", gang="new", cpu=1)]
    for kind in ("preemptible", "semi-preemptible", "non-preemptible"):
        owner = podgroup(group("a", 1), priorityClassName="low", preemptibility=kind)
        members = [running("a0", "a"), running("a1", "a"), left()]
        plan = muster.plan(muster.objects([node("n", cpu=3), *classes, owner, *members, *new]), now=NOW)
        assert [one.pod for one in plan.evictions] == ["old"], kind


def test_a_leftover_leaves_with_its_stale_gang() -> None:
    """S2, N4: its pods are evicted together, and what leaves before any extra does not stay behind."""
    since = {"annotations": {"kai.scheduler/stale-podgroup-timestamp": "2020-01-01T00:00:00Z"}}
    short = podgroup(group("a", 2))
    short["metadata"] |= since
    plan = muster.plan(muster.objects([node("n"), short, running("a0", "a"), left()]), now=NOW)
    assert [(one.pod, one.reason) for one in plan.evictions] == [("a0", "Stale"), ("old", "Stale")]


def test_a_leftover_stays_where_only_a_surplus_subgroup_is_stale() -> None:
    """S3: that one is released alone."""
    tree = podgroup(group("a", 1), group("b", 2), minSubGroup=1)
    tree["metadata"]["annotations"] = {"muster.dev/stale-subgroups": '{"b": "2020-01-01T00:00:00Z"}'}
    scene = [node("n"), tree, running("a0", "a"), running("b0", "b"), left()]
    assert [one.pod for one in muster.plan(muster.objects(scene), now=NOW).evictions] == ["b0"]


def test_without_a_grace_a_short_gang_is_released_at_once() -> None:
    """S2: it is short since now, and a grace of nothing has passed now."""
    short = podgroup(minMember=2, stalenessGracePeriod="0s")
    plan = muster.plan(muster.objects([node("n"), short, running("a0", "")]), now=NOW)
    assert [one.reason for one in plan.evictions] == ["Stale"]


def test_the_condition_says_which_strays_run() -> None:
    """N4: a leftover is not `never scheduled`: it runs, and leaves first."""
    status = planned(node("n"), TREE, TEAM, running("a0", "a"), left(), pod("new", "removed", cpu=1)).status()
    (message,) = (one.message for one in status.conditions if one.type == "StrayPods")
    assert message == (
        "never scheduled: pod `team/new` names subgroup `removed`, which does not exist; "
        "leftovers that leave first: pod `team/old` names subgroup `removed`, which does not exist"
    )

"""Pods on missing nodes (0010): they count, they pin their group to an unknown domain, and they can be evicted."""

from datetime import datetime
from typing import Any

import muster
from muster.model.snapshot import take
from muster.planning.cycle import plan as make_plan
from muster.reporting.conditions import pod_conditions, scheduled
from muster.reporting.outcome import outcomes
from tests.support.factories import Raw, group, node, pod, podgroup, pods, priority_class, queue, topology

NOW = datetime.fromisoformat("2026-06-01T12:02:00+00:00")
RACKS = topology("topology/zone", "topology/rack")
RACK = {"requiredTopologyLevel": "rack"}
HERE = node("here", zone="z", rack="r1")
THERE = node("there", zone="z", rack="r2")
AWAY = node("away", zone="z", rack="r1")


def planned(*objects: Raw) -> muster.Plan:
    return muster.plan(muster.objects(objects), now=NOW)


def bound(*objects: Raw) -> dict[str, str]:
    """Who is bound where."""
    return {one.pod: one.node for one in planned(*objects).bindings}


def evicted(*objects: Raw) -> list[str]:
    return [f"{one.pod} {one.reason}" for one in planned(*objects).evictions]


def running(name: str, leaf: str = "", on: str = "away", **more: Any) -> Raw:
    return pod(name, leaf, on=on, phase="Running", cpu=1, **more)


def waiting(name: str, leaf: str = "", **more: Any) -> Raw:
    return pod(name, leaf, cpu=1, **more)


# where it could go ----------------------------------------------------------------------------------------------------


def test_a_late_member_waits_while_the_node_of_the_others_is_away() -> None:
    """T3: pinned to their rack, and which one that is is unknown."""
    gang = [podgroup(minMember=1, topologyConstraint=RACK), running("old"), waiting("late")]
    assert bound(RACKS, HERE, THERE, *gang) == {}
    assert bound(RACKS, HERE, THERE, AWAY, *gang)["late"] in ("here", "away")  # the node is back
    assert bound(RACKS, HERE, THERE, *gang[:1], gang[2]) != {}  # the pod is gone


def test_a_core_waits_for_it_too() -> None:
    """The pods that are known do not decide: the rack of the others may be another one by now."""
    gang = [podgroup(minMember=3, topologyConstraint=RACK), running("a"), running("b", on="here"), waiting("late")]
    assert bound(RACKS, HERE, THERE, *gang) == {}
    assert planned(RACKS, HERE, THERE, *gang).verdict("team/gang") == "Waiting"
    assert bound(RACKS, HERE, THERE, AWAY, *gang)["late"] in ("here", "away")


def test_a_requirement_around_it_holds_back_every_group_inside() -> None:
    """T1: all pods of the subtree sit in one domain, further SubGroups included."""
    gang = podgroup(group("a", 1), group("b", 1), minSubGroup=1, topologyConstraint=RACK)
    assert bound(RACKS, HERE, THERE, gang, running("a0", "a"), waiting("b0", "b")) == {}


def test_a_sibling_with_a_rack_of_its_own_goes_on() -> None:
    """M3, G3: a group that cannot be helped blocks no other."""
    parts = (group("a", 1, topologyConstraint=RACK), group("b", 1, topologyConstraint=RACK))
    members = [running("a0", "a"), waiting("a1", "a"), waiting("b0", "b")]
    assert bound(RACKS, HERE, THERE, podgroup(*parts, minSubGroup=1), *members).keys() == {"b0"}


def test_any_other_child_will_do_for_a_core() -> None:
    parts = (group("a", 2, topologyConstraint=RACK), group("b", 1, topologyConstraint=RACK))
    members = [running("a0", "a"), waiting("a1", "a"), waiting("b0", "b")]
    assert bound(RACKS, HERE, THERE, podgroup(*parts, minSubGroup=1), *members).keys() == {"b0"}


def test_without_a_required_level_no_pod_waits() -> None:
    """T2: a preferred level is anchored to the pods that are known."""
    wish = {"preferredTopologyLevel": "rack"}
    members = [running("a"), running("b", on="there"), waiting("late")]
    assert bound(RACKS, HERE, THERE, podgroup(minMember=1), *members).keys() == {"late"}
    assert bound(RACKS, HERE, THERE, podgroup(minMember=1, topologyConstraint=wish), *members) == {"late": "there"}


def test_places_that_were_nominated_are_not_kept_for_a_gang_that_cannot_take_them() -> None:
    """P7: kept until the gang changes; the next gang may have them."""
    promised = waiting("late")
    promised["status"] = {"nominatedNodeName": "here"}
    gang = [podgroup(minMember=2, topologyConstraint=RACK), running("old"), promised]
    other = [podgroup(name="other", minMember=1), pod("other", gang="other", cpu=8)]
    assert bound(RACKS, HERE, *gang, *other) == {"other": "here"}


def test_a_terminating_pod_on_a_missing_node_pins_nothing() -> None:
    """N5: it counts for nothing."""
    gang = [podgroup(minMember=1, topologyConstraint=RACK), running("old", terminating=True), waiting("late")]
    assert bound(RACKS, HERE, THERE, *gang).keys() == {"late"}


# what is said ---------------------------------------------------------------------------------------------------------


def test_the_reason_names_the_pod_and_the_node() -> None:
    """E1: for people and for programs, of a gang that waits and of one that runs without its late member."""
    for minimum, verdict in ((1, "Scheduled"), (2, "Waiting")):
        parts = [podgroup(group("w", minimum, topologyConstraint=RACK)), running("old", "w"), waiting("late", "w")]
        objects = muster.objects([RACKS, HERE, THERE, *parts])
        explanation = muster.explain(objects, "team/gang", now=NOW)
        assert "`w` takes no more pods for now: all must be in one rack" in explanation
        assert "its pod `old` is on node `away`, which does not exist" in explanation
        assert "once node `away` is back or pod `old` is gone" in explanation
        data = muster.plan(objects, now=NOW).to_dict()["podGroups"][0]
        assert (data["verdict"], data["reasons"][0]["reason"], data["reasons"][0]["subGroup"]) == (
            verdict,
            "NodeUnknown",
            "w",
        )
        assert data["reasons"][0]["details"] | {"pod": "old", "node": "away"} == data["reasons"][0]["details"]


def test_the_late_member_has_a_condition_and_the_gang_stays_scheduled() -> None:
    """E3: every minimum is met; the pod that waits learns for what."""
    members = [running("old"), waiting("late")]
    snapshot = take(muster.objects([RACKS, HERE, THERE, podgroup(minMember=1, topologyConstraint=RACK), *members]), NOW)
    outcome = outcomes(snapshot, make_plan(snapshot))["team/gang"]
    assert (scheduled(outcome).status, scheduled(outcome).reason) == ("True", "Scheduled")
    conditions = pod_conditions(outcome, snapshot.objects.pod_groups[0])
    assert conditions.keys() == {"team/late"}
    assert "node `away`, which does not exist" in conditions["team/late"].message


# leaving --------------------------------------------------------------------------------------------------------------


def stale(*groups: Raw, **spec: Any) -> Raw:
    """A gang that has been short for two minutes."""
    raw = podgroup(*groups, **spec)
    since = "2026-06-01T12:00:00Z"
    notes = {"kai.scheduler/stale-podgroup-timestamp": since, "muster.dev/stale-subgroups": f'{{"b": "{since}"}}'}
    raw["metadata"]["annotations"] = notes
    return raw


def test_a_stale_gang_is_released_wherever_its_pods_are() -> None:
    """S2: its pods are evicted together."""
    assert evicted(HERE, stale(minMember=3), running("a"), running("b", on="here")) == ["a Stale", "b Stale"]
    assert evicted(stale(minMember=3), running("a")) == ["a Stale"]


def test_a_stale_subgroup_on_a_missing_node_is_released_alone() -> None:
    """S3."""
    gang = stale(group("a", 1), group("b", 2), minSubGroup=1)
    assert evicted(HERE, gang, running("a0", "a", on="here"), running("b0", "b")) == ["b0 Stale"]


def test_a_gang_with_a_pod_on_a_missing_node_is_nobodys_victim() -> None:
    """What looks like an extra may be all that is left of it tomorrow."""
    classes = [priority_class("low", 10), priority_class("high", 90)]
    new = [podgroup(name="new", minMember=1, priorityClassName="high"), *pods(1, gang="new", cpu=1)]
    old = [podgroup(minMember=1, priorityClassName="low"), running("b", on="small")]
    scene = [node("small", cpu=1), *classes, *new, *old]
    assert evicted(*scene) == ["b Preempt"]
    assert evicted(*scene, running("a")) == []


def test_what_it_holds_counts_against_the_limit_of_its_queue() -> None:
    """Q4: the limit holds when the node is back."""
    held = [podgroup(minMember=1, queue="team"), running("a")]
    new = [podgroup(name="new", minMember=1, queue="team"), waiting("new", gang="new")]
    assert bound(HERE, queue("team", cpu={"quota": 0, "limit": 1000}), *held, *new) == {}
    assert bound(HERE, queue("team", cpu={"quota": 0, "limit": 2000}), *held, *new) == {"new": "here"}

"""What pods wish for without needing it, and what is said where a rule between pods stands in the way (X5, E1)."""

from collections import Counter
from typing import Any

import pytest

import muster
from tests.support.factories import node, pod, podgroup

Raw = dict[str, Any]
HERE = {"matchLabels": {"app": "x"}}


def gpu_node(name: str, gpus: int = 4, **labels: str) -> Raw:
    return node(name, allocatable={"gpu": gpus}, labels={"kubernetes.io/hostname": name, **labels})


def workers(number: int, **spec: Any) -> list[Raw]:
    members = [pod(f"p{i}", gpu=1) for i in range(number)]
    for raw in members:
        raw["metadata"]["labels"]["app"] = "x"
        raw["spec"] |= spec
    return members


def spread(key: str, when: str = "ScheduleAnyway", skew: int = 1) -> Raw:
    rule = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": HERE}
    return {"topologySpreadConstraints": [rule]}


def prefers(**labels: str) -> Raw:
    terms = [
        {"weight": 10 + i, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}}
        for i, (key, value) in enumerate(labels.items())
    ]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def places(*objects: Raw) -> Counter[str]:
    plan = muster.plan(muster.objects(objects))
    assert plan.verdict("team/gang") == "Scheduled"
    return Counter(binding.node for binding in plan.bindings)


def test_pods_go_to_the_nodes_they_prefer() -> None:
    """X5: preferred node affinity as a score; the name or the room of a node would have chosen otherwise."""
    nodes = [gpu_node("a", 2), gpu_node("b", 8, disk="ssd"), gpu_node("c", 2)]
    assert places(*nodes, podgroup(minMember=2), *workers(2, **prefers(disk="ssd"))) == {"b": 2}


def test_the_heavier_wish_wins() -> None:
    """Weights add up per node."""
    nodes = [gpu_node("a", disk="ssd"), gpu_node("b", net="fast"), gpu_node("c", disk="ssd", net="fast")]
    assert places(*nodes, podgroup(), *workers(1, **prefers(disk="ssd", net="fast"))) == {"c": 1}
    assert places(*nodes[:2], podgroup(), *workers(1, **prefers(disk="ssd", net="fast"))) == {"b": 1}


def test_a_preference_that_cannot_be_met_stops_no_pod() -> None:
    """What does not fit on the preferred node goes elsewhere."""
    nodes = [gpu_node("a", 8), gpu_node("b", 3, disk="ssd")]
    assert places(*nodes, podgroup(minMember=5), *workers(5, **prefers(disk="ssd"))) == {"a": 2, "b": 3}


def test_a_preferred_node_draws_a_gang_to_its_rack() -> None:
    """A domain is chosen for what its pods wish, before the tighter one."""
    levels = {"levels": [{"nodeLabel": "rack"}]}
    topology = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t"}, "spec": levels}
    nodes = [gpu_node("a", 2, rack="r1"), gpu_node("b", 8, rack="r2", disk="ssd")]
    gang = podgroup(minMember=2, topologyConstraint={"requiredTopologyLevel": "rack"})
    assert places(topology, *nodes, gang, *workers(2, **prefers(disk="ssd"))) == {"b": 2}
    assert places(topology, *nodes, gang, *workers(2)) == {"a": 2}


def test_pods_are_spread_as_they_wish() -> None:
    """X5: `ScheduleAnyway` as a score."""
    nodes = [gpu_node("a", 4), gpu_node("b", 4), gpu_node("c", 4)]
    assert places(*nodes, podgroup(minMember=3), *workers(3, **spread("kubernetes.io/hostname"))) == dict.fromkeys(
        "abc", 1
    )


@pytest.mark.parametrize(("gpus", "placed"), [((4, 1), {"a": 3, "b": 1}), ((4, 4), {"a": 2, "b": 2})])
def test_a_spread_that_is_only_wished_for_gives_way(gpus: tuple[int, int], placed: Raw) -> None:
    """As even as it can be; `DoNotSchedule` would refuse the first of these."""
    nodes = [gpu_node("a", gpus[0]), gpu_node("b", gpus[1])]
    assert places(*nodes, podgroup(minMember=4), *workers(4, **spread("kubernetes.io/hostname"))) == placed
    strict = muster.plan(
        muster.objects(
            [*nodes, podgroup(minMember=4), *workers(4, **spread("kubernetes.io/hostname", "DoNotSchedule"))]
        )
    )
    assert strict.verdict("team/gang") == ("Infeasible" if gpus[1] == 1 else "Scheduled")


def test_a_rule_between_pods_that_stands_in_the_way_is_named() -> None:
    """E1: the pods would fit; it is the spread that keeps them out."""
    objects = [gpu_node("a", 8, zone="z1"), gpu_node("b", 1, zone="z2"), podgroup(minMember=4)]
    objects += workers(4, **spread("zone", "DoNotSchedule"))
    (reason,) = muster.plan(muster.objects(objects)).to_dict()["podGroups"][0]["reasons"]
    assert reason["reason"] == "RulesBetweenPods"
    assert "4 pods would fit, but not with topology spread over `zone` with maxSkew 1" in reason["message"]
    assert "`minMember: 3` instead of 4 fits now" in reason["message"]


def test_running_pods_that_keep_a_pod_away_are_counted() -> None:
    """E1: how many nodes each kind of rule refuses."""
    term = {"topologyKey": "zone", "labelSelector": HERE}
    guard = pod("guard", gang="", on="a")
    guard["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects = [gpu_node("a", zone="z1"), gpu_node("b", zone="z1"), podgroup(), guard, *workers(1)]
    (reason,) = muster.plan(muster.objects(objects)).to_dict()["podGroups"][0]["reasons"]
    assert (reason["reason"], reason["details"]["refused"]) == ("NoNodeMatches", {"podAntiAffinity": 2})

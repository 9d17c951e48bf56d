"""PodCliqueSets in plans: what becomes of them, and gangs that start after their base (R1, R3)."""

from typing import Any

import pytest

import muster
from muster.api import names
from muster.api.objects import key
from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS, NODES, POD_CLIQUE_SETS, POD_CLIQUES
from muster.errors import Refused
from muster.workloads.types import Raw
from tests.support.grove import clique, group, pod_clique_set

GPU = "nvidia.com/gpu"
LEVELS = {"zone": "topology/zone", "rack": "topology/rack"}


def node(name: str, gpus: int = 8, **labels: str) -> Raw:
    metadata = {"name": name, "labels": {LEVELS[level]: value for level, value in labels.items()}}
    status = {"allocatable": {"cpu": 64, "memory": "512Gi", "pods": 110, GPU: gpus}}
    return {"apiVersion": NODES.api_version, "kind": NODES.kind, "metadata": metadata, "status": status}


def gpus(name: str, replicas: int = 1, minimum: int | None = None, of: int = 8, **template: Any) -> Raw:
    """A clique whose pods take a whole node, or less."""
    container = {"name": "main", "image": "image:1", "resources": {"limits": {GPU: of}}}
    spec = {"podSpec": {"containers": [container], **template.pop("pod", {})}}
    return clique(name, replicas, minimum, spec=spec, **template)


def binding() -> Raw:
    levels = [{"domain": domain, "key": label} for domain, label in LEVELS.items()]
    kind = {"apiVersion": CLUSTER_TOPOLOGY_BINDINGS.api_version, "kind": CLUSTER_TOPOLOGY_BINDINGS.kind}
    return {**kind, "metadata": {"name": "dc"}, "spec": {"levels": levels}}


def two_gangs(**fields: Any) -> Raw:
    """A base gang of two nodes, and a scaled gang of one."""
    return pod_clique_set(gpus("a"), gpus("b"), groups=[group("sg", "b", replicas=2)], **fields)


def plan(*raws: Raw) -> muster.Plan:
    return muster.plan(muster.objects(raws))


def verdicts(decided: muster.Plan) -> dict[str, str]:
    return {gang.gang.name: gang.verdict for gang in decided.decided.gangs}


def nodes(count: int) -> list[Raw]:
    return [node(f"n{i}") for i in range(count)]


def test_a_set_that_is_not_submitted_is_planned_with_its_scaled_gangs() -> None:
    decided = plan(two_gangs(), *nodes(3))
    assert verdicts(decided) == {"w-0": "Scheduled", "w-0-sg-0": "Scheduled"}
    assert len(decided.bindings) == 3
    assert {each.base for each in decided.scaled.values()} == {"team/w-0"}


def test_a_scaled_gang_without_room_waits_alone() -> None:
    decided = plan(two_gangs(), *nodes(2))
    assert verdicts(decided) == {"w-0": "Scheduled", "w-0-sg-0": "Infeasible"}
    assert len(decided.bindings) == 2


def test_a_scaled_gang_stays_gated_while_its_base_has_no_room() -> None:
    """One node is enough for the scaled gang, and it must not take it."""
    decided = plan(two_gangs(), *nodes(1))
    assert verdicts(decided) == {"w-0": "Infeasible", "w-0-sg-0": "Waiting"}
    assert not decided.bindings
    assert not decided.scaled["team/w-0-sg-0"].is_lifted


def test_the_plan_says_of_a_scaled_gang_what_it_starts_after() -> None:
    groups = {group["name"]: group for group in plan(two_gangs(), *nodes(3)).to_dict()["podGroups"]}
    assert groups["w-0-sg-0"]["after"] == {"podGroup": "team/w-0", "isPlanned": True, "nodeSelector": {}}
    assert "after" not in groups["w-0"]


def test_scaled_gangs_are_held_to_the_zone_of_their_base() -> None:
    """The only free node is in another zone: the scaled gang waits, and does not leave the set (R3)."""
    packed = two_gangs(topologyConstraint={"topologyName": "dc", "pack": {"required": "zone"}})
    one_zone = [node("a1", zone="a", rack="1"), node("a2", zone="a", rack="2")]
    decided = plan(packed, binding(), *one_zone, node("b1", zone="b", rack="1"))
    assert verdicts(decided) == {"w-0": "Scheduled", "w-0-sg-0": "Infeasible"}
    assert decided.scaled["team/w-0-sg-0"].pin == {"topology/zone": "a"}
    more = plan(packed, binding(), *one_zone, node("b1", zone="b", rack="1"), node("a3", zone="a", rack="3"))
    assert verdicts(more) == {"w-0": "Scheduled", "w-0-sg-0": "Scheduled"}


def test_what_the_plan_places_first_is_not_moved_for_a_scaled_gang() -> None:
    """No pod is bound and evicted by one plan."""
    decided = plan(two_gangs(replicas=2), *nodes(4))
    assert not decided.evictions
    assert sorted(verdicts(decided).values()) == ["Infeasible", "Infeasible", "Scheduled", "Scheduled"]


def test_pods_that_exist_count_instead_of_future_ones() -> None:
    objects = muster.group(muster.objects([two_gangs()])).objects
    exists = next(pod for pod in objects.pods if pod.metadata.labels[names.POD_CLIQUE] == "w-0-a")
    running: Raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "w-0-a-abcde",
            "namespace": "team",
            "uid": "1",
            "labels": exists.metadata.labels,
            "annotations": exists.metadata.annotations,
        },
        "spec": {"nodeName": "n0", "schedulerName": "muster", "containers": [{"name": "main", "image": "image:1"}]},
        "status": {"phase": "Running"},
    }
    decided = plan(two_gangs(), running, *nodes(3))
    assert len(decided.bindings) == 2
    assert "w-0-a-abcde" not in {binding.pod for binding in decided.bindings}
    assert len(decided.grouped.objects.pods) == 3


def test_a_clique_that_was_scaled_keeps_its_scale() -> None:
    """A PodClique among the objects has been there for some time: the template counts at its creation only."""
    labels = {names.MANAGED_BY: names.GROVE_OPERATOR, names.PART_OF: "w", names.SET_REPLICA: "0", names.POD_GANG: "w-0"}
    owner = {"apiVersion": POD_CLIQUE_SETS.api_version, "kind": "PodCliqueSet", "name": "w", "uid": "w-uid"}
    given = pod_clique_set(gpus("a", 1, 1, of=1))
    container = given["spec"]["template"]["cliques"][0]["spec"]["podSpec"]
    scaled: Raw = {
        "apiVersion": POD_CLIQUES.api_version,
        "kind": POD_CLIQUES.kind,
        "metadata": {
            "name": "w-0-a",
            "namespace": "team",
            "uid": "a-uid",
            "labels": labels,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"roleName": "a", "replicas": 3, "minAvailable": 1, "podSpec": container},
    }
    assert len(plan(given, scaled, *nodes(1)).bindings) == 3


def test_a_binding_brings_its_topology_into_the_plan() -> None:
    topologies = plan(binding(), *nodes(1)).grouped.objects.topologies
    assert [topology.metadata.name for topology in topologies] == ["dc"]


def test_an_invalid_set_is_refused_with_its_problems() -> None:
    with pytest.raises(Refused, match=r"minAvailable: needs 3, but there are 2 replicas"):
        plan(pod_clique_set(clique("a", 2, 3)))


def test_a_set_of_another_scheduler_is_not_planned_and_says_so() -> None:
    decided = plan(pod_clique_set(gpus("a", pod={"schedulerName": "other"})), *nodes(1))
    assert not decided.bindings
    assert "`other`" in muster.explain(
        muster.objects([pod_clique_set(gpus("a", pod={"schedulerName": "other"})), *nodes(1)]), "team/w-0"
    )


def test_equal_manifests_give_equal_plans() -> None:
    assert plan(two_gangs(), *nodes(3)).to_dict() == plan(two_gangs(), *nodes(3)).to_dict()


def test_the_podgroups_of_a_set_are_grouped_by_its_gangs() -> None:
    grouped = muster.group(muster.objects([two_gangs()]))
    assert [(gang.key, gang.rule, dict(gang.pods)) for gang in grouped.pod_groups] == [
        ("team/w-0", "PodGang", {"w-0-a": 1, "w-0-sg-0-b": 1}),
        ("team/w-0-sg-0", "PodGang", {"w-0-sg-1-b": 1}),
    ]
    assert not grouped.ungrouped


def test_a_set_that_is_supposed_is_planned_beside_what_there_is() -> None:
    what_if = muster.what_if(muster.objects(nodes(3)), with_=muster.objects([two_gangs()]))
    assert {gang.gang.key for gang in what_if.after.decided.gangs} == {"team/w-0", "team/w-0-sg-0"}
    assert not what_if.before.decided.gangs
    assert len(what_if.after.bindings) == 3


def test_a_set_that_is_supposed_brings_its_binding() -> None:
    packed = two_gangs(topologyConstraint={"topologyName": "dc", "pack": {"required": "zone"}})
    cluster = [node(f"n{i}", zone="a", rack=str(i)) for i in range(3)]
    what_if = muster.what_if(muster.objects(cluster), with_=muster.objects([packed, binding()]))
    assert {gang.verdict for gang in what_if.after.decided.gangs} == {"Scheduled"}


def test_a_large_set_is_planned_in_one_go() -> None:
    """Five hundred replicas of two pods: a thousand pods, in five hundred gangs."""
    many = pod_clique_set(gpus("a", 2, of=1), replicas=500)
    decided = plan(many, *(node(f"n{i}", gpus=8) for i in range(125)))
    assert len(decided.bindings) == 1000
    assert {key(pod.metadata) for pod in decided.grouped.objects.pods} == {b.key for b in decided.bindings}

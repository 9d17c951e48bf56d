"""The PodGroup of a PodGang: what it takes from the gang and its set, what it keeps, and what it never touches."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import muster
from muster.api import names
from muster.api.resources import (
    CLUSTER_TOPOLOGY_BINDINGS,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
)
from muster.grove.gangs.pod_group_bridge import queue_of
from muster.grove.naming import branch_name
from muster.workloads.types import Create
from tests.support.factories import Raw
from tests.support.gang_scene import RACK, ZONE, GangScene, packed


@pytest.fixture
def scene() -> GangScene:
    scene = GangScene()
    scene.podcliqueset()
    scene.topology()
    return scene


def made(scene: GangScene, cliques: dict[str, int] | None = None, **spec: Any) -> Raw:
    """The PodGroup of a gang whose cliques have all their pods."""
    sizes = cliques or {"w-0-a": 1}
    scene.gang("w-0", sizes, **spec)
    for clique, size in sizes.items():
        scene.pods(clique, *range(size))
    scene.settle()
    group = scene.pod_group("w-0")
    assert group is not None
    return group


# what it takes ------------------------------------------------------------------------------------------------------


def test_it_belongs_to_its_gang_and_has_its_labels(scene: GangScene) -> None:
    group = made(scene)
    gang = scene.named(POD_GANGS, "w-0")
    owner = group["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("PodGang", gang["metadata"]["uid"], True)
    assert group["metadata"]["labels"] == gang["metadata"]["labels"]


def test_it_is_in_the_pool_of_its_set_until_a_user_moves_it(scene: GangScene) -> None:
    """The label names its shard; a PodGroup without one is the default shard's."""
    assert names.NODE_POOL not in made(scene)["metadata"]["labels"]
    moved = GangScene()
    moved.podcliqueset(labels={names.NODE_POOL: "a"})
    moved.topology()
    assert made(moved)["metadata"]["labels"][names.NODE_POOL] == "a"
    moved.change(POD_GROUPS, "w-0", {"metadata": {"labels": {names.NODE_POOL: "b"}}})
    moved.settle()
    assert moved.named(POD_GROUPS, "w-0")["metadata"]["labels"][names.NODE_POOL] == "b"


@pytest.mark.parametrize(
    ("pcs", "queue"),
    [
        ({"metadata": {"labels": {names.QUEUE: "a"}, "annotations": {names.QUEUE: "b"}}}, "a"),
        ({"metadata": {"annotations": {names.QUEUE: "b"}}}, "b"),
        (
            {"spec": {"template": {"cliques": [{"labels": {names.QUEUE: "c"}}, {"annotations": {names.QUEUE: "c"}}]}}},
            "c",
        ),
        ({"spec": {"template": {"cliques": [{"labels": {names.QUEUE: "c"}}, {}]}}}, "c"),
        ({"spec": {"template": {"cliques": [{"labels": {names.QUEUE: "c"}}, {"labels": {names.QUEUE: "d"}}]}}}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_the_queue_is_the_label_then_the_annotation_then_what_the_cliques_share(pcs: Raw | None, queue: str) -> None:
    assert queue_of(pcs) == queue


def test_queue_priority_and_preemptibility_reach_the_podgroup(scene: GangScene) -> None:
    scene.podcliqueset(labels={names.QUEUE: "research", names.PREEMPTIBILITY: "semi-preemptible"})
    spec = made(scene, priorityClassName="inference")["spec"]
    assert spec["queue"] == "research"
    assert spec["priorityClassName"] == "inference"
    assert spec["preemptibility"] == "semi-preemptible"


def test_constraints_stand_where_the_gang_has_them(scene: GangScene) -> None:
    config = {"name": "w-0-sg-0", "podGroupNames": ["w-0-sg-0-b"], **packed(preferred=RACK)}
    spec = made(
        scene,
        {"w-0-a": 1, "w-0-sg-0-b": 1},
        podgroups={"w-0-a": packed(required=RACK)},
        topologyConstraintGroupConfigs=[config],
        **packed(required=ZONE, preferred=RACK),
    )["spec"]
    root = {"topology": "topo", "requiredTopologyLevel": ZONE, "preferredTopologyLevel": RACK}
    assert spec["topologyConstraint"] == root
    assert [part.get("topologyConstraint") for part in spec["subGroups"]] == [
        {"topology": "topo", "preferredTopologyLevel": RACK},
        {"topology": "topo", "requiredTopologyLevel": RACK},
        None,
    ]


def test_a_topology_that_others_keep_is_named_by_their_name(scene: GangScene) -> None:
    bindings = [
        {"schedulerName": "other", "topologyReference": "no"},
        {"schedulerName": "muster", "topologyReference": "theirs"},
    ]
    scene.put(
        CLUSTER_TOPOLOGY_BINDINGS, {"metadata": {"name": "topo"}, "spec": {"schedulerTopologyBindings": bindings}}
    )
    assert made(scene, **packed(required=RACK))["spec"]["topologyConstraint"]["topology"] == "theirs"


def test_a_replica_without_a_constraint_is_no_branch(scene: GangScene) -> None:
    config = {"name": "w-0-sg-0", "podGroupNames": ["w-0-a"]}
    assert made(scene, topologyConstraintGroupConfigs=[config])["spec"]["subGroups"] == [
        {"name": "w-0-a", "minMember": 1}
    ]


def test_a_branch_whose_name_is_that_of_a_clique_gets_another_one(scene: GangScene) -> None:
    config = {"name": "w-0-a", "podGroupNames": ["w-0-a"], **packed(required=RACK)}
    parts = made(scene, topologyConstraintGroupConfigs=[config])["spec"]["subGroups"]
    assert [(part["name"], part.get("parent")) for part in parts] == [("w-0-a-g0", None), ("w-0-a", "w-0-a-g0")]


@given(st.text(max_size=80), st.sets(st.sampled_from(["a", "a-g0", "replica", "x"])))
def test_a_branch_has_a_free_dns_label_as_its_name(name: str, taken: set[str]) -> None:
    chosen = branch_name(name, taken)
    group = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": {"name": "g", "namespace": "n"}}
    spec = {"subGroups": [{"name": chosen, "minSubGroup": 1}, {"name": "leaf", "parent": chosen, "minMember": 1}]}
    assert chosen not in taken
    assert chosen == "leaf" or muster.validate({**group, "spec": spec}) == []


def test_no_rule_refuses_it_or_warns_about_it(scene: GangScene) -> None:
    """Also where a constrained replica is a branch, and children look like different roles."""
    configs = [
        {"name": f"w-0-sg-{n}", "podGroupNames": [f"w-0-sg-{n}-b", f"w-0-sg-{n}-c"], **packed(required=RACK)}
        for n in range(2)
    ]
    cliques = {"w-0-a": 2, **{f"w-0-sg-{n}-{part}": 1 for n in range(2) for part in "bc"}}
    group = made(scene, cliques, topologyConstraintGroupConfigs=configs, **packed(required=ZONE))
    assert muster.validate(group) == []


# scale to zero ------------------------------------------------------------------------------------------------------


def test_a_clique_that_is_scaled_to_zero_has_no_leaf(scene: GangScene) -> None:
    made(scene, {"w-0-a": 1, "w-0-b": 1})
    scene.change(POD_CLIQUES, "w-0-a", {"spec": {"replicas": 0}})
    scene.remove(PODS, "w-0-a-0")
    scene.settle()
    group = scene.pod_group("w-0")
    assert group is not None
    assert group["spec"]["subGroups"] == [{"name": "w-0-b", "minMember": 1}]


def test_pods_that_a_scale_to_zero_has_not_deleted_yet_keep_their_leaf(scene: GangScene) -> None:
    """They would be strays."""
    made(scene, {"w-0-a": 2, "w-0-b": 1})
    scene.change(POD_CLIQUES, "w-0-a", {"spec": {"replicas": 0}})
    scene.settle()
    group = scene.pod_group("w-0")
    assert group is not None
    assert group["spec"]["subGroups"][0] == {"name": "w-0-a", "minMember": 1}


def test_a_gang_of_nothing_has_no_podgroup(scene: GangScene) -> None:
    made(scene)
    scene.change(POD_CLIQUES, "w-0-a", {"spec": {"replicas": 0}})
    scene.remove(PODS, "w-0-a-0")
    scene.settle()
    assert scene.pod_group("w-0") is None
    scene.change(POD_CLIQUES, "w-0-a", {"spec": {"replicas": 1}})
    scene.pods("w-0-a", 1)
    scene.settle()
    assert scene.pod_group("w-0") is not None


# what it keeps ------------------------------------------------------------------------------------------------------


def test_it_follows_its_gang(scene: GangScene) -> None:
    made(scene, **packed(required=RACK, preferred=ZONE))
    entry = {**scene.named(POD_GANGS, "w-0")["spec"]["podgroups"][0], "minReplicas": 3}
    patch = {"podgroups": [entry], "priorityClassName": "high", **packed(required=ZONE)}
    scene.change(POD_GANGS, "w-0", {"spec": {"topologyConstraint": None}})
    scene.change(POD_GANGS, "w-0", {"spec": patch})
    scene.settle()
    group = scene.pod_group("w-0")
    assert group is not None
    assert group["spec"] == {
        "subGroups": [{"name": "w-0-a", "minMember": 3}],
        "priorityClassName": "high",
        "topologyConstraint": {"topology": "topo", "requiredTopologyLevel": ZONE},
    }


def test_what_the_gang_does_not_state_is_kept(scene: GangScene) -> None:
    """The queue that somebody moved it to, a grace period, labels and annotations of others."""
    scene.podcliqueset(labels={names.QUEUE: "research"})
    made(scene)
    theirs = {"metadata": {"labels": {"x": "1"}, "annotations": {"y": "2"}}}
    scene.change(POD_GROUPS, "w-0", {**theirs, "spec": {"queue": "moved", "stalenessGracePeriod": "10m"}})
    scene.change(POD_CLIQUE_SETS, "w", {"metadata": {"labels": {names.QUEUE: "other"}}})
    scene.change(POD_GANGS, "w-0", {"spec": {"priorityClassName": "high"}})
    scene.settle()
    group = scene.pod_group("w-0")
    assert group is not None
    assert (group["spec"]["queue"], group["spec"]["stalenessGracePeriod"]) == ("moved", "10m")
    assert group["spec"]["priorityClassName"] == "high"
    assert (group["metadata"]["labels"]["x"], group["metadata"]["annotations"]["y"]) == ("1", "2")


def grace(scene: GangScene) -> Any:
    return (scene.pod_group("w-0") or {"spec": {}})["spec"].get("stalenessGracePeriod")


def healthy(scene: GangScene, *cliques: str) -> None:
    for name in cliques:
        condition = {"type": "HealthyStateObserved", "status": "True"}
        scene.change(POD_CLIQUES, name, {"status": {"conditions": [condition]}})


def test_a_gang_that_was_healthy_and_falls_short_is_left_to_the_termination_delay(scene: GangScene) -> None:
    """S2 would release it after a minute; a set waits for hours, and an update without nodes terminates nothing."""
    made(scene, {"w-0-a": 2, "w-0-b": 1})
    scene.bind(["w-0-a-0", "w-0-a-1", "w-0-b-0"], ready=True)
    healthy(scene, "w-0-a", "w-0-b")
    scene.settle()
    assert grace(scene) is None, "most gangs need no further write"
    scene.remove(PODS, "w-0-a-0")
    scene.settle()
    assert grace(scene) == "-1s"
    scene.pods("w-0-a", 2)
    scene.bind(["w-0-a-2"])
    scene.settle()
    assert grace(scene) == "-1s", "nor is it written for each pod that an update replaces"
    for pod in ("w-0-a-1", "w-0-a-2", "w-0-b-0"):
        scene.remove(PODS, pod)
    scene.settle()
    assert grace(scene) is None


def test_a_gang_that_was_never_healthy_is_released_as_any_other(scene: GangScene) -> None:
    """A binding that failed in the middle must not hold nodes for ever (G5)."""
    made(scene, {"w-0-a": 2})
    scene.bind(["w-0-a-0"])
    scene.settle()
    assert grace(scene) is None


def test_a_gang_that_started_in_part_is_released_though_one_of_its_cliques_was_healthy(scene: GangScene) -> None:
    """G5: the nodes of what runs are for gangs that fit, as this one never ran as a whole."""
    made(scene, {"w-0-a": 2, "w-0-b": 2})
    scene.bind(["w-0-a-0", "w-0-a-1", "w-0-b-0"], ready=True)
    healthy(scene, "w-0-a")
    scene.settle()
    assert grace(scene) is None
    scene.bind(["w-0-b-1"], ready=True)
    scene.settle()
    scene.remove(PODS, "w-0-b-0")
    scene.settle()
    assert grace(scene) == "-1s", "it was ready as a whole, which is said before its clique says it of itself"


def test_a_grace_period_that_a_user_states_is_kept(scene: GangScene) -> None:
    made(scene, {"w-0-a": 2})
    scene.bind(["w-0-a-0"])
    healthy(scene, "w-0-a")
    scene.change(POD_GROUPS, "w-0", {"spec": {"stalenessGracePeriod": "5m"}})
    scene.settle()
    assert grace(scene) == "5m"


def test_one_that_is_deleted_comes_back(scene: GangScene) -> None:
    made(scene)
    scene.remove(POD_GROUPS, "w-0")
    scene.settle()
    assert scene.pod_group("w-0") is not None


# what it never touches ----------------------------------------------------------------------------------------------


def test_a_podgroup_of_another_owner_is_left_alone_and_said(scene: GangScene) -> None:
    scene.put(POD_GROUPS, {"metadata": {"name": "w-0"}, "spec": {"minMember": 7}})
    scene.gang("w-0", {"w-0-a": 1})
    scene.pods("w-0-a", 0)
    scene.settle()
    assert scene.named(POD_GROUPS, "w-0")["spec"] == {"minMember": 7}
    status, reason, message = scene.condition("w-0", "Scheduled")
    assert (status, reason) == ("False", "PodGroupNameTaken")
    assert "exists and does not belong to this PodGang" in message
    assert scene.gated() == ["w-0-a-0"]
    scene.remove(POD_GROUPS, "w-0")
    scene.settle()
    assert scene.gated() == [], "once the name is free, the gang starts"


@pytest.mark.parametrize("name", ["a" * 64, "w.0", "W-0-a"])
def test_a_clique_whose_name_is_no_dns_label_is_said(scene: GangScene, name: str) -> None:
    scene.gang("w-0", {name: 1})
    scene.pods(name, 0)
    scene.settle()
    assert scene.condition("w-0", "Scheduled")[:2] == ("False", "InvalidName")
    assert not [one for one in scene.performed if isinstance(one, Create)]


def test_a_gang_without_its_set_still_has_a_podgroup(scene: GangScene) -> None:
    scene.remove(POD_CLIQUE_SETS, "w")
    assert "queue" not in made(scene)["spec"]


# what follows it ----------------------------------------------------------------------------------------------------


def followers(scene: GangScene, gang: str = "w-0") -> Any:
    group = scene.pod_group(gang)
    assert group is not None
    stated = group["metadata"]["annotations"].get(names.SCALED_GANGS)
    return None if stated is None else json.loads(stated)


def scaling(groups: dict[str, tuple[int, int]]) -> GangScene:
    scene = GangScene()
    scene.podcliqueset(groups)
    scene.topology()
    labels = {names.PART_OF: "w", names.SET_REPLICA: "0"}
    for name in groups:
        scene.change(POD_CLIQUE_SCALING_GROUPS, f"w-0-{name}", {"metadata": {"labels": labels, "generation": 1}})
    return scene


def test_a_base_says_which_scaled_gangs_are_held_to_its_domain() -> None:
    """R3: the scheduler chooses a domain in which most of them fit."""
    scene = scaling({"b": (4, 1), "c": (3, 2), "d": (2, 2)})
    made(scene, {"w-0-a": 1, "w-0-b-0-b": 1}, **packed(required=ZONE))
    assert followers(scene) == [{"like": ["w-0-b-0-b"], "count": 3}, {"like": ["w-0-c-0-c"], "count": 1}]


@pytest.mark.parametrize("spec", [{}, packed(preferred=RACK)], ids=["nothing", "a preference"])
def test_what_is_held_to_no_domain_is_not_said(spec: Raw) -> None:
    scene = scaling({"b": (4, 1)})
    made(scene, {"w-0-b-0-b": 1}, **spec)
    assert followers(scene) is None


def test_what_follows_is_kept_in_step_until_the_base_is_placed() -> None:
    """A scale of the group is said at once; afterwards nothing depends on it, and a write would be for nothing."""
    scene = scaling({"b": (2, 1)})
    made(scene, {"w-0-b-0-b": 1}, **packed(required=ZONE))

    def scale(replicas: int, generation: int) -> None:
        patch = {"metadata": {"generation": generation}, "spec": {"replicas": replicas}}
        scene.change(POD_CLIQUE_SCALING_GROUPS, "w-0-b", patch)
        scene.settle()

    scale(4, 2)
    assert followers(scene) == [{"like": ["w-0-b-0-b"], "count": 3}]
    scale(1, 3)
    assert followers(scene) is None
    scale(3, 4)
    scene.node("n1")
    scene.bind(["w-0-b-0-b-0"])
    scene.settle()
    scale(5, 5)
    scene.set_ready("w-0-b-0-b-0")
    scene.settle()
    assert followers(scene) == [{"like": ["w-0-b-0-b"], "count": 2}]

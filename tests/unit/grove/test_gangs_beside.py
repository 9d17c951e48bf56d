"""PodGangs of another operator: the PodGroup and the status are ours, references and gates are not."""

import pytest

from muster.api import names
from muster.api.resources import POD_CLIQUES, POD_GANGS, POD_GROUPS, PODS
from muster.grouping.eligibility import is_grouped
from muster.grouping.pod_reader import read_pod
from muster.grove.gangs.gang_controller import bridge_controller
from muster.grove.table import bridge
from muster.workloads.types import Raw, Update
from tests.support.gang_scene import NAMESPACE, RACK, ZONE, GangScene, packed


@pytest.fixture
def scene() -> GangScene:
    scene = GangScene(bridge_controller(["muster", "kai-scheduler"]))
    scene.podcliqueset(labels={names.QUEUE: "research"})
    return scene


def given_gang(scene: GangScene, minimum: int = 2, count: int = 2, *, scheduler: str = "muster") -> list[str]:
    """A gang with pods as Grove's operator makes them: referenced, and without a word about PodGroups."""
    scene.gang("w-0", {"w-0-a": minimum})
    scene.change(POD_CLIQUES, "w-0-a", {"spec": {"podSpec": {"schedulerName": scheduler}}})
    pods = scene.pods("w-0-a", *range(count), schedulerName=scheduler)
    for pod in pods:
        scene.change(PODS, pod, {"metadata": {"annotations": None, "labels": {names.SUBGROUP: None}}})
    refer(scene, pods)
    return pods


def refer(scene: GangScene, pods: list[str], gang: str = "w-0") -> None:
    entry = scene.named(POD_GANGS, gang)["spec"]["podgroups"][0]
    references = [{"namespace": "team", "name": pod} for pod in pods]
    scene.change(POD_GANGS, gang, {"spec": {"podgroups": [{**entry, "podReferences": references}]}})
    scene.settle()


def metadata(scene: GangScene, pod: str) -> Raw:
    raw: Raw = scene.named(PODS, pod)["metadata"]
    return raw


def test_pods_are_given_their_podgroup_and_leaf_by_one_patch_each(scene: GangScene) -> None:
    pods = given_gang(scene)
    for pod in pods:
        meta = metadata(scene, pod)
        assert meta["annotations"] == {names.POD_GROUP: "w-0", names.SKIP_GROUPING: "true"}
        assert meta["labels"][names.SUBGROUP] == "w-0-a"
    patches = [one for one in scene.performed if isinstance(one, Update) and one.resource == PODS]
    assert len(patches) == len(pods)


def test_the_podgroup_is_made_when_references_cover_every_minimum(scene: GangScene) -> None:
    pods = given_gang(scene, minimum=3, count=2)
    assert scene.pod_group("w-0") is None
    refer(scene, [*pods, *scene.pods("w-0-a", 2)])
    group = scene.pod_group("w-0")
    assert group is not None
    assert group["spec"] == {"queue": "research", "subGroups": [{"name": "w-0-a", "minMember": 3}]}


def test_the_podgroup_is_made_when_the_operator_says_that_the_gang_is_initialized(scene: GangScene) -> None:
    given_gang(scene, minimum=3, count=2)
    condition = {"type": "Initialized", "status": "True", "reason": "PodGangPodsCreated"}
    scene.change(POD_GANGS, "w-0", {"status": {"conditions": [condition]}})
    scene.settle()
    assert scene.pod_group("w-0") is not None


def test_gates_references_and_initialized_are_left_to_the_operator(scene: GangScene) -> None:
    pods = given_gang(scene)
    before = scene.named(POD_GANGS, "w-0")["spec"]
    scene.pods("w-0-a", 7)
    scene.settle()
    scene.advance(60)
    assert scene.gated() == [*pods, "w-0-a-7"]
    assert scene.named(POD_GANGS, "w-0")["spec"] == before
    assert scene.condition("w-0", "Initialized") == ("", "", "")
    assert all(names.WAITS_FOR not in metadata(scene, pod)["annotations"] for pod in pods)


def test_the_status_is_written(scene: GangScene) -> None:
    pods = given_gang(scene)
    scene.bind(pods, ready=True)
    scene.settle()
    status = scene.named(POD_GANGS, "w-0")["status"]
    assert (status["phase"], status["placementScore"]) == ("Running", 1.0)
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "Scheduled": "True",
        "Ready": "True",
        "Unhealthy": "False",
        "DisruptionTarget": "False",
    }


def test_only_pods_that_the_gang_references_count(scene: GangScene) -> None:
    pods = given_gang(scene)
    scene.bind([pods[0], *scene.pods("w-0-a", 7)])
    scene.settle()
    assert scene.condition("w-0", "Scheduled")[0] == "False"


def test_gangs_of_other_schedulers_are_left_alone(scene: GangScene) -> None:
    pods = given_gang(scene, scheduler="default-scheduler")
    scene.bind(pods, ready=True)
    scene.settle()
    assert scene.performed == []
    assert "status" not in scene.named(POD_GANGS, "w-0")


def test_a_second_name_of_ours_counts(scene: GangScene) -> None:
    given_gang(scene, scheduler="kai-scheduler")
    assert scene.pod_group("w-0") is not None


def test_a_podgroup_that_the_operator_made_is_never_written(scene: GangScene) -> None:
    """Grove's own backend for KAI makes one as well: two writers would undo each other."""
    gang = scene.gang("w-0", {"w-0-a": 2})
    owner = {"apiVersion": POD_GANGS.api_version, "kind": "PodGang", "name": "w-0", "uid": gang["metadata"]["uid"]}
    spec = {"minMember": 2, "queue": "theirs", "subGroups": [{"name": "w-0-a", "minMember": 9}]}
    metadata = {"name": "w-0", "ownerReferences": [{**owner, "controller": True}]}
    scene.put(POD_GROUPS, {"metadata": metadata, "spec": spec})
    given_gang(scene)
    assert scene.named(POD_GROUPS, "w-0")["spec"] == spec


def test_a_pod_that_joined_another_podgroup_stays_there(scene: GangScene) -> None:
    """And no PodGroup is made for a gang of such pods."""
    scene.gang("w-0", {"w-0-a": 1})
    pods = scene.pods("w-0-a", 0)
    theirs = {"annotations": {names.POD_GROUP: "other"}, "labels": {names.SUBGROUP: "part"}}
    scene.change(PODS, pods[0], {"metadata": theirs})
    refer(scene, pods)
    assert metadata(scene, pods[0])["annotations"] == theirs["annotations"]
    assert scene.pod_group("w-0") is None
    refer(scene, [*pods, *scene.pods("w-0-a", 1)])
    assert scene.pod_group("w-0") is not None
    assert metadata(scene, pods[0])["labels"][names.SUBGROUP] == "part"


def test_the_grouper_leaves_pods_of_gangs_alone(scene: GangScene) -> None:
    """Also before they are given their PodGroup."""
    scene.gang("w-0", {"w-0-a": 1})
    scene.pods("w-0-a", 0)
    scene.change(PODS, "w-0-a-0", {"metadata": {"annotations": None}})
    pod = scene.named(PODS, "w-0-a-0")
    assert not is_grouped(read_pod(pod), ["muster"])
    plain = {**pod, "metadata": {**pod["metadata"], "labels": {}}}
    assert is_grouped(read_pod(plain), ["muster"])


def test_beside_another_operator_only_podgangs_have_a_controller() -> None:
    assert [*bridge(["muster"])] == [POD_GANGS]


# one domain for all gangs -------------------------------------------------------------------------------------------


def given_scaled_gang(scene: GangScene, *, required: str = RACK) -> list[str]:
    """A base gang that waits and a scaled gang, labelled as Grove's operator does: only pods name their base."""
    scene.podcliqueset({"sg": (2, 1)})
    scene.topology()
    scene.node("n1", rack="r1")
    scene.node("n2", rack="r2")
    scene.gang("w-0", {"w-0-a": 2}, **packed(required=required))
    scene.gang("w-0-sg-0", {"w-0-sg-1-b": 2}, base="w-0")
    for gang in ("w-0", "w-0-sg-0"):
        removed = {names.BASE_POD_GANG: None, names.SET_REPLICA: None}
        scene.change(POD_GANGS, gang, {"metadata": {"labels": removed}})
    pods = scene.pods("w-0-a", 0, 1, gated=False)
    refer(scene, pods)
    refer(scene, scene.pods("w-0-sg-1-b", 0, 1), "w-0-sg-0")
    return pods


def test_gated_pods_of_a_scaled_gang_are_pinned_when_their_base_is_bound(scene: GangScene) -> None:
    """R3, before the other operator lifts their gates, and by no status."""
    pods = given_scaled_gang(scene)
    scene.bind(pods[:1], "n2")
    scene.settle()
    assert "nodeSelector" not in scene.named(PODS, "w-0-sg-1-b-0")["spec"]
    scene.bind(pods[1:], "n2")
    scene.settle()
    for pod in ("w-0-sg-1-b-0", "w-0-sg-1-b-1"):
        assert scene.named(PODS, pod)["spec"]["nodeSelector"] == {ZONE: "z1", RACK: "r2"}
    assert len(scene.gated()) == 2, "gates are the other operator's"
    assert scene.condition("w-0-sg-0", "Pinned")[:2] == ("True", "InDomainOfBase")
    before = len(scene.performed)
    scene.reconcile((POD_GANGS, NAMESPACE, "w-0-sg-0"))
    assert len(scene.performed) == before


def test_a_pod_that_is_freed_before_it_is_pinned_is_said(scene: GangScene) -> None:
    """Kubernetes lets a node selector change only while a pod is gated."""
    pods = given_scaled_gang(scene)
    scene.change(PODS, "w-0-sg-1-b-0", {"spec": {"schedulingGates": None}})
    scene.bind(pods, "n1")
    scene.settle()
    assert scene.condition("w-0-sg-0", "Pinned")[:2] == ("False", "GateLiftedFirst")
    scene.bind(["w-0-sg-1-b-0"], "n1")
    scene.settle()
    assert scene.condition("w-0-sg-0", "Pinned")[0] == "True", "it is where the base is"


def test_without_a_level_that_holds_for_all_nothing_is_pinned(scene: GangScene) -> None:
    pods = given_scaled_gang(scene, required="")
    scene.bind(pods, "n1")
    scene.settle()
    assert "nodeSelector" not in scene.named(PODS, "w-0-sg-1-b-0")["spec"]
    assert scene.condition("w-0-sg-0", "Pinned") == ("", "", "")

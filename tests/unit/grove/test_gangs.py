"""The controller of PodGangs: references, gates, pins, what pods say while they wait, and which changes matter."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import names
from muster.api.resources import (
    NODES,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    TOPOLOGIES,
)
from muster.grove.gangs import concerned_gangs, gang_controller, gates
from muster.workloads.merge_patch import merged
from muster.workloads.types import Create, Raw, Remove, Update
from tests.support.gang_scene import NAMESPACE, RACK, ZONE, GangScene, packed


@pytest.fixture
def scene() -> GangScene:
    scene = GangScene()
    scene.podcliqueset({"sg": (2, 1)})
    scene.topology()
    scene.node("n1", rack="r1")
    scene.node("n2", rack="r2")
    return scene


def started(scene: GangScene, on: str = "n1", **spec: Any) -> list[str]:
    """A base gang of two pods that is scheduled, and a scaled gang of one clique that has no pods yet."""
    scene.gang("w-0", {"w-0-a": 2}, **spec)
    scene.gang("w-0-sg-0", {"w-0-sg-1-b": 2}, base="w-0")
    pods = scene.pods("w-0-a", 0, 1)
    scene.settle()
    scene.bind(pods, on)
    scene.settle()
    return pods


def references(scene: GangScene, gang: str = "w-0") -> list[list[str]]:
    entries = scene.named(POD_GANGS, gang)["spec"]["podgroups"]
    return [[reference["name"] for reference in entry["podReferences"]] for entry in entries]


# references ---------------------------------------------------------------------------------------------------------


def test_references_are_live_pods_sorted_by_name(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 2})
    scene.pods("w-0-a", 3, 1, 2, 0)
    scene.terminate("w-0-a-1")
    scene.change(PODS, "w-0-a-2", {"status": {"phase": "Failed"}})
    scene.settle()
    assert references(scene) == [["w-0-a-0", "w-0-a-3"]]


def test_references_follow_pods_that_come_and_go(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 1})
    scene.pods("w-0-a", 0)
    scene.settle()
    scene.remove(PODS, "w-0-a-0")
    scene.settle()
    assert references(scene) == [[]]
    scene.pods("w-0-a", 1)
    scene.settle()
    assert references(scene) == [["w-0-a-1"]]


def test_the_structure_of_a_gang_stays_as_the_set_wrote_it(scene: GangScene) -> None:
    extra = {"w-0-a": packed(preferred=RACK) | {"unknown": "kept"}}
    before = copy.deepcopy(scene.gang("w-0", {"w-0-a": 1, "w-0-b": 1}, podgroups=extra))["spec"]
    scene.pods("w-0-a", 0)
    scene.pods("w-0-b", 0)
    scene.settle()
    after = copy.deepcopy(scene.named(POD_GANGS, "w-0")["spec"])
    for entry in (*before["podgroups"], *after["podgroups"]):
        del entry["podReferences"]
    assert after == before


def test_references_are_written_on_the_version_that_they_were_made_from(scene: GangScene) -> None:
    """A structure that changed meanwhile is not overwritten: the API server answers with a conflict."""
    gang = scene.gang("w-0", {"w-0-a": 1})
    scene.pods("w-0-a", 0)
    gang["metadata"]["resourceVersion"] = "17"
    actions = gang_controller.reconcile(gang, scene, scene.now).actions
    patches = [one.patch for one in actions if isinstance(one, Update) and one.resource == POD_GANGS]
    assert [patch["metadata"] for patch in patches] == [{"resourceVersion": "17"}]


def test_a_gang_whose_pods_come_together_is_written_once(scene: GangScene) -> None:
    """Pod by pod it would be a write a pod, and a status each."""
    scene.gang("w-0", {"w-0-a": 20})
    for number in range(20):
        scene.pods("w-0-a", number)
        scene.settle()
    writes = [one for one in scene.performed if isinstance(one, Update) and one.resource == POD_GANGS]
    assert len(writes) == 1
    assert scene.condition("w-0", "Initialized")[0] == "True"


def test_a_gang_whose_pods_do_not_come_says_so(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 2})
    scene.pods("w-0-a", 0)
    scene.settle()
    scene.advance(3)
    assert references(scene) == [["w-0-a-0"]]
    message = "PodClique `w-0-a` has fewer pods than its minimum of 2"
    assert scene.condition("w-0", "Initialized") == ("False", "PodGangPodsCreationPending", message)
    assert scene.condition("w-0", "Scheduled") == ("False", "PodGangPodsCreationPending", message)
    assert scene.pod_group("w-0") is None


def test_a_gang_is_initialized_when_all_pods_exist_and_stays_so(scene: GangScene) -> None:
    """Extras count, as in Grove; the PodGroup is made before, as soon as every minimum is covered."""
    scene.gang("w-0", {"w-0-a": 1})
    scene.change(POD_CLIQUES, "w-0-a", {"spec": {"replicas": 3}})
    scene.pods("w-0-a", 0, 1)
    scene.settle()
    assert scene.condition("w-0", "Initialized")[0] == "False"
    assert scene.pod_group("w-0") is not None
    scene.pods("w-0-a", 2)
    scene.settle()
    assert scene.condition("w-0", "Initialized")[:2] == ("True", "PodGangPodsCreated")
    scene.remove(PODS, "w-0-a-1")
    scene.settle()
    assert scene.condition("w-0", "Initialized")[0] == "True"


def test_what_is_in_step_is_not_written_again(scene: GangScene) -> None:
    started(scene, **packed(required=RACK))
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    for gang in ("w-0", "w-0-sg-0"):
        again = scene.reconcile((POD_GANGS, NAMESPACE, gang))
        assert again.actions == ()
        assert again.status == scene.named(POD_GANGS, gang)["status"]


def test_a_gang_that_is_being_deleted_is_left_alone(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 1})
    scene.pods("w-0-a", 0)
    scene.change(POD_GANGS, "w-0", {"metadata": {"deletionTimestamp": "2026-05-04T12:00:00Z"}})
    scene.settle()
    assert scene.performed == []


# gates --------------------------------------------------------------------------------------------------------------


def test_the_podgroup_exists_before_any_gate_is_lifted(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 2})
    scene.pods("w-0-a", 0, 1)
    scene.settle()
    kinds = [(type(one), one.resource) for one in scene.performed]
    assert kinds == [(Update, POD_GANGS), (Create, POD_GROUPS), (Update, PODS), (Update, PODS)]


def test_gates_of_a_large_gang_are_lifted_in_bursts(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 1500})
    scene.pods("w-0-a", *range(1500))
    first = scene.reconcile((POD_GANGS, NAMESPACE, "w-0"))
    assert (len(first.actions), first.again_after_seconds) == (1500, 0.0)
    scene.settle()
    assert scene.gated() == []


def test_a_patch_of_a_pod_names_its_uid(scene: GangScene) -> None:
    """Another pod of the same name does not lose its gate."""
    scene.gang("w-0", {"w-0-a": 1})
    scene.pods("w-0-a", 0)
    scene.settle()
    uid = scene.named(PODS, "w-0-a-0")["metadata"]["uid"]
    patches = [one.patch for one in scene.performed if isinstance(one, Update) and one.resource == PODS]
    assert [patch["metadata"]["uid"] for patch in patches] == [uid]


def test_a_clique_that_is_scaled_to_zero_holds_up_no_other(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 2, "w-0-b": 1})
    scene.pods("w-0-b", 0)
    scene.change(POD_CLIQUES, "w-0-a", {"spec": {"replicas": 0}})
    scene.settle()
    assert scene.gated() == []


def test_a_clique_that_is_scaled_below_its_minimum_is_explained(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 3})
    scene.change(POD_CLIQUES, "w-0-a", {"spec": {"replicas": 2}})
    scene.pods("w-0-a", 0, 1)
    scene.settle()
    scene.advance(3)
    status, reason, message = scene.condition("w-0", "Scheduled")
    assert (status, reason) == ("False", "ScaledBelowMinimum")
    assert message.endswith("is scaled to 2, below its minimum of 3: scale it to 0, or to 3 and more")


def test_a_base_that_is_gone_is_waited_for(scene: GangScene) -> None:
    scene.gang("w-0-sg-0", {"w-0-sg-1-b": 1}, base="w-0")
    scene.pods("w-0-sg-1-b", 0)
    scene.settle()
    assert scene.condition("w-0-sg-0", "Scheduled") == (
        "False",
        "BasePodGangNotScheduled",
        "base PodGang `w-0` does not exist yet",
    )


def test_a_status_of_the_base_that_is_behind_frees_nothing(scene: GangScene) -> None:
    """Its pods are counted: a base that says it is scheduled and has just lost a pod is not."""
    pods = started(scene)
    scene.terminate(pods[0])
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.reconcile((POD_GANGS, NAMESPACE, "w-0-sg-0"))
    assert scene.condition("w-0", "Scheduled")[0] == "True"
    assert scene.gated() == ["w-0-sg-1-b-0", "w-0-sg-1-b-1"]


def test_a_base_whose_status_is_not_written_yet_frees_its_scaled_gangs(scene: GangScene) -> None:
    """Statuses are written behind all else, and may be seconds late."""
    pods = started(scene)
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.change(POD_GANGS, "w-0", {"status": None})
    scene.reconcile((POD_GANGS, NAMESPACE, "w-0-sg-0"))
    assert scene.condition("w-0", "Scheduled")[0] != "True", pods
    assert scene.gated() == []


def test_pods_of_the_base_that_wait_count_for_nothing(scene: GangScene) -> None:
    """A pod of the base was replaced, and its status does not say so yet."""
    pods = started(scene)
    scene.remove(PODS, pods[0])
    scene.pods("w-0-a", 2, gated=False)
    entry = scene.named(POD_GANGS, "w-0")["spec"]["podgroups"][0]
    names_now = [{"namespace": NAMESPACE, "name": name} for name in ("w-0-a-1", "w-0-a-2")]
    scene.change(POD_GANGS, "w-0", {"spec": {"podgroups": [{**entry, "podReferences": names_now}]}})
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.reconcile((POD_GANGS, NAMESPACE, "w-0-sg-0"))
    assert scene.gated() == ["w-0-sg-1-b-0", "w-0-sg-1-b-1"]


# pods of a PodClique that was deleted -------------------------------------------------------------------------------


def recreate(scene: GangScene, clique: str, gang: str, minimum: int, **base: str) -> None:
    """A clique is deleted and made again; the garbage collector has not found its pods yet."""
    scene.remove(POD_CLIQUES, clique)
    scene.clique(clique, gang, minimum, **base)


def test_scheduled_pods_of_a_deleted_clique_of_the_base_free_no_scaled_gang(scene: GangScene) -> None:
    """The base still references them, and they run until they are collected."""
    started(scene)
    recreate(scene, "w-0-a", "w-0", 2)
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.reconcile((POD_GANGS, NAMESPACE, "w-0-sg-0"))
    assert scene.gated() == ["w-0-sg-1-b-0", "w-0-sg-1-b-1"]
    assert scene.condition("w-0-sg-0", "Scheduled")[1] == "BasePodGangNotScheduled"


def test_a_clique_of_the_base_that_is_being_deleted_frees_no_scaled_gang(scene: GangScene) -> None:
    started(scene)
    scene.change(POD_CLIQUES, "w-0-a", {"metadata": {"deletionTimestamp": "2026-05-04T12:00:00Z"}})
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    assert scene.gated() == ["w-0-sg-1-b-0", "w-0-sg-1-b-1"]
    assert scene.condition("w-0", "Scheduled")[0] == "False"


def test_gates_stay_while_pods_of_a_deleted_clique_are_members_of_the_gang(scene: GangScene) -> None:
    """The scheduler counts members of a gang: new pods would be extras beside those that are about to go."""
    old = started(scene)
    recreate(scene, "w-0-a", "w-0", 2)
    new = scene.pods("w-0-a", 2, 3)
    scene.settle()
    assert references(scene) == [new]
    assert scene.gated() == new
    says = "pods of PodClique `w-0-a`, which was deleted, are still there"
    assert scene.condition("w-0", "Scheduled") == ("False", "PodsOfDeletedPodClique", says)
    scene.terminate(old[0])
    scene.settle()
    assert scene.gated() == new
    scene.terminate(old[1])
    scene.settle()
    assert scene.gated() == []


@pytest.mark.parametrize("patch", [{"status": {"phase": "Failed"}}, {"metadata": {"namespace": "other"}}])
def test_pods_of_a_deleted_clique_that_do_not_count_hold_up_nothing(scene: GangScene, patch: Raw) -> None:
    scene.gang("w-0", {"w-0-a": 1})
    old = scene.pods("w-0-a", 0, gated=not patch.get("status"))
    recreate(scene, "w-0-a", "w-0", 1)
    scene.objects[PODS, NAMESPACE, old[0]] = merged(scene.named(PODS, old[0]), patch)
    scene.pods("w-0-a", 1)
    scene.settle()
    assert "w-0-a-1" not in scene.gated()


# what pods say ------------------------------------------------------------------------------------------------------


def said(scene: GangScene, pod: str) -> str | None:
    text: str | None = scene.named(PODS, pod)["metadata"]["annotations"].get(names.WAITS_FOR)
    return text


def test_pods_that_wait_say_what_for_once_a_start_would_be_over(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 1})
    scene.gang("w-0-sg-0", {"w-0-sg-1-b": 2}, base="w-0")
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    assert said(scene, "w-0-sg-1-b-0") is None
    scene.advance(gates.SAID_AFTER_SECONDS)
    assert said(scene, "w-0-sg-1-b-0") == said(scene, "w-0-sg-1-b-1") == "base PodGang `w-0` is not scheduled yet"
    written = len(scene.performed)
    scene.advance(60)
    assert len(scene.performed) == written, "it is said once"


def test_a_pod_that_is_freed_says_nothing_any_more(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 1})
    scene.gang("w-0-sg-0", {"w-0-sg-1-b": 1}, base="w-0")
    scene.pods("w-0-sg-1-b", 0)
    scene.settle()
    scene.advance(11)
    scene.pods("w-0-a", 0)
    scene.settle()
    scene.bind(["w-0-a-0"])
    scene.settle()
    assert scene.gated() == []
    assert said(scene, "w-0-sg-1-b-0") is None


def test_a_gang_that_starts_in_time_costs_one_write_a_pod(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 5})
    scene.pods("w-0-a", *range(5))
    scene.settle()
    scene.advance(100)
    assert sum(isinstance(one, Update) and one.resource == PODS for one in scene.performed) == 5


# pins ---------------------------------------------------------------------------------------------------------------


def test_a_pin_has_every_level_down_to_the_required_one(scene: GangScene) -> None:
    """A rack of the same name in another zone is another rack."""
    started(scene, on="n2", **packed(required=RACK))
    scene.pods("w-0-sg-1-b", 0, 1, nodeSelector={"disk": "fast"})
    scene.settle()
    assert scene.named(PODS, "w-0-sg-1-b-0")["spec"]["nodeSelector"] == {"disk": "fast", ZONE: "z1", RACK: "r2"}


def test_a_pin_stops_at_the_required_level(scene: GangScene) -> None:
    started(scene, on="n2", **packed(required=ZONE))
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    assert scene.named(PODS, "w-0-sg-1-b-0")["spec"]["nodeSelector"] == {ZONE: "z1"}


def test_a_selector_that_excludes_the_domain_is_explained_and_holds_the_gang(scene: GangScene) -> None:
    started(scene, **packed(required=RACK))
    scene.pods("w-0-sg-1-b", 0, 1, nodeSelector={RACK: "r2"})
    scene.settle()
    status, reason, message = scene.condition("w-0-sg-0", "Scheduled")
    assert (status, reason) == ("False", "NodeSelectorConflict")
    assert "wants `example.com/rack=r2`, and the base PodGang is in `r1`" in message
    assert len(scene.gated()) == 2


def test_a_base_on_nodes_without_the_labels_is_explained(scene: GangScene) -> None:
    scene.put(NODES, {"metadata": {"name": "bare", "labels": {}}})
    started(scene, on="bare", **packed(required=RACK))
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    assert scene.condition("w-0-sg-0", "Scheduled")[1] == "BaseDomainUnknown"
    assert len(scene.gated()) == 2
    scene.node("bare", rack="r9")
    scene.advance(gang_controller.LOOK_AGAIN_SECONDS)
    assert scene.gated() == [], "labels that come later are seen"


def test_a_missing_topology_is_explained(scene: GangScene) -> None:
    started(scene, **packed(required=RACK))
    scene.remove(TOPOLOGIES, "topo")
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    assert scene.condition("w-0-sg-0", "Scheduled")[1:] == (
        "TopologyNotFound",
        "Topology `topo` does not exist, or has no level `example.com/rack`",
    )


def test_a_base_that_has_moved_in_part_moves_no_other(scene: GangScene) -> None:
    """It may come back: only a base that is scheduled has a domain."""
    old = started(scene, **packed(required=RACK))
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    scene.bind(["w-0-sg-1-b-0", "w-0-sg-1-b-1"], "n1")
    for pod in old:
        scene.remove(PODS, pod)
    new = scene.pods("w-0-a", 2, 3)
    scene.settle()
    scene.bind(new[:1], "n2")
    scene.change(PODS, "w-0-sg-1-b-0", {"metadata": {"annotations": {"touched": "1"}}})
    scene.settle()
    assert "w-0-sg-1-b-0" in {pod["metadata"]["name"] for pod in scene.all_of(PODS)}


def test_a_pin_stays_while_a_pod_of_the_base_is_inside(scene: GangScene) -> None:
    """The base is in two racks, as labels or nodes changed: its first pod alone does not say where it is."""
    started(scene, **packed(required=RACK))
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    scene.bind(["w-0-sg-1-b-0", "w-0-sg-1-b-1"], "n1")
    scene.change(PODS, "w-0-a-0", {"spec": {"nodeName": "n2"}})
    scene.settle()
    scene.reconcile((POD_GANGS, NAMESPACE, "w-0-sg-0"))
    assert not [one for one in scene.performed if isinstance(one, Remove)]
    scene.remove(PODS, "w-0-sg-1-b-1")
    scene.pods("w-0-sg-1-b", 2)
    scene.settle()
    assert scene.named(PODS, "w-0-sg-1-b-2")["spec"]["nodeSelector"][RACK] == "r1", "new pods join those of their gang"


def test_pods_pinned_to_a_domain_that_the_base_left_are_deleted(scene: GangScene) -> None:
    old = started(scene, **packed(required=RACK))
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    scene.bind(["w-0-sg-1-b-0", "w-0-sg-1-b-1"], "n1")
    for pod in old:
        scene.remove(PODS, pod)
    new = scene.pods("w-0-a", 2, 3)
    scene.settle()
    scene.bind(new, "n2")
    scene.settle()
    scene.reconcile((POD_GANGS, NAMESPACE, "w-0-sg-0"))
    assert [one.name for one in scene.performed if isinstance(one, Remove)] == ["w-0-sg-1-b-0", "w-0-sg-1-b-1"]


def test_a_pod_whose_own_selector_holds_it_is_not_deleted(scene: GangScene) -> None:
    """Its replacement would have the same selector, and would not be freed."""
    old = started(scene, **packed(required=RACK))
    scene.pods("w-0-sg-1-b", 0, 1, nodeSelector={ZONE: "z1", RACK: "r1"})
    scene.settle()
    scene.bind(["w-0-sg-1-b-0", "w-0-sg-1-b-1"], "n1")
    for pod in old:
        scene.remove(PODS, pod)
    new = scene.pods("w-0-a", 2, 3)
    scene.settle()
    scene.bind(new, "n2")
    scene.settle()
    scene.reconcile((POD_GANGS, NAMESPACE, "w-0-sg-0"))
    assert not [one for one in scene.performed if isinstance(one, Remove)]


def test_labels_of_nodes_that_are_renamed_delete_nothing(scene: GangScene) -> None:
    """The pods are where the base is, whatever that place is called now."""
    started(scene, **packed(required=RACK))
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    scene.bind(["w-0-sg-1-b-0", "w-0-sg-1-b-1"], "n1")
    scene.node("n1", rack="row-4-rack-1")
    scene.settle()
    scene.reconcile((POD_GANGS, NAMESPACE, "w-0-sg-0"))
    assert not [one for one in scene.performed if isinstance(one, Remove)]


def test_pods_of_a_manifest_that_has_no_nodes_are_freed_without_a_pin(scene: GangScene) -> None:
    """A plan on a manifest counts pods as running before any is placed."""
    scene.gang("w-0", {"w-0-a": 1}, **packed(required=RACK))
    scene.gang("w-0-sg-0", {"w-0-sg-1-b": 1}, base="w-0")
    scene.pods("w-0-a", 0)
    scene.pods("w-0-sg-1-b", 0)
    scene.change(PODS, "w-0-a-0", {"status": {"phase": "Running"}})
    scene.settle()
    assert scene.gated() == []


# which changes concern which gangs ----------------------------------------------------------------------------------


def test_a_pod_and_a_clique_concern_the_gang_that_they_name(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 1})
    scene.pods("w-0-a", 0)
    for resource, name in ((PODS, "w-0-a-0"), (POD_CLIQUES, "w-0-a")):
        assert [*concerned_gangs.related(resource, scene.named(resource, name), scene)] == [(NAMESPACE, "w-0")]


def test_other_pods_nodes_and_sets_concern_no_gang(scene: GangScene) -> None:
    scene.put(PODS, {"metadata": {"name": "other"}, "spec": {}, "status": {}})
    for resource, name in ((PODS, "other"), (NODES, "n1"), (POD_CLIQUE_SETS, "w"), (TOPOLOGIES, "topo")):
        assert [*concerned_gangs.related(resource, scene.named(resource, name), scene)] == []


def with_scaled_gangs(scene: GangScene, count: int, minimum: int = 1) -> None:
    """The scaling group `sg` with so many scaled gangs of one pod each."""
    scene.change(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", {"spec": {"replicas": minimum + count, "minAvailable": minimum}})
    for number in range(count):
        scene.gang(f"w-0-sg-{number}", {f"w-0-sg-{number + minimum}-b": 1}, base="w-0")
        scene.pods(f"w-0-sg-{number + minimum}-b", 0)


def concerned(scene: GangScene, pod: str) -> list[str]:
    return [name for _, name in concerned_gangs.related(PODS, scene.named(PODS, pod), scene)]


def test_a_base_that_says_it_is_scheduled_concerns_those_that_are_not(scene: GangScene) -> None:
    with_scaled_gangs(scene, 2, minimum=2)
    scene.gang("w-0", {"w-0-a": 1})
    scene.pods("w-0-a", 0)
    scene.settle()
    assert [*concerned_gangs.related(POD_GANGS, scene.named(POD_GANGS, "w-0"), scene)] == []
    scene.bind(["w-0-a-0"])
    scene.settle()
    base = scene.named(POD_GANGS, "w-0")
    assert [*concerned_gangs.related(POD_GANGS, base, scene)] == [(NAMESPACE, "w-0-sg-0"), (NAMESPACE, "w-0-sg-1")]
    scene.bind(["w-0-sg-2-b-0", "w-0-sg-3-b-0"])
    scene.settle()
    assert [*concerned_gangs.related(POD_GANGS, base, scene)] == [], "what is scheduled does not wait for its base"


def test_the_last_pod_that_a_base_needs_concerns_its_scaled_gangs(scene: GangScene) -> None:
    """When it gets a node, and once: not the pods before it, no extra after it, and nothing that it reports later."""
    with_scaled_gangs(scene, 2)
    scene.gang("w-0", {"w-0-a": 2, "w-0-b": 1})
    scene.change(POD_CLIQUES, "w-0-a", {"spec": {"replicas": 4}})
    scene.pods("w-0-a", 0, 1, 2, 3)
    scene.pods("w-0-b", 0)
    scene.settle()
    both = ["w-0", "w-0-sg-0", "w-0-sg-1"]
    for pod, expected in (("w-0-a-3", ["w-0"]), ("w-0-b-0", ["w-0"]), ("w-0-a-1", both), ("w-0-a-0", ["w-0"])):
        scene.bind([pod])
        assert concerned(scene, pod) == expected
    scene.change(PODS, "w-0-a-0", {"metadata": {"deletionTimestamp": "2026-05-04T12:00:00Z"}})
    assert concerned(scene, "w-0-a-1") == both
    scene.change(PODS, "w-0-a-1", {"status": {"startTime": "2026-05-04T12:00:00Z"}})
    assert concerned(scene, "w-0-a-1") == ["w-0"]


def test_pods_of_a_scaled_gang_concern_no_other(scene: GangScene) -> None:
    with_scaled_gangs(scene, 2)
    scene.gang("w-0", {"w-0-a": 1})
    scene.bind(["w-0-sg-1-b-0"])
    assert concerned(scene, "w-0-sg-1-b-0") == ["w-0-sg-0"]


@pytest.mark.parametrize("extras", [0, 200])
@pytest.mark.parametrize("order", [1, -1, 7])
def test_what_a_large_base_needs_is_not_counted_for_each_of_its_pods(
    scene: GangScene, order: int, extras: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the order in which pods are bound: by name, the other way round, or any."""
    count = 1000
    monkeypatch.setattr(concerned_gangs, "MOST_READ", 100)
    with_scaled_gangs(scene, 1)
    scene.gang("w-0", {"w-0-a": count - extras})
    scene.change(POD_CLIQUES, "w-0-a", {"spec": {"replicas": count}})
    scene.pods("w-0-a", *range(1000, 1000 + count))
    scene.settle()
    reads, original = 0, scene.get

    def counted(resource: Any, namespace: str, name: str) -> Any:
        nonlocal reads
        reads += resource == PODS
        return original(resource, namespace, name)

    scene.get = counted  # type: ignore[method-assign]
    freed = 0
    for number in range(count):
        scene.bind([f"w-0-a-{1000 + number * order % count}"])  # which calls `related`
        freed += scene.is_enqueued("w-0-sg-0")
        scene.forget_events()
    assert freed == (0 if extras else 1), "with many extras the status of the base tells"
    assert reads <= (100 if extras else 30) * count


@settings(max_examples=30)
@given(data=st.data())
def test_scaled_gangs_are_free_as_soon_as_their_base_is_bound_whatever_statuses_say(data: st.DataObject) -> None:
    """No status is ever written here."""
    scene = GangScene()
    scene.podcliqueset({"sg": (2, 1)})
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=3), label="sizes")
    with_scaled_gangs(scene, 2)
    scene.gang("w-0", {f"w-0-{number}": minimum for number, (minimum, _) in enumerate(sizes)})
    pods: list[str] = []
    for number, (minimum, extras) in enumerate(sizes):
        scene.change(POD_CLIQUES, f"w-0-{number}", {"spec": {"replicas": minimum + extras}})
        pods += scene.pods(f"w-0-{number}", *range(minimum + extras))
    scene.writes_statuses = False
    scene.settle()
    for pod in data.draw(st.permutations(pods), label="bound"):
        scene.bind([pod])
        scene.settle()
        bound = {name for name in pods if scene.named(PODS, name)["spec"].get("nodeName")}
        is_scheduled = all(
            sum(name.startswith(f"w-0-{number}-") for name in bound) >= minimum
            for number, (minimum, _) in enumerate(sizes)
        )
        assert (scene.gated() == []) == is_scheduled


def test_a_scaled_gang_concerns_no_other(scene: GangScene) -> None:
    started(scene)
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    scene.bind(["w-0-sg-1-b-0", "w-0-sg-1-b-1"])
    scene.settle()
    assert scene.condition("w-0-sg-0", "Scheduled")[0] == "True"
    assert [*concerned_gangs.related(POD_GANGS, scene.named(POD_GANGS, "w-0-sg-0"), scene)] == []


def test_hundreds_of_scaled_gangs_are_reconciled_a_few_times_each(scene: GangScene) -> None:
    """And the base is not reconciled for each of them."""
    count = 300
    scene.change(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", {"spec": {"replicas": count + 1}})
    scene.gang("w-0", {"w-0-a": 2})
    for number in range(count):
        scene.gang(f"w-0-sg-{number}", {f"w-0-sg-{number + 1}-b": 1}, base="w-0")
        scene.pods(f"w-0-sg-{number + 1}-b", 0)
    scene.pods("w-0-a", 0, 1)
    scene.settle()
    scene.reconciled.clear()
    scene.bind(["w-0-a-0", "w-0-a-1"])
    scene.settle()
    assert scene.gated() == []
    assert len(scene.reconciled) <= 5 * count


def test_a_gang_reads_its_own_pods_only(scene: GangScene) -> None:
    """Beside one pod of its base that says where that is."""
    started(scene, **packed(required=RACK))
    scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    read: list[str] = []
    original = scene.get

    def counted(resource: Any, namespace: str, name: str) -> Any:
        if resource == PODS:
            read.append(name)
        return original(resource, namespace, name)

    scene.get = counted  # type: ignore[method-assign]
    scene.reconcile((POD_GANGS, NAMESPACE, "w-0-sg-0"))
    assert read == ["w-0-a-0"]


@pytest.mark.parametrize("broken", [{}, {"podgroups": None}, {"podgroups": [{}]}, {"podgroups": [{"name": 3}]}])
def test_a_gang_that_nothing_has_validated_is_no_crash(scene: GangScene, broken: dict[str, Any]) -> None:
    scene.put(POD_GANGS, {"metadata": {"name": "w-0"}, "spec": broken})
    scene.settle()
    scene.advance(5)
    assert scene.gated() == []


# a base that is none ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("owners", [[], [{"kind": "PodCliqueSet", "name": "v", "uid": "other", "controller": True}]])
def test_a_gang_of_another_owner_with_the_name_of_the_base_lifts_no_gate(
    scene: GangScene, owners: list[dict[str, Any]]
) -> None:
    """R1: it has its minimums scheduled, and says nothing of the base, which cannot be created beside it."""
    started(scene)
    scene.change(POD_GANGS, "w-0", {"metadata": {"ownerReferences": owners}})
    pods = scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    assert scene.gated() == pods
    status, reason, message = scene.condition("w-0-sg-0", "Scheduled")
    assert (status, reason) == ("False", "BasePodGangNotScheduled")
    assert "does not belong to this PodCliqueSet" in message


def test_a_base_whose_cliques_a_user_removed_lifts_no_gate(scene: GangScene) -> None:
    """R1: it has no minimum that is not scheduled, as it has none; the set is about to restore it."""
    started(scene)
    scene.change(POD_GANGS, "w-0", {"spec": {"podgroups": []}})
    pods = scene.pods("w-0-sg-1-b", 0, 1)
    scene.settle()
    assert scene.gated() == pods

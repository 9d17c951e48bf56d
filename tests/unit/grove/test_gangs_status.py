"""The status of a PodGang: what is counted from pods, and what is taken from the words of the scheduler."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.decoding import decode
from muster.api.grove.pod_gang import PodGang
from muster.api.resources import NODES, POD_CLIQUES, POD_GANGS, POD_GROUPS, PODS
from muster.grove.gangs.gang_status import failed
from tests.support.gang_scene import NAMESPACE, RACK, ZONE, GangScene, packed


@pytest.fixture
def scene() -> GangScene:
    scene = GangScene()
    scene.podcliqueset()
    scene.topology()
    scene.node("n1", rack="r1")
    scene.node("n2", rack="r2")
    return scene


def started(scene: GangScene, cliques: dict[str, int] | None = None, **spec: Any) -> list[str]:
    """A gang whose gates are lifted: two pods of one clique, unless said otherwise; returns its pods."""
    sizes = cliques or {"w-0-a": 2}
    scene.gang("w-0", sizes, **spec)
    pods = [pod for clique, size in sizes.items() for pod in scene.pods(clique, *range(size))]
    scene.settle()
    assert scene.gated() == []
    return pods


def says(scene: GangScene, status: str, reason: str, message: str, kind: str = "Scheduled") -> None:
    """The scheduler reports on the PodGroup."""
    condition = {"type": kind, "status": status, "reason": reason, "message": message}
    scene.change(POD_GROUPS, "w-0", {"status": {"conditions": [condition]}})
    scene.settle()


def phase(scene: GangScene) -> str:
    text: str = scene.named(POD_GANGS, "w-0")["status"]["phase"]
    return text


# scheduled ----------------------------------------------------------------------------------------------------------


def test_why_a_gang_waits_is_what_the_scheduler_says_on_its_podgroup(scene: GangScene) -> None:
    started(scene)
    says(scene, "False", "NoDomain", "no rack holds `w-0-a`")
    assert scene.condition("w-0", "Scheduled") == ("False", "NoDomain", "no rack holds `w-0-a`")


def test_a_search_that_was_cut_short_leaves_it_unknown(scene: GangScene) -> None:
    started(scene)
    says(scene, "Unknown", "SearchCutShort", "unknown: the search used up its budget")
    assert scene.condition("w-0", "Scheduled")[:2] == ("Unknown", "SearchCutShort")


def test_a_gang_is_scheduled_when_its_pods_are_and_not_before(scene: GangScene) -> None:
    """The scheduler may have decided before the pods are bound."""
    first, second = started(scene)
    says(scene, "True", "Scheduled", "every minimum is met")
    scene.bind([first])
    scene.settle()
    expected = "PodClique `w-0-a` has fewer pods scheduled than its minimum of 2"
    assert scene.condition("w-0", "Scheduled") == ("False", "PodGangNotScheduled", expected)
    scene.bind([second])
    scene.settle()
    assert scene.condition("w-0", "Scheduled") == ("True", "PodGangScheduled", "every minimum is met")


def test_a_gang_that_loses_a_pod_of_its_minimum_is_scheduled_no_more(scene: GangScene) -> None:
    pods = started(scene)
    scene.bind(pods)
    scene.settle()
    scene.terminate(pods[0])
    scene.settle()
    assert scene.condition("w-0", "Scheduled")[0] == "False"
    assert "placementScore" not in scene.named(POD_GANGS, "w-0")["status"]


def test_the_first_words_name_a_clique_that_is_short(scene: GangScene) -> None:
    """Before the scheduler has said anything."""
    started(scene, {"w-0-a": 2, "w-0-b": 1})
    expected = "PodClique `w-0-a` has fewer pods scheduled than its minimum of 2"
    assert scene.condition("w-0", "Scheduled")[2] == expected


def test_a_status_changes_with_the_gang_and_not_with_each_pod(scene: GangScene) -> None:
    """A gang of thousands would be written as often, and its scaled gangs be looked at each time."""
    pods = started(scene, {"w-0-a": 6})
    statuses = []
    for pod in pods:
        scene.bind([pod])
        scene.settle()
        statuses.append(scene.named(POD_GANGS, "w-0")["status"])
    for pod in pods:
        scene.set_ready(pod)
        scene.settle()
        statuses.append(scene.named(POD_GANGS, "w-0")["status"])
    assert sum(one != before for before, one in pairwise(statuses)) <= 3


def test_a_write_that_failed_is_said(scene: GangScene) -> None:
    gang = scene.gang("w-0", {"w-0-a": 1})
    status = failed(gang, {"phase": "Pending"}, "FailedCreate", "Error creating: refused", scene.now)
    assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
        ("Scheduled", "False", "FailedCreate")
    ]
    fine = {"conditions": [{"type": "Scheduled", "status": "True"}]}
    assert failed(gang, fine, "FailedUpdate", "Error", scene.now) == fine


# ready and healthy --------------------------------------------------------------------------------------------------


def test_a_gang_is_ready_when_every_minimum_is(scene: GangScene) -> None:
    pods = started(scene)
    scene.bind(pods)
    scene.set_ready(pods[0])
    scene.settle()
    message = "PodClique `w-0-a` has fewer pods ready than its minimum of 2"
    assert scene.condition("w-0", "Ready") == ("False", "PodGangNotReady", message)
    scene.set_ready(pods[1])
    scene.settle()
    assert scene.condition("w-0", "Ready")[:2] == ("True", "PodGangReady")


def test_a_gang_is_unhealthy_when_it_was_ready_and_is_not(scene: GangScene) -> None:
    pods = started(scene)
    scene.bind(pods)
    scene.settle()
    assert scene.condition("w-0", "Unhealthy")[:2] == ("False", "NotReadyYet")
    for pod in pods:
        scene.set_ready(pod)
    scene.settle()
    assert scene.condition("w-0", "Unhealthy")[0] == "False"
    scene.set_ready(pods[0], "False")
    scene.settle()
    assert scene.condition("w-0", "Unhealthy") == (
        "True",
        "MinAvailableBreached",
        "PodClique `w-0-a` has fewer pods ready than its minimum of 2",
    )
    scene.advance(60)
    assert scene.condition("w-0", "Unhealthy")[0] == "True"
    scene.set_ready(pods[0])
    scene.settle()
    assert scene.condition("w-0", "Unhealthy")[0] == "False"


def test_an_extra_that_is_not_ready_makes_no_gang_unhealthy(scene: GangScene) -> None:
    scene.gang("w-0", {"w-0-a": 1})
    scene.change(POD_CLIQUES, "w-0-a", {"spec": {"replicas": 2}})
    pods = scene.pods("w-0-a", 0, 1)
    scene.settle()
    scene.bind(pods, ready=True)
    scene.settle()
    scene.set_ready(pods[1], "False")
    scene.settle()
    assert scene.condition("w-0", "Ready")[0] == "True"
    assert scene.condition("w-0", "Unhealthy")[0] == "False"


# evictions ----------------------------------------------------------------------------------------------------------


def test_a_gang_that_evictions_take_below_its_minimum_is_their_target(scene: GangScene) -> None:
    pods = started(scene)
    scene.bind(pods, ready=True)
    scene.settle()
    scene.terminate(pods[0], reason="EvictionByEvictionAPI", message="Eviction API: evicting")
    scene.settle()
    assert scene.condition("w-0", "DisruptionTarget") == (
        "True",
        "EvictionByEvictionAPI",
        "PodClique `w-0-a` keeps 1 of the 2 pods that it needs; Eviction API: evicting",
    )
    scene.remove(PODS, pods[0])
    scene.settle()
    assert scene.condition("w-0", "DisruptionTarget")[0] == "False"


def test_the_eviction_of_an_extra_disrupts_no_gang(scene: GangScene) -> None:
    pods = started(scene, {"w-0-a": 2})
    extra = scene.pods("w-0-a", 2)
    scene.settle()
    scene.bind([*pods, *extra])
    scene.terminate(extra[0], reason="EvictionByEvictionAPI")
    scene.settle()
    assert scene.condition("w-0", "DisruptionTarget")[0] == "False"


def test_a_plain_deletion_is_no_eviction(scene: GangScene) -> None:
    pods = started(scene)
    scene.bind(pods)
    scene.terminate(pods[0])
    scene.settle()
    assert scene.condition("w-0", "DisruptionTarget")[0] == "False"


# phase, times and form ----------------------------------------------------------------------------------------------


def test_the_phase_is_pending_then_starting_then_running(scene: GangScene) -> None:
    pods = started(scene)
    assert phase(scene) == "Pending"
    scene.bind(pods[:1])
    scene.settle()
    assert phase(scene) == "Starting"
    scene.bind(pods[1:])
    for pod in pods:
        scene.set_ready(pod, "False")
    scene.settle()
    assert phase(scene) == "Running"


def test_a_condition_keeps_its_time_while_only_its_words_change(scene: GangScene) -> None:
    started(scene)
    says(scene, "False", "NoRoom", "1 short")
    first = [one for one in scene.named(POD_GANGS, "w-0")["status"]["conditions"] if one["type"] == "Scheduled"]
    scene.advance(60)
    says(scene, "False", "NoRoom", "2 short")
    second = [one for one in scene.named(POD_GANGS, "w-0")["status"]["conditions"] if one["type"] == "Scheduled"]
    assert first[0]["lastTransitionTime"] == second[0]["lastTransitionTime"]
    assert second[0]["message"] == "2 short"


def test_conditions_are_about_the_generation_that_is_written(scene: GangScene) -> None:
    """One write of references makes one status, not two."""
    scene.gang("w-0", {"w-0-a": 1})
    scene.pods("w-0-a", 0)
    scene.reconcile((POD_GANGS, NAMESPACE, "w-0"))
    gang = scene.named(POD_GANGS, "w-0")
    generations = {one["observedGeneration"] for one in gang["status"]["conditions"]}
    assert generations == {gang["metadata"]["generation"]}


def test_conditions_of_other_writers_stay(scene: GangScene) -> None:
    started(scene)
    gang = scene.named(POD_GANGS, "w-0")
    theirs = {"type": "Reviewed", "status": "True", "reason": "Theirs", "message": ""}
    conditions = [*gang["status"]["conditions"], theirs]
    scene.change(POD_GANGS, "w-0", {"status": {"conditions": conditions, "lastScheduled": "2026-01-01T00:00:00Z"}})
    scene.bind(["w-0-a-0"])
    scene.settle()
    status = scene.named(POD_GANGS, "w-0")["status"]
    assert theirs in status["conditions"]
    assert status["lastScheduled"] == "2026-01-01T00:00:00Z"


def test_the_status_is_of_the_form_that_the_crd_has(scene: GangScene) -> None:
    pods = started(scene, **packed(preferred=RACK))
    scene.bind(pods, ready=True)
    scene.settle()
    gang, misfits = decode(scene.named(POD_GANGS, "w-0"), PodGang)
    assert misfits == ()
    assert gang.status is not None
    assert [condition.type for condition in gang.status.conditions] == [
        "Initialized",
        "Scheduled",
        "Ready",
        "Unhealthy",
        "DisruptionTarget",
    ]
    assert gang.status.placement_score == 1.0


# placement score ----------------------------------------------------------------------------------------------------


def score(scene: GangScene) -> float:
    value: float = scene.named(POD_GANGS, "w-0")["status"]["placementScore"]
    return value


def test_a_gang_without_preferences_scores_one(scene: GangScene) -> None:
    pods = started(scene, **packed(required=ZONE))
    scene.bind(pods[:1], "n1")
    scene.bind(pods[1:], "n2")
    scene.settle()
    assert score(scene) == 1.0


def test_the_score_is_the_share_of_pods_in_the_fullest_domain(scene: GangScene) -> None:
    pods = started(scene, {"w-0-a": 4}, **packed(preferred=RACK))
    scene.bind(pods[:3], "n1")
    scene.bind(pods[3:], "n2")
    scene.settle()
    assert score(scene) == 0.75


def test_several_preferences_are_averaged_over_pods(scene: GangScene) -> None:
    """The gang: 3 of 4 in one rack. Clique a: 2 of 2. Together 5 of 6."""
    entry = {"w-0-a": packed(preferred=RACK)}
    pods = started(scene, {"w-0-a": 2, "w-0-b": 2}, podgroups=entry, **packed(preferred=RACK))
    scene.bind(pods[:3], "n1")
    scene.bind(pods[3:], "n2")
    scene.settle()
    assert score(scene) == 0.8333


def test_a_rack_of_the_same_name_in_another_zone_is_another_rack(scene: GangScene) -> None:
    scene.node("n3", rack="r1", zone="z2")
    pods = started(scene, **packed(preferred=RACK))
    scene.bind(pods[:1], "n1")
    scene.bind(pods[1:], "n3")
    scene.settle()
    assert score(scene) == 0.5


def test_pods_on_nodes_without_the_labels_are_in_no_domain(scene: GangScene) -> None:
    scene.put(NODES, {"metadata": {"name": "bare", "labels": {RACK: "r1"}}})
    pods = started(scene, **packed(preferred=RACK))
    scene.bind(pods, "bare")
    scene.settle()
    assert score(scene) == 0.0


@given(st.lists(st.sampled_from(["n1", "n2", "n3"]), min_size=1, max_size=8))
def test_the_score_is_one_only_where_all_are_together(nodes: list[str]) -> None:
    scene = GangScene()
    scene.podcliqueset()
    scene.topology()
    for number in (1, 2, 3):
        scene.node(f"n{number}", rack=f"r{number}")
    for pod, node in zip(started(scene, {"w-0-a": len(nodes)}, **packed(preferred=RACK)), nodes, strict=True):
        scene.bind([pod], node)
    scene.settle()
    assert 0 < score(scene) <= 1
    assert (score(scene) == 1) == (len(set(nodes)) == 1)

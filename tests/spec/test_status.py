"""E2, E3, N4, S: what is written on PodGroups, Queues and pods, and the marks that remember who is short."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

import muster
from muster.api import names
from muster.api.meta import Condition
from muster.api.podgroup import LevelStatus, PodGroupStatus
from muster.api.queue import QueueStatus
from muster.fairness.entitlement import Excess
from muster.model.snapshot import take
from muster.planning.decision import Binding, CyclePlan, Verdict
from muster.planning.refusal import (
    BestDomain,
    Evicted,
    InvalidSpec,
    NonPreemptibleOverQuota,
    NoRoom,
    NotEnoughPods,
    OverLimit,
    QueueDoesNotExist,
    Refusal,
    SearchCutShort,
    Unsupported,
)
from muster.reporting.conditions import pod_conditions
from muster.reporting.status import queue_statuses
from muster.reporting.views import data, inspect_gang
from tests.support.factories import Raw, group, node, pod, podgroup, pods, queue, topology
from tests.support.planned_gang import EARLIER, LATER, NOW, PlannedGang, decided, planned, stored, written

NO_ROOM = NoRoom(need=4, best=BestDomain(fits=2))
EXCESS = Excess("q", "cpu", allowed=1, held=1, extra=1)


def condition(status: PodGroupStatus | QueueStatus, kind: str) -> Condition:
    return next(one for one in status.conditions if one.type == kind)


def kinds(status: PodGroupStatus | QueueStatus) -> list[str]:
    return [one.type for one in status.conditions]


def noted(manifest: Raw, **annotations: str) -> Raw:
    """The manifest with marks: `stale`, `parts` and `start`."""
    known = {"stale": names.STALE_SINCE, "parts": names.STALE_SUBGROUPS, "start": names.LAST_START}
    notes = {known[name]: value for name, value in annotations.items()}
    return manifest | {"metadata": manifest["metadata"] | {"annotations": notes}}


# E3: Scheduled ------------------------------------------------------------------------------------------------------


def test_a_gang_whose_minimums_are_met_is_scheduled() -> None:
    """By pods that are there and pods that this plan binds (E3)."""
    status = decided(podgroup(minMember=2), pod("a", on="n"), pod("b"), bind={"b": "n"}, verdict="Scheduled").status()
    assert condition(status, "Scheduled") == Condition(
        "Scheduled", "True", "Scheduled", "every minimum is met", last_transition_time=NOW
    )
    assert (status.phase, status.satisfied) == ("Running", True)


@pytest.mark.parametrize(
    ("verdict", "reason", "refusal", "status"),
    [
        ("Waiting", "NotEnoughPods", NotEnoughPods(), "False"),
        ("Waiting", "QueueDoesNotExist", QueueDoesNotExist("q"), "False"),
        ("Waiting", "OverLimit", OverLimit(EXCESS), "False"),
        ("Waiting", "NonPreemptibleOverQuota", NonPreemptibleOverQuota(EXCESS), "False"),
        ("Waiting", "Unsupported", Unsupported(), "False"),
        ("Infeasible", "NoRoom", NO_ROOM, "False"),
        ("Unknown", "SearchCutShort", SearchCutShort(), "Unknown"),
        ("Invalid", "InvalidSpec", InvalidSpec(), "False"),
    ],
)
def test_the_condition_of_a_waiting_gang_has_its_reason_as_a_word(
    verdict: Verdict, reason: str, refusal: Refusal, status: str
) -> None:
    """Programs rely on the word; unknown is never merged with no (E3, X2)."""
    decision = decided(podgroup(minMember=2), *pods(2), verdict=verdict, refusals=[refusal])
    actual = condition(decision.status(), "Scheduled")
    assert (actual.status, actual.reason) == (status, reason)
    assert actual.message
    assert decision.status().phase == "Pending"


def test_the_message_is_the_sentence_with_what_would_help() -> None:
    """What is needed, the best there is, what is missing, and the smallest change (E1, E3)."""
    manifest = podgroup(minMember=3, topologyConstraint={"requiredTopologyLevel": "rack"})
    cluster = [node("n1", cpu=2, rack="r1"), node("n2", cpu=1, rack="r2"), topology("topology/rack")]
    actual = condition(planned(manifest, *pods(3, cpu=1), *cluster).status(), "Scheduled")
    assert actual.reason == "NoDomain"
    assert "no rack holds the gang: needs 3 pods together, best is `r1` with room for 2" in actual.message
    assert "`minMember: 2` instead of 3 fits now" in actual.message


def test_places_on_room_that_is_being_freed_are_not_taken_yet() -> None:
    """The verdict is Scheduled, but nothing is placed before the victims are gone (E3, P7)."""
    status = decided(
        podgroup(minMember=2), *pods(2), nominate={"pod-0": "n", "pod-1": "n"}, verdict="Scheduled"
    ).status()
    actual = condition(status, "Scheduled")
    assert (actual.status, actual.reason) == ("False", "Nominated")
    assert (status.satisfied, status.running, status.pending) == (False, 0, 2)


def test_an_invalid_gang_is_not_scheduled_even_if_pods_run() -> None:
    """Its constraint names what does not exist: the status must show it (E3, T6)."""
    refusal = InvalidSpec("there is no level `galaxy`")
    status = decided(podgroup(minMember=1), *pods(2, on="n"), verdict="Invalid", refusals=[refusal]).status()
    actual = condition(status, "Scheduled")
    assert (actual.status, actual.reason, actual.message) == (
        "False",
        "InvalidSpec",
        "invalid: there is no level `galaxy`",
    )
    assert status.satisfied


def test_the_condition_of_a_victim_names_the_gang_it_is_evicted_for() -> None:
    """It runs until its pods are gone, and knows before they are (E1)."""
    evicted = Evicted("team/other", by="Preempt", pods=2)
    status = decided(podgroup(minMember=1), *pods(2, on="n"), evict=["pod-0", "pod-1"], refusals=[evicted]).status()
    actual = condition(status, "Scheduled")
    assert (actual.status, actual.reason) == ("True", "Evicted")
    assert actual.message.endswith("2 pods had to leave (preempt) to make room for `team/other`")


def test_a_spec_which_is_no_tree_is_never_reported_as_satisfied() -> None:
    """Parts of it may be missing from what was read (V3)."""
    manifest = podgroup(group("a", 1), group("b", 1, parent="nobody"))
    plan = planned(manifest, pod("a-0", "a", on="n1"), node("n1"))
    assert plan.status().satisfied is False
    assert plan.status().levels == ()
    assert plan.annotations() == {}


def test_a_running_gang_is_not_stale_because_its_spec_was_broken() -> None:
    """Its pods must not be released for a slip in an edit (S2, V3)."""
    manifest = podgroup(group("a", 2), group("b", 1, parent="nobody"))
    decision = decided(manifest, pod("a-0", "a", on="n"), verdict="Invalid")
    assert kinds(decision.status()) == ["Scheduled"]
    assert decision.annotations() == {}


def test_conditions_say_which_generation_they_are_about() -> None:
    """A client that changed the spec can wait for the answer to the change (E3)."""
    manifest = podgroup(minMember=1)
    manifest["metadata"]["generation"] = 7
    status = decided(manifest, pod("a", on="n"), pod("x", "nobody"), verdict="Scheduled").status()
    assert {one.observed_generation for one in status.conditions} == {7}


# E3: when it changed ------------------------------------------------------------------------------------------------


def test_the_time_of_a_condition_is_when_its_status_changed() -> None:
    """Another reason is not another status (E3)."""
    manifest = podgroup(minMember=4)
    first = decided(manifest, *pods(4), verdict="Infeasible", refusals=[NO_ROOM])
    second = decided(written(manifest, first), *pods(4), refusals=[NotEnoughPods()])
    actual = condition(second.status(LATER), "Scheduled")
    assert (actual.reason, actual.last_transition_time) == ("NotEnoughPods", NOW)


def test_the_time_of_a_condition_moves_when_its_status_does() -> None:
    """From False to True (E3)."""
    manifest = podgroup(minMember=1)
    first = decided(manifest, pod("a"), verdict="Infeasible", refusals=[NO_ROOM])
    second = decided(written(manifest, first), pod("a"), bind={"a": "n"}, verdict="Scheduled")
    assert condition(second.status(LATER), "Scheduled").last_transition_time == LATER


def test_times_are_whole_seconds_in_utc() -> None:
    """As Kubernetes keeps them (E3)."""
    moment = datetime.fromisoformat("2026-05-01T14:00:00.750+02:00")
    time = condition(decided(podgroup(minMember=1), pod("a")).status(moment), "Scheduled").last_transition_time
    assert time is not None
    assert (time, time.tzinfo) == (NOW, UTC)


def test_conditions_of_other_writers_stay_as_they_are() -> None:
    """A quota controller's word is not ours to drop, nor is its order (E3)."""
    manifest = podgroup(minMember=1) | {
        "status": {
            "conditions": [
                {"type": "Billed", "status": "True", "reason": "Paid", "lastTransitionTime": EARLIER},
                {"type": "Stale", "status": "True", "reason": "BelowMinimum"},
                {"type": "Ready", "status": "False"},
            ]
        }
    }
    status = decided(manifest, pod("a", on="n"), verdict="Scheduled").status()
    assert kinds(status) == ["Scheduled", "Billed", "Ready"]
    assert condition(status, "Billed").reason == "Paid"


def test_a_condition_fits_into_its_field_whatever_was_said() -> None:
    """The API server would refuse the whole status (E3)."""
    refusal = InvalidSpec("x" * 50_000)
    decision = decided(podgroup(minMember=1), pod("a"), verdict="Invalid", refusals=[refusal])
    assert len(condition(decision.status(), "Scheduled").message) == 32768


# phase and counts ---------------------------------------------------------------------------------------------------

ONE_EACH = (
    pod("placed", on="n"),
    pod("waits"),
    pod("gated", gated=True),
    pod("done", on="n", phase="Succeeded"),
    pod("failed", on="n", phase="Failed"),
    pod("leaving", on="n", terminating=True),
)


def test_pods_are_counted_by_what_they_count_for() -> None:
    """Those behind gates wait too; those that leave count for nothing (N5)."""
    status = decided(podgroup(minMember=1), *ONE_EACH).status()
    assert (status.running, status.pending, status.succeeded, status.failed) == (1, 2, 1, 1)


@pytest.mark.parametrize(
    ("phase", "minimum", "some"),
    [
        ("Pending", 1, []),
        ("Pending", 1, [pod("a")]),
        ("Pending", 2, [pod("a", on="n")]),
        ("Pending", 2, [pod("a", phase="Succeeded"), pod("b", gated=True)]),
        ("Running", 1, [pod("a", on="n"), pod("b")]),
        ("Running", 1, [pod("a", phase="Succeeded"), pod("b", on="n")]),
        ("Succeeded", 2, [pod("a", phase="Succeeded"), pod("b", phase="Succeeded"), pod("c", phase="Failed")]),
        ("Failed", 2, [pod("a", phase="Succeeded"), pod("b", phase="Failed")]),
        ("Pending", 2, [pod("a", phase="Failed"), pod("b")]),
    ],
)
def test_the_phase_says_how_far_a_gang_has_come(phase: str, minimum: int, some: list[Raw]) -> None:
    """Running with every minimum met; over when no pod runs or waits (N5, M2)."""
    assert decided(podgroup(minMember=minimum), *some).status().phase == phase


# E2: resources ------------------------------------------------------------------------------------------------------


def used(decision: PlannedGang) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    resources = decision.status().resources_status
    return dict(resources.requested), dict(resources.allocated), dict(resources.allocated_non_preemptible)


@pytest.mark.parametrize(
    ("preemptibility", "kept"),
    [("preemptible", {}), ("semi-preemptible", {"cpu": 2000}), ("non-preemptible", {"cpu": 3000})],
)
def test_the_non_preemptible_part_depends_on_preemptibility(preemptibility: str, kept: dict[str, int]) -> None:
    """The core of a semi-preemptible gang, all of a non-preemptible one, nothing of a preemptible one (E2, P3)."""
    manifest = podgroup(minMember=2, preemptibility=preemptibility)
    decision = decided(manifest, *pods(3, on="n", cpu=1), pod("more", cpu=1), verdict="Scheduled")
    assert used(decision) == ({"cpu": 4000}, {"cpu": 3000}, kept)


def test_pods_that_this_plan_binds_are_allocated() -> None:
    """They are placed with this plan (E2)."""
    manifest = podgroup(minMember=2, preemptibility="non-preemptible")
    decision = decided(manifest, *pods(2, cpu=1), bind={"pod-0": "n", "pod-1": "n"}, verdict="Scheduled")
    assert used(decision) == ({"cpu": 2000}, {"cpu": 2000}, {"cpu": 2000})


def test_pods_that_are_only_nominated_are_not_allocated() -> None:
    """Their room is still being freed (E2)."""
    decision = decided(podgroup(minMember=1), pod("a", cpu=1), nominate={"a": "n"}, verdict="Scheduled")
    assert used(decision) == ({"cpu": 1000}, {}, {})


def test_evicted_pods_are_allocated_until_they_terminate() -> None:
    """A budget may still refuse the eviction; once they are terminating they count for nothing (E2, N5)."""
    decision = decided(podgroup(minMember=1), *pods(2, on="n", cpu=1), evict=["pod-0", "pod-1"], verdict="Waiting")
    assert used(decision)[1] == {"cpu": 2000}
    assert condition(decision.status(), "Scheduled").status == "True"
    gone = decided(podgroup(minMember=1), *pods(2, on="n", cpu=1, terminating=True))
    assert used(gone) == ({}, {}, {})


def test_pods_that_cannot_be_placed_or_are_over_ask_for_nothing() -> None:
    """Gated, done, failed, leaving (E2, N5)."""
    some = [raw | {"spec": raw["spec"] | {"containers": containers(cpu=1)}} for raw in ONE_EACH]
    assert used(decided(podgroup(minMember=1), *some)) == ({"cpu": 2000}, {"cpu": 1000}, {})


def containers(**requests: Any) -> list[Raw]:
    return [{"name": "main", "resources": {"requests": requests}}]


def test_amounts_come_back_from_the_store_as_they_were() -> None:
    """Millicores and bytes inside, Kubernetes' own way of writing outside (X6)."""
    amounts: Raw = {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 2}
    some = pod("a", on="n", **amounts)
    status = decided(podgroup(minMember=1), some, verdict="Scheduled").status()
    assert written(podgroup(), decided(podgroup(minMember=1), some))["status"]["resourcesStatus"]["allocated"] == {
        "cpu": "1500m",
        "memory": "1Gi",
        "nvidia.com/gpu": "2",
    }
    assert stored(status) == status


# E2: levels ---------------------------------------------------------------------------------------------------------


def test_every_level_tells_how_it_stands() -> None:
    """Minimum, satisfied, placed, pending; children and pods apart; parents first, siblings in spec order (E2)."""
    manifest = podgroup(group("roles", of=1), group("b", 2, parent="roles"), group("a", 1, parent="roles"))
    some = [*pods(2, "b", on="n"), pod("b-more", "b"), pod("b-gated", "b", gated=True), pod("a-0", "a")]
    assert decided(manifest, *some, verdict="Scheduled").status().levels == (
        LevelStatus("", 0, 1, 1, 1, satisfied=True, placed=2, pending=2, gated=1),
        LevelStatus("roles", 0, 1, 2, 1, satisfied=True, placed=2, pending=2, gated=1),
        LevelStatus("b", 2, satisfied=True, placed=2, pending=1, gated=1),
        LevelStatus("a", 1, satisfied=False, placed=0, pending=1),
    )


def test_an_older_branch_tells_its_pods_in_all() -> None:
    """Both of its minimums, or the status would not show why it is not satisfied (M5)."""
    status = decided(podgroup(group("a", 1), minMember=3), pod("a-0", "a", on="n")).status()
    assert status.levels[0] == LevelStatus("", 3, 1, 1, 1, satisfied=False, placed=1)


def test_the_root_of_a_flat_gang_counts_pods_and_no_children() -> None:
    """E2: a PodGroup without SubGroups is a leaf; what has succeeded counts, and is counted apart."""
    status = decided(podgroup(minMember=2), pod("a", on="n"), pod("b", phase="Succeeded"), verdict="Scheduled").status()
    assert status.levels == (LevelStatus("", 2, satisfied=True, placed=1, succeeded=1),)


def test_plan_and_tree_count_children_and_pods_apart() -> None:
    """E2: the same fields as in the status, at every level, the root included; `need` stays as it was."""
    objects = muster.objects([podgroup(group("a", 2), group("b", 1), minSubGroup=1), *pods(2, "a", on="n"), node("n")])
    tree = muster.plan(objects).to_dict()["podGroups"][0]["tree"]
    counts = ("need", "minMember", "minSubGroup", "subGroups", "satisfiedSubGroups")
    assert [tuple(one[name] for name in counts) for one in (tree, *tree["children"])] == [
        (1, 0, 1, 2, 1),
        (2, 2, 0, 0, 0),
        (1, 1, 0, 0, 0),
    ]
    seen = data(inspect_gang(take(objects).gangs[0]))["tree"]
    assert [seen[name] for name in counts] == [tree[name] for name in counts]


RACKS = (node("n1", cpu=2, rack="r1"), node("n2", cpu=2, rack="r2"), topology("topology/rack"))
IN_RACKS = podgroup(
    group("a", 1, topologyConstraint={"requiredTopologyLevel": "rack"}),
    group("b", 1, topologyConstraint={"requiredTopologyLevel": "rack"}),
)


def test_a_level_tells_the_domain_that_it_sits_in() -> None:
    """Where the pods are that this plan binds (E2, T1)."""
    plan = planned(IN_RACKS, pod("a-0", "a", cpu=2), pod("b-0", "b", on="n1", cpu=2), *RACKS)
    assert {level.name: level.domain for level in plan.status().levels} == {"": "", "a": "r2", "b": "r1"}


def test_a_nominated_place_is_no_domain_yet() -> None:
    """And an eviction takes none away before the pods are gone (E2)."""
    decision = decided(
        IN_RACKS,
        pod("a-0", "a"),
        pod("b-0", "b", on="n1"),
        *RACKS,
        nominate={"a-0": "n2"},
        evict=["b-0"],
    )
    assert {level.name: level.domain for level in decision.status().levels} == {"": "", "a": "", "b": "r1"}


# S2: gangs that are short -------------------------------------------------------------------------------------------


def test_a_gang_below_its_minimum_is_marked_since_now() -> None:
    """The annotation is the only memory of when its grace began (S2)."""
    decision = decided(podgroup(minMember=3), *pods(2, on="n"), refusals=[NotEnoughPods()])
    assert decision.annotations() == {names.STALE_SINCE: "2026-05-01T12:00:00Z"}
    actual = condition(decision.status(), "Stale")
    assert (actual.status, actual.reason) == ("True", "BelowMinimum")
    assert actual.message == (
        "below its minimum: 2 pods placed, 1 more needed; unless these follow within 60s, all are released together"
    )


def test_a_gang_that_stays_short_keeps_its_mark() -> None:
    """A grace that began again with every cycle would never end (S2)."""
    assert decided(noted(podgroup(minMember=3), stale=EARLIER), *pods(2, on="n")).annotations() == {}


def test_a_mark_is_exact() -> None:
    """A mark cut to the second would end the grace early (S2)."""
    moment = datetime.fromisoformat("2026-05-01T14:00:00.750+02:00")
    assert decided(podgroup(minMember=3), pod("a", on="n")).annotations(moment) == {
        names.STALE_SINCE: "2026-05-01T12:00:00.750000Z"
    }


@pytest.mark.parametrize("mark", ["", "yesterday", "2026-05-01T12:00:00", "[]"])
def test_a_stale_annotation_that_cannot_be_read_is_replaced(mark: str) -> None:
    """Otherwise the gang would be short since never (S2)."""
    decision = decided(noted(podgroup(minMember=3), stale=mark), *pods(2, on="n"))
    assert decision.annotations() == {names.STALE_SINCE: "2026-05-01T12:00:00Z"}


def test_the_mark_goes_when_the_gang_is_whole_again() -> None:
    """A satisfied group is never stale (S1)."""
    manifest = noted(podgroup(minMember=3), stale=EARLIER, start=EARLIER)
    decision = decided(manifest, *pods(2, on="n"), pod("new"), bind={"new": "n"}, verdict="Scheduled")
    assert decision.annotations()[names.STALE_SINCE] is None
    assert kinds(decision.status()) == ["Scheduled"]


def test_the_mark_goes_when_nothing_is_placed_any_more() -> None:
    """It waits like any other gang (S2)."""
    manifest = noted(podgroup(minMember=3), stale=EARLIER)
    assert decided(manifest, *pods(3)).annotations() == {names.STALE_SINCE: None}
    assert decided(manifest, *pods(3, on="n", terminating=True)).annotations() == {names.STALE_SINCE: None}


def test_a_nomination_does_not_make_a_gang_whole() -> None:
    """Its missing pods are not placed until the room is free (S2)."""
    decision = decided(podgroup(minMember=2), pod("a", on="n"), pod("b"), nominate={"b": "n"}, verdict="Scheduled")
    assert decision.annotations() == {names.STALE_SINCE: "2026-05-01T12:00:00Z"}
    assert kinds(decision.status()) == ["Scheduled", "Stale"]


def test_the_grace_of_a_gang_is_its_own() -> None:
    """As its spec has it (S2)."""
    status = decided(podgroup(minMember=2, stalenessGracePeriod="1m30s"), pod("a", on="n")).status()
    assert "within 90s" in condition(status, "Stale").message


@pytest.mark.parametrize("grace", [-1, "-1s"])
def test_the_condition_of_a_gang_that_is_never_released_says_so(grace: int | str) -> None:
    """A negative grace (S2)."""
    status = decided(podgroup(minMember=2, stalenessGracePeriod=grace), pod("a", on="n")).status()
    assert condition(status, "Stale").message.endswith("none is ever released")


# S3: SubGroups that are short ---------------------------------------------------------------------------------------

REPLICAS = podgroup(group("r0", 2), group("r1", 2), group("r2", 2), minSubGroup=1)


def test_a_surplus_subgroup_that_falls_short_is_marked_by_name() -> None:
    """The gang itself is not stale (S1, S3)."""
    decision = decided(REPLICAS, *pods(2, "r0", on="n"), pod("r2-0", "r2", on="n"), pod("r1-0", "r1", on="n"))
    annotations = decision.annotations()
    assert json.loads(annotations[names.STALE_SUBGROUPS] or "") == {
        "r1": "2026-05-01T12:00:00Z",
        "r2": "2026-05-01T12:00:00Z",
    }
    assert names.STALE_SINCE not in annotations
    assert kinds(decision.status()) == ["Scheduled", "SubGroupsStale"]
    assert condition(decision.status(), "SubGroupsStale").message.startswith("placed only in part: `r1`, `r2`;")


def test_each_subgroup_has_a_time_of_its_own() -> None:
    """One that was short before keeps its time, one that is whole or gone leaves (S3)."""
    manifest = noted(REPLICAS, parts=json.dumps({"r1": EARLIER, "r0": EARLIER, "gone": EARLIER}), start=EARLIER)
    decision = decided(manifest, *pods(2, "r0", on="n"), pod("r1-0", "r1", on="n"), pod("r2-0", "r2", on="n"))
    assert decision.annotations() == {
        names.STALE_SUBGROUPS: '{"r1":"2026-05-01T11:58:00Z","r2":"2026-05-01T12:00:00Z"}',
    }


def test_the_marks_of_subgroups_go_when_all_are_whole() -> None:
    """No empty list is left behind (S3)."""
    manifest = noted(REPLICAS, parts=json.dumps({"r1": EARLIER}), start=EARLIER)
    assert decided(manifest, *pods(2, "r0", on="n")).annotations() == {names.STALE_SUBGROUPS: None}


@pytest.mark.parametrize(
    "mark",
    ["", "{", "[]", '"r1"', '{"r1": 7}', '{"r1": "soon"}', "[" * 100_000],
    ids=["empty", "cut", "list", "text", "number", "no time", "deep"],
)
def test_stale_annotations_of_subgroups_that_cannot_be_read_are_replaced(mark: str) -> None:
    """They were edited by hand; a plan must not stop for it (S3)."""
    decision = decided(noted(REPLICAS, parts=mark, start=EARLIER), *pods(2, "r0", on="n"), pod("r1-0", "r1", on="n"))
    assert decision.annotations() == {names.STALE_SUBGROUPS: '{"r1":"2026-05-01T12:00:00Z"}'}


def test_below_a_group_that_is_short_no_other_is_marked() -> None:
    """It leaves with the group around it: of the gang, or of the SubGroup above (S2, S3)."""
    manifest = podgroup(
        group("x", of=2), group("x0", 2, parent="x"), group("x1", 2, parent="x"), group("y", 1), minSubGroup=1
    )
    inner = pod("x0-0", "x0", on="n")
    assert json.loads(decided(manifest, inner, pod("y-0", "y", on="n")).annotations()[names.STALE_SUBGROUPS] or "") == {
        "x": "2026-05-01T12:00:00Z"
    }
    assert list(decided(manifest, inner).annotations()) == [names.STALE_SINCE]


# the last start -----------------------------------------------------------------------------------------------------


def test_the_start_is_noted_when_the_plan_makes_the_gang_whole() -> None:
    """Minimum run times count from it (P5)."""
    decision = decided(noted(podgroup(minMember=1), start=EARLIER), pod("a"), bind={"a": "n"}, verdict="Scheduled")
    assert decision.annotations() == {names.LAST_START: "2026-05-01T12:00:00Z"}


def test_extras_that_come_later_are_no_start() -> None:
    """The gang runs already (P5)."""
    manifest = noted(podgroup(minMember=1), start=EARLIER)
    assert decided(manifest, pod("a", on="n"), pod("b"), bind={"b": "n"}, verdict="Scheduled").annotations() == {}


def test_a_gang_that_runs_without_a_start_gets_one() -> None:
    """muster stopped between binding and noting, or took the gang over: a restart ends in the same place (G5)."""
    decision = decided(podgroup(minMember=1), pod("a", on="n"), verdict="Scheduled")
    assert decision.annotations() == {names.LAST_START: "2026-05-01T12:00:00Z"}


def test_the_same_plan_reported_twice_is_one_start() -> None:
    """The bindings may not be seen yet when the next cycle looks (G5)."""
    manifest = podgroup(minMember=1)
    first = decided(manifest, pod("a"), bind={"a": "n"}, verdict="Scheduled")
    again = decided(written(manifest, first), pod("a"), bind={"a": "n"}, verdict="Scheduled")
    assert again.annotations(LATER) == {}


# N4, S4: pods -------------------------------------------------------------------------------------------------------


def on_pods(decision: PlannedGang) -> dict[str, Condition]:
    return pod_conditions(decision.outcome, decision.stored)


def test_pods_that_wait_tell_why_their_gang_waits() -> None:
    """As `kubectl describe pod` shows it, and as autoscalers read it (E1)."""
    decision = decided(podgroup(minMember=4), *pods(2), pod("up", on="n"), verdict="Infeasible", refusals=[NO_ROOM])
    sentence = "no room for the gang: needs 4 pods, the cluster has room for 2"
    waits = Condition("PodScheduled", "False", "Unschedulable", sentence)
    assert on_pods(decision) == {"team/pod-0": waits, "team/pod-1": waits}


def test_pods_behind_gates_are_left_to_kubernetes() -> None:
    """It says SchedulingGated on them (N5)."""
    assert on_pods(decided(podgroup(minMember=1), pod("a", gated=True), refusals=[NotEnoughPods()])) == {}


def test_a_pod_that_is_bound_now_has_no_waiting_condition() -> None:
    """Extras that stay behind are (G3)."""
    conditions = on_pods(decided(podgroup(minMember=1), *pods(2), bind={"pod-0": "n"}, verdict="Scheduled"))
    assert list(conditions) == ["team/pod-1"]
    assert conditions["team/pod-1"].message == "the gang runs without this pod: it is an extra and waits for a place"


def test_extras_tell_what_keeps_them_out_where_it_is_known() -> None:
    """The queue is gone, the gang runs on (E1, Q2)."""
    closed = QueueDoesNotExist("q")
    decision = decided(podgroup(minMember=1), pod("a", on="n"), pod("b"), verdict="Scheduled", refusals=[closed])
    assert on_pods(decision)["team/b"].message == "queue `q` does not exist"
    actual = condition(decision.status(), "Scheduled")
    assert (actual.status, actual.reason) == ("True", "Scheduled")
    assert actual.message == "every minimum is met; queue `q` does not exist"


def test_a_pod_with_a_nominated_place_waits_for_it() -> None:
    """It is not bound yet (P7)."""
    conditions = on_pods(decided(podgroup(minMember=1), pod("a"), nominate={"a": "n"}, verdict="Scheduled"))
    assert conditions["team/a"].message == "its places are on room that is still being freed"


STRAYS = (pod("lost", "nobody"), pod("none"), pod("high", "roles"), pod("runs", "nobody", on="n"))
WITH_ROLES = podgroup(group("roles"), group("a", 1, parent="roles"))


def test_strays_are_reported_on_the_pod() -> None:
    """Each with its own reason; one that runs already is scheduled, whichever scheduler bound it (N4)."""
    decision = decided(WITH_ROLES, *STRAYS, pod("a-0", "a", on="n"), verdict="Scheduled")
    assert {name: one.message for name, one in on_pods(decision).items()} == {
        "team/high": "the pod names subgroup `roles`, which has children and no pods of its own",
        "team/lost": "the pod names subgroup `nobody`, which does not exist",
        "team/none": "the pod names no subgroup, but the PodGroup has SubGroups",
    }


def test_no_autoscaler_is_called_for_strays() -> None:
    """`Unschedulable` asks for nodes, and no node would help them (E3, N4)."""
    decision = decided(WITH_ROLES, *STRAYS, pod("a-0", "a", on="n"), verdict="Scheduled")
    assert {name: one.reason for name, one in on_pods(decision).items()} == {
        "team/high": "SubGroupIsABranch",
        "team/lost": "UnknownSubGroup",
        "team/none": "NoSubGroup",
    }


def test_strays_are_reported_on_the_podgroup() -> None:
    """All of them, the running one too; nothing is dropped in silence (N4)."""
    status = decided(WITH_ROLES, *STRAYS, pod("a-0", "a", on="n"), verdict="Scheduled").status()
    actual = condition(status, "StrayPods")
    assert (actual.status, actual.reason) == ("True", "SubGroupIsABranch")
    assert all(f"`team/{name}`" in actual.message for name in ("high", "lost", "none", "runs"))
    assert status.running == 1


def test_many_strays_are_counted_and_not_all_listed() -> None:
    """A message is for people (N4)."""
    status = decided(podgroup(minMember=1), *(pod(f"s{i:02}", "nobody") for i in range(40))).status()
    assert condition(status, "StrayPods").message.endswith("and 35 more")


def test_a_gang_that_does_not_want_it_has_no_conditions_on_its_pods() -> None:
    """The PodGroup still has its condition (S4)."""
    manifest = WITH_ROLES | {"spec": WITH_ROLES["spec"] | {"markUnschedulable": False}}
    decision = decided(manifest, *STRAYS, pod("a-0", "a"), verdict="Infeasible", refusals=[NO_ROOM])
    assert on_pods(decision) == {}
    assert kinds(decision.status()) == ["Scheduled", "StrayPods"]


# queues -------------------------------------------------------------------------------------------------------------


def on_queues(*raws: Raw, bind: Raw | None = None) -> dict[str, QueueStatus]:
    snapshot = take(muster.objects(raws), NOW)
    bindings = [Binding("team", name, node, "gang", "", "core") for name, node in (bind or {}).items()]
    return queue_statuses(snapshot, CyclePlan(tuple(bindings)), NOW)


def test_a_queue_holds_what_the_queues_below_it_hold() -> None:
    """Added up to the top, with what this plan binds (E2, Q1)."""
    conditions = on_queues(
        queue("top"),
        queue("b", "top"),
        queue("a", "top"),
        podgroup(minMember=1, queue="a", preemptibility="semi-preemptible"),
        *pods(2, on="n", cpu=1),
        *pods(2, cpu=1, first=2),
        podgroup(name="other", queue="b"),
        pod("o", on="n", gang="other", cpu=3),
        bind={"pod-2": "n"},
    )
    assert conditions["a"].requested == {"cpu": 4000}
    assert conditions["a"].allocated == {"cpu": 3000}
    assert conditions["a"].allocated_non_preemptible == {"cpu": 1000}
    assert (conditions["top"].requested, conditions["top"].allocated) == ({"cpu": 7000}, {"cpu": 6000})
    assert conditions["top"].child_queues == ("a", "b")
    assert {condition(one, "Ready").status for one in conditions.values()} == {"True"}


@pytest.mark.parametrize(
    ("queues", "says"),
    [
        ([queue("q", "gone")], "`gone`, the parent queue of `q`, does not exist"),
        ([queue("q", "p"), queue("p", "gone")], "`gone`, the parent queue of `p`, does not exist"),
        ([queue("q", "p"), queue("p", "q")], "its parents go round in a circle at `q`"),
        ([queue("q", "q")], "its parents go round in a circle at `q`"),
    ],
)
def test_a_queue_outside_the_tree_tells_why(queues: list[Raw], says: str) -> None:
    """Nothing is scheduled from it, and the condition says why (Q1, E3)."""
    actual = condition(on_queues(*queues)["q"], "Ready")
    assert (actual.status, actual.reason) == ("False", "QueueNotInTree")
    assert actual.message == f"nothing is scheduled from it: {says}"


def test_the_queue_that_exists_by_itself_has_no_status() -> None:
    """There is no object to write it on (Q2)."""
    assert on_queues(podgroup(minMember=1), pod("a", on="n")) == {}

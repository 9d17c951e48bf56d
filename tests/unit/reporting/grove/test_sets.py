"""A PodCliqueSet as people see it: replicas, gangs, cliques and pods, with minimums, gates, reasons and domains."""

from datetime import UTC, datetime
from typing import Any

import pytest

import muster
from muster.api import names
from muster.api.resources import POD_CLIQUE_SETS, POD_GANGS
from muster.errors import InputError
from muster.model.snapshot import take
from muster.planning.decision import GangPlan
from muster.reporting.grove.set_reports import SetReport, SetSituation, report_set
from muster.reporting.grove.set_views import MANY_PODS, draw_set, set_data
from muster.reporting.text import plain
from muster.workloads.types import Raw
from tests.support.grove import clique, group, pod_clique_set
from tests.unit.planning.grove.test_planned_sets import binding, gpus, node, nodes, two_gangs

OURS = ("muster",)


def as_it_is(*raws: Raw) -> SetReport:
    grouped = muster.group(muster.objects(raws)).grouped
    snapshot = take(grouped.objects, datetime(2026, 1, 1, tzinfo=UTC))
    gangs = {gang.key: GangPlan(gang, "Waiting", snapshot=snapshot) for gang in snapshot.gangs}
    return report_set(SetSituation(grouped.parts, grouped.objects.pods, gangs, schedulers=OURS), "team", "w")


def as_planned(*raws: Raw) -> SetReport:
    plan = muster.plan(muster.objects(raws))
    gangs = {gang.gang.key: gang for gang in plan.decided.gangs}
    situation = SetSituation(plan.grouped.parts, plan.grouped.objects.pods, gangs, plan.scaled, is_planned=True)
    return report_set(situation, "team", "w")


def states(report: SetReport) -> dict[str, str]:
    return {gang.name: gang.state for replica in report.replicas for gang in replica.gangs}


def test_a_set_is_shown_by_replicas_and_gangs_with_the_base_first() -> None:
    report = as_it_is(two_gangs(replicas=2))
    assert [[gang.name for gang in replica.gangs] for replica in report.replicas] == [
        ["w-0", "w-0-sg-0"],
        ["w-1", "w-1-sg-0"],
    ]
    assert [gang.base for gang in report.replicas[0].gangs] == ["", "w-0"]


def test_a_gated_gang_says_what_it_waits_for() -> None:
    report = as_it_is(two_gangs())
    assert states(report) == {"w-0": "Waiting", "w-0-sg-0": "Gated"}
    assert report.replicas[0].gangs[1].reasons == ("base PodGang `w-0` is not scheduled yet",)


def test_a_plan_shows_where_pods_go_and_what_is_core() -> None:
    report = as_planned(pod_clique_set(clique("a", 3, 2)), *nodes(1))
    (gang,) = report.replicas[0].gangs
    assert gang.state == "Scheduled"
    assert [(pod.node, pod.role) for pod in gang.cliques[0].pods] == [("n0", "core"), ("n0", "core"), ("n0", "extra")]


def test_a_gang_without_room_gives_the_reason_of_explain() -> None:
    report = as_planned(two_gangs(), *nodes(2))
    base, scaled = report.replicas[0].gangs
    assert base.is_satisfied
    assert scaled.state == "Infeasible"
    assert scaled.reasons[0].startswith("no room for `w-0-sg-1-b`: needs 1 pod")
    assert report.replicas[0].is_satisfied, "a replica serves as soon as its base gang does"


def test_a_gang_whose_base_has_no_room_names_the_base_and_no_shortage_of_its_own() -> None:
    scaled = as_planned(two_gangs(), *nodes(1)).replicas[0].gangs[1]
    assert (scaled.state, scaled.reasons) == ("Gated", ())
    assert scaled.note == "its pods stay behind their gate until base gang `team/w-0` is scheduled"


def test_hints_are_about_fields_of_the_set() -> None:
    """A PodGroup of a PodGang is not its user's to change."""
    (gang,) = as_planned(pod_clique_set(gpus("a", 2), gpus("b", 2)), *nodes(3)).replicas[0].gangs
    assert gang.hints
    assert all("`minAvailable: 1` on `w-0-" in hint for hint in gang.hints)


def test_domains_are_those_of_the_gang_the_group_and_the_clique() -> None:
    within: dict[str, Any] = {"topologyName": "dc"}
    raw = pod_clique_set(
        clique("a", topologyConstraint={**within, "pack": {"required": "rack"}}),
        clique("b"),
        groups=[group("sg", "b", topologyConstraint={**within, "pack": {"required": "rack"}})],
        topologyConstraint={**within, "pack": {"required": "zone"}},
    )
    (gang,) = as_planned(raw, binding(), node("n", zone="z", rack="r")).replicas[0].gangs
    assert gang.domain == "z"
    assert [(clique.name, clique.domain) for clique in gang.cliques] == [("w-0-a", "z/r"), ("w-0-sg-0-b", "z/r")]


def test_a_missing_domain_is_noted_on_the_set() -> None:
    packed = two_gangs(topologyConstraint={"topologyName": "dc", "pack": {"required": "zone"}})
    assert "ClusterTopologyBinding `dc` does not exist" in as_it_is(packed).notes[0]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (pod_clique_set(clique("a"), replicas=0), "it has no replicas"),
        (
            pod_clique_set(clique("a", spec={"podSpec": {"schedulerName": "other", "containers": [{"name": "a"}]}})),
            "its pods name scheduler `other`, and are left to that",
        ),
    ],
)
def test_what_keeps_a_set_from_having_pods_is_noted(raw: Raw, says: str) -> None:
    assert says in as_it_is(raw).notes[0]


def test_a_set_that_is_not_there_is_an_error_with_those_that_are() -> None:
    grouped = muster.group(muster.objects([two_gangs()])).grouped
    with pytest.raises(InputError, match="known: pcs/team/w"):
        report_set(SetSituation(grouped.parts, (), {}), "team", "nope")


def test_a_set_that_another_operator_has_is_shown_without_gangs() -> None:
    """Only the set is there: nothing has become of it."""
    raw = {"apiVersion": POD_CLIQUE_SETS.api_version, "kind": POD_CLIQUE_SETS.kind, **two_gangs()}
    report = report_set(SetSituation([raw], (), {}), "team", "w")
    assert plain(draw_set(report)) == "team/w  PodCliqueSet  0 of 1 replica scheduled"


def test_a_scaled_gang_is_known_by_its_cliques() -> None:
    """Grove's own operator puts the name of the base on cliques and pods, not on the gang."""
    grouped = muster.group(muster.objects([two_gangs()])).grouped
    parts = [_without_base(part) if part["kind"] == POD_GANGS.kind else part for part in grouped.parts]
    report = report_set(SetSituation(parts, grouped.objects.pods, {}), "team", "w")
    assert [gang.base for gang in report.replicas[0].gangs] == ["", "w-0"]


def _without_base(part: Raw) -> Raw:
    labels = {name: value for name, value in part["metadata"]["labels"].items() if name != names.BASE_POD_GANG}
    return {**part, "metadata": {**part["metadata"], "labels": labels}}


def test_pods_of_a_large_set_are_left_out_of_the_picture_but_not_of_the_data() -> None:
    report = as_it_is(pod_clique_set(clique("a", MANY_PODS + 1)))
    assert f"{MANY_PODS + 1} pods are left out here" in plain(draw_set(report))
    (gang,) = set_data(report)["setReplicas"][0]["podGangs"]
    assert len(gang["podCliques"][0]["pods"]) == MANY_PODS + 1


def test_a_set_of_many_gangs_is_drawn_gang_by_gang() -> None:
    text = plain(draw_set(as_it_is(pod_clique_set(clique("a"), replicas=60))))
    assert text.count("w-59") == 2, "its gang, and the replica that needs it"
    assert "cliques and 60 pods are left out here" in text


def test_gangs_that_wait_for_the_same_reason_are_listed_together() -> None:
    raw = pod_clique_set(clique("a"), clique("b"), groups=[group("sg", "b", replicas=4)])
    text = plain(draw_set(as_it_is(raw)))
    assert "Gated  w-0-sg-0, w-0-sg-1, w-0-sg-2\n  base PodGang `w-0` is not scheduled yet" in text


def test_the_picture_and_the_data_agree_on_what_is_placed() -> None:
    report = as_planned(two_gangs(), *nodes(3))
    shown = set_data(report)
    gangs = shown["setReplicas"][0]["podGangs"]
    assert shown["scheduledReplicas"] == 1
    assert [clique["placed"] for gang in gangs for clique in gang["podCliques"]] == [1, 1, 1]
    assert "3/3" in plain(draw_set(report))

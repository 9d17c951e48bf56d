"""P1: a PriorityClass that does not exist is said: the gang waits, as it does without its queue."""

from typing import Any

import pytest

import muster
from muster.reporting.explain import reasons
from tests.spec.scene import warnings
from tests.support.factories import Raw, node, pod, podgroup, priority_class

HIGH = priority_class("high", 90)


def judged(*raws: Raw) -> tuple[str, list[dict[str, Any]]]:
    gang_plan = muster.plan(muster.objects([node("n"), *raws])).decided.gang("team/gang")
    return gang_plan.verdict, reasons(gang_plan)


def by_label(name: str) -> Raw:
    group = podgroup(minMember=1)
    group["metadata"]["labels"] = {"priorityClassName": name}
    return group


@pytest.mark.parametrize("group", [podgroup(minMember=1, priorityClassName="hihg"), by_label("hihg")])
@pytest.mark.parametrize("classes", [(), (HIGH,)])
def test_a_gang_waits_for_a_priority_class_that_does_not_exist(group: Raw, classes: tuple[Raw, ...]) -> None:
    """Also where there is none at all: 50 is for gangs that name none."""
    verdict, (reason,) = judged(group, *classes, pod("p"))
    assert (verdict, reason["reason"]) == ("Waiting", "PriorityClassDoesNotExist")
    assert reason["details"] == {"priorityClass": "hihg"}
    assert reason["message"] == "priority class `hihg` does not exist"


@pytest.mark.parametrize("name", ["", "high", "system-cluster-critical", "system-node-critical"])
def test_a_class_that_exists_is_no_reason_to_wait(name: str) -> None:
    """Kubernetes' own exist in every cluster."""
    assert judged(podgroup(minMember=1, priorityClassName=name), HIGH, pod("p")) == ("Scheduled", [])


def test_a_gang_that_runs_keeps_running_without_its_class() -> None:
    """Its status says so, and it gets nothing more until the class is back."""
    runs = [pod("p0", on="n", phase="Running"), pod("p1")]
    verdict, (reason,) = judged(podgroup(minMember=1, priorityClassName="hihg"), *runs)
    assert (verdict, reason["reason"]) == ("Scheduled", "PriorityClassDoesNotExist")


def test_a_class_that_does_not_exist_is_warned_about() -> None:
    """Where the classes around are known."""
    group = podgroup(minMember=1, priorityClassName="hihg")
    (warning,) = warnings(group, around=[HIGH])
    assert (warning.rule, warning.at) == ("P1", "spec.priorityClassName")
    assert "the PodGroup will wait" in warning.says
    assert warnings(group) == []

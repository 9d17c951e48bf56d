"""Which pods the grouper groups."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from muster.api.meta import ObjectMeta
from muster.grouping.eligibility import is_grouped
from muster.grouping.group import assign
from muster.grouping.owners import OwnerChain
from muster.grouping.types import Owner, Ungrouped, WorkloadPod
from tests.support.owned_pods import pod

OURS = ("muster", "kai-scheduler")
JOINED = {"pod-group-name": "g"}
MARKED = {**JOINED, "muster.dev/grouped-by": "Job"}


def terminating(member: WorkloadPod) -> WorkloadPod:
    return replace(member, metadata=replace(member.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))


@pytest.mark.parametrize(("scheduler", "expected"), [("muster", True), ("kai-scheduler", True), ("other", False),
                                                     ("", False)])  # fmt: skip
def test_pods_that_name_our_scheduler_are_grouped(scheduler: str, expected: bool) -> None:
    """N6."""
    assert is_grouped(pod(scheduler=scheduler), OURS) is expected


def test_in_files_pods_that_name_no_scheduler_are_grouped_too() -> None:
    """N6."""
    assert is_grouped(pod(scheduler=""), OURS, is_from_file=True)
    assert not is_grouped(pod(scheduler="other"), OURS, is_from_file=True)


@pytest.mark.parametrize("value", ["", "true", "false"])
def test_a_pod_that_skips_the_grouper_is_left_alone(value: str) -> None:
    skip = {"kai.scheduler/skip-podgrouper": value}
    assert not is_grouped(pod(annotations=skip), OURS)
    assert not is_grouped(pod(labels=skip), OURS)


def test_a_podgroup_that_a_user_chose_is_left_alone() -> None:
    """Hand-written PodGroups keep working, for pods with and without owners."""
    assert not is_grouped(pod(annotations=JOINED), OURS)


def test_a_podgroup_that_the_grouper_chose_follows_its_workload() -> None:
    assert is_grouped(pod(annotations=MARKED), OURS)


def test_a_pod_that_ended_gets_no_new_podgroup_and_keeps_the_one_it_has() -> None:
    for over in (pod(phase="Succeeded"), pod(phase="Failed"), terminating(pod())):
        assert not is_grouped(over, OURS)
    for over in (pod(phase="Succeeded", annotations=MARKED), terminating(pod(annotations=MARKED))):
        assert is_grouped(over, OURS)


@pytest.mark.parametrize("place", ["annotations", "labels"])
def test_an_owner_that_says_skip_leaves_its_pods_alone_and_they_say_so(place: str) -> None:
    """A pod that nothing groups and that names no PodGroup would wait in silence (N4)."""
    metadata = replace(ObjectMeta(name="train", uid="u"), **{place: {"kai.scheduler/skip-podgrouper": "true"}})
    job = Owner("batch/v1", "Job", metadata)
    result = assign(WorkloadPod(ObjectMeta(name="train-0", namespace="d", uid="p")), OwnerChain((job,)))
    assert isinstance(result, Ungrouped)
    assert (result.reason, "pod-group-name" in result.hint) == ("SkippedByOwner", True)

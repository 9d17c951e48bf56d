"""Jobs run pods until enough have succeeded, and count each exactly once."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.resources import JOBS, PODS
from muster.kube.cluster import Raw
from muster.workloads.batch.job_tally import MOST_UNCOUNTED, TRACKING_FINALIZER
from tests.support.workload_objects import WorkloadObjects, workload

INDEX = "batch.kubernetes.io/job-completion-index"


def submitted(**spec: Any) -> WorkloadObjects:
    objects = WorkloadObjects()
    raw = workload(JOBS, **spec)
    del raw["spec"]["selector"]
    objects.create(JOBS, raw)
    objects.settle()
    return objects


def status(objects: WorkloadObjects) -> Raw:
    value: Raw = objects.get(JOBS)["status"]
    return value


def conditions(objects: WorkloadObjects) -> dict[str, str]:
    """The conditions that are True, with their reasons."""
    return {each["type"]: each["reason"] for each in status(objects).get("conditions", ()) if each["status"] == "True"}


def running(objects: WorkloadObjects) -> list[str]:
    return [raw["metadata"]["name"] for raw in objects.all_of(PODS) if raw["status"]["phase"] == "Running"]


def test_a_pod_has_the_labels_and_the_finalizer_of_its_job() -> None:
    objects = submitted()
    (pod,) = objects.all_of(PODS)
    labels = {"controller-uid": "uid-1", "batch.kubernetes.io/controller-uid": "uid-1"}
    labels |= {"job-name": "w", "batch.kubernetes.io/job-name": "w"}
    assert pod["metadata"]["labels"] == {"app": "x", **labels}
    assert pod["metadata"]["finalizers"] == [TRACKING_FINALIZER]
    assert pod["metadata"]["generateName"] == "w-"
    selector = objects.get(JOBS)["spec"]["selector"]
    assert selector == {"matchLabels": {"batch.kubernetes.io/controller-uid": "uid-1"}}


def test_a_pod_of_an_indexed_job_has_its_index() -> None:
    objects = submitted(completions=2, parallelism=2, completionMode="Indexed")
    pods = objects.all_of(PODS)
    assert [raw["metadata"]["generateName"] for raw in pods] == ["w-0-", "w-1-"]
    assert [raw["metadata"]["annotations"][INDEX] for raw in pods] == ["0", "1"]
    assert [raw["metadata"]["labels"][INDEX] for raw in pods] == ["0", "1"]
    assert [raw["spec"]["hostname"] for raw in pods] == ["w-0", "w-1"]
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    assert pods[0]["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]


def test_a_long_name_leaves_room_for_the_index() -> None:
    objects = WorkloadObjects()
    name = "a" * 63
    objects.create(JOBS, workload(JOBS, name, completions=1, completionMode="Indexed"))
    objects.reconcile(JOBS, name)
    (pod,) = objects.all_of(PODS)
    assert pod["metadata"]["generateName"] == "a" * 55 + "-0-"


def test_no_more_pods_run_than_completions_are_missing() -> None:
    objects = submitted(completions=3, parallelism=2)
    assert len(running(objects)) == 2
    for name in running(objects):
        objects.finish(name)
    objects.settle()
    assert len(running(objects)) == 1
    objects.finish(*running(objects))
    objects.settle()
    assert conditions(objects) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    assert status(objects)["succeeded"] == 3
    assert status(objects)["completionTime"]
    assert all(not raw["metadata"].get("finalizers") for raw in objects.all_of(PODS))


def test_without_completions_one_success_is_enough() -> None:
    """A work queue: after the first success no pod is made, and the others may end."""
    objects = submitted(parallelism=3)
    first, second, third = running(objects)
    objects.finish(first)
    objects.settle()
    assert "Complete" not in conditions(objects)
    objects.finish(second)
    objects.finish(third, "Failed")
    objects.settle()
    assert "Complete" in conditions(objects)
    assert len(objects.names()) == 3


def test_completed_indexes_are_ranges() -> None:
    objects = submitted(completions=6, parallelism=6, completionMode="Indexed")
    for name in running(objects):
        if name[2] in "0134":
            objects.finish(name)
    objects.settle()
    assert status(objects)["completedIndexes"] == "0,1,3,4"
    for name in running(objects):
        objects.finish(name)
    objects.settle()
    assert status(objects)["completedIndexes"] == "0-5"


def test_an_index_is_made_again_until_it_succeeds() -> None:
    objects = submitted(completions=2, parallelism=2, completionMode="Indexed")
    objects.finish(running(objects)[0], "Failed")
    objects.advance(3600)
    objects.settle()
    again = [raw for raw in objects.all_of(PODS) if raw["status"]["phase"] == "Running"]
    assert sorted(raw["metadata"]["annotations"][INDEX] for raw in again) == ["0", "1"]


def test_failures_wait_longer_and_longer() -> None:
    objects = submitted()
    for seconds in (10, 20, 40):
        objects.finish(running(objects)[0], "Failed")
        objects.settle()
        assert running(objects) == []
        assert objects.reconcile(JOBS).again_after_seconds == seconds
        objects.advance(seconds)
        objects.settle()
        assert len(running(objects)) == 1


@pytest.mark.parametrize("limit", [0, 2])
def test_a_job_fails_beyond_its_backoff_limit(limit: int) -> None:
    objects = submitted(backoffLimit=limit)
    for _ in range(limit + 1):
        objects.finish(running(objects)[0], "Failed")
        objects.advance(3600)
        objects.settle()
    assert conditions(objects) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert status(objects)["failed"] == limit + 1


def test_a_job_that_failed_deletes_its_other_pods() -> None:
    objects = submitted(backoffLimit=0, parallelism=3, completions=3)
    objects.finish(running(objects)[0], "Failed")
    objects.settle()
    assert "Failed" in conditions(objects)
    assert len(objects.names()) == 1
    assert status(objects)["failed"] == 3


def test_a_job_ends_at_its_deadline() -> None:
    objects = submitted(activeDeadlineSeconds=60)
    assert objects.reconcile(JOBS).again_after_seconds == 60
    objects.advance(60)
    objects.settle()
    assert conditions(objects)["Failed"] == "DeadlineExceeded"
    assert objects.names() == []


def test_a_failed_index_does_not_end_the_others() -> None:
    objects = submitted(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    for count in range(2):
        (name,) = [name for name in running(objects) if name.startswith("w-0-")]
        failures = objects.get(PODS, name)["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
        assert failures == str(count)
        objects.finish(name, "Failed")
        objects.advance(3600)
        objects.settle()
    assert status(objects)["failedIndexes"] == "0"
    assert [name[:4] for name in running(objects)] == ["w-1-"]
    objects.finish(*running(objects))
    objects.settle()
    assert conditions(objects)["Failed"] == "FailedIndexes"
    assert status(objects)["completedIndexes"] == "1"


def test_a_suspended_job_has_no_pods_and_starts_its_clock_again() -> None:
    objects = submitted(parallelism=2, completions=2)
    assert status(objects)["startTime"]
    objects.change(JOBS, suspend=True)
    objects.settle()
    assert (objects.names(), conditions(objects)) == ([], {"Suspended": "JobSuspended"})
    assert "startTime" not in status(objects)
    assert "failed" not in status(objects)
    objects.advance(100)
    objects.change(JOBS, suspend=False)
    objects.settle()
    assert (len(running(objects)), conditions(objects)) == (2, {})
    assert status(objects)["startTime"] == "2026-01-01T00:01:40Z"


def test_fewer_parallel_pods_are_not_failures() -> None:
    objects = submitted(parallelism=4, completions=8)
    objects.change(JOBS, parallelism=1)
    objects.settle()
    assert len(running(objects)) == 1
    assert "failed" not in status(objects)


def test_a_deleted_pod_counts_as_failed() -> None:
    objects = submitted()
    objects.delete(PODS, *running(objects))
    objects.advance(3600)
    objects.settle()
    assert (status(objects)["failed"], len(running(objects))) == (1, 1)


def test_a_job_is_deleted_when_its_time_has_passed() -> None:
    objects = submitted(ttlSecondsAfterFinished=30)
    objects.finish(*running(objects))
    objects.settle()
    assert objects.reconcile(JOBS).again_after_seconds == 30
    objects.advance(30)
    objects.settle()
    assert (JOBS, "w") not in objects.objects


def test_a_job_of_another_controller_is_left_alone() -> None:
    objects = submitted(managedBy="kueue.x-k8s.io/multikueue")
    assert objects.names() == []
    assert "status" not in objects.get(JOBS)


def test_many_pods_are_counted_in_parts() -> None:
    objects = submitted(parallelism=1200, completions=1200)
    for name in running(objects):
        objects.finish(name)
    most = 0
    while "Complete" not in conditions(objects):
        objects.reconcile(JOBS)
        most = max(most, len(status(objects)["uncountedTerminatedPods"].get("succeeded", ())))
    assert (most, status(objects)["succeeded"], len(objects.names())) == (MOST_UNCOUNTED, 1200, 1200)


@settings(deadline=None)
@given(st.data(), st.sampled_from(["NonIndexed", "Indexed"]))
def test_every_pod_is_counted_once(data: st.DataObject, mode: str) -> None:
    """Whatever ends or is deleted when, and wherever the controller stops between two writes."""
    objects = submitted(parallelism=3, completions=6, backoffLimit=1000, completionMode=mode)
    succeeded: set[str] = set()
    failed: set[str] = set()
    for _ in range(data.draw(st.integers(1, 25))):
        active = [name for name in running(objects) if "deletionTimestamp" not in objects.get(PODS, name)["metadata"]]
        match data.draw(st.sampled_from(["succeed", "fail", "delete", "crash", "settle", "settle"])):
            case "succeed" if active:
                objects.finish(name := data.draw(st.sampled_from(active)))
                succeeded.add(name)
            case "fail" if active:
                objects.finish(name := data.draw(st.sampled_from(active)), "Failed")
                failed.add(name)
            case "delete" if active:
                objects.delete(PODS, name := data.draw(st.sampled_from(active)))
                failed.add(name)
            case "crash":
                before = objects.get(JOBS)
                reconciliation = objects.controllers[JOBS].reconcile(before, objects, objects.now)
                for action in reconciliation.actions[: data.draw(st.integers(0, len(reconciliation.actions)))]:
                    objects.perform(action)
            case _:
                objects.advance(3600)
                objects.settle()
    objects.advance(3600)
    objects.settle()
    if mode == "NonIndexed":
        assert status(objects).get("succeeded", 0) == len(succeeded)
    else:
        indexes = {name.split("-")[1] for name in succeeded}
        assert status(objects).get("succeeded", 0) == len(indexes)
    assert status(objects).get("failed", 0) == len(failed)
    assert ("Complete" in conditions(objects)) == (status(objects).get("succeeded", 0) >= 6)

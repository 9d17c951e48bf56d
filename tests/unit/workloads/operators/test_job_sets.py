"""JobSets: the Jobs, labels, order, restarts and ends that their operator is known for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.resources import JOB_SETS, JOBS, PODS, SERVICES
from muster.workloads.operators.job_sets import CONTROLLER
from muster.workloads.types import Raw
from tests.unit.workloads.operators.operator_world import OperatorWorld, condition

P = "jobset.sigs.k8s.io/"


def replicated_job(name: str, replicas: int = 1, parallelism: int = 2, **more: Any) -> Raw:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main"}]}}
    spec = {"parallelism": parallelism, "completions": parallelism, "backoffLimit": 0, "template": template}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def job_set(*jobs: Raw, metadata: Raw | None = None, **spec: Any) -> Raw:
    metadata = {"name": "train", **(metadata or {})}
    spec = {
        "replicatedJobs": list(jobs or (replicated_job("leader", parallelism=1), replicated_job("workers", 2))),
        **spec,
    }
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def world(raw: Raw) -> OperatorWorld:
    cluster = OperatorWorld()
    cluster.add(JOB_SETS, raw)
    return cluster


def set_of(cluster: OperatorWorld) -> Raw:
    return cluster.get(JOB_SETS, "train")


def test_the_service_comes_first_then_all_jobs_then_their_pods() -> None:
    cluster = world(job_set())
    assert cluster.settle() == [
        "Service train",
        "Job train-leader-0",
        "Job train-workers-0",
        "Job train-workers-1",
        "Pod train-leader-0-0",
        "Pod train-workers-0-0",
        "Pod train-workers-0-1",
        "Pod train-workers-1-0",
        "Pod train-workers-1-1",
    ]
    assert cluster.owners("train-workers-1-0") == ["Job train-workers-1", "JobSet train"]


def test_jobs_and_pods_tell_their_place_in_labels_and_annotations() -> None:
    cluster = world(job_set())
    cluster.settle()
    expected = {
        P + "jobset-name": "train",
        P + "replicatedjob-name": "workers",
        P + "restart-attempt": "0",
        P + "replicatedjob-replicas": "2",
        P + "global-replicas": "3",
        P + "job-index": "1",
        P + "job-global-index": "2",
        P + "job-key": "066e92b83f8e0bdde1a0f6fffaadbfdd137ab5bb",
    }
    job, pod = cluster.get(JOBS, "train-workers-1"), cluster.get(PODS, "train-workers-1-0")
    assert job["metadata"]["labels"] == expected
    assert job["metadata"]["annotations"] == expected
    assert pod["metadata"]["labels"] == {"app": "workers", **expected}
    assert pod["metadata"]["annotations"] == expected


def test_jobs_are_indexed_and_pods_have_hostnames_unless_the_user_says_otherwise() -> None:
    cluster = world(job_set())
    cluster.settle()
    spec = cluster.get(JOBS, "train-leader-0")["spec"]
    assert (spec["completionMode"], spec["template"]["spec"]["restartPolicy"]) == ("Indexed", "OnFailure")
    assert spec["template"]["spec"]["subdomain"] == "train"
    plain = world(job_set(network={"enableDNSHostnames": False}))
    plain.settle()
    assert plain.names(SERVICES) == []
    assert "subdomain" not in plain.get(JOBS, "train-leader-0")["spec"]["template"]["spec"]


def test_a_coordinator_stands_on_every_job() -> None:
    coordinator = {"replicatedJob": "leader", "jobIndex": 0, "podIndex": 0}
    cluster = world(job_set(coordinator=coordinator, network={"subdomain": "net"}))
    cluster.settle()
    assert cluster.get(JOBS, "train-workers-0")["metadata"]["labels"][P + "coordinator"] == "train-leader-0-0.net"
    assert cluster.names(SERVICES) == ["net"]


def test_exclusive_placement_stands_on_the_pods() -> None:
    topology = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
    cluster = world(job_set(metadata={"annotations": topology}))
    cluster.settle()
    assert topology.items() <= cluster.get(PODS, "train-leader-0-0")["metadata"]["annotations"].items()


# order


def test_in_order_a_replicated_job_waits_until_those_before_are_ready() -> None:
    cluster = world(job_set(startupPolicy={"startupPolicyOrder": "InOrder"}))
    cluster.settle()
    assert cluster.names(JOBS) == ["train-leader-0"]
    assert condition(set_of(cluster), "StartupPolicyInProgress").startswith("True")
    cluster.run_pods()
    cluster.settle()
    assert cluster.names(JOBS) == ["train-leader-0", "train-workers-0", "train-workers-1"]
    cluster.run_pods()
    cluster.settle()
    assert condition(set_of(cluster), "StartupPolicyCompleted").startswith("True")
    assert condition(set_of(cluster), "StartupPolicyInProgress").startswith("False")


@pytest.mark.parametrize(("state", "phase"), [("Ready", "Running"), ("Complete", "Succeeded")])
def test_a_replicated_job_waits_for_the_one_it_depends_on(state: str, phase: str) -> None:
    depends_on = [{"name": "prepare", "status": state}]
    cluster = world(job_set(replicated_job("prepare"), replicated_job("train", dependsOn=depends_on)))
    cluster.settle()
    assert cluster.names(JOBS) == ["train-prepare-0"]
    cluster.set_pods(phase)
    cluster.settle()
    assert cluster.names(JOBS) == ["train-prepare-0", "train-train-0"]


# suspension


def test_a_suspended_set_has_suspended_jobs_and_no_pods() -> None:
    cluster = world(job_set(suspend=True))
    cluster.settle()
    assert len(cluster.names(JOBS)) == 3
    assert cluster.pods() == []
    assert condition(set_of(cluster), "Suspended") == "True SuspendedJobs"
    cluster.merge(JOB_SETS, "train", {"spec": {"suspend": False}})
    cluster.settle()
    assert len(cluster.pods()) == 5
    assert condition(set_of(cluster), "Suspended") == "False ResumeJobs"
    cluster.merge(JOB_SETS, "train", {"spec": {"suspend": True}})
    cluster.settle()
    assert cluster.pods() == []


def test_a_suspended_set_in_order_resumes_in_order() -> None:
    cluster = world(job_set(suspend=True, startupPolicy={"startupPolicyOrder": "InOrder"}))
    cluster.settle()
    cluster.merge(JOB_SETS, "train", {"spec": {"suspend": False}})
    cluster.settle()
    assert cluster.pods() == ["train-leader-0-0"]


# ends


def test_all_jobs_succeeded_completes_the_set() -> None:
    cluster = world(job_set())
    cluster.settle(runs_pods=True)
    cluster.set_pods("Succeeded", "train-leader-0-0")
    cluster.settle()
    assert condition(set_of(cluster), "Completed") == ""
    cluster.set_pods("Succeeded")
    cluster.settle()
    assert condition(set_of(cluster), "Completed") == "True AllJobsCompleted"
    assert set_of(cluster)["status"]["terminalState"] == "Completed"


def test_a_success_policy_ends_the_set_with_its_targets_and_running_jobs_are_deleted() -> None:
    policy = {"operator": "All", "targetReplicatedJobs": ["leader"]}
    cluster = world(job_set(successPolicy=policy))
    cluster.settle(runs_pods=True)
    cluster.set_pods("Succeeded", "train-leader-0-0")
    cluster.settle()
    assert condition(set_of(cluster), "Completed").startswith("True")
    assert cluster.names(JOBS) == ["train-leader-0"]


def test_a_failed_job_fails_a_set_without_a_failure_policy() -> None:
    cluster = world(job_set())
    cluster.settle(runs_pods=True)
    cluster.set_pods("Failed", "train-workers-1-0")
    cluster.settle()
    assert condition(set_of(cluster), "Failed") == "True FailedJobs"
    assert "train-workers-1" in set_of(cluster)["status"]["conditions"][-1]["message"]


def test_a_failed_job_restarts_all_jobs_until_the_restarts_are_used_up() -> None:
    cluster = world(job_set(failurePolicy={"maxRestarts": 1}))
    cluster.settle(runs_pods=True)
    before = {name: cluster.get(JOBS, name)["metadata"]["uid"] for name in cluster.names(JOBS)}
    cluster.set_pods("Failed", "train-workers-1-0")
    cluster.settle(runs_pods=True)
    assert set_of(cluster)["status"]["restarts"] == 1
    assert [name for name, uid in before.items() if cluster.get(JOBS, name)["metadata"]["uid"] == uid] == []
    assert cluster.labels("train-leader-0-0")[P + "restart-attempt"] == "1"
    cluster.set_pods("Failed", "train-workers-1-0")
    cluster.settle()
    assert condition(set_of(cluster), "Failed") == "True ReachedMaxRestarts"


@pytest.mark.parametrize(
    ("action", "restarts", "failed"),
    [("FailJobSet", 0, True), ("RestartJobSetAndIgnoreMaxRestarts", 1, False), ("RestartJobSet", 0, True)],
)
def test_the_first_rule_that_concerns_the_failed_job_decides(action: str, restarts: int, failed: bool) -> None:
    other = {"action": "FailJobSet", "targetReplicatedJobs": ["leader"]}
    rules = [other, {"action": action, "onJobFailureReasons": ["BackoffLimitExceeded"]}]
    cluster = world(job_set(failurePolicy={"maxRestarts": 0, "rules": rules}))
    cluster.settle(runs_pods=True)
    cluster.set_pods("Failed", "train-workers-0-0")
    cluster.settle(runs_pods=True)
    assert set_of(cluster)["status"]["restarts"] == restarts
    assert condition(set_of(cluster), "Failed").startswith("True") == failed


def test_a_finished_set_goes_after_its_time_to_live() -> None:
    cluster = world(job_set(ttlSecondsAfterFinished=600))
    cluster.settle(runs_pods=True)
    cluster.set_pods("Succeeded")
    cluster.settle()
    again = CONTROLLER.reconcile(set_of(cluster), cluster, cluster.now).again_after_seconds
    assert again is not None
    assert 500 < again <= 600
    set_of(cluster)["status"]["conditions"][-1]["lastTransitionTime"] = "2026-05-04T11:00:00Z"
    cluster.settle()
    assert cluster.names(JOB_SETS) == []


# status


def test_status_counts_jobs_of_each_replicated_job() -> None:
    cluster = world(job_set())
    cluster.settle()
    cluster.run_pods("train-workers-0-0", "train-workers-0-1", "train-workers-1-0")
    cluster.set_pods("Succeeded", "train-leader-0-0")
    cluster.settle()
    none = {"failed": 0, "suspended": 0}
    assert set_of(cluster)["status"]["replicatedJobsStatus"] == [
        {"name": "leader", "ready": 0, "succeeded": 1, "active": 0, **none},
        {"name": "workers", "ready": 1, "succeeded": 0, "active": 2, **none},
    ]


def test_a_set_of_another_controller_is_left_alone() -> None:
    assert world(job_set(managedBy="kueue.x-k8s.io/multikueue")).settle() == []


@given(
    spec=st.recursive(
        st.none() | st.booleans() | st.sampled_from((-1, 0, 1, 3, 10**12)) | st.text(),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(
                    ("replicatedJobs", "name", "replicas", "template", "spec", "dependsOn", "failurePolicy", "network")
                ),
                inner,
            )
        ),
        max_leaves=8,
    )
)
def test_garbage_in_the_spec_never_raises(spec: Any) -> None:
    cluster = OperatorWorld()
    raw = cluster.add(JOB_SETS, {**job_set(), "spec": spec})
    CONTROLLER.reconcile(raw, cluster, cluster.now)

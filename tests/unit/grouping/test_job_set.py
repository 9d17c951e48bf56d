"""JobSet: a branch for every replicated job, a leaf for every replica."""

from typing import Any

import pytest
from msgspec.structs import replace

from muster.grouping.types import Owner, WorkloadPod
from tests.support.owned_pods import annotated, grouped, leaf, minimums, owner, picture, pod, tree, ungrouped


def replicated(name: str, replicas: int | None = None, parallelism: int | None = None, **more: Any) -> dict[str, Any]:
    """A replicated job; None leaves a field out."""
    spec = {} if parallelism is None else {"parallelism": parallelism}
    annotations = more.pop("annotations", {})
    completions = more.pop("completions", None)
    spec |= {} if completions is None else {"completions": completions}
    job = {"name": name, "template": {"metadata": {"annotations": annotations}, "spec": spec}}
    return job | ({} if replicas is None else {"replicas": replicas}) | more


def job_set(*jobs: dict[str, Any], **spec: Any) -> Owner:
    raw = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"}}
    return owner(raw, replicatedJobs=list(jobs), **spec)


def member(job: str, index: int | str = 0) -> WorkloadPod:
    labels = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": job}
    return pod(f"train-{job}-{index}-0-x", labels | {"jobset.sigs.k8s.io/job-index": str(index)})


DRIVER, WORKERS = replicated("driver", 1, 1), replicated("workers", 2, 4)


def test_a_job_set_is_one_gang_of_all_replicas_of_all_its_jobs() -> None:
    group = grouped(member("driver"), job_set(DRIVER, WORKERS))
    assert group.metadata.name == "pg-train-uid-train"
    assert tree(group) == picture("""
        2/2
          driver: 1/1
            driver-replica-0: 1
          workers: 2/2
            workers-replica-0: 4
            workers-replica-1: 4
    """)
    assert leaf(member("workers", 1), job_set(DRIVER, WORKERS)) == "workers-replica-1"


def test_all_pods_of_a_job_set_have_the_same_podgroup() -> None:
    """Pods belong to Jobs, and these to the JobSet."""
    job = owner("{apiVersion: batch/v1, kind: Job, metadata: {name: train-workers-1}}")
    top = job_set(DRIVER, WORKERS)
    assert grouped(member("driver"), top) == grouped(member("workers", 1), job, top)


def test_jobs_in_order_start_one_after_the_other() -> None:
    """The controller creates the next one when the one before is ready: waiting for all would wait for ever."""
    in_order = job_set(DRIVER, WORKERS, startupPolicy={"startupPolicyOrder": "InOrder"})
    assert tree(grouped(member("driver"), in_order)).startswith("1/2\n")
    any_order = job_set(DRIVER, WORKERS, startupPolicy={"startupPolicyOrder": "AnyOrder"})
    assert tree(grouped(member("driver"), any_order)).startswith("2/2\n")


def test_jobs_that_depend_on_others_are_not_waited_for() -> None:
    """Kubeflow's trainer runs initializers to completion before it creates the nodes."""
    trainer = replicated("node", 1, 8, dependsOn=[{"name": "model", "status": "Complete"}])
    workload = job_set(replicated("dataset"), replicated("model"), trainer)
    assert tree(grouped(member("dataset"), workload)).startswith("2/3\n")
    assert "created at once" in minimums(member("node"), workload)[""][1]


def test_replicas_and_parallelism_count_as_one_where_they_are_left_out() -> None:
    assert tree(grouped(member("a"), job_set(replicated("a")))) == "1/1\n  a: 1/1\n    a-replica-0: 1"


def test_a_job_never_has_more_pods_than_completions() -> None:
    assert "a-replica-0: 3" in tree(grouped(member("a"), job_set(replicated("a", 1, 8, completions=3))))


@pytest.mark.parametrize("empty", [replicated("idle", 0, 4), replicated("idle", 2, 0)])
def test_a_job_without_pods_is_left_out(empty: dict[str, Any]) -> None:
    assert "idle" not in tree(grouped(member("driver"), job_set(empty, DRIVER)))


def test_a_template_may_state_the_minimum_and_the_topology_of_its_replicas() -> None:
    annotations = {"kai.scheduler/batch-min-member": "2", "kai.scheduler/topology-required-placement": "rack"}
    workload = job_set(replicated("a", 2, 4, annotations=annotations))
    assert tree(grouped(member("a"), workload)) == picture("""
        1/1
          a: 2/2
            a-replica-0: 2 @rack
            a-replica-1: 2 @rack
    """)


def test_a_job_set_may_state_how_many_of_its_jobs_are_needed() -> None:
    workload = job_set(DRIVER, WORKERS, startupPolicy={"startupPolicyOrder": "InOrder"})
    assert tree(grouped(member("driver"), annotated(workload, batch_min_member="2"))).startswith("2/2\n")
    assert tree(grouped(member("driver"), annotated(workload, batch_min_member="9"))).startswith("2/2\n")


def test_a_minimum_on_a_template_that_is_none_is_said() -> None:
    workload = job_set(replicated("a", annotations={"kai.scheduler/batch-min-member": "all"}))
    assert ungrouped(member("a"), workload).reason == "InvalidAnnotation"


def test_names_that_would_meet_stay_apart() -> None:
    """A replicated job may be called like the replica of another one."""
    workload = job_set(replicated("a", 1), replicated("a-replica-0", 1))
    names = [part.name for part in grouped(member("a"), workload).spec.sub_groups]
    assert len(set(names)) == len(names) == 4
    assert leaf(member("a"), workload) != leaf(member("a-replica-0"), workload)
    assert {leaf(member("a"), workload), leaf(member("a-replica-0"), workload)} <= set(names)


def test_a_replica_that_was_scaled_away_is_said() -> None:
    assert ungrouped(member("workers", 2), job_set(DRIVER, WORKERS)).reason == "NoSuchGroup"
    assert ungrouped(member("other"), job_set(DRIVER, WORKERS)).reason == "NoSuchGroup"


@pytest.mark.parametrize(("job", "index"), [("", 0), ("driver", ""), ("driver", "x")])
def test_a_pod_without_its_labels_is_said(job: str, index: int | str) -> None:
    assert ungrouped(member(job, index), job_set(DRIVER)).reason == "LabelMissing"


def test_a_replica_count_beyond_reason_is_said_in_little_time() -> None:
    assert ungrouped(member("a"), job_set(replicated("a", 10**9, 1))).reason == "TooLarge"


EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "topology/rack"}


def indexed(job: str, index: int, pod_index: int) -> WorkloadPod:
    labels = member(job, index).metadata.labels | {"batch.kubernetes.io/job-completion-index": str(pod_index)}
    return pod(f"train-{job}-{index}-{pod_index}-x", labels)


@pytest.mark.parametrize("is_on_template", [True, False])
def test_pods_that_are_admitted_after_the_first_one_has_a_node_count_once_they_exist(is_on_template: bool) -> None:
    """JobSet's webhook rejects them until then: a gang of four would wait for ever for the other three."""
    workers = replicated("workers", 1, 4, annotations=EXCLUSIVE if is_on_template else {})
    bare = job_set(workers)
    top = bare if is_on_template else replace(bare, metadata=replace(bare.metadata, annotations=EXCLUSIVE))
    first, other = "workers-replica-0-leader", "workers-replica-0-followers"
    assert (leaf(indexed("workers", 0, 0), top), leaf(indexed("workers", 0, 3), top)) == (first, other)
    alone = tree(grouped(indexed("workers", 0, 0), top, present={first}))
    assert alone == picture("""
        1/1
          workers: 1/1
            workers-replica-0: 1/2
              workers-replica-0-leader: 1
              workers-replica-0-followers: 3
    """)
    whole = tree(grouped(indexed("workers", 0, 0), top, present={first, other}))
    assert whole == alone.replace("1/2", "2/2")


def test_an_exclusive_topology_by_node_selectors_lets_no_pod_wait() -> None:
    selectors = EXCLUSIVE | {"alpha.jobset.sigs.k8s.io/node-selector": "true"}
    top = job_set(replicated("workers", 1, 4, annotations=selectors))
    assert leaf(indexed("workers", 0, 3), top) == "workers-replica-0"

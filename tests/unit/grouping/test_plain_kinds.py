"""Kinds of Kubernetes itself, and those that share the default rule."""

import pytest

from muster.grouping.gangs import admission_name
from tests.support.owned_pods import annotated, assigned, grouped, owner, pod, tree, ungrouped

DEPLOYMENT = owner("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3}}")
REPLICA_SET = owner("{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-5d}, spec: {replicas: 3}}")
JOB = owner("{apiVersion: batch/v1, kind: Job, metadata: {name: sum}, spec: {parallelism: 4, completions: 8}}")
CRON_JOB = owner("{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}, spec: {schedule: '@daily'}}")
MARKED = {"muster.dev/grouped-by": "Job", "pod-group-name": "pg-sum-8x"}


def test_a_pod_without_owners_has_a_podgroup_of_its_own() -> None:
    group = grouped(pod("alone"))
    assert group.metadata.name == "pg-alone-uid-alone"
    assert group.metadata.namespace == "team"
    assert group.metadata.owner_references[0].kind == "Pod"
    assert tree(group) == "1"


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "ReplicaSet"),
        ("kubeflow.org/v1beta1", "Notebook"),
        ("machinelearning.seldon.io/v1", "SeldonDeployment"),
        ("kubevirt.io/v1", "VirtualMachineInstance"),
        ("workspace.devfile.io/v1alpha2", "DevWorkspace"),
        ("tekton.dev/v1", "PipelineRun"),
        ("tekton.dev/v1beta1", "TaskRun"),
        ("example.com/v1", "Unheard"),
    ],
)
def test_pods_of_one_owner_share_a_podgroup_in_which_one_may_start_alone(version: str, kind: str) -> None:
    workload = owner({"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": {"replicas": 3}})
    group = grouped(pod("w-0"), workload)
    assert group == grouped(pod("w-1"), workload)
    assert group.metadata.name == "pg-w-uid-w"
    assert group.metadata.owner_references == (workload.reference,)
    assert not group.metadata.owner_references[0].controller
    assert tree(group) == "1"


def test_an_unknown_kind_is_grouped_by_the_default_rule() -> None:
    unknown = owner("{apiVersion: example.com/v1, kind: Unheard, metadata: {name: w}}")
    assert assigned(pod(), unknown).rule == "default"


def test_the_highest_owner_chooses_the_rule() -> None:
    """Tekton: a PipelineRun owns a TaskRun, which owns the pod."""
    task = owner("{apiVersion: tekton.dev/v1, kind: TaskRun, metadata: {name: task}}")
    run = owner("{apiVersion: tekton.dev/v1, kind: PipelineRun, metadata: {name: run}}")
    assert grouped(pod(), task, run).metadata.name == "pg-run-uid-run"


def test_each_pod_of_a_deployment_has_a_podgroup_that_is_deleted_with_it() -> None:
    first, second = (grouped(pod(name), REPLICA_SET, DEPLOYMENT) for name in ("web-5d-a", "web-5d-b"))
    assert (first.metadata.name, second.metadata.name) == ("pg-web-5d-a-uid-web-5d-a", "pg-web-5d-b-uid-web-5d-b")
    assert first.metadata.owner_references[0].name == "web-5d-a"
    assert first.spec.priority_class_name == "inference"
    assert assigned(pod(), REPLICA_SET, DEPLOYMENT).rule == "Deployment"


def test_each_pod_of_a_job_has_a_podgroup_with_the_uid_of_the_job() -> None:
    group = grouped(pod("sum-7"), JOB)
    assert group.metadata.name == "pg-sum-7-uid-sum"
    assert tree(group) == "1"
    assert group.spec.priority_class_name == "train"


def test_a_job_with_a_minimum_is_one_gang() -> None:
    group = grouped(pod("sum-7"), annotated(JOB, batch_min_member="4"))
    assert group == grouped(pod("sum-8"), annotated(JOB, batch_min_member="4"))
    assert group.metadata.name == "pg-sum-uid-sum"
    assert tree(group) == "4"


@pytest.mark.parametrize("value", ["0", "four", "-1", "1.5"])
def test_a_minimum_that_is_none_is_said_and_not_ignored(value: str) -> None:
    problem = ungrouped(pod(), annotated(JOB, batch_min_member=value))
    assert problem.reason == "InvalidAnnotation"
    assert value in problem.message


def test_every_run_of_a_cron_job_has_a_podgroup() -> None:
    run = owner("{apiVersion: batch/v1, kind: Job, metadata: {name: nightly-29}, spec: {}}")
    group = grouped(pod("nightly-29-x"), run, CRON_JOB)
    assert group == grouped(pod("nightly-29-y"), run, CRON_JOB)
    assert group.metadata.name == "pg-nightly-29-uid-nightly-29"
    assert group.metadata.owner_references == (run.reference,)
    assert tree(grouped(pod(), annotated(run, batch_min_member="3"), CRON_JOB)) == "3"


def test_a_notebook_has_the_class_of_interactive_work() -> None:
    notebook = owner("{apiVersion: kubeflow.org/v1, kind: Notebook, metadata: {name: nb}}")
    stateful = owner("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: nb}}")
    assert grouped(pod("nb-0"), stateful, notebook).spec.priority_class_name == "build"


def test_a_name_that_admission_gave_is_kept() -> None:
    """The webhook writes it before the pod has a name and a uid."""
    unnamed = pod("", generate_name="sum-").metadata
    assert admission_name(unnamed, "8x") == "pg-sum-8x"
    named = pod("sum-7", annotations=MARKED, generate_name="sum-")
    assert grouped(named, JOB).metadata.name == "pg-sum-8x"


def test_a_name_that_was_copied_from_another_pod_is_not_kept() -> None:
    """A bare pod made from the YAML of another one would join its PodGroup."""
    assert (
        grouped(pod("twin", annotations={**MARKED, "pod-group-name": "pg-first-uid"})).metadata.name
        == "pg-twin-uid-twin"
    )


def test_a_name_that_only_begins_alike_is_not_kept() -> None:
    """Pod `tw` was made from the YAML of pod `twin`."""
    copied = {**MARKED, "pod-group-name": "pg-twin-uid-twin"}
    assert grouped(pod("tw", annotations=copied)).metadata.name == "pg-tw-uid-tw"


def test_the_shared_name_of_a_job_is_given_up_when_it_is_no_gang_any_more() -> None:
    marked = {**MARKED, "pod-group-name": "pg-sum-uid-sum"}
    assert grouped(pod("sum-7", annotations=marked, generate_name="sum-"), JOB).metadata.name == "pg-sum-7-uid-sum"


def test_a_leader_that_owns_pods_shares_its_podgroup_with_them() -> None:
    """Where nothing above the leader of a LeaderWorkerSet may be read, its workers still find the same PodGroup."""
    leader = pod("lws-0")
    as_owner = owner("{apiVersion: v1, kind: Pod, metadata: {name: lws-0}}")
    workers = owner("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: lws-0-workers}}")
    assert grouped(pod("lws-0-1"), workers, as_owner).metadata.name == grouped(leader).metadata.name


def test_in_a_file_the_kind_takes_the_place_of_the_uid() -> None:
    """Two workloads of one name stay apart before the API server gives uids; owner references need one."""
    job = owner("{apiVersion: example.com/v1, kind: Twin, metadata: {name: w, uid: ''}}")
    group = grouped(pod(), job)
    assert group.metadata.name == "pg-w-twin"
    assert group.metadata.owner_references == ()

"""Owners of workloads: the owner below them chooses the rule."""

import re
from pathlib import Path

import pytest

from muster.grouping.table import KINDS, RESOURCES
from tests.support.owned_pods import annotated, assigned, grouped, labelled, owner, pod, tree

JOB_SET = owner(
    "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: fit}, spec: {replicatedJobs: [{name: node, "
    "template: {spec: {parallelism: 3}}}]}}"
)
NODE = pod("n", {"jobset.sigs.k8s.io/replicatedjob-name": "node", "jobset.sigs.k8s.io/job-index": "0"})
TRAIN_JOB = owner("{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: fit}}")
WORKFLOW = owner("{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: flow}}")


def test_a_train_job_is_grouped_as_the_job_set_below_it() -> None:
    group = grouped(NODE, JOB_SET, TRAIN_JOB)
    assert group.metadata.owner_references == (JOB_SET.reference,)
    assert assigned(NODE, JOB_SET, TRAIN_JOB).rule == "JobSet"
    assert tree(group) == tree(grouped(NODE, JOB_SET))


@pytest.mark.parametrize(
    ("nodes", "expected"), [(3, "1/2 node: 1/1 node-replica-0: 3 launcher: 1/1"), (0, "1/1 launcher: 1/1")]
)
def test_the_launcher_of_a_train_job_with_mpi_comes_after_its_nodes(nodes: int, expected: str) -> None:
    """Its runtime says `dependsOn`; where the launcher is a node, too, there may be no other."""
    node = {"name": "node", "template": {"spec": {"parallelism": nodes, "completions": nodes}}}
    launcher = {"name": "launcher", "template": {"spec": {}}, "dependsOn": [{"name": "node", "status": "Ready"}]}
    job_set = owner(
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "fit"}},
        replicatedJobs=[node, launcher],
    )
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "launcher", "jobset.sigs.k8s.io/job-index": "0"}
    group = grouped(pod("l", labels), job_set, TRAIN_JOB)
    assert " ".join(tree(group).split()) == f"{expected} launcher-replica-0: 1"


def test_a_wrapper_fills_labels_and_annotations_that_are_missing_below() -> None:
    above = labelled(annotated(TRAIN_JOB, topology_required_placement="rack"), queue="blue", team="a")
    below = labelled(JOB_SET, queue="red")
    group = grouped(NODE, below, above)
    assert group.spec.queue == "red"
    assert group.metadata.labels == {"kai.scheduler/queue": "red", "team": "a"}
    assert tree(group).startswith("1/1 @rack")


def test_what_a_wrapper_fills_follows_its_changes() -> None:
    below = labelled(JOB_SET)
    assert grouped(NODE, below, labelled(TRAIN_JOB, queue="blue")).spec.queue == "blue"
    assert grouped(NODE, below, labelled(TRAIN_JOB, queue="red")).spec.queue == "red"


def test_a_pod_directly_below_a_wrapper_has_a_podgroup_of_its_own() -> None:
    """The steps of an Argo Workflow are pods, and follow each other."""
    group = grouped(pod("flow-step"), labelled(WORKFLOW, queue="blue"))
    assert group.metadata.name == "pg-flow-step-uid-flow-step"
    assert group.spec.queue == "blue"


def test_wrappers_may_stand_on_each_other() -> None:
    cron = owner("{apiVersion: argoproj.io/v1alpha1, kind: CronWorkflow, metadata: {name: nightly}}")
    job = owner("{apiVersion: batch/v1, kind: Job, metadata: {name: step}}")
    group = grouped(pod("step-x"), job, WORKFLOW, labelled(cron, queue="night"))
    assert group.metadata.name == "pg-step-x-uid-step"
    assert group.spec.queue == "night"


def test_a_dynamo_deployment_is_grouped_as_what_serves_its_components() -> None:
    component = owner("{apiVersion: nvidia.com/v1alpha1, kind: DynamoComponentDeployment, metadata: {name: decode}}")
    graph = owner("{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment, metadata: {name: llm}}")
    deployment = owner("{apiVersion: apps/v1, kind: Deployment, metadata: {name: decode}}")
    assert assigned(pod(), deployment, component, graph).rule == "Deployment"


def test_a_disaggregated_set_is_grouped_as_the_leader_worker_sets_of_its_roles() -> None:
    roles = owner("{apiVersion: disaggregatedset.x-k8s.io/v1, kind: DisaggregatedSet, metadata: {name: serving}}")
    decode = owner(
        "{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: serving-0-x-decode}, "
        "spec: {leaderWorkerTemplate: {size: 2}}}"
    )
    labels = {"leaderworkerset.sigs.k8s.io/group-index": "0", "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    group = grouped(pod("d", labels), decode, labelled(roles, queue="blue"))
    assert group.metadata.name == "pg-serving-0-x-decode-uid-serving-0-x-decode-group-0"
    assert group.spec.queue == "blue"


def test_the_runs_of_a_ray_cron_job_have_its_queue() -> None:
    """Its template has no metadata: labels of the RayCronJob are the only ones above its pods."""
    cron = owner("{apiVersion: ray.io/v1, kind: RayCronJob, metadata: {name: nightly}}")
    run = owner("{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: nightly-x}}")
    cluster = owner("{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: nightly-x-y}}")
    head = pod("h", {"ray.io/group": "headgroup"})
    assert grouped(head, cluster, run, labelled(cron, queue="blue")).spec.queue == "blue"


@pytest.mark.parametrize("resource", ["replicasets.apps", "statefulsets.apps", "jobs.batch", "rayjobs.ray.io",
                                      "revisions.serving.knative.dev", "trainjobs.trainer.kubeflow.org"])  # fmt: skip
def test_every_kind_on_the_way_from_a_pod_to_its_workload_is_read(resource: str) -> None:
    assert resource in RESOURCES
    assert len(set(RESOURCES)) == len(RESOURCES) == len(KINDS) - 1


@pytest.mark.parametrize("kind", sorted({kind for _, kind in KINDS}))
def test_the_reference_names_every_kind(kind: str) -> None:
    page = Path(__file__).parents[3] / "docs/reference/grouping.md"
    assert re.search(rf"\b{kind}\b", page.read_text())

"""Kubeflow's training jobs: the pods, labels, services, restarts and ends that the training operator is known for."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.resources import JAX_JOBS, PADDLE_JOBS, PODS, PYTORCH_JOBS, SERVICES, TF_JOBS, XGBOOST_JOBS, Resource
from muster.workloads.operators.kubeflow.training_jobs import CONTROLLERS
from muster.workloads.types import Raw
from tests.unit.workloads.operators.operator_world import OperatorWorld, condition

P = "training.kubeflow.org/"
FIELDS = {
    PYTORCH_JOBS: ("pytorchReplicaSpecs", "pytorch"),
    TF_JOBS: ("tfReplicaSpecs", "tensorflow"),
    XGBOOST_JOBS: ("xgbReplicaSpecs", "xgboost"),
    JAX_JOBS: ("jaxReplicaSpecs", "jax"),
    PADDLE_JOBS: ("paddleReplicaSpecs", "paddle"),
}


def role(replicas: int, container: str = "pytorch", **more: Any) -> Raw:
    template = {"metadata": {"labels": {"app": "mnist"}}, "spec": {"containers": [{"name": container}]}}
    return {"replicas": replicas, "template": template, **more}


def training_job(resource: Resource = PYTORCH_JOBS, run: Raw | None = None, **roles: Any) -> Raw:
    """A job with these roles: a number of replicas, or the whole role."""
    field, container = FIELDS[resource]
    specs = {name: role(size, container) if isinstance(size, int) else size for name, size in roles.items()}
    spec: Raw = {field: specs, "runPolicy": run or {}}
    return {"apiVersion": "kubeflow.org/v1", "kind": resource.kind, "metadata": {"name": "mnist"}, "spec": spec}


def world(job: Raw, resource: Resource = PYTORCH_JOBS) -> OperatorWorld:
    cluster = OperatorWorld()
    cluster.add(resource, job)
    return cluster


def job_of(cluster: OperatorWorld, resource: Resource = PYTORCH_JOBS) -> Raw:
    return cluster.get(resource, "mnist")


def conditions(cluster: OperatorWorld, resource: Resource = PYTORCH_JOBS) -> dict[str, str]:
    return {item["type"]: item["status"] for item in job_of(cluster, resource)["status"]["conditions"]}


def test_the_master_comes_first_then_the_workers_each_with_a_service_of_its_name() -> None:
    cluster = world(training_job(Master=1, Worker=2))
    assert cluster.settle() == [
        "Pod mnist-master-0",
        "Service mnist-master-0",
        "Pod mnist-worker-0",
        "Pod mnist-worker-1",
        "Service mnist-worker-0",
        "Service mnist-worker-1",
    ]
    assert cluster.owners("mnist-worker-1") == ["PyTorchJob mnist"]


def test_pods_tell_their_job_their_role_and_their_index() -> None:
    cluster = world(training_job(Master=1, Worker=2))
    cluster.settle()
    shared = {"app": "mnist", P + "operator-name": "pytorchjob-controller", P + "job-name": "mnist"}
    master = {P + "replica-type": "master", P + "replica-index": "0", P + "job-role": "master"}
    assert cluster.labels("mnist-master-0") == {**shared, **master}
    worker = {P + "replica-type": "worker", P + "replica-index": "1"}
    assert cluster.labels("mnist-worker-1") == {**shared, **worker}
    service = cluster.get(SERVICES, "mnist-worker-1")
    assert service["spec"]["selector"].items() <= cluster.labels("mnist-worker-1").items()
    assert service["spec"]["ports"] == [{"name": "pytorchjob-port", "port": 23456}]


@pytest.mark.parametrize(
    ("resource", "roles", "pods", "masters"),
    [
        (PYTORCH_JOBS, {"Worker": 2}, ["mnist-worker-0", "mnist-worker-1"], ["mnist-worker-0"]),
        (
            TF_JOBS,
            {"Chief": 1, "PS": 1, "Worker": 1, "Evaluator": 1},
            ["mnist-chief-0", "mnist-evaluator-0", "mnist-ps-0", "mnist-worker-0"],
            ["mnist-chief-0"],
        ),
        (TF_JOBS, {"PS": 1, "Worker": 1}, ["mnist-ps-0", "mnist-worker-0"], ["mnist-worker-0"]),
        (XGBOOST_JOBS, {"Master": 1, "Worker": 1}, ["mnist-master-0", "mnist-worker-0"], ["mnist-master-0"]),
        (JAX_JOBS, {"Worker": 2}, ["mnist-worker-0", "mnist-worker-1"], ["mnist-worker-0"]),
        (PADDLE_JOBS, {"Worker": 1}, ["mnist-worker-0"], []),
        (PYTORCH_JOBS, {"worker": 1, "MASTER": 1}, ["mnist-master-0", "mnist-worker-0"], ["mnist-master-0"]),
    ],
)
def test_each_kind_names_its_roles_and_labels_its_master(
    resource: Resource, roles: Raw, pods: list[str], masters: list[str]
) -> None:
    cluster = world(training_job(resource, **roles), resource)
    cluster.settle()
    assert cluster.pods() == pods
    assert [pod for pod in pods if cluster.labels(pod).get(P + "job-role") == "master"] == masters
    assert {cluster.labels(pod)[P + "operator-name"] for pod in pods} == {f"{resource.kind.lower()}-controller"}


def test_pytorch_workers_wait_for_their_master_and_know_their_rank() -> None:
    cluster = world(training_job(Master=1, Worker=2))
    cluster.settle()
    worker = cluster.get(PODS, "mnist-worker-1")["spec"]
    variables = {variable["name"]: variable["value"] for variable in worker["containers"][0]["env"]}
    assert (variables["RANK"], variables["WORLD_SIZE"], variables["MASTER_ADDR"]) == ("2", "3", "mnist-master-0")
    assert [container["name"] for container in worker["initContainers"]] == ["init-pytorch"]
    assert "initContainers" not in cluster.get(PODS, "mnist-master-0")["spec"]


@pytest.mark.parametrize(
    ("policy", "in_pod"), [("ExitCode", "Never"), ("Always", "Always"), ("Never", "Never"), ("", "OnFailure")]
)
def test_the_restart_policy_of_the_role_is_that_of_the_pod(policy: str, in_pod: str) -> None:
    cluster = world(training_job(Worker=role(1, restartPolicy=policy)))
    cluster.settle()
    assert cluster.get(PODS, "mnist-worker-0")["spec"]["restartPolicy"] == in_pod


# scale and suspension


def test_scaling_deletes_the_highest_indices_with_their_services() -> None:
    cluster = world(training_job(Worker=3))
    cluster.settle()
    for replicas, pods in ((1, ["mnist-worker-0"]), (2, ["mnist-worker-0", "mnist-worker-1"])):
        cluster.merge(PYTORCH_JOBS, "mnist", {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": replicas}}}})
        cluster.settle()
        assert cluster.pods() == cluster.names(SERVICES) == pods


def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    cluster = world(training_job(Master=1, Worker=1))
    cluster.settle(runs_pods=True)
    assert conditions(cluster) == {"Created": "True", "Running": "True"}
    cluster.merge(PYTORCH_JOBS, "mnist", {"spec": {"runPolicy": {"suspend": True}}})
    cluster.settle()
    assert cluster.pods() == []
    assert conditions(cluster) == {"Created": "True", "Running": "False", "Suspended": "True"}
    assert condition(job_of(cluster), "Suspended") == "True PyTorchJobSuspended"
    cluster.merge(PYTORCH_JOBS, "mnist", {"spec": {"runPolicy": {"suspend": False}}})
    cluster.settle(runs_pods=True)
    assert len(cluster.pods()) == 2
    assert conditions(cluster) == {"Created": "True", "Running": "True", "Suspended": "False"}


def test_a_job_created_suspended_makes_nothing() -> None:
    assert world(training_job(run={"suspend": True}, Worker=2)).settle() == []


# restarts and ends


@pytest.mark.parametrize(
    ("policy", "code", "restarts"),
    [
        ("OnFailure", 1, True),
        ("Always", 1, True),
        ("ExitCode", 137, True),
        ("ExitCode", 1, False),
        ("Never", 137, False),
    ],
)
def test_a_failed_pod_is_made_again_or_fails_the_job(policy: str, code: int, restarts: bool) -> None:
    cluster = world(training_job(Worker=role(2, restartPolicy=policy)))
    cluster.settle(runs_pods=True)
    uid = cluster.get(PODS, "mnist-worker-1")["metadata"]["uid"]
    exited = [{"name": "pytorch", "state": {"terminated": {"exitCode": code}}}]
    cluster.set_pods("Failed", "mnist-worker-1", containerStatuses=exited)
    cluster.step()
    assert conditions(cluster).get("Restarting" if restarts else "Failed") == "True"
    cluster.settle(runs_pods=True)
    assert (cluster.get(PODS, "mnist-worker-1")["metadata"]["uid"] != uid) == restarts
    assert conditions(cluster)["Running"] == ("True" if restarts else "False")


def test_the_master_decides_that_a_job_has_succeeded() -> None:
    cluster = world(training_job(Master=1, Worker=1))
    cluster.settle(runs_pods=True)
    cluster.set_pods("Succeeded", "mnist-worker-0")
    cluster.settle()
    assert "Succeeded" not in conditions(cluster)
    cluster.set_pods("Succeeded", "mnist-master-0")
    cluster.settle()
    assert conditions(cluster) == {"Created": "True", "Running": "False", "Succeeded": "True"}
    assert "completionTime" in job_of(cluster)["status"]


@pytest.mark.parametrize(
    ("resource", "spec", "succeeds"),
    [
        (PYTORCH_JOBS, {}, False),
        (PYTORCH_JOBS, {"elasticPolicy": {"minReplicas": 1}}, True),
        (TF_JOBS, {}, True),
        (TF_JOBS, {"successPolicy": "AllWorkers"}, False),
        (JAX_JOBS, {}, False),
    ],
)
def test_without_a_master_one_finished_worker_is_enough_only_where_the_kind_says_so(
    resource: Resource, spec: Raw, succeeds: bool
) -> None:
    job = training_job(resource, Worker=2)
    job["spec"] |= spec
    cluster = world(job, resource)
    cluster.settle(runs_pods=True)
    cluster.set_pods("Succeeded", "mnist-worker-0")
    cluster.settle()
    assert ("Succeeded" in conditions(cluster, resource)) == succeeds
    cluster.set_pods("Succeeded")
    cluster.settle()
    assert conditions(cluster, resource)["Succeeded"] == "True"


@pytest.mark.parametrize(("policy", "left"), [("", 2), ("None", 2), ("Running", 1), ("All", 0)])
def test_a_finished_job_cleans_its_pods_as_its_policy_says(policy: str, left: int) -> None:
    cluster = world(training_job(run={"cleanPodPolicy": policy}, Master=1, Worker=1))
    cluster.settle(runs_pods=True)
    cluster.set_pods("Succeeded", "mnist-master-0")
    cluster.settle()
    assert len(cluster.pods()) == len(cluster.names(SERVICES)) == left
    assert job_of(cluster)["status"]["replicaStatuses"]["Worker"]["succeeded"] == 1


def test_a_job_past_its_deadline_fails_and_loses_its_pods() -> None:
    cluster = world(training_job(run={"activeDeadlineSeconds": 60}, Worker=1))
    cluster.settle(runs_pods=True)
    again = CONTROLLERS[0].reconcile(job_of(cluster), cluster, cluster.now).again_after_seconds
    assert again is not None
    assert 0 < again <= 60
    cluster.now += timedelta(seconds=120)
    cluster.settle()
    assert conditions(cluster)["Failed"] == "True"
    assert cluster.pods() == []


def test_a_job_whose_containers_restart_too_often_fails() -> None:
    cluster = world(training_job(run={"backoffLimit": 3}, Worker=2))
    cluster.settle(runs_pods=True)
    cluster.set_pods("Running", "mnist-worker-0", containerStatuses=[{"restartCount": 3}])
    cluster.settle()
    assert conditions(cluster)["Failed"] == "True"


def test_a_finished_job_goes_after_its_time_to_live() -> None:
    cluster = world(training_job(run={"ttlSecondsAfterFinished": 60}, Worker=1))
    cluster.settle(runs_pods=True)
    cluster.set_pods("Succeeded")
    cluster.settle()
    assert cluster.names(PYTORCH_JOBS) == ["mnist"]
    cluster.now += timedelta(seconds=120)
    cluster.settle()
    assert cluster.names(PYTORCH_JOBS) == []


def test_status_counts_the_pods_of_each_role_and_names_their_selector() -> None:
    cluster = world(training_job(Master=1, Worker=2))
    cluster.settle()
    cluster.run_pods("mnist-master-0", "mnist-worker-0")
    cluster.settle()
    statuses = job_of(cluster)["status"]["replicaStatuses"]
    assert {name: status["active"] for name, status in statuses.items()} == {"Master": 1, "Worker": 1}
    selector = f"{P}job-name=mnist,{P}operator-name=pytorchjob-controller,{P}replica-type=worker"
    assert statuses["Worker"]["selector"] == selector


GARBAGE = st.recursive(
    st.none() | st.booleans() | st.sampled_from((-1, 0, 1, 3, 10**12)) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(("pytorchReplicaSpecs", "Worker", "replicas", "template", "runPolicy")), inner
        )
    ),
    max_leaves=8,
)


@given(spec=GARBAGE, status=GARBAGE)
def test_garbage_never_raises(spec: Any, status: Any) -> None:
    cluster = OperatorWorld()
    raw = cluster.add(PYTORCH_JOBS, {**training_job(), "spec": spec, "status": status})
    CONTROLLERS[0].reconcile(raw, cluster, cluster.now)

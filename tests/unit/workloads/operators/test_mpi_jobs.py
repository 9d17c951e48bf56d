"""MPIJobs: the workers, the launcher and the order that the MPI operator is known for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.resources import CONFIG_MAPS, JOBS, MPI_JOBS, PODS
from muster.workloads.operators.kubeflow.mpi_jobs import CONTROLLER
from muster.workloads.types import Raw
from tests.unit.workloads.operators.operator_world import OperatorWorld

P = "training.kubeflow.org/"


def mpi_job(workers: int = 2, run: Raw | None = None, **spec: Any) -> Raw:
    template = {"spec": {"containers": [{"name": "mpi"}]}}
    roles = {"Launcher": {"replicas": 1, "template": template}, "Worker": {"replicas": workers, "template": template}}
    whole = {"mpiReplicaSpecs": roles, "runPolicy": run or {}, **spec}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi"}, "spec": whole}


def world(job: Raw) -> OperatorWorld:
    cluster = OperatorWorld()
    cluster.add(MPI_JOBS, job)
    return cluster


def conditions(cluster: OperatorWorld) -> dict[str, str]:
    return {item["type"]: item["status"] for item in cluster.get(MPI_JOBS, "pi")["status"]["conditions"]}


def test_the_service_and_the_hosts_come_first_then_the_workers_then_the_launcher() -> None:
    cluster = world(mpi_job())
    assert cluster.settle() == [
        "Service pi",
        "ConfigMap pi-config",
        "Pod pi-worker-0",
        "Pod pi-worker-1",
        "Job pi-launcher",
        "Pod pi-launcher-0",
    ]
    assert cluster.owners("pi-worker-1") == ["MPIJob pi"]
    assert cluster.owners("pi-launcher-0") == ["Job pi-launcher", "MPIJob pi"]


def test_pods_tell_their_job_and_their_role() -> None:
    cluster = world(mpi_job())
    cluster.settle()
    shared = {P + "operator-name": "mpi-operator", P + "job-name": "pi"}
    assert cluster.labels("pi-worker-1") == {**shared, P + "job-role": "worker", P + "replica-index": "1"}
    assert cluster.labels("pi-launcher-0") == {**shared, P + "job-role": "launcher"}
    worker, launcher = cluster.get(PODS, "pi-worker-1")["spec"], cluster.get(PODS, "pi-launcher-0")["spec"]
    assert (worker["hostname"], worker["subdomain"], worker["restartPolicy"]) == ("pi-worker-1", "pi", "Never")
    assert (launcher["hostname"], launcher["restartPolicy"]) == ("pi-launcher", "OnFailure")


def test_the_list_of_hosts_names_every_worker_with_its_slots() -> None:
    cluster = world(mpi_job(slotsPerWorker=8))
    cluster.settle()
    hosts = cluster.get(CONFIG_MAPS, "pi-config")["data"]["hostfile"]
    assert hosts == "pi-worker-0.pi.team.svc slots=8\npi-worker-1.pi.team.svc slots=8\n"


def test_a_launcher_that_waits_comes_once_all_workers_are_ready() -> None:
    cluster = world(mpi_job(launcherCreationPolicy="WaitForWorkersReady"))
    cluster.settle()
    cluster.run_pods("pi-worker-0")
    cluster.settle()
    assert cluster.names(JOBS) == []
    cluster.run_pods("pi-worker-1")
    assert cluster.settle() == ["Job pi-launcher", "Pod pi-launcher-0"]


def test_scaling_down_deletes_the_highest_workers() -> None:
    cluster = world(mpi_job(workers=3))
    cluster.settle()
    cluster.merge(MPI_JOBS, "pi", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 1}}}})
    cluster.settle()
    assert cluster.pods() == ["pi-launcher-0", "pi-worker-0"]


def test_a_job_runs_with_its_launcher_and_all_workers() -> None:
    cluster = world(mpi_job())
    cluster.settle()
    cluster.run_pods("pi-worker-0", "pi-launcher-0")
    cluster.settle()
    assert conditions(cluster) == {"Created": "True"}
    cluster.run_pods()
    cluster.settle()
    assert conditions(cluster) == {"Created": "True", "Running": "True"}
    statuses = cluster.get(MPI_JOBS, "pi")["status"]["replicaStatuses"]
    assert (statuses["Launcher"]["active"], statuses["Worker"]["active"]) == (1, 2)


@pytest.mark.parametrize(("phase", "end"), [("Succeeded", "Succeeded"), ("Failed", "Failed")])
@pytest.mark.parametrize(("policy", "left"), [("", 2), ("Running", 0), ("All", 0)])
def test_the_launcher_decides_the_end_and_the_policy_cleans_the_workers(
    phase: str, end: str, policy: str, left: int
) -> None:
    cluster = world(mpi_job(run={"cleanPodPolicy": policy}))
    cluster.settle(runs_pods=True)
    cluster.set_pods(phase, "pi-launcher-0")
    cluster.settle()
    assert conditions(cluster)[end] == "True"
    assert conditions(cluster)["Running"] == "False"
    assert len([pod for pod in cluster.pods() if "worker" in pod]) == left


def test_a_suspended_job_has_a_suspended_launcher_and_no_pods() -> None:
    cluster = world(mpi_job(run={"suspend": True}))
    cluster.settle()
    assert (cluster.pods(), cluster.names(JOBS)) == ([], ["pi-launcher"])
    assert conditions(cluster) == {"Created": "True", "Suspended": "True"}
    cluster.merge(MPI_JOBS, "pi", {"spec": {"runPolicy": {"suspend": False}}})
    cluster.settle(runs_pods=True)
    assert len(cluster.pods()) == 3
    cluster.merge(MPI_JOBS, "pi", {"spec": {"runPolicy": {"suspend": True}}})
    cluster.settle()
    assert cluster.pods() == []
    assert conditions(cluster) == {"Created": "True", "Running": "False", "Suspended": "True"}


GARBAGE = st.recursive(
    st.none() | st.booleans() | st.sampled_from((-1, 0, 1, 3, 10**12)) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(("mpiReplicaSpecs", "Worker", "replicas", "template", "runPolicy")), inner)
    ),
    max_leaves=8,
)


@given(spec=GARBAGE, status=GARBAGE)
def test_garbage_never_raises(spec: Any, status: Any) -> None:
    cluster = OperatorWorld()
    raw = cluster.add(MPI_JOBS, {**mpi_job(), "spec": spec, "status": status})
    CONTROLLER.reconcile(raw, cluster, cluster.now)

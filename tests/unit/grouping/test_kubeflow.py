"""Jobs of Kubeflow's training operator and of the MPI operator: a leaf for every role."""

from typing import Any

import pytest

from muster.grouping.types import Owner, WorkloadPod
from tests.support.owned_pods import annotated, assigned, grouped, leaf, minimums, owner, picture, pod, tree, ungrouped

FIELDS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}


def job(kind: str, roles: dict[str, Any], minimum: int | None = None, version: str = "v1", **spec: Any) -> Owner:
    """A job; a role is a number of replicas, None: left out, or a whole replica spec."""
    specs = {name: {"replicas": role} if isinstance(role, int) else role or {} for name, role in roles.items()}
    policy = {} if minimum is None else {"runPolicy": {"schedulingPolicy": {"minAvailable": minimum}}}
    raw = {"apiVersion": f"kubeflow.org/{version}", "kind": kind, "metadata": {"name": "fit"}}
    return owner(raw, **{FIELDS[kind]: specs}, **policy, **spec)


def member(role: str, index: int = 0) -> WorkloadPod:
    """As the training operator labels it."""
    labels = {"training.kubeflow.org/job-name": "fit", "training.kubeflow.org/replica-type": role}
    return pod(f"fit-{role}-{index}", labels | {"training.kubeflow.org/replica-index": str(index)})


def mpi_member(role: str, index: int = 0) -> WorkloadPod:
    """As the MPI operator labels it, version 2."""
    labels = {"training.kubeflow.org/job-name": "fit", "training.kubeflow.org/job-role": role}
    return pod(f"fit-{role}-{index}", labels | {"training.kubeflow.org/operator-name": "mpi-operator"})


def segmented(workers: int, size: str = "4", **more: Any) -> Owner:
    template = {"metadata": {"annotations": {"kai.scheduler/segment-size": size} | more.pop("annotations", {})}}
    return job("PyTorchJob", {"Master": 1, "Worker": {"replicas": workers, "template": template}}, **more)


# roles ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "roles", "expected"),
    [
        ("TFJob", {"Worker": 4, "PS": 2, "Chief": 1, "Evaluator": 1}, "chief: 1, evaluator: 1, ps: 2, worker: 4"),
        ("XGBoostJob", {"Master": 1, "Worker": 3}, "master: 1, worker: 3"),
        ("JAXJob", {"Worker": 4}, "worker: 4"),
        ("PaddleJob", {"Master": 2, "Worker": 2}, "master: 2, worker: 2"),
        ("PyTorchJob", {"Worker": 7, "Master": 1}, "master: 1, worker: 7"),
        ("MPIJob", {"Launcher": 1, "Worker": 8}, "launcher: 1, worker: 8"),
    ],
)
def test_every_role_is_a_leaf_and_all_are_needed(kind: str, roles: dict[str, int], expected: str) -> None:
    """A flat minimum would let the workers start without their master."""
    workload = job(kind, roles)
    group = grouped(member("worker"), workload)
    assert group.metadata.name == "pg-fit-uid-fit"
    head, *lines = tree(group).splitlines()
    assert head == f"{len(roles)}/{len(roles)}"
    assert ", ".join(line.strip() for line in lines) == expected
    assert assigned(member("worker"), workload).rule == kind


def test_the_order_of_roles_is_the_same_in_a_file_and_in_the_api_server() -> None:
    forth, back = job("TFJob", {"Worker": 2, "PS": 1}), job("TFJob", {"PS": 1, "Worker": 2})
    assert grouped(member("ps"), forth) == grouped(member("ps"), back)


@pytest.mark.parametrize(
    ("minimum", "expected"),
    [
        (7, "chief: 1, ps: 2, worker: 4"),
        (5, "chief: 1, ps: 2, worker: 2"),
        (4, "chief: 1, ps: 2, worker: 1"),
        (99, "chief: 1, ps: 2, worker: 4"),
        (0, "chief: 1, ps: 2, worker: 4"),
    ],
)
def test_the_minimum_of_a_job_is_taken_from_its_workers(minimum: int, expected: str) -> None:
    group = grouped(member("ps"), job("TFJob", {"Chief": 1, "PS": 2, "Worker": 4}, minimum))
    assert ", ".join(line.strip() for line in tree(group).splitlines()[1:]) == expected


def test_a_role_for_which_no_minimum_remains_is_an_extra() -> None:
    """It needs one pod at least, comes last, and is not counted."""
    workload = job("TFJob", {"Chief": 1, "Evaluator": 1, "PS": 2, "Worker": 4}, minimum=2)
    assert tree(grouped(member("worker"), workload)) == picture("""
        2/4
          chief: 1
          evaluator: 1
          ps: 1
          worker: 1
    """)


def test_a_minimum_says_where_it_comes_from() -> None:
    workload = job("XGBoostJob", {"Master": 1, "Worker": 4}, minimum=3)
    assert minimums(member("master"), workload) == {
        "": (2, "all of them"),
        "master": (1, "spec.xgbReplicaSpecs.Master.replicas"),
        "worker": (2, "spec.runPolicy.schedulingPolicy.minAvailable: 3, less 1 of other roles"),
    }


def test_replicas_that_are_left_out_count_as_one() -> None:
    assert tree(grouped(member("worker"), job("TFJob", {"Worker": None}))) == "1/1\n  worker: 1"


def test_a_role_without_replicas_is_left_out() -> None:
    assert tree(grouped(member("worker"), job("TFJob", {"PS": 0, "Worker": 2}))) == "1/1\n  worker: 2"


def test_a_template_may_state_the_topology_of_its_role() -> None:
    workers = {"metadata": {"annotations": {"kai.scheduler/topology-preferred-placement": "rack"}}}
    workload = job("TFJob", {"Chief": 1, "Worker": {"replicas": 2, "template": workers}})
    assert tree(grouped(member("chief"), workload)).splitlines()[1:] == ["  chief: 1", "  worker: 2 ~rack"]


def test_a_pod_without_its_role_is_said() -> None:
    for kind in FIELDS:
        assert ungrouped(pod(), job(kind, {"Worker": 1})).reason == "LabelMissing"
        assert ungrouped(member("boss"), job(kind, {"Worker": 1})).reason == "NoSuchGroup"


# MPI -----------------------------------------------------------------------------------------------------------------


def test_pods_of_both_mpi_operators_find_their_leaf() -> None:
    """Version 2 makes the launcher through a Job."""
    first, second = (job("MPIJob", {"Launcher": 1, "Worker": 2}, version=version) for version in ("v1", "v2beta1"))
    launcher = owner("{apiVersion: batch/v1, kind: Job, metadata: {name: fit-launcher}}")
    assert leaf(member("launcher"), first) == leaf(mpi_member("launcher"), launcher, second) == "launcher"
    assert leaf(member("worker"), first) == leaf(mpi_member("worker"), second) == "worker"


def test_a_launcher_that_waits_for_its_workers_counts_once_it_exists() -> None:
    workload = job("MPIJob", {"Launcher": 1, "Worker": 4}, launcherCreationPolicy="WaitForWorkersReady")
    assert tree(grouped(mpi_member("worker"), workload, present={"worker"})).startswith("1/2")
    assert tree(grouped(mpi_member("worker"), workload, present={"worker", "launcher"})).startswith("2/2")


def test_a_launcher_at_startup_is_waited_for() -> None:
    workload = job("MPIJob", {"Launcher": 1, "Worker": 4}, launcherCreationPolicy="AtStartup")
    assert tree(grouped(mpi_member("worker"), workload, present={"worker"})).startswith("2/2")


def test_an_mpi_job_without_workers_is_its_launcher() -> None:
    """Workers that are left out count as none here, unlike those of other jobs."""
    assert (
        tree(grouped(mpi_member("launcher"), job("MPIJob", {"Launcher": None, "Worker": None}))) == "1/1\n  launcher: 1"
    )


# PyTorch -------------------------------------------------------------------------------------------------------------


def elastic(least: int, minimum: int | None = None) -> Owner:
    policy = {"minReplicas": least, "maxReplicas": 16}
    return job("PyTorchJob", {"Master": 1, "Worker": 7}, minimum, elasticPolicy=policy)


def test_the_elastic_minimum_counts_before_all_replicas() -> None:
    assert tree(grouped(member("worker"), elastic(4))) == "2/2\n  master: 1\n  worker: 3"
    assert "spec.elasticPolicy.minReplicas: 4, less 1" in minimums(member("worker"), elastic(4))["worker"][1]


def test_the_scheduling_policy_counts_before_the_elastic_minimum() -> None:
    assert tree(grouped(member("worker"), elastic(4, minimum=6))) == "2/2\n  master: 1\n  worker: 5"


def test_an_elastic_minimum_above_the_replicas_needs_them_all() -> None:
    assert tree(grouped(member("worker"), elastic(12))) == "2/2\n  master: 1\n  worker: 7"


def test_workers_of_a_master_that_suffices_are_extras() -> None:
    assert tree(grouped(member("worker"), elastic(1))) == "1/2\n  master: 1\n  worker: 1"


def test_workers_come_in_segments_and_the_last_has_the_rest() -> None:
    workload = segmented(10)
    assert tree(grouped(member("worker", 9), workload)) == picture("""
        2/2
          master: 1
          worker: 3/3
            worker-0: 4
            worker-1: 4
            worker-2: 2
    """)
    assert [leaf(member("worker", i), workload) for i in (0, 3, 4, 9)] == [
        "worker-0",
        "worker-0",
        "worker-1",
        "worker-2",
    ]
    assert leaf(member("master"), workload) == "master"


@pytest.mark.parametrize(("minimum", "needed"), [(13, 3), (9, 2), (8, 2), (6, 2), (5, 1), (2, 1)])
def test_segments_beyond_the_minimum_are_extras(minimum: int, needed: int) -> None:
    """As many segments as hold the workers that are needed: the minimum, less one master."""
    assert f"worker: {needed}/3" in tree(grouped(member("worker"), segmented(12, minimum=minimum)))


def test_all_segments_are_extras_where_no_worker_is_needed() -> None:
    assert tree(grouped(member("worker"), segmented(8, minimum=1))).splitlines()[:3] == [
        "1/2",
        "  master: 1",
        "  worker: 1/2",
    ]


def test_segments_may_be_stated_on_the_job_and_may_exceed_it() -> None:
    workload = annotated(job("PyTorchJob", {"Master": 1, "Worker": 3}), segment_size="8")
    assert tree(grouped(member("worker"), workload)).splitlines()[2:] == ["  worker: 1/1", "    worker-0: 3"]


def test_the_topology_of_segments_is_their_own() -> None:
    annotations = {
        "kai.scheduler/topology-required-placement": "zone",
        "kai.scheduler/segment-topology-required-placement": "rack",
    }
    assert tree(grouped(member("worker"), segmented(4, annotations=annotations))).splitlines()[2:] == [
        "  worker: 1/1 @zone",
        "    worker-0: 4 @rack",
    ]


def test_a_worker_without_its_index_is_said_where_there_are_segments() -> None:
    labels = {"training.kubeflow.org/replica-type": "worker"}
    assert ungrouped(pod("w", labels), segmented(8)).reason == "LabelMissing"
    assert leaf(pod("w", labels), job("PyTorchJob", {"Worker": 8})) == "worker"


def test_segments_of_no_size_are_said() -> None:
    assert ungrouped(member("worker"), segmented(8, "0")).reason == "InvalidAnnotation"

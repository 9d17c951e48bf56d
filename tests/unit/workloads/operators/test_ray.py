"""RayCluster, RayJob and RayService: the pods, labels, replicas and states that KubeRay is known for."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.resources import JOBS, PODS, RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES, SERVICES
from muster.workloads.operators.ray.ray_clusters import CONTROLLER
from muster.workloads.types import Raw
from tests.unit.workloads.operators.operator_world import OperatorWorld, condition


def template(**labels: str) -> Raw:
    containers = [{"name": "ray", "image": "rayproject/ray:2.46.0"}]
    return {"metadata": {"labels": labels}, "spec": {"containers": containers}}


def group(name: str = "small", **fields: Any) -> Raw:
    return {"groupName": name, "template": template(team="a"), **fields}


def cluster_spec(*groups: Raw, **spec: Any) -> Raw:
    return {"headGroupSpec": {"template": template()}, "workerGroupSpecs": list(groups), **spec}


def ray_cluster(*groups: Raw, **spec: Any) -> Raw:
    metadata = {"name": "rc"}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": metadata,
        "spec": cluster_spec(*groups, **spec),
    }


def world(*groups: Raw, **spec: Any) -> OperatorWorld:
    cluster = OperatorWorld()
    cluster.add(RAY_CLUSTERS, ray_cluster(*groups, **spec))
    return cluster


def cluster_of(world: OperatorWorld) -> Raw:
    return world.get(RAY_CLUSTERS, "rc")


def workers(cluster: OperatorWorld, name: str = "small") -> list[str]:
    return [pod for pod in cluster.pods() if cluster.labels(pod)["ray.io/group"] == name]


def scale(cluster: OperatorWorld, *groups: Raw) -> None:
    cluster.merge(RAY_CLUSTERS, "rc", {"spec": {"workerGroupSpecs": list(groups)}})


def test_the_service_comes_first_then_the_head_then_the_workers_of_each_group() -> None:
    cluster = world(group("small", replicas=2), group("large", replicas=1))
    created = [line.rpartition("-")[0] if line.startswith("Pod") else line for line in cluster.settle()]
    assert created == [
        "Service rc-head-svc",
        "Pod rc-head",
        "Pod rc-small-worker",
        "Pod rc-small-worker",
        "Pod rc-large-worker",
    ]
    assert cluster.owners(workers(cluster)[0]) == ["RayCluster rc"]


def test_pods_tell_their_cluster_their_group_and_their_type() -> None:
    cluster = world(group(replicas=1))
    cluster.settle()
    shared = {
        "ray.io/cluster": "rc",
        "ray.io/is-ray-node": "yes",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    head, worker = (
        {"ray.io/group": "headgroup", "ray.io/node-type": "head"},
        {"ray.io/group": "small", "ray.io/node-type": "worker"},
    )
    assert cluster.labels(workers(cluster, "headgroup")[0]) == {**shared, **head, "ray.io/identifier": "rc-head"}
    assert cluster.labels(workers(cluster)[0]) == {**shared, **worker, "ray.io/identifier": "rc-worker", "team": "a"}


def test_a_template_cannot_change_the_labels_that_tell_the_group() -> None:
    own = {"groupName": "small", "replicas": 1, "template": template(**{"ray.io/group": "mine"})}
    cluster = world(own)
    cluster.settle()
    assert len(workers(cluster, "small")) == 1


def test_workers_wait_for_the_head_in_an_init_container() -> None:
    cluster = world(group(replicas=1))
    cluster.settle()
    containers = cluster.get(PODS, workers(cluster)[0])["spec"]["initContainers"]
    assert [container["name"] for container in containers] == ["wait-gcs-ready"]


@pytest.mark.parametrize(
    ("fields", "pods"),
    [
        ({"replicas": 3}, 3),
        ({"replicas": 3, "maxReplicas": 2}, 2),
        ({"replicas": 1, "minReplicas": 2, "maxReplicas": 5}, 2),
        ({"minReplicas": 2, "maxReplicas": 5}, 2),
        ({"minReplicas": 5, "maxReplicas": 2, "replicas": 1}, 5),
        ({"replicas": 3, "suspend": True}, 0),
        ({"replicas": 2, "numOfHosts": 3}, 6),
        ({}, 0),
    ],
)
def test_a_group_has_its_replicas_within_its_limits(fields: Raw, pods: int) -> None:
    cluster = world(group(**fields))
    cluster.settle()
    assert len(workers(cluster)) == pods
    assert cluster_of(cluster)["status"]["desiredWorkerReplicas"] == pods


# several hosts


def replicas(cluster: OperatorWorld) -> dict[str, list[tuple[str, str]]]:
    """The replicas of the group by index: name and host of each pod."""
    by_index: dict[str, list[tuple[str, str]]] = {}
    for pod in workers(cluster):
        labels = cluster.labels(pod)
        place = labels["ray.io/worker-group-replica-name"], labels["ray.io/replica-host-index"]
        by_index.setdefault(labels["ray.io/worker-group-replica-index"], []).append(place)
    return {index: sorted(places) for index, places in sorted(by_index.items())}


def test_pods_of_several_hosts_tell_their_replica_and_their_host() -> None:
    cluster = world(group(replicas=2, numOfHosts=2))
    cluster.settle()
    places = replicas(cluster)
    assert list(places) == ["0", "1"]
    names = {index: {name for name, _ in hosts} for index, hosts in places.items()}
    assert [len(name) for name in names.values()] == [1, 1]
    assert names["0"] != names["1"]
    assert all([host for _, host in hosts] == ["0", "1"] for hosts in places.values())
    assert cluster.names(SERVICES) == ["rc-head-svc", "rc-headless-worker-svc"]


def test_a_replica_that_lost_a_pod_is_replaced_as_a_whole() -> None:
    cluster = world(group(replicas=2, numOfHosts=2))
    cluster.settle()
    before = replicas(cluster)
    lost = next(pod for pod in workers(cluster) if cluster.labels(pod)["ray.io/worker-group-replica-index"] == "0")
    cluster.delete(PODS, lost)
    cluster.settle()
    after = replicas(cluster)
    assert after["1"] == before["1"]
    assert after["0"] != before["0"]
    assert len(after["0"]) == 2


def test_replicas_are_scaled_by_whole_replicas() -> None:
    cluster = world(group(replicas=3, numOfHosts=2))
    cluster.settle()
    before = replicas(cluster)
    scale(cluster, group(replicas=1, numOfHosts=2))
    cluster.settle()
    assert replicas(cluster) == {"0": before["0"]}


# scale, restarts, suspension


def test_scaling_up_and_down_keeps_the_head() -> None:
    cluster = world(group(replicas=1))
    cluster.settle()
    head = workers(cluster, "headgroup")
    for number in (4, 2):
        scale(cluster, group(replicas=number))
        cluster.settle()
        assert len(workers(cluster)) == number
    assert workers(cluster, "headgroup") == head


def test_workers_named_for_deletion_go_first() -> None:
    cluster = world(group(replicas=3))
    cluster.settle()
    doomed = workers(cluster)[1]
    scale(cluster, group(replicas=2, scaleStrategy={"workersToDelete": [doomed]}))
    cluster.settle()
    assert doomed not in workers(cluster)
    assert len(workers(cluster)) == 2


def test_pods_that_ended_are_replaced() -> None:
    cluster = world(group(replicas=2))
    cluster.settle(runs_pods=True)
    ended = [workers(cluster)[0], workers(cluster, "headgroup")[0]]
    cluster.set_pods("Failed", *ended)
    cluster.settle()
    assert not set(ended) & set(cluster.pods())
    assert len(cluster.pods()) == 3


def test_a_suspended_cluster_has_no_pods_until_it_is_resumed() -> None:
    cluster = world(group(replicas=2))
    cluster.settle(runs_pods=True)
    assert cluster_of(cluster)["status"]["state"] == "ready"
    cluster.merge(RAY_CLUSTERS, "rc", {"spec": {"suspend": True}})
    cluster.settle()
    assert cluster.pods() == []
    assert cluster_of(cluster)["status"]["state"] == "suspended"
    assert condition(cluster_of(cluster), "RayClusterSuspended").startswith("True")
    cluster.merge(RAY_CLUSTERS, "rc", {"spec": {"suspend": False}})
    cluster.settle(runs_pods=True)
    assert len(cluster.pods()) == 3
    assert cluster_of(cluster)["status"]["state"] == "ready"


@pytest.mark.parametrize("name", ["small", ""])
def test_of_two_groups_with_one_name_the_first_counts_and_one_without_a_name_does_not(name: str) -> None:
    """Each would remove the pods that the other made, without end."""
    cluster = world(group(name, replicas=2), group(name, replicas=1))
    cluster.settle()
    assert len(workers(cluster, name)) == (2 if name else 0)
    assert cluster_of(cluster)["status"]["desiredWorkerReplicas"] == len(workers(cluster, name))


def test_with_the_autoscaler_pods_beyond_the_replicas_stay() -> None:
    """Only the autoscaler knows which workers are idle; it names them in `workersToDelete`."""
    cluster = world(group(replicas=3), enableInTreeAutoscaling=True)
    cluster.settle()
    scale(cluster, group(replicas=1))
    cluster.settle()
    assert len(workers(cluster)) == 3
    head = cluster.get(PODS, workers(cluster, "headgroup")[0])
    assert [container["name"] for container in head["spec"]["containers"]] == ["ray", "autoscaler"]


def test_status_counts_workers_and_tells_when_all_were_ready() -> None:
    cluster = world(group(replicas=2, minReplicas=1, maxReplicas=4))
    cluster.settle()
    assert "state" not in cluster_of(cluster)["status"]
    cluster.run_pods(workers(cluster)[0])
    cluster.settle()
    status = cluster_of(cluster)["status"]
    counts = [status[f"{word}WorkerReplicas"] for word in ("desired", "min", "max", "available", "ready")]
    assert counts == [2, 1, 4, 1, 1]
    cluster.run_pods()
    cluster.settle()
    assert condition(cluster_of(cluster), "RayClusterProvisioned").startswith("True")
    assert condition(cluster_of(cluster), "HeadPodReady") == "True HeadPodRunningAndReady"


# RayJob


def ray_job(**spec: Any) -> Raw:
    whole = {"entrypoint": "python train.py", "rayClusterSpec": cluster_spec(group(replicas=1)), **spec}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "rj", "labels": {"q": "1"}},
        "spec": whole,
    }


def job_world(**spec: Any) -> OperatorWorld:
    cluster = OperatorWorld()
    cluster.add(RAY_JOBS, ray_job(**spec))
    return cluster


def job_status(cluster: OperatorWorld) -> Raw:
    status: Raw = cluster.get(RAY_JOBS, "rj")["status"]
    return status


def test_a_job_has_a_cluster_and_its_submitter_waits_for_it() -> None:
    cluster = job_world()
    cluster.settle()
    name = job_status(cluster)["rayClusterName"]
    assert cluster.names(RAY_CLUSTERS) == [name]
    assert name.startswith("rj-")
    origin = {"ray.io/originated-from-cr-name": "rj", "ray.io/originated-from-crd": "RayJob"}
    assert cluster.get(RAY_CLUSTERS, name)["metadata"]["labels"] == {"q": "1", **origin}
    assert cluster.names(JOBS) == []
    cluster.run_pods()
    cluster.settle()
    assert cluster.names(JOBS) == ["rj"]
    assert cluster.owners("rj-0") == ["Job rj", "RayJob rj"]
    assert cluster.owners(workers(cluster_without(cluster, "rj-0"))[0]) == [f"RayCluster {name}", "RayJob rj"]


def cluster_without(cluster: OperatorWorld, pod: str) -> OperatorWorld:
    del cluster.objects[PODS][pod]
    return cluster


@pytest.mark.parametrize(
    ("phase", "state", "result"), [("Succeeded", "Complete", "SUCCEEDED"), ("Failed", "Failed", "FAILED")]
)
def test_the_end_of_the_submitter_is_the_end_of_the_job(phase: str, state: str, result: str) -> None:
    cluster = job_world(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=60)
    cluster.settle(runs_pods=True)
    assert job_status(cluster)["jobDeploymentStatus"] == "Running"
    cluster.set_pods(phase, "rj-0")
    cluster.settle()
    assert (job_status(cluster)["jobDeploymentStatus"], job_status(cluster)["jobStatus"]) == (state, result)
    assert len(cluster.names(RAY_CLUSTERS)) == 1
    cluster.now += timedelta(seconds=120)
    cluster.settle()
    assert cluster.names(RAY_CLUSTERS) == []


def test_a_suspended_job_has_no_cluster_and_gets_another_one() -> None:
    cluster = job_world(suspend=True)
    cluster.settle()
    assert (cluster.pods(), job_status(cluster)["jobDeploymentStatus"]) == ([], "Suspended")
    cluster.merge(RAY_JOBS, "rj", {"spec": {"suspend": False}})
    cluster.settle(runs_pods=True)
    assert len(cluster.names(RAY_CLUSTERS)) == 1
    cluster.merge(RAY_JOBS, "rj", {"spec": {"suspend": True}})
    cluster.settle()
    assert (cluster.pods(), cluster.names(RAY_CLUSTERS), cluster.names(JOBS)) == ([], [], [])


def test_a_job_past_its_deadline_fails() -> None:
    cluster = job_world(activeDeadlineSeconds=60)
    cluster.settle(runs_pods=True)
    cluster.now += timedelta(seconds=120)
    cluster.settle()
    assert job_status(cluster)["jobDeploymentStatus"] == "Failed"


@pytest.mark.parametrize("mode", ["HTTPMode", "InteractiveMode"])
def test_only_the_default_mode_has_a_submitter(mode: str) -> None:
    cluster = job_world(submissionMode=mode)
    cluster.settle(runs_pods=True)
    assert cluster.names(JOBS) == []


# RayService


def test_a_service_has_one_cluster_that_becomes_active_once_it_is_ready() -> None:
    cluster = OperatorWorld()
    spec = {"rayClusterConfig": cluster_spec(group(replicas=1))}
    cluster.add(
        RAY_SERVICES, {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "rs"}, "spec": spec}
    )
    cluster.settle()
    name = cluster.get(RAY_SERVICES, "rs")["status"]["pendingServiceStatus"]["rayClusterName"]
    assert cluster.names(RAY_CLUSTERS) == [name]
    cluster.run_pods()
    cluster.settle()
    status = cluster.get(RAY_SERVICES, "rs")["status"]
    assert (status["activeServiceStatus"], status["serviceStatus"]) == ({"rayClusterName": name}, "Running")
    assert [cluster.labels(pod)["ray.io/serve"] for pod in cluster.pods()] == ["false", "true"]


GARBAGE = st.recursive(
    st.none() | st.booleans() | st.sampled_from((-1, 0, 1, 3, 10**12)) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ("workerGroupSpecs", "groupName", "replicas", "minReplicas", "numOfHosts", "scaleStrategy")
            ),
            inner,
        )
    ),
    max_leaves=8,
)


@given(spec=GARBAGE, status=GARBAGE)
def test_garbage_never_raises(spec: Any, status: Any) -> None:
    cluster = OperatorWorld()
    raw = cluster.add(RAY_CLUSTERS, {**ray_cluster(), "spec": spec, "status": status})
    CONTROLLER.reconcile(raw, cluster, cluster.now)

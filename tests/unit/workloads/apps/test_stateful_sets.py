"""StatefulSets start, update and end their pods by ordinal."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.api.resources import CLAIMS, CONTROLLER_REVISIONS, PODS, STATEFUL_SETS
from muster.workloads.types import Create
from tests.support.workload_objects import WorkloadObjects, pod_template, workload


def stateful(replicas: int = 3, **spec: Any) -> WorkloadObjects:
    objects = WorkloadObjects()
    objects.create(STATEFUL_SETS, workload(STATEFUL_SETS, replicas=replicas, serviceName="svc", **spec))
    return objects


def changed_template() -> Any:
    template = pod_template()
    template["spec"]["containers"][0]["image"] = "y"
    return template


def images(objects: WorkloadObjects) -> dict[str, str]:
    return {raw["metadata"]["name"]: raw["spec"]["containers"][0]["image"] for raw in objects.all_of(PODS)}


def test_a_pod_has_its_identity() -> None:
    objects = stateful(1, ordinals={"start": 5})
    objects.settle()
    (pod,) = objects.all_of(PODS)
    (revision,) = objects.names(CONTROLLER_REVISIONS)
    assert pod["metadata"]["name"] == "w-5"
    assert pod["metadata"]["generateName"] == "w-"
    assert pod["metadata"]["labels"] == {
        "app": "x",
        "statefulset.kubernetes.io/pod-name": "w-5",
        "apps.kubernetes.io/pod-index": "5",
        "controller-revision-hash": revision,
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("w-5", "svc")


def test_ordered_pods_wait_for_the_ones_before_them() -> None:
    objects = stateful()
    objects.settle(runs=False)
    assert objects.names() == ["w-0"]
    objects.run()
    objects.settle(runs=False)
    assert objects.names() == ["w-0", "w-1"]
    objects.settle()
    assert objects.names() == ["w-0", "w-1", "w-2"]


def test_parallel_pods_do_not_wait() -> None:
    objects = stateful(podManagementPolicy="Parallel")
    objects.settle(runs=False)
    assert objects.names() == ["w-0", "w-1", "w-2"]


def test_scaling_down_deletes_the_highest_ordinal_first() -> None:
    objects = stateful()
    objects.settle()
    objects.change(STATEFUL_SETS, replicas=1)
    objects.reconcile(STATEFUL_SETS)
    assert objects.names() == ["w-0", "w-1"]
    objects.reconcile(STATEFUL_SETS)
    assert objects.names() == ["w-0"]


def test_a_pod_that_ended_is_deleted_and_made_again() -> None:
    objects = stateful()
    objects.settle()
    uid = objects.get(PODS, "w-1")["metadata"]["uid"]
    objects.finish("w-1", "Failed")
    objects.settle()
    assert objects.get(PODS, "w-1")["metadata"]["uid"] != uid


def test_an_update_goes_from_the_highest_ordinal_down() -> None:
    objects = stateful()
    objects.settle()
    objects.change(STATEFUL_SETS, template=changed_template())
    objects.settle(runs=False)
    assert images(objects) == {"w-0": "x", "w-1": "x", "w-2": "y"}
    status = objects.get(STATEFUL_SETS)["status"]
    assert status["currentRevision"] != status["updateRevision"]
    assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 1)
    objects.settle()
    assert set(images(objects).values()) == {"y"}
    status = objects.get(STATEFUL_SETS)["status"]
    assert status["currentRevision"] == status["updateRevision"]
    assert status["currentReplicas"] == status["updatedReplicas"] == status["readyReplicas"] == 3


def test_pods_below_the_partition_keep_their_revision() -> None:
    """Even those that are made again."""
    objects = stateful(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    objects.settle()
    objects.change(STATEFUL_SETS, template=changed_template())
    objects.settle()
    assert images(objects) == {"w-0": "x", "w-1": "x", "w-2": "y"}
    objects.delete(PODS, "w-0")
    objects.settle()
    assert images(objects) == {"w-1": "x", "w-2": "y", "w-0": "x"}


def test_on_delete_updates_only_what_is_deleted() -> None:
    objects = stateful(updateStrategy={"type": "OnDelete"})
    objects.settle()
    objects.change(STATEFUL_SETS, template=changed_template())
    objects.settle()
    assert set(images(objects).values()) == {"x"}
    objects.delete(PODS, "w-1")
    objects.settle()
    assert images(objects)["w-1"] == "y"


def test_going_back_uses_the_old_revision_again() -> None:
    objects = stateful(1)
    objects.settle()
    first = objects.get(STATEFUL_SETS)["status"]["currentRevision"]
    for template in (changed_template(), pod_template()):
        objects.change(STATEFUL_SETS, template=template)
        objects.settle()
    assert objects.get(STATEFUL_SETS)["status"]["currentRevision"] == first
    assert sorted(raw["revision"] for raw in objects.all_of(CONTROLLER_REVISIONS)) == [2, 3]


def test_claims_come_before_their_pod() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    objects = stateful(1, volumeClaimTemplates=[claim])
    actions = objects.reconcile(STATEFUL_SETS).actions
    kinds = [action.resource for action in actions]
    assert kinds == [CONTROLLER_REVISIONS, CLAIMS, PODS]
    assert isinstance(actions[1], Create)
    assert actions[1].object["metadata"] == {"name": "data-w-0", "namespace": "default", "labels": {"app": "x"}}
    (pod,) = objects.all_of(PODS)
    assert pod["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-w-0"}}]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.sampled_from(["OrderedReady", "Parallel"]))
def test_scaling_ends_with_exactly_the_ordinals(steps: list[int], policy: str) -> None:
    objects = stateful(2, podManagementPolicy=policy)
    for replicas in steps:
        objects.change(STATEFUL_SETS, replicas=replicas)
        objects.settle()
    assert sorted(objects.names()) == [f"w-{ordinal}" for ordinal in range(steps[-1])]

"""ReplicaSets have as many pods as they say."""

from typing import Any

from muster.api.resources import PODS, REPLICA_SETS
from muster.workloads.bursts import BURST
from muster.workloads.types import Create
from tests.support.workload_objects import WorkloadObjects, workload


def replica_set(replicas: int, **spec: Any) -> WorkloadObjects:
    objects = WorkloadObjects()
    objects.create(REPLICA_SETS, workload(REPLICA_SETS, replicas=replicas, **spec))
    return objects


def test_pods_have_the_template_a_generated_name_and_their_controller() -> None:
    objects = replica_set(1)
    (action,) = objects.reconcile(REPLICA_SETS).actions
    assert isinstance(action, Create)
    metadata = action.object["metadata"]
    assert (metadata["generateName"], metadata["labels"]) == ("w-", {"app": "x"})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "uid-1"}
    assert metadata["ownerReferences"] == [{**owner, "controller": True, "blockOwnerDeletion": True}]
    assert action.object["spec"] == {"containers": [{"name": "main", "image": "x"}]}


def test_scaling_up_and_down() -> None:
    objects = replica_set(3)
    objects.settle()
    assert len(objects.names()) == 3
    objects.change(REPLICA_SETS, replicas=1)
    objects.settle()
    assert len(objects.names()) == 1
    status = objects.get(REPLICA_SETS)["status"]
    assert status == {
        "replicas": 1,
        "fullyLabeledReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "observedGeneration": 2,
    }


def test_pods_that_do_not_run_go_first() -> None:
    """Unassigned before assigned, pending before running, not ready before ready; then the newest."""
    objects = replica_set(3)
    objects.reconcile(REPLICA_SETS)
    first, _, third = objects.names()
    objects.run([first, third])
    objects.change(REPLICA_SETS, replicas=2)
    objects.reconcile(REPLICA_SETS)
    assert objects.names() == [first, third]


def test_a_lower_deletion_cost_goes_first() -> None:
    objects = replica_set(2)
    objects.settle()
    first, second = objects.names()
    objects.objects[PODS, first]["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    objects.change(REPLICA_SETS, replicas=1)
    objects.reconcile(REPLICA_SETS)
    assert objects.names() == [second]


def test_a_failed_pod_is_replaced_and_stays() -> None:
    objects = replica_set(1)
    objects.settle()
    (first,) = objects.names()
    objects.finish(first, "Failed")
    objects.settle()
    assert len(objects.names()) == 2
    assert objects.get(REPLICA_SETS)["status"]["replicas"] == 1


def test_a_pod_is_available_once_it_was_ready_for_long_enough() -> None:
    objects = replica_set(1, minReadySeconds=30)
    objects.settle()
    assert "availableReplicas" not in objects.get(REPLICA_SETS)["status"]
    assert objects.reconcile(REPLICA_SETS).again_after_seconds == 30
    objects.advance(30)
    objects.reconcile(REPLICA_SETS)
    assert objects.get(REPLICA_SETS)["status"]["availableReplicas"] == 1


def test_a_deleted_replica_set_makes_no_pods() -> None:
    objects = replica_set(2)
    objects.objects[REPLICA_SETS, "w"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert objects.reconcile(REPLICA_SETS).actions == ()


def test_many_pods_come_in_bursts() -> None:
    """A typing error in `replicas` fills neither the memory nor the API server at once."""
    objects = replica_set(2_000_000_000)
    reconciliation = objects.reconcile(REPLICA_SETS)
    assert (len(reconciliation.actions), reconciliation.again_after_seconds) == (BURST, 0.0)

"""Workloads of thousands of pods: a reconciliation is bounded, and the next one goes on where it ended."""

import pytest

from muster.api.resources import PYTORCH_JOBS, RAY_CLUSTERS, Resource
from muster.errors import InputError
from muster.workloads.expansion import MOST_PODS, expand
from muster.workloads.operators.objects import MOST_ACTIONS
from muster.workloads.table import CONTROLLERS
from muster.workloads.types import Raw
from tests.unit.workloads.operators.operator_world import OperatorWorld

TEMPLATE = {"spec": {"containers": [{"name": "main"}]}}


def new(resource: Resource, spec: Raw) -> Raw:
    metadata = {"name": "big", "namespace": "team", "uid": "uid-big"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def pytorch_job(workers: int) -> Raw:
    return new(PYTORCH_JOBS, {"pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": TEMPLATE}}})


def ray_cluster(replicas: int, hosts: int) -> Raw:
    group = {"groupName": "g", "replicas": replicas, "numOfHosts": hosts, "template": TEMPLATE}
    return new(RAY_CLUSTERS, {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [group]})


@pytest.mark.parametrize(
    ("raw", "pods"), [(pytorch_job(2500), 2500), (ray_cluster(2500, 1), 2501), (ray_cluster(700, 3), 2101)]
)
def test_all_pods_come_though_each_reconciliation_is_bounded(raw: Raw, pods: int) -> None:
    resource = next(kind for kind in CONTROLLERS if kind.kind == raw["kind"])
    cluster = OperatorWorld()
    first = CONTROLLERS[resource].reconcile(raw, cluster, cluster.now)
    assert len(first.actions) <= MOST_ACTIONS + 3  # and the head with its services
    assert first.again_after_seconds == 0
    assert len(expand([raw])) == pods


def test_a_replica_of_several_hosts_is_never_cut_by_the_bound() -> None:
    pods = [made.pod for made in expand([ray_cluster(700, 3)])]
    names = [pod["metadata"]["labels"].get("ray.io/worker-group-replica-name") for pod in pods]
    assert {names.count(name) for name in set(names) - {None}} == {3}


def test_more_pods_than_a_plan_may_have_are_an_error_and_not_a_shorter_plan() -> None:
    with pytest.raises(InputError, match=f"more than {MOST_PODS} pods"):
        expand([pytorch_job(10**9)])

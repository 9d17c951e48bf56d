"""The minimal CRDs of the operators' kinds, on an API server that has nothing else of them."""

import pytest

from muster.api.resources import LEADER_WORKER_SETS, PYTORCH_JOBS, Resource
from muster.embedded.cluster_store import ClusterStore
from muster.workloads.expansion import expand
from muster.workloads.operators.crds import KINDS, OperatorKind, operator_crds
from muster.workloads.operators.table import OPERATORS
from muster.workloads.types import Raw


@pytest.fixture
def store() -> ClusterStore:
    return ClusterStore(custom=operator_crds())


def new(resource: Resource, spec: Raw) -> Raw:
    metadata = {"name": "x", "namespace": "default"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def test_every_kind_with_a_controller_has_a_crd_and_no_other() -> None:
    assert {kind.resource for kind in KINDS} == {controller.resource for controller in OPERATORS}
    assert len({raw["metadata"]["name"] for raw in operator_crds()}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.kind)
def test_an_object_keeps_its_spec_and_its_status(kind: OperatorKind, store: ClusterStore) -> None:
    resource = kind.resource
    spec = {"anything": {"deep": [1, {"two": True}]}}
    store.create(resource, new(resource, spec))
    store.patch(resource, "default", "x", {"status": {"conditions": [{"type": "Ready"}]}}, subresource="status")
    stored = store.get(resource, "default", "x")
    assert stored["spec"] == spec
    assert stored["status"] == {"conditions": [{"type": "Ready"}]}


@pytest.mark.parametrize(
    ("resource", "spec", "path"),
    [
        (LEADER_WORKER_SETS, {"replicas": 2}, ("replicas",)),
        (
            PYTORCH_JOBS,
            {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}},
            ("pytorchReplicaSpecs", "Worker", "replicas"),
        ),
    ],
)
def test_kinds_that_scale_are_scaled_where_their_operators_read_it(
    resource: Resource, spec: Raw, path: tuple[str, ...], store: ClusterStore
) -> None:
    store.create(resource, new(resource, spec))
    store.patch(resource, "default", "x", {"spec": {"replicas": 5}}, subresource="scale")
    value = store.get(resource, "default", "x")["spec"]
    for field in path:
        value = value[field]
    assert value == 5


def test_pods_of_a_plan_have_passed_the_webhook_of_their_operator() -> None:
    """A plan sees what the scheduler will see: the affinity of an exclusive leader, not only its labels."""
    template = {"size": 2, "workerTemplate": {"spec": {"containers": [{"name": "main"}]}}}
    lws = new(LEADER_WORKER_SETS, {"replicas": 1, "leaderWorkerTemplate": template})
    lws["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}
    leader, worker = (made.pod for made in expand([lws]))
    assert "podAntiAffinity" in leader["spec"]["affinity"]
    assert worker["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] == "1"
    assert worker["spec"]["containers"][0]["env"][1] == {"name": "LWS_GROUP_SIZE", "value": "2"}

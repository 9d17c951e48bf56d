"""PodCliqueSets in the embedded cluster: defaulted and judged as by an API server with muster's webhook."""

import pytest

from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS, NAMESPACES, POD_CLIQUE_SETS
from muster.embedded.cluster_store import ClusterStore
from muster.kube.errors import ApiError
from tests.support.factories import Raw
from tests.support.grove import NAMESPACE, clique, group, pod_clique_set

CONSTRAINT = {"topologyName": "dc", "pack": {"required": "rack"}}


@pytest.fixture
def store() -> ClusterStore:
    store = ClusterStore()
    store.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    return store


def bind(store: ClusterStore, *domains: str) -> None:
    levels = [{"domain": domain, "key": f"example.com/{domain}"} for domain in domains]
    kind = {"apiVersion": CLUSTER_TOPOLOGY_BINDINGS.api_version, "kind": CLUSTER_TOPOLOGY_BINDINGS.kind}
    store.create(CLUSTER_TOPOLOGY_BINDINGS, {**kind, "metadata": {"name": "dc"}, "spec": {"levels": levels}})


def refusal(store: ClusterStore, raw: Raw) -> str:
    with pytest.raises(ApiError) as caught:
        store.create(POD_CLIQUE_SETS, raw)
    assert caught.value.status == 422
    return caught.value.message


def test_a_set_is_stored_with_its_defaults(store: ClusterStore) -> None:
    made = store.create(POD_CLIQUE_SETS, pod_clique_set(clique("a", 3)))
    template = made["spec"]["template"]
    assert template["cliques"][0]["spec"]["minAvailable"] == 3
    assert template["terminationDelay"] == "4h0m0s"


def test_an_update_keeps_a_minimum_that_it_leaves_out(store: ClusterStore) -> None:
    store.create(POD_CLIQUE_SETS, pod_clique_set(clique("a", 3)))
    patch = {"spec": {"template": {"cliques": [clique("a", 5)]}}}
    patched = store.patch(POD_CLIQUE_SETS, NAMESPACE, "w", patch)
    spec = patched["spec"]["template"]["cliques"][0]["spec"]
    assert (spec["replicas"], spec["minAvailable"]) == (5, 3)


def test_a_set_needs_its_binding(store: ClusterStore) -> None:
    """R5: with its domains."""
    raw = pod_clique_set(clique("a"), topologyConstraint=CONSTRAINT)
    assert "ClusterTopologyBinding `dc` does not exist" in refusal(store, raw)
    bind(store, "zone", "rack")
    store.create(POD_CLIQUE_SETS, raw)


def test_a_set_that_lost_its_binding_can_be_changed(store: ClusterStore) -> None:
    """It runs on, and is scaled as before."""
    bind(store, "rack")
    store.create(POD_CLIQUE_SETS, pod_clique_set(clique("a"), topologyConstraint=CONSTRAINT))
    store.delete(CLUSTER_TOPOLOGY_BINDINGS, "", "dc")
    scaled = store.patch(POD_CLIQUE_SETS, NAMESPACE, "w", {"spec": {"replicas": 4}})
    assert scaled["spec"]["replicas"] == 4


def test_sets_do_not_share_names(store: ClusterStore) -> None:
    """R7: the second one is refused, whichever comes first."""
    store.create(POD_CLIQUE_SETS, pod_clique_set(clique("a"), groups=[group("g", "a", replicas=2)]))
    assert "share the name `w-0-g-0`" in refusal(store, pod_clique_set(clique("a"), name="w-0-g"))


def test_a_status_is_written_whatever_the_spec(store: ClusterStore) -> None:
    """A controller reports; it does not judge."""
    store.create(POD_CLIQUE_SETS, pod_clique_set(clique("a")))
    status = {"status": {"replicas": 1, "availableReplicas": 1}}
    made = store.patch(POD_CLIQUE_SETS, NAMESPACE, "w", status, subresource="status")
    assert made["status"]["availableReplicas"] == 1

"""The initial objects of an embedded cluster: files replace built-in objects, and captured objects keep their state."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.api.codec import Document
from muster.api.resources import NAMESPACES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, TOPOLOGIES, Resource
from muster.cli import inputs
from muster.embedded.cluster_store import ClusterStore
from muster.errors import InputError
from muster.kube.cluster import Raw
from muster.kube.manifest_files import MOST_MIB
from muster.simulator import datacenter
from muster.simulator.initial_objects import built_in_objects, create_cluster, notes
from tests.support.factories import pod

EXAMPLES = Path(__file__).parents[3] / "examples"
DOMAINS_BY_LEVEL = {"zone": 2, "rack": 4}


def documents(raws: Iterable[Raw]) -> list[Document]:
    return [Document(f"some.yaml, document {i}", raw) for i, raw in enumerate(raws, 1)]


def obj(kind: str, name: str, api_version: str = "v1", namespace: str = "", **fields: Any) -> Raw:
    space = {"namespace": namespace} if namespace else {}
    meta = {"name": name, **space, **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **fields}


def stated_pod(name: str, node: str = "", namespace: str = "", **fields: Raw) -> Raw:
    """A pod outside any gang; keyword arguments are merged into its metadata and spec, or are its status."""
    raw = pod(name, gang="", namespace=namespace, on=node, image="x")
    return raw | {field: raw.get(field, {}) | value for field, value in fields.items()}


def names(store: ClusterStore, resource: Resource) -> list[str]:
    return [raw["metadata"]["name"] for raw in store.list(resource).items]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_starts_with_all_its_objects(path: Path) -> None:
    """Namespaces that a file names are created."""
    files = inputs.read([str(path)], MOST_MIB)
    initial = create_cluster([*built_in_objects(None, 8, DOMAINS_BY_LEVEL, files), *files])
    assert len(initial.store.list(POD_GROUPS).items) + len(initial.store.list(PODS).items) == len(files)
    assert initial.namespaces
    assert any(initial.namespaces[0] in text for text in notes(initial))


def test_nodes_of_files_replace_the_built_in_nodes() -> None:
    files = inputs.read([str(EXAMPLES / "cluster")], MOST_MIB)
    store = create_cluster([*built_in_objects(None, 8, DOMAINS_BY_LEVEL, files), *files]).store
    assert len(names(store, NODES)) == 16
    assert not any(name.startswith("node-") for name in names(store, NODES))
    levels = store.get(TOPOLOGIES, "", datacenter.TOPOLOGY)["spec"]["levels"]
    assert [level["nodeLabel"] for level in levels] == ["topology/zone", "topology/block", "topology/rack"]


def test_objects_of_files_replace_built_in_ones_of_the_same_name() -> None:
    """`--nodes 2` and a file: its node of the same name, and one built-in node."""
    files = documents([obj("Node", "node-000", status={"allocatable": {"cpu": "4"}})])
    store = create_cluster([*built_in_objects(2, 8, DOMAINS_BY_LEVEL, files), *files]).store
    assert names(store, NODES) == ["node-000", "node-001"]
    assert store.get(NODES, "", "node-000")["status"]["allocatable"] == {"cpu": "4"}


def test_without_built_in_nodes_files_have_the_only_topology() -> None:
    files = documents([obj("Node", "own")])
    store = create_cluster([*built_in_objects(0, 8, DOMAINS_BY_LEVEL, files), *files]).store
    assert (names(store, NODES), names(store, TOPOLOGIES)) == (["own"], [])
    assert names(create_cluster([*built_in_objects(0, 8, DOMAINS_BY_LEVEL, [])]).store, TOPOLOGIES) == [
        datacenter.TOPOLOGY
    ]


def test_the_order_of_files_does_not_matter() -> None:
    """A pod needs its namespace, its PriorityClass, and the kind of its owner."""
    first, second = stated_pod("a", namespace="team", spec={"priorityClassName": "high"}), obj("Namespace", "team")
    high = obj("PriorityClass", "high", "scheduling.k8s.io/v1", value=7)
    initial = create_cluster(documents([first, second, high]))
    assert initial.store.get(PODS, "team", "a")["spec"]["priority"] == 7
    assert initial.namespaces == ()


def test_a_captured_object_keeps_uid_and_creation_time() -> None:
    """Creation times decide the order of gangs: they are part of a plan."""
    metadata = {
        "uid": "11111111-0000-4000-8000-000000000001",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "resourceVersion": "77",
        "generation": 9,
        "managedFields": [{"manager": "kubectl"}],
        "selfLink": "/here",
    }
    store = create_cluster(
        documents([stated_pod("a", metadata=metadata), stated_pod("b", metadata=metadata), stated_pod("c")])
    ).store
    a, b, c = (store.get(PODS, "default", name)["metadata"] for name in "abc")
    assert (a["uid"], a["creationTimestamp"]) == (metadata["uid"], metadata["creationTimestamp"])
    assert "managedFields" not in a
    assert b["uid"] != a["uid"], "uids are unique"
    assert c["creationTimestamp"][:4] >= "2026"
    store.create(PODS, stated_pod("later"))
    assert store.get(PODS, "default", "later")["metadata"]["creationTimestamp"] >= c["creationTimestamp"]


def test_an_empty_status_in_a_file_counts_as_none() -> None:
    """`kubectl create --dry-run=client -o yaml` writes `status: {}`: such a pod is Pending like any other."""
    store = create_cluster(documents([stated_pod("a", status={})])).store
    assert store.get(PODS, "default", "a")["status"]["phase"] == "Pending"


def test_a_captured_pod_keeps_its_status() -> None:
    status = {"phase": "Running", "startTime": "2026-01-02T03:04:05Z", "podIP": "10.0.0.7"}
    store = create_cluster(
        documents([obj("Node", "n"), stated_pod("a", "n", status=status), stated_pod("b", "n")])
    ).store
    assert store.get(PODS, "default", "a")["status"] == status
    assert store.get(PODS, "default", "b")["status"]["phase"] == "Pending"


def test_a_captured_terminating_pod_keeps_its_deadline() -> None:
    deadline = (datetime.now(UTC) + timedelta(seconds=20)).strftime("%Y-%m-%dT%H:%M:%SZ")
    terminating = {"deletionTimestamp": deadline, "deletionGracePeriodSeconds": 30}
    store = create_cluster(documents([obj("Node", "n"), stated_pod("a", "n", metadata=terminating)])).store
    metadata = store.get(PODS, "default", "a")["metadata"]
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == (deadline, 30)


def test_objects_that_every_cluster_has_are_updated() -> None:
    labelled = obj("Namespace", "default", metadata={"labels": {"team": "a"}})
    critical = obj("PriorityClass", "system-node-critical", "scheduling.k8s.io/v1", value=2_000_001_000)
    store = create_cluster(documents([labelled, critical])).store
    assert store.get(NAMESPACES, "", "default")["metadata"]["labels"]["team"] == "a"
    assert "system-node-critical" in names(store, PRIORITY_CLASSES)


def test_unknown_kinds_are_noted_and_skipped() -> None:
    """CONTRACT: a note, not an error."""
    initial = create_cluster(documents([obj("Workflow", "a", "argoproj.io/v1alpha1")]))
    assert initial.unknown == ("1 Workflow (argoproj.io/v1alpha1)",)


def test_a_file_may_define_the_kind_of_its_objects() -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "toys", "kind": "Toy"},
        "versions": [version],
    }
    definition = obj("CustomResourceDefinition", "toys.example.org", "apiextensions.k8s.io/v1", spec=spec)
    initial = create_cluster(documents([obj("Toy", "a", "example.org/v1"), definition]))
    assert initial.unknown == ()
    assert names(initial.store, Resource("example.org", "v1", "toys", "Toy")) == ["a"]


def test_pods_on_missing_nodes_are_noted() -> None:
    initial = create_cluster(documents([stated_pod("a", "nowhere")]))
    assert any("nowhere" in text for text in notes(initial))


@pytest.mark.parametrize(
    ("invalid", "message", "hint"),
    [
        (stated_pod("a", spec={"containers": []}), "some.yaml, document 2: pod `default/a` is rejected", "correct it"),
        (stated_pod("a", spec={"priorityClassName": "high"}), "no PriorityClass", "add a file that has it"),
        (
            obj("PodGroup", "g", "scheduling.run.ai/v2alpha2", spec={"minMember": -1}),
            "some.yaml, document 2: podgroup `default/g` is rejected",
            "muster validate",
        ),
        (obj("Namespace", "x"), "is given twice", "document 1"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": 7}, "some.yaml, document 2", ""),
    ],
)
def test_an_error_names_the_file_the_document_and_a_way_out(invalid: Raw, message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        create_cluster(documents([obj("Namespace", "x"), invalid]))
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize("text", ["", ",", "zone", "zone=0", "zone=2,zone=4", "Zone Name=2", "a/b=1", f"zone={10**30}"])
def test_invalid_levels_are_rejected_by_the_name_of_the_option(text: str) -> None:
    with pytest.raises(InputError, match="--topology") as caught:
        datacenter.parse_levels(text)
    assert caught.value.hint

"""What an embedded cluster holds when it opens: files win, and whatever was captured comes up as it was."""

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
from muster.simulator.initial_objects import built_in, fill, words

EXAMPLES = Path(__file__).parents[3] / "examples"
SHAPE = {"zone": 2, "rack": 4}


def documents(raws: Iterable[Raw]) -> list[Document]:
    return [Document(f"some.yaml, document {i}", raw) for i, raw in enumerate(raws, 1)]


def obj(kind: str, name: str, api_version: str = "v1", namespace: str = "", **fields: Any) -> Raw:
    space = {"namespace": namespace} if namespace else {}
    meta = {"name": name, **space, **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **fields}


def pod(name: str, node: str = "", **fields: Any) -> Raw:
    spec = {"containers": [{"name": "main", "image": "x"}], **({"nodeName": node} if node else {})}
    return obj("Pod", name, spec=spec | fields.pop("spec", {}), **fields)


def names(store: ClusterStore, resource: Resource) -> list[str]:
    return [raw["metadata"]["name"] for raw in store.list(resource).items]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_comes_up_as_it_is(path: Path) -> None:
    """Issue 5, outcome 7: namespaces that a file names are made."""
    given = inputs.read([str(path)], MOST_MIB)
    filled = fill([*built_in(None, 8, SHAPE, given), *given])
    assert len(filled.store.list(POD_GROUPS).items) + len(filled.store.list(PODS).items) == len(given)
    assert filled.namespaces
    assert any(filled.namespaces[0] in text for text in words(filled)), "and that is said"


def test_the_nodes_of_files_stand_instead_of_those_that_are_built_in() -> None:
    given = inputs.read([str(EXAMPLES / "cluster")], MOST_MIB)
    store = fill([*built_in(None, 8, SHAPE, given), *given]).store
    assert len(names(store, NODES)) == 16
    assert not any(name.startswith("node-") for name in names(store, NODES))
    levels = store.get(TOPOLOGIES, "", datacenter.TOPOLOGY)["spec"]["levels"]
    assert [level["nodeLabel"] for level in levels] == ["topology/zone", "topology/block", "topology/rack"]


def test_what_files_bring_wins_name_by_name() -> None:
    """`--nodes 2` beside a file: its node of the same name, and one of ours."""
    given = documents([obj("Node", "node-000", status={"allocatable": {"cpu": "4"}})])
    store = fill([*built_in(2, 8, SHAPE, given), *given]).store
    assert names(store, NODES) == ["node-000", "node-001"]
    assert store.get(NODES, "", "node-000")["status"]["allocatable"] == {"cpu": "4"}


def test_without_nodes_of_its_own_only_files_speak() -> None:
    given = documents([obj("Node", "mine")])
    store = fill([*built_in(0, 8, SHAPE, given), *given]).store
    assert (names(store, NODES), names(store, TOPOLOGIES)) == (["mine"], [])
    assert names(fill([*built_in(0, 8, SHAPE, [])]).store, TOPOLOGIES) == [datacenter.TOPOLOGY]


def test_the_order_of_files_does_not_matter() -> None:
    """A pod needs its namespace, its PriorityClass, and the kind of its owner."""
    first, second = pod("a", namespace="team", spec={"priorityClassName": "high"}), obj("Namespace", "team")
    high = obj("PriorityClass", "high", "scheduling.k8s.io/v1", value=7)
    filled = fill(documents([first, second, high]))
    assert filled.store.get(PODS, "team", "a")["spec"]["priority"] == 7
    assert filled.namespaces == (), "it is brought"


def test_a_captured_object_is_who_it_was_and_as_old() -> None:
    """Who came first decides whose turn it is: ages are part of a plan."""
    metadata = {
        "uid": "11111111-0000-4000-8000-000000000001",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "resourceVersion": "77",
        "generation": 9,
        "managedFields": [{"manager": "kubectl"}],
        "selfLink": "/here",
    }
    store = fill(documents([pod("a", metadata=metadata), pod("b", metadata=metadata), pod("c")])).store
    a, b, c = (store.get(PODS, "default", name)["metadata"] for name in "abc")
    assert (a["uid"], a["creationTimestamp"]) == (metadata["uid"], metadata["creationTimestamp"])
    assert "managedFields" not in a
    assert b["uid"] != a["uid"], "an identity is nobody else's"
    assert c["creationTimestamp"][:4] >= "2026"
    store.create(PODS, pod("later"))
    assert store.get(PODS, "default", "later")["metadata"]["creationTimestamp"] >= c["creationTimestamp"]


def test_a_captured_pod_fares_as_it_did() -> None:
    status = {"phase": "Running", "startTime": "2026-01-02T03:04:05Z", "podIP": "10.0.0.7"}
    store = fill(documents([obj("Node", "n"), pod("a", "n", status=status), pod("b", "n")])).store
    assert store.get(PODS, "default", "a")["status"] == status
    assert store.get(PODS, "default", "b")["status"]["phase"] == "Pending"


def test_a_captured_pod_on_its_way_out_has_the_time_that_it_had() -> None:
    until = (datetime.now(UTC) + timedelta(seconds=20)).strftime("%Y-%m-%dT%H:%M:%SZ")
    leaving = {"deletionTimestamp": until, "deletionGracePeriodSeconds": 30}
    store = fill(documents([obj("Node", "n"), pod("a", "n", metadata=leaving)])).store
    found = store.get(PODS, "default", "a")["metadata"]
    assert (found["deletionTimestamp"], found["deletionGracePeriodSeconds"]) == (until, 30)


def test_what_every_cluster_has_is_there_already() -> None:
    labelled = obj("Namespace", "default", metadata={"labels": {"team": "a"}})
    critical = obj("PriorityClass", "system-node-critical", "scheduling.k8s.io/v1", value=2_000_001_000)
    store = fill(documents([labelled, critical])).store
    assert store.get(NAMESPACES, "", "default")["metadata"]["labels"]["team"] == "a"
    assert "system-node-critical" in names(store, PRIORITY_CLASSES)


def test_unknown_kinds_are_told_and_left_alone() -> None:
    """CONTRACT: a note, not an error."""
    filled = fill(documents([obj("LeaderWorkerSet", "a", "leaderworkerset.x-k8s.io/v1")]))
    assert filled.unknown == ("1 LeaderWorkerSet (leaderworkerset.x-k8s.io/v1)",)


def test_a_kind_may_come_with_its_definition() -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "toys", "kind": "Toy"},
        "versions": [version],
    }
    definition = obj("CustomResourceDefinition", "toys.example.org", "apiextensions.k8s.io/v1", spec=spec)
    filled = fill(documents([obj("Toy", "a", "example.org/v1"), definition]))
    assert filled.unknown == ()
    assert names(filled.store, Resource("example.org", "v1", "toys", "Toy")) == ["a"]


def test_pods_on_nodes_that_do_not_exist_are_told() -> None:
    filled = fill(documents([pod("a", "nowhere")]))
    assert any("nowhere" in text for text in words(filled))


@pytest.mark.parametrize(
    ("wrong", "says", "hint"),
    [
        (pod("a", spec={"containers": []}), "some.yaml, document 2: pod `default/a` is refused", "put it right"),
        (pod("a", spec={"priorityClassName": "high"}), "no PriorityClass", "give a file that brings it"),
        (
            obj("PodGroup", "g", "scheduling.run.ai/v2alpha2", spec={"minMember": -1}),
            "some.yaml, document 2: podgroup `default/g` is refused",
            "muster validate",
        ),
        (obj("Namespace", "x"), "is given twice", "document 1"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": 7}, "some.yaml, document 2", ""),
    ],
)
def test_an_error_names_the_file_the_document_and_a_way_out(wrong: Raw, says: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        fill(documents([obj("Namespace", "x"), wrong]))
    assert says in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize("text", ["", ",", "zone", "zone=0", "zone=2,zone=4", "Zone Name=2", "a/b=1", f"zone={10**30}"])
def test_levels_that_make_no_topology_are_told_by_their_option(text: str) -> None:
    with pytest.raises(InputError, match="--topology") as caught:
        datacenter.levels(text)
    assert caught.value.hint

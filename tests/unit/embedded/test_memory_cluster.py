"""The embedded cluster beyond a bare API server: garbage collection, namespaces, budgets, events, limits."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from muster.api.resources import (
    BUDGETS,
    CONFIG_MAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    NEW_EVENTS,
    NODES,
    POD_GROUPS,
    PODS,
    SECRETS,
    Resource,
)
from muster.embedded.admission.admission_chain import reject_unknown_fields
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.memory_cluster import MemoryCluster, changes
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from tests.contract.given import config_map, kind_of, plain_pod, pod_group

START = datetime(2026, 1, 1, tzinfo=UTC)


class Time:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def store() -> ClusterStore:
    numbers = count(1)
    return ClusterStore(clock=lambda: START, new_uid=lambda: f"uid-{next(numbers)}")


def _owned(raw: Raw, owner: Raw, block: bool = False) -> Raw:
    reference: Raw = {"apiVersion": "v1", "kind": owner["kind"], "name": owner["metadata"]["name"]}
    reference |= {"uid": owner["metadata"]["uid"], "blockOwnerDeletion": block}
    owners = [*raw["metadata"].get("ownerReferences", ()), reference]
    return {**raw, "metadata": {**raw["metadata"], "ownerReferences": owners}}


def _names(store: ClusterStore, resource: Resource, namespace: str = "default") -> list[str]:
    return [raw["metadata"]["name"] for raw in store.list(resource, namespace).items]


def _error_of(call: Any, *args: Any, **options: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        call(*args, **options)
    return caught.value


def _ready(store: ClusterStore, name: str, labels: dict[str, str] | None = None) -> None:
    store.create(PODS, plain_pod("default", name, labels))
    store.bind("default", name, "", "n1")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    store.patch(PODS, "default", name, {"status": status}, subresource="status")


# owners


def test_dependents_are_deleted_with_their_last_owner(store: ClusterStore) -> None:
    first, second = (store.create(CONFIG_MAPS, config_map("default", name)) for name in ("one", "two"))
    store.create(CONFIG_MAPS, _owned(_owned(config_map("default", "both"), first), second))
    child = store.create(CONFIG_MAPS, _owned(config_map("default", "child"), first))
    store.create(CONFIG_MAPS, _owned(config_map("default", "grandchild"), child))
    store.delete(CONFIG_MAPS, "default", "one")
    assert _names(store, CONFIG_MAPS) == ["both", "two"]
    both = store.get(CONFIG_MAPS, "default", "both")
    assert [owner["name"] for owner in both["metadata"]["ownerReferences"]] == ["two"]
    store.delete(CONFIG_MAPS, "default", "two")
    assert _names(store, CONFIG_MAPS) == []


def test_orphaned_dependents_stay_without_the_owner_reference(store: ClusterStore) -> None:
    owner = store.create(CONFIG_MAPS, config_map("default", "owner"))
    store.create(CONFIG_MAPS, _owned(config_map("default", "child"), owner))
    store.delete(CONFIG_MAPS, "default", "owner", propagation="Orphan")
    assert _names(store, CONFIG_MAPS) == ["child"]
    assert "ownerReferences" not in store.get(CONFIG_MAPS, "default", "child")["metadata"]


def test_foreground_deletion_removes_the_owner_last(store: ClusterStore) -> None:
    owner = store.create(CONFIG_MAPS, config_map("default", "owner"))
    raw = _owned(config_map("default", "child"), owner, block=True)
    raw["metadata"]["finalizers"] = ["example.com/hold"]
    store.create(CONFIG_MAPS, raw)
    left = store.delete(CONFIG_MAPS, "default", "owner", propagation="Foreground")
    assert left["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert _names(store, CONFIG_MAPS) == ["child", "owner"]
    store.patch(CONFIG_MAPS, "default", "child", {"metadata": {"finalizers": None}})
    assert _names(store, CONFIG_MAPS) == []


def test_foreground_deletion_without_dependents_is_immediate(store: ClusterStore) -> None:
    store.create(CONFIG_MAPS, config_map("default", "owner"))
    assert store.delete(CONFIG_MAPS, "default", "owner", propagation="Foreground")["kind"] == "Status"


def test_a_cycle_of_owner_references_is_deleted(store: ClusterStore) -> None:
    first = store.create(CONFIG_MAPS, config_map("default", "one"))
    two = store.create(CONFIG_MAPS, _owned(config_map("default", "two"), first))
    store.replace(CONFIG_MAPS, _owned(first, two))
    store.delete(CONFIG_MAPS, "default", "one", propagation="Foreground")
    assert _names(store, CONFIG_MAPS) == []


# namespaces and definitions


def test_a_namespace_is_deleted_with_its_objects(store: ClusterStore) -> None:
    store.create(NAMESPACES, {"metadata": {"name": "n"}})
    store.create(CONFIG_MAPS, config_map("n", "a"))
    store.create(POD_GROUPS, pod_group("n", "g"))
    assert store.delete(NAMESPACES, "", "n")["kind"] == "Status"
    assert _error_of(store.get, NAMESPACES, "", "n").status == 404
    assert _names(store, CONFIG_MAPS, "n") == _names(store, POD_GROUPS, "n") == []


def test_a_terminating_namespace_rejects_new_objects(store: ClusterStore) -> None:
    store.create(NAMESPACES, {"metadata": {"name": "n"}})
    store.create(PODS, plain_pod("n", "a"))
    store.bind("n", "a", "", "n1")
    assert store.delete(NAMESPACES, "", "n")["status"]["phase"] == "Terminating"
    problem = _error_of(store.create, CONFIG_MAPS, config_map("n", "late"))
    assert (problem.status, problem.details["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    store.delete(PODS, "n", "a", grace_seconds=0)
    assert _error_of(store.get, NAMESPACES, "", "n").status == 404


def test_system_namespaces_cannot_be_deleted(store: ClusterStore) -> None:
    assert _error_of(store.delete, NAMESPACES, "", "default").status == 403
    assert store.get(NAMESPACES, "", "default")["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}


DEFINITION: Raw = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
            }
        ],
    },
}
THINGS = Resource("example.com", "v1", "things", "Thing")


def test_a_crd_adds_a_kind_and_removes_it(store: ClusterStore) -> None:
    assert _error_of(store.list, THINGS).status == 404
    made = store.create(DEFINITIONS, DEFINITION)
    assert {condition["type"]: condition["status"] for condition in made["status"]["conditions"]}[
        "Established"
    ] == "True"
    assert store.kind("example.com", "v1", "things").short_names == ("th",)
    store.create(THINGS, {**kind_of(THINGS), "metadata": {"name": "a", "namespace": "default"}, "spec": {}})
    store.delete(DEFINITIONS, "", "things.example.com")
    assert _error_of(store.list, THINGS).status == 404
    assert _error_of(store.get, DEFINITIONS, "", "things.example.com").status == 404


@pytest.mark.parametrize(
    "spec",
    [{}, {"group": "example.com"}, {**DEFINITION["spec"], "versions": []}, {**DEFINITION["spec"], "versions": [1]},
     {**DEFINITION["spec"], "names": []}, {**DEFINITION["spec"], "group": "other.com"}],
)  # fmt: skip
def test_invalid_crds_are_rejected(store: ClusterStore, spec: Any) -> None:
    assert _error_of(store.create, DEFINITIONS, {**DEFINITION, "spec": spec}).status in (400, 422)


# history and watches


def test_a_watch_of_a_compacted_version_is_expired() -> None:
    store = ClusterStore(history=10)
    start, first = store.version, store.create(CONFIG_MAPS, config_map("default", "a"))
    for i in range(60):
        store.patch(CONFIG_MAPS, "default", "a", {"data": {"x": str(i)}})
    for since in (start, first["metadata"]["resourceVersion"]):
        assert (_error_of(store.watch, CONFIG_MAPS, since).status) == 410
    assert _error_of(store.watch, CONFIG_MAPS, "99999").status == 410
    assert _error_of(store.watch, CONFIG_MAPS, "soon").status == 400
    with store.watch(PODS, start):
        """Histories are kept kind by kind."""


def test_a_continue_token_of_a_compacted_version_is_expired() -> None:
    store = ClusterStore(history=10)
    for name in "abc":
        store.create(CONFIG_MAPS, config_map("default", name))
    more = store.list(CONFIG_MAPS, limit=1).more
    for i in range(60):
        store.patch(CONFIG_MAPS, "default", "a", {"data": {"x": str(i)}})
    assert _error_of(store.list, CONFIG_MAPS, limit=1, after=more).status == 410
    assert _error_of(store.list, CONFIG_MAPS, limit=1, after="nonsense").status == 400


def test_a_slow_watch_is_expired() -> None:
    store = ClusterStore(history=10)
    with store.watch(CONFIG_MAPS, store.version) as watch:
        store.create(CONFIG_MAPS, config_map("default", "a"))
        for i in range(60):
            store.patch(CONFIG_MAPS, "default", "a", {"data": {"x": str(i)}})
        assert _error_of(watch.take).status == 410
        assert watch.closed


def test_a_watch_without_a_version_sends_existing_objects_first(store: ClusterStore) -> None:
    store.create(CONFIG_MAPS, config_map("default", "a"))
    with store.watch(CONFIG_MAPS, "0") as watch:
        assert [(change.type, change.object["metadata"]["name"]) for change in watch.take()] == [("ADDED", "a")]
    with store.watch(CONFIG_MAPS, "", initial=True) as watch:
        store.create(CONFIG_MAPS, config_map("default", "b"))
        changes = watch.take()
        assert [change.type for change in changes] == ["ADDED", "BOOKMARK"]
        assert changes[1].object["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert [change.object["metadata"]["name"] for change in watch.take()] == ["b"]


async def test_bookmarks_carry_the_latest_version_of_an_idle_watch() -> None:
    cluster = MemoryCluster(bookmark_seconds=0.01)
    start = cluster.store.version
    async with cluster.watch(CONFIG_MAPS, start) as seen:
        cluster.store.create(PODS, plain_pod("default", "a"))
        mark = await anext(seen)
    assert mark.type == "BOOKMARK"
    assert mark.resource_version == cluster.store.version
    assert int(mark.resource_version) > int(start)


async def test_a_change_wakes_a_watch_and_closing_ends_it() -> None:
    store = ClusterStore()
    watch = store.watch(CONFIG_MAPS, store.version)
    seen = changes(watch)
    waiting = asyncio.ensure_future(anext(seen))
    await asyncio.sleep(0)
    store.create(CONFIG_MAPS, config_map("default", "a"))
    assert (await waiting).type == "ADDED"
    waiting = asyncio.ensure_future(anext(seen))
    await asyncio.sleep(0)
    watch.close()
    with pytest.raises(StopAsyncIteration):
        await waiting


def test_binding_and_eviction_cannot_be_patched(store: ClusterStore) -> None:
    store.create(PODS, plain_pod("default", "a"))
    for name in ("binding", "eviction", "nonsense"):
        assert _error_of(store.patch, PODS, "default", "a", {"spec": None}, subresource=name).status == 405


# dry runs, collections, field validation


def test_a_dry_run_changes_nothing(store: ClusterStore) -> None:
    store.create(CONFIG_MAPS, config_map("default", "a", x="1"))
    store.create(PODS, plain_pod("default", "p"))
    version = store.version
    assert store.create(CONFIG_MAPS, config_map("default", "b"), dry_run=True)["metadata"]["name"] == "b"
    assert store.replace(CONFIG_MAPS, config_map("default", "a", x="2"), dry_run=True)["data"] == {"x": "2"}
    patched = store.patch(CONFIG_MAPS, "default", "a", {"data": {"x": "3"}}, dry_run=True)
    assert patched["data"] == {"x": "3"}
    store.delete(CONFIG_MAPS, "default", "a", dry_run=True)
    store.delete_collection(CONFIG_MAPS, "default", dry_run=True)
    store.bind("default", "p", "", "n1", dry_run=True)
    store.evict("default", "p", dry_run=True)
    assert store.version == version
    assert _error_of(store.create, POD_GROUPS, pod_group("default", "g", minMember=0), dry_run=True).status == 422


def test_collections_are_deleted_by_selector(store: ClusterStore) -> None:
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {"x": "1"})):
        store.create(CONFIG_MAPS, config_map("default", name, labels))
    deleted = store.delete_collection(CONFIG_MAPS, "default", labels="x=1")
    assert [raw["metadata"]["name"] for raw in deleted.items] == ["a", "c"]
    assert _names(store, CONFIG_MAPS) == ["b"]


def test_strict_field_validation_rejects_unknown_fields(store: ClusterStore) -> None:
    raw = pod_group("default", "g", minMembr=1)
    problem = _error_of(store.create, POD_GROUPS, raw, on_unknown_fields=reject_unknown_fields)
    assert problem.status == 400
    assert 'unknown field "spec.minMembr"' in problem.message


def test_every_problem_is_a_cause(store: ClusterStore) -> None:
    groups = [{"name": "a", "parent": "none", "minMember": 1}, {"name": "a", "minMember": 1}]
    problem = _error_of(store.create, POD_GROUPS, pod_group("default", "g", subGroups=groups))
    assert problem.status == 422
    assert len(problem.details["causes"]) >= 2


@pytest.mark.parametrize(
    "raw",
    [
        [],
        "text",
        {"metadata": []},
        {"metadata": {"name": 3}},
        {"metadata": {"name": "a", "labels": ["x"]}},
        {"metadata": {"name": "a", "labels": {"x": 1}}},
        {"metadata": {"name": "a", "ownerReferences": [1]}},
        {"metadata": {"name": "a"}, "spec": []},
        {"metadata": {"name": "a"}, "spec": {"containers": "x"}},
        {"metadata": {"name": "a"}, "spec": {"containers": [1]}},
        {"metadata": {"name": "a"}, "kind": "Node"},
        {"metadata": {"name": "a"}, "spec": {"x": object()}},
        {"metadata": {"name": "a"}, "spec": {"x": "\ud800"}},
    ],
)
def test_a_body_that_is_no_object_is_a_bad_request(store: ClusterStore, raw: Any) -> None:
    assert _error_of(store.create, PODS, raw).status == 400


def test_too_deep_and_too_large_bodies_are_rejected(store: ClusterStore) -> None:
    deep: Any = {}
    for _ in range(150):
        deep = {"a": deep}
    assert _error_of(store.create, CONFIG_MAPS, {"metadata": {"name": "a"}, "data": deep}).status == 400
    large = config_map("default", "a", x="x" * (4 * 2**20))
    assert _error_of(store.create, CONFIG_MAPS, large).status == 413


# budgets, events and defaults


def test_the_status_of_a_budget_follows_its_pods(store: ClusterStore) -> None:
    spec = {"minAvailable": "50%", "selector": {"matchLabels": {"app": "a"}}}
    store.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    for name in ("a", "b", "c"):
        _ready(store, name, {"app": "a"})
    _ready(store, "other", {"app": "b"})

    def status() -> tuple[int, ...]:
        budget_status = store.get(BUDGETS, "default", "b")["status"]
        return tuple(
            budget_status[name] for name in ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
        )

    assert status() == (3, 3, 2, 1)
    store.evict("default", "a")
    assert status() == (3, 2, 2, 0)
    assert _error_of(store.evict, "default", "b").status == 429
    store.delete(PODS, "default", "a", grace_seconds=0)
    assert status() == (2, 2, 1, 1)
    store.patch(BUDGETS, "default", "b", {"spec": {"minAvailable": None, "maxUnavailable": 0}})
    assert status() == (2, 2, 2, 0)
    store.patch(PODS, "default", "b", {"metadata": {"labels": {"app": "x"}}})
    assert status() == (1, 1, 1, 0)


def test_unhealthy_pods_are_evicted_by_policy(store: ClusterStore) -> None:
    spec = {"minAvailable": 1, "selector": {}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    store.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    _ready(store, "a")
    store.patch(PODS, "default", "a", {"status": {"conditions": []}}, subresource="status")
    store.evict("default", "a")
    assert store.get(PODS, "default", "a")["metadata"]["deletionTimestamp"]


def test_both_event_groups_serve_the_same_events(store: ClusterStore) -> None:
    raw = {
        "metadata": {"name": "e", "namespace": "default"},
        "regarding": {"kind": "Pod", "name": "a"},
        "note": "says",
        "deprecatedCount": 3,
        "reason": "Why",
    }
    store.create(NEW_EVENTS, raw)
    old = store.get(EVENTS, "default", "e")
    assert (old["apiVersion"], old["message"], old["count"]) == ("v1", "says", 3)
    new = store.patch(NEW_EVENTS, "default", "e", {"note": "more"})
    assert (new["apiVersion"], new["note"]) == ("events.k8s.io/v1", "more")
    assert store.list(EVENTS, fields="involvedObject.name=a").items[0]["message"] == "more"
    assert store.list(NEW_EVENTS, fields="regarding.name=a").items


def test_events_expire_after_an_hour() -> None:
    time = Time()
    store = ClusterStore(clock=time)
    for name in ("a", "b"):
        store.create(EVENTS, {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "x"}})
    time.now += timedelta(minutes=45)
    store.patch(EVENTS, "default", "b", {"count": 2})
    time.now += timedelta(minutes=45)
    store.create(EVENTS, {"metadata": {"name": "c"}, "involvedObject": {"kind": "Pod", "name": "x"}})
    assert _names(store, EVENTS) == ["b", "c"]


def test_string_data_of_secrets_is_encoded(store: ClusterStore) -> None:
    made = store.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert (made["type"], made["data"], "stringData" in made) == ("Opaque", {"a": "Yg=="}, False)


def test_nodes_are_created_with_their_status(store: ClusterStore) -> None:
    made = store.create(NODES, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "8"}}})
    assert made["status"] == {"capacity": {"cpu": "8"}}
    cordoned = store.patch(NODES, "", "n", {"spec": {"unschedulable": True}, "status": {"capacity": {}}})
    assert (cordoned["spec"]["unschedulable"], cordoned["status"]) == (True, {"capacity": {"cpu": "8"}})


def test_a_pod_can_be_replaced_by_its_own_manifest(store: ClusterStore) -> None:
    """Defaults are applied again, so fields that the manifest leaves out are no change."""
    made = store.create(PODS, plain_pod("default", "a"))
    again = store.replace(PODS, plain_pod("default", "a", labels={"x": "y"}))
    assert again["spec"] == made["spec"]
    assert again["metadata"]["labels"] == {"x": "y"}


def test_generated_names_are_deterministic() -> None:
    def names() -> list[str]:
        numbers = count(1)
        store = ClusterStore(clock=lambda: START, new_uid=lambda: f"uid-{next(numbers)}")
        raw = {"metadata": {"generateName": "a-"}}
        return [store.create(CONFIG_MAPS, raw)["metadata"]["name"] for _ in range(3)]

    assert names() == names()


def test_server_side_apply_after_kubectls_client_side_apply_has_no_conflicts(store: ClusterStore) -> None:
    last = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":{"x":"1"}}'
    raw = config_map("default", "a", x="1", y="1")
    raw["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": last}
    store.create(CONFIG_MAPS, raw)
    kind: Any = "application/apply-patch+yaml"
    changed = store.patch(CONFIG_MAPS, "default", "a", {"data": {"x": "2"}}, kind, field_manager="kubectl")
    assert changed["data"] == {"x": "2", "y": "1"}
    problem = _error_of(store.patch, CONFIG_MAPS, "default", "a", {"data": {"y": "2"}}, kind, field_manager="kubectl")
    assert problem.status == 409


def test_apply_merges_containers_by_name(store: ClusterStore) -> None:
    template: Raw = {"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}}
    kind: Any = "application/apply-patch+yaml"
    raw = {"spec": {"replicas": 2, "template": template}}
    store.patch(DEPLOYMENTS, "default", "d", raw, kind, field_manager="one")
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "c:1"}]}}}}
    store.patch(DEPLOYMENTS, "default", "d", sidecar, kind, field_manager="two")
    only = {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "b:2"}]}}}}
    deployment = store.patch(DEPLOYMENTS, "default", "d", only, kind, field_manager="one")
    containers = {
        container["name"]: container["image"] for container in deployment["spec"]["template"]["spec"]["containers"]
    }
    assert containers == {"b": "b:2", "c": "c:1"}
    assert deployment["spec"].get("replicas", 1) == 1

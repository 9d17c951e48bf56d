"""Patches of every kind, and server-side apply."""

from typing import Any

from muster.api.resources import CONFIG_MAPS, DEPLOYMENTS, NODES, POD_GROUPS, PODS
from muster.kube.cluster import Cluster, Raw
from tests.contract.given import api_error_of, config_map, plain_pod, pod_group


async def test_merge_patches_set_and_delete(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a", x="1", y="2"))
    changed = await cluster.patch(CONFIG_MAPS, namespace, "a", {"data": {"x": None, "z": "3"}})
    assert changed["data"] == {"y": "2", "z": "3"}


async def test_json_patches_apply_all_operations_or_none(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a", x="1"))
    good = [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "add", "path": "/data/y", "value": "2"}]
    changed = await cluster.patch(CONFIG_MAPS, namespace, "a", good, "application/json-patch+json")
    assert changed["data"] == {"x": "1", "y": "2"}
    bad = [{"op": "remove", "path": "/data/y"}, {"op": "test", "path": "/data/x", "value": "9"}]
    problem = await api_error_of(cluster.patch(CONFIG_MAPS, namespace, "a", bad, "application/json-patch+json"))
    assert problem.status == 422
    assert (await cluster.get(CONFIG_MAPS, namespace, "a"))["data"] == {"x": "1", "y": "2"}


async def test_strategic_patches_merge_lists_by_key(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, plain_pod(namespace, "a"))
    conditions = [{"type": "one", "status": "True"}, {"type": "two", "status": "True"}]
    kind: Any = "application/strategic-merge-patch+json"
    await cluster.patch(PODS, namespace, "a", {"status": {"conditions": conditions}}, kind, "status")
    more = {"status": {"conditions": [{"type": "two", "status": "False"}, {"type": "three", "status": "True"}]}}
    changed = await cluster.patch(PODS, namespace, "a", more, kind, "status")
    statuses = {condition["type"]: condition["status"] for condition in changed["status"]["conditions"]}
    assert statuses == {"one": "True", "two": "False", "three": "True"}


async def _deployed(cluster: Cluster, namespace: str, *containers: str) -> None:
    labels = {"app": "a"}
    made = [{"name": name, "image": "registry.example/a:1"} for name in containers]
    template = {"metadata": {"labels": labels}, "spec": {"containers": made}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    await cluster.create(DEPLOYMENTS, {"metadata": {"name": "a", "namespace": namespace}, "spec": spec})


async def _container_names(cluster: Cluster, namespace: str, containers: list[Raw], **directives: Any) -> list[str]:
    """The names of the containers after a strategic patch of them."""
    patch = {"spec": {"template": {"spec": {"containers": containers, **directives}}}}
    changed = await cluster.patch(DEPLOYMENTS, namespace, "a", patch, "application/strategic-merge-patch+json")
    return [container["name"] for container in changed["spec"]["template"]["spec"]["containers"]]


async def test_new_items_of_a_keyed_list_come_before_existing_ones(cluster: Cluster, namespace: str) -> None:
    await _deployed(cluster, namespace, "one", "two")
    new = [{"name": "new", "image": "registry.example/a:2"}]
    assert await _container_names(cluster, namespace, new) == ["new", "one", "two"]
    mixed = [{"name": name, "image": "registry.example/a:3"} for name in ("first", "one", "after")]
    assert await _container_names(cluster, namespace, mixed) == ["first", "new", "one", "after", "two"]


async def test_a_patch_can_set_the_order_of_a_keyed_list(cluster: Cluster, namespace: str) -> None:
    """Items that the order does not name stay in front of those that they preceded."""
    await _deployed(cluster, namespace, "one", "two", "three")
    order = [{"name": name} for name in ("three", "new", "one")]
    new = [{"name": "new", "image": "registry.example/a:2"}]
    names = await _container_names(cluster, namespace, new, **{"$setElementOrder/containers": order})
    assert names == ["two", "three", "new", "one"]


async def test_an_item_without_its_merge_key_is_rejected(cluster: Cluster, namespace: str) -> None:
    await _deployed(cluster, namespace, "one")
    problem = await api_error_of(_container_names(cluster, namespace, [{"image": "registry.example/a:2"}]))
    assert "does not contain declared merge key: name" in problem.message


async def test_items_of_a_set_are_removed_by_directive(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    kind: Any = "application/strategic-merge-patch+json"
    held = await cluster.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"finalizers": ["a.io/x"]}}, kind)
    assert held["metadata"]["finalizers"] == ["a.io/x"]
    more = await cluster.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"finalizers": ["a.io/y"]}}, kind)
    assert more["metadata"]["finalizers"] == ["a.io/y", "a.io/x"]
    gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.io/x", "a.io/y"]}}
    assert "finalizers" not in (await cluster.patch(CONFIG_MAPS, namespace, "a", gone, kind))["metadata"]


async def test_taints_are_an_atomic_list(cluster: Cluster, unique: str) -> None:
    """`kubectl taint node n key-` sends the remaining taints."""
    first = [{"key": "a", "effect": "NoSchedule"}]
    await cluster.create(NODES, {"metadata": {"name": unique}, "spec": {"taints": first}})
    second = [{"key": "b", "effect": "NoSchedule"}]
    kind: Any = "application/strategic-merge-patch+json"
    changed = await cluster.patch(NODES, "", unique, {"spec": {"taints": second}}, kind)
    assert changed["spec"]["taints"] == second


async def test_custom_kinds_support_no_strategic_merge_patch(cluster: Cluster, namespace: str) -> None:
    await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1))
    kind: Any = "application/strategic-merge-patch+json"
    assert (await api_error_of(cluster.patch(POD_GROUPS, namespace, "g", {"spec": {}}, kind))).status == 415


async def test_a_patch_can_have_a_resource_version_as_precondition(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    old = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"x": "1"}}
    await cluster.patch(CONFIG_MAPS, namespace, "a", old)
    problem = await api_error_of(cluster.patch(CONFIG_MAPS, namespace, "a", {**old, "data": {"x": "2"}}))
    assert (problem.status, problem.reason) == (409, "Conflict")


def _config(namespace: str, **data: str) -> Raw:
    metadata = {"name": "a", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def _apply(cluster: Cluster, raw: Raw, manager: str, force: bool = False) -> Raw:
    where = raw["metadata"]["namespace"]
    kind: Any = "application/apply-patch+yaml"
    return await cluster.patch(CONFIG_MAPS, where, "a", raw, kind, field_manager=manager, force=force)


async def test_apply_creates_a_missing_object(cluster: Cluster, namespace: str) -> None:
    made = await _apply(cluster, _config(namespace, x="1"), "one")
    assert made["data"] == {"x": "1"}
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("one", "Apply")
    assert entry["fieldsV1"] == {"f:data": {"f:x": {}}}


async def test_apply_removes_fields_that_its_manager_no_longer_applies(cluster: Cluster, namespace: str) -> None:
    await _apply(cluster, _config(namespace, x="1", y="2"), "one")
    await _apply(cluster, _config(namespace, z="3"), "two")
    changed = await _apply(cluster, _config(namespace, x="1"), "one")
    assert changed["data"] == {"x": "1", "z": "3"}


async def test_apply_conflicts_with_other_managers_unless_forced(cluster: Cluster, namespace: str) -> None:
    await _apply(cluster, _config(namespace, x="1"), "one")
    problem = await api_error_of(_apply(cluster, _config(namespace, x="2"), "two"))
    assert (problem.status, problem.reason) == (409, "Conflict")
    (cause,) = problem.details["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".data.x")
    assert 'conflict with "one"' in cause["message"]
    forced = await _apply(cluster, _config(namespace, x="2"), "two", force=True)
    assert forced["data"] == {"x": "2"}
    released = await _apply(cluster, _config(namespace), "one")
    assert released["data"] == {"x": "2"}


async def test_conflicts_name_list_items_by_their_keys(cluster: Cluster, namespace: str) -> None:
    await _deployed(cluster, namespace, "one")
    kind: Any = "application/apply-patch+yaml"

    def image(version: int) -> Raw:
        containers = [{"name": "one", "image": f"registry.example/a:{version}"}]
        raw: Raw = {"metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": containers}}}}
        return {"apiVersion": "apps/v1", "kind": "Deployment", **raw}

    await cluster.patch(DEPLOYMENTS, namespace, "a", image(2), kind, field_manager="one", force=True)
    problem = await api_error_of(cluster.patch(DEPLOYMENTS, namespace, "a", image(3), kind, field_manager="two"))
    (cause,) = problem.details["causes"]
    assert cause["field"] == '.spec.template.spec.containers[name="one"].image'


async def test_an_apply_configuration_has_no_managed_fields_and_no_unknown_fields(
    cluster: Cluster, namespace: str
) -> None:
    raw = _config(namespace, x="1")
    raw["metadata"]["managedFields"] = []
    problem = await api_error_of(_apply(cluster, raw, "one"))
    assert (problem.status, problem.message) == (400, "metadata.managedFields must be nil")
    group = pod_group(namespace, "g", minMember=1, unheardOf=True)
    kind: Any = "application/apply-patch+yaml"
    unknown = await api_error_of(cluster.patch(POD_GROUPS, namespace, "g", group, kind, field_manager="one"))
    assert ".spec.unheardOf: field not declared in schema" in unknown.message


async def test_two_managers_may_apply_the_same_value(cluster: Cluster, namespace: str) -> None:
    await _apply(cluster, _config(namespace, x="1"), "one")
    await _apply(cluster, _config(namespace, x="1"), "two")
    applied_alone = await _apply(cluster, _config(namespace), "one")
    assert applied_alone["data"] == {"x": "1"}


async def test_an_update_takes_over_fields_from_an_apply(cluster: Cluster, namespace: str) -> None:
    await _apply(cluster, _config(namespace, x="1"), "one")
    await cluster.patch(CONFIG_MAPS, namespace, "a", {"data": {"x": "2"}}, field_manager="editor")
    problem = await api_error_of(_apply(cluster, _config(namespace, x="1"), "one"))
    assert problem.status == 409
    assert 'conflict with "editor"' in problem.details["causes"][0]["message"]


async def test_applying_the_same_again_changes_nothing(cluster: Cluster, namespace: str) -> None:
    first = await _apply(cluster, _config(namespace, x="1"), "one")
    again = await _apply(cluster, _config(namespace, x="1"), "one")
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_status_can_be_applied(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1))
    raw = {
        "apiVersion": made["apiVersion"],
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": namespace},
        "status": {"phase": "Running"},
    }
    kind: Any = "application/apply-patch+yaml"
    changed = await cluster.patch(POD_GROUPS, namespace, "g", raw, kind, "status", field_manager="m")
    assert changed["status"]["phase"] == "Running"
    assert changed["spec"] == made["spec"]


async def test_scale_reads_and_sets_replicas(cluster: Cluster, namespace: str) -> None:
    labels = {"app": "a"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "registry.example/a:1"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    await cluster.create(DEPLOYMENTS, {"metadata": {"name": "a", "namespace": namespace}, "spec": spec})
    scaled = await cluster.patch(DEPLOYMENTS, namespace, "a", {"spec": {"replicas": 5}}, subresource="scale")
    assert scaled["kind"] == "Scale"
    assert scaled["spec"]["replicas"] == 5
    assert scaled["status"]["selector"] == "app=a"
    scaled["spec"]["replicas"] = 3
    await cluster.replace(DEPLOYMENTS, scaled, "scale")
    deployment = await cluster.get(DEPLOYMENTS, namespace, "a")
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["selector"] == spec["selector"]

"""Creation, replacement and deletion of objects."""

from muster.api.resources import CONFIG_MAPS, POD_GROUPS, PODS
from muster.kube.cluster import Cluster
from tests.contract.given import api_error_of, config_map, plain_pod, pod_group


async def test_a_created_object_has_uid_version_and_creation_time(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map(namespace, "a", x="1"))
    metadata = made["metadata"]
    assert made["apiVersion"] == "v1"
    assert made["kind"] == "ConfigMap"
    assert metadata["uid"]
    assert metadata["resourceVersion"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert await cluster.get(CONFIG_MAPS, namespace, "a") == made


async def test_the_server_sets_the_identity_of_an_object(cluster: Cluster, namespace: str) -> None:
    raw = config_map(namespace, "a")
    raw["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    made = await cluster.create(CONFIG_MAPS, raw)
    assert made["metadata"]["uid"] != "mine"
    assert not made["metadata"]["creationTimestamp"].startswith("2001")


async def test_generated_names_differ(cluster: Cluster, namespace: str) -> None:
    raw = {"metadata": {"generateName": "a-", "namespace": namespace}}
    names = {(await cluster.create(CONFIG_MAPS, raw))["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("a-") and len(name) == 7 for name in names)


async def test_a_name_exists_once(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    problem = await api_error_of(cluster.create(CONFIG_MAPS, config_map(namespace, "a")))
    assert (problem.status, problem.reason) == (409, "AlreadyExists")


async def test_a_missing_object_is_not_found(cluster: Cluster, namespace: str) -> None:
    for call in (
        cluster.get(CONFIG_MAPS, namespace, "none"),
        cluster.delete(CONFIG_MAPS, namespace, "none"),
        cluster.patch(CONFIG_MAPS, namespace, "none", {"data": {}}),
        cluster.replace(CONFIG_MAPS, config_map(namespace, "none")),
        cluster.bind(namespace, "none", "", "n"),
        cluster.evict(namespace, "none", ""),
    ):
        problem = await api_error_of(call)
        assert (problem.status, problem.reason) == (404, "NotFound")


async def test_a_namespace_must_exist(cluster: Cluster, unique: str) -> None:
    problem = await api_error_of(cluster.create(CONFIG_MAPS, config_map(f"{unique}-none", "a")))
    assert (problem.status, problem.reason) == (404, "NotFound")


async def test_names_must_be_dns_names(cluster: Cluster, namespace: str) -> None:
    problem = await api_error_of(cluster.create(CONFIG_MAPS, config_map(namespace, "Not_a_name")))
    assert (problem.status, problem.reason) == (422, "Invalid")
    assert problem.details["causes"][0]["field"] == "metadata.name"


async def test_an_update_of_an_old_version_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    first = await cluster.create(CONFIG_MAPS, config_map(namespace, "a", x="1"))
    second = await cluster.replace(CONFIG_MAPS, {**first, "data": {"x": "2"}})
    assert second["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    problem = await api_error_of(cluster.replace(CONFIG_MAPS, {**first, "data": {"x": "3"}}))
    assert (problem.status, problem.reason) == (409, "Conflict")
    assert (await cluster.get(CONFIG_MAPS, namespace, "a"))["data"] == {"x": "2"}


async def test_an_update_with_another_uid_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    del made["metadata"]["resourceVersion"]
    made["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    problem = await api_error_of(cluster.replace(CONFIG_MAPS, made))
    assert (problem.status, problem.reason) == (409, "Conflict")


async def test_a_write_without_changes_keeps_the_resource_version(cluster: Cluster, namespace: str) -> None:
    first = await cluster.create(CONFIG_MAPS, config_map(namespace, "a", x="1"))
    again = await cluster.replace(CONFIG_MAPS, first)
    patched = await cluster.patch(CONFIG_MAPS, namespace, "a", {"data": {"x": "1"}})
    versions = {raw["metadata"]["resourceVersion"] for raw in (first, again, patched)}
    assert len(versions) == 1


async def test_the_generation_counts_changes_of_the_spec_only(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=2))
    labelled = await cluster.patch(POD_GROUPS, namespace, "g", {"metadata": {"labels": {"a": "b"}}})
    reported = await cluster.patch(POD_GROUPS, namespace, "g", {"status": {"phase": "Pending"}}, subresource="status")
    changed = await cluster.patch(POD_GROUPS, namespace, "g", {"spec": {"minMember": 3}})
    assert [raw["metadata"]["generation"] for raw in (made, labelled, reported, changed)] == [1, 1, 1, 2]


async def test_updates_of_custom_kinds_require_a_resource_version(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=2))
    del made["metadata"]["resourceVersion"]
    problem = await api_error_of(cluster.replace(POD_GROUPS, made))
    assert (problem.status, problem.reason) == (422, "Invalid")


async def test_spec_and_status_are_updated_separately(cluster: Cluster, namespace: str) -> None:
    raw = {**pod_group(namespace, "g", minMember=2), "status": {"phase": "Running"}}
    made = await cluster.create(POD_GROUPS, raw)
    assert "status" not in made
    both = {**made, "spec": {"minMember": 5}, "status": {"phase": "Running"}}
    reported = await cluster.replace(POD_GROUPS, both, "status")
    assert (reported["spec"]["minMember"], reported["status"]["phase"]) == (2, "Running")
    both = {**reported, "spec": {"minMember": 5}, "status": {"phase": "Pending"}}
    changed = await cluster.replace(POD_GROUPS, both)
    assert (changed["spec"]["minMember"], changed["status"]["phase"]) == (5, "Running")


async def test_an_object_terminates_until_its_finalizers_are_removed(cluster: Cluster, namespace: str) -> None:
    raw = config_map(namespace, "a")
    raw["metadata"]["finalizers"] = ["example.com/hold"]
    await cluster.create(CONFIG_MAPS, raw)
    await cluster.delete(CONFIG_MAPS, namespace, "a")
    held = await cluster.get(CONFIG_MAPS, namespace, "a")
    assert held["metadata"]["deletionTimestamp"]
    await cluster.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"finalizers": None}})
    assert (await api_error_of(cluster.get(CONFIG_MAPS, namespace, "a"))).status == 404


async def test_a_terminating_object_gets_no_new_finalizers(cluster: Cluster, namespace: str) -> None:
    raw = config_map(namespace, "a")
    raw["metadata"]["finalizers"] = ["example.com/hold"]
    await cluster.create(CONFIG_MAPS, raw)
    await cluster.delete(CONFIG_MAPS, namespace, "a")
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    assert (await api_error_of(cluster.patch(CONFIG_MAPS, namespace, "a", more))).status == 422


async def test_a_deletion_can_have_the_uid_as_precondition(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    problem = await api_error_of(
        cluster.delete(CONFIG_MAPS, namespace, "a", uid="00000000-0000-0000-0000-000000000000")
    )
    assert (problem.status, problem.reason) == (409, "Conflict")
    await cluster.delete(CONFIG_MAPS, namespace, "a", uid=made["metadata"]["uid"])
    assert (await api_error_of(cluster.get(CONFIG_MAPS, namespace, "a"))).status == 404


async def test_callers_own_the_objects_that_they_get(cluster: Cluster, namespace: str) -> None:
    raw = config_map(namespace, "a", x="1")
    made = await cluster.create(CONFIG_MAPS, raw)
    raw["data"]["x"] = made["data"]["x"] = "spoilt"
    (listed,) = (await cluster.list(CONFIG_MAPS, namespace, fields="metadata.name=a")).items
    listed["data"]["x"] = "spoilt"
    assert (await cluster.get(CONFIG_MAPS, namespace, "a"))["data"] == {"x": "1"}


async def test_the_spec_of_a_pod_is_immutable(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, plain_pod(namespace, "a"))
    problem = await api_error_of(cluster.patch(PODS, namespace, "a", {"spec": {"schedulerName": "other"}}))
    assert (problem.status, problem.reason) == (422, "Invalid")
    image = {"spec": {"containers": [{"name": "main", "image": "registry.example/main:2"}]}}
    kind = "application/strategic-merge-patch+json"
    changed = await cluster.patch(PODS, namespace, "a", image, kind)  # type: ignore[arg-type]
    assert changed["spec"]["containers"][0]["image"] == "registry.example/main:2"


async def test_scheduling_gates_can_only_be_removed(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, plain_pod(namespace, "a", schedulingGates=[{"name": "example.com/one"}]))
    more = {"spec": {"schedulingGates": [{"name": "example.com/one"}, {"name": "example.com/two"}]}}
    assert (await api_error_of(cluster.patch(PODS, namespace, "a", more))).status == 422
    opened = await cluster.patch(PODS, namespace, "a", {"spec": {"schedulingGates": None}})
    assert not opened["spec"].get("schedulingGates")

"""Creation, replacement and deletion of objects."""

from muster.api.resources import CONFIG_MAPS, POD_GROUPS, PODS
from muster.kube.cluster import Cluster
from tests.contract.given import config_map, pod, pod_group, refused


async def test_a_created_object_has_an_identity(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map(namespace, "a", x="1"))
    metadata = made["metadata"]
    assert made["apiVersion"] == "v1"
    assert made["kind"] == "ConfigMap"
    assert metadata["uid"]
    assert metadata["resourceVersion"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert await cluster.get(CONFIG_MAPS, namespace, "a") == made


async def test_identity_is_not_the_callers_to_give(cluster: Cluster, namespace: str) -> None:
    raw = config_map(namespace, "a")
    raw["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    made = await cluster.create(CONFIG_MAPS, raw)
    assert made["metadata"]["uid"] != "mine"
    assert not made["metadata"]["creationTimestamp"].startswith("2001")


async def test_generate_name_makes_names_that_differ(cluster: Cluster, namespace: str) -> None:
    raw = {"metadata": {"generateName": "a-", "namespace": namespace}}
    names = {(await cluster.create(CONFIG_MAPS, raw))["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("a-") and len(name) == 7 for name in names)


async def test_a_name_is_given_once(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    problem = await refused(cluster.create(CONFIG_MAPS, config_map(namespace, "a")))
    assert (problem.status, problem.reason) == (409, "AlreadyExists")


async def test_what_is_missing_is_not_found(cluster: Cluster, namespace: str) -> None:
    for call in (
        cluster.get(CONFIG_MAPS, namespace, "none"),
        cluster.delete(CONFIG_MAPS, namespace, "none"),
        cluster.patch(CONFIG_MAPS, namespace, "none", {"data": {}}),
        cluster.replace(CONFIG_MAPS, config_map(namespace, "none")),
        cluster.bind(namespace, "none", "", "n"),
        cluster.evict(namespace, "none", ""),
    ):
        problem = await refused(call)
        assert (problem.status, problem.reason) == (404, "NotFound")


async def test_a_namespace_must_exist(cluster: Cluster, unique: str) -> None:
    problem = await refused(cluster.create(CONFIG_MAPS, config_map(f"{unique}-none", "a")))
    assert (problem.status, problem.reason) == (404, "NotFound")


async def test_names_must_be_dns_names(cluster: Cluster, namespace: str) -> None:
    problem = await refused(cluster.create(CONFIG_MAPS, config_map(namespace, "Not_a_name")))
    assert (problem.status, problem.reason) == (422, "Invalid")
    assert problem.details["causes"][0]["field"] == "metadata.name"


async def test_a_replacement_on_top_of_something_newer_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    first = await cluster.create(CONFIG_MAPS, config_map(namespace, "a", x="1"))
    second = await cluster.replace(CONFIG_MAPS, {**first, "data": {"x": "2"}})
    assert second["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    problem = await refused(cluster.replace(CONFIG_MAPS, {**first, "data": {"x": "3"}}))
    assert (problem.status, problem.reason) == (409, "Conflict")
    assert (await cluster.get(CONFIG_MAPS, namespace, "a"))["data"] == {"x": "2"}


async def test_a_replacement_of_another_object_of_that_name_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    del made["metadata"]["resourceVersion"]
    made["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    problem = await refused(cluster.replace(CONFIG_MAPS, made))
    assert (problem.status, problem.reason) == (409, "Conflict")


async def test_a_write_that_changes_nothing_makes_no_version(cluster: Cluster, namespace: str) -> None:
    first = await cluster.create(CONFIG_MAPS, config_map(namespace, "a", x="1"))
    again = await cluster.replace(CONFIG_MAPS, first)
    patched = await cluster.patch(CONFIG_MAPS, namespace, "a", {"data": {"x": "1"}})
    versions = {one["metadata"]["resourceVersion"] for one in (first, again, patched)}
    assert len(versions) == 1


async def test_generations_count_changes_of_the_spec_only(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=2))
    labelled = await cluster.patch(POD_GROUPS, namespace, "g", {"metadata": {"labels": {"a": "b"}}})
    reported = await cluster.patch(POD_GROUPS, namespace, "g", {"status": {"phase": "Pending"}}, subresource="status")
    changed = await cluster.patch(POD_GROUPS, namespace, "g", {"spec": {"minMember": 3}})
    assert [one["metadata"]["generation"] for one in (made, labelled, reported, changed)] == [1, 1, 1, 2]


async def test_custom_kinds_are_replaced_at_a_version(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=2))
    del made["metadata"]["resourceVersion"]
    problem = await refused(cluster.replace(POD_GROUPS, made))
    assert (problem.status, problem.reason) == (422, "Invalid")


async def test_spec_and_status_are_written_apart(cluster: Cluster, namespace: str) -> None:
    raw = {**pod_group(namespace, "g", minMember=2), "status": {"phase": "Running"}}
    made = await cluster.create(POD_GROUPS, raw)
    assert "status" not in made
    both = {**made, "spec": {"minMember": 5}, "status": {"phase": "Running"}}
    reported = await cluster.replace(POD_GROUPS, both, "status")
    assert (reported["spec"]["minMember"], reported["status"]["phase"]) == (2, "Running")
    both = {**reported, "spec": {"minMember": 5}, "status": {"phase": "Pending"}}
    changed = await cluster.replace(POD_GROUPS, both)
    assert (changed["spec"]["minMember"], changed["status"]["phase"]) == (5, "Running")


async def test_finalizers_hold_an_object_until_they_are_gone(cluster: Cluster, namespace: str) -> None:
    raw = config_map(namespace, "a")
    raw["metadata"]["finalizers"] = ["example.com/hold"]
    await cluster.create(CONFIG_MAPS, raw)
    await cluster.delete(CONFIG_MAPS, namespace, "a")
    held = await cluster.get(CONFIG_MAPS, namespace, "a")
    assert held["metadata"]["deletionTimestamp"]
    await cluster.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"finalizers": None}})
    assert (await refused(cluster.get(CONFIG_MAPS, namespace, "a"))).status == 404


async def test_a_terminating_object_gets_no_new_finalizers(cluster: Cluster, namespace: str) -> None:
    raw = config_map(namespace, "a")
    raw["metadata"]["finalizers"] = ["example.com/hold"]
    await cluster.create(CONFIG_MAPS, raw)
    await cluster.delete(CONFIG_MAPS, namespace, "a")
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    assert (await refused(cluster.patch(CONFIG_MAPS, namespace, "a", more))).status == 422


async def test_deletion_can_mean_one_object_only(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    problem = await refused(cluster.delete(CONFIG_MAPS, namespace, "a", uid="00000000-0000-0000-0000-000000000000"))
    assert (problem.status, problem.reason) == (409, "Conflict")
    await cluster.delete(CONFIG_MAPS, namespace, "a", uid=made["metadata"]["uid"])
    assert (await refused(cluster.get(CONFIG_MAPS, namespace, "a"))).status == 404


async def test_what_comes_out_is_the_callers_own(cluster: Cluster, namespace: str) -> None:
    given = config_map(namespace, "a", x="1")
    made = await cluster.create(CONFIG_MAPS, given)
    given["data"]["x"] = made["data"]["x"] = "spoilt"
    (listed,) = (await cluster.list(CONFIG_MAPS, namespace, fields="metadata.name=a")).items
    listed["data"]["x"] = "spoilt"
    assert (await cluster.get(CONFIG_MAPS, namespace, "a"))["data"] == {"x": "1"}


async def test_a_pods_spec_stays_as_it_is(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod(namespace, "a"))
    problem = await refused(cluster.patch(PODS, namespace, "a", {"spec": {"schedulerName": "other"}}))
    assert (problem.status, problem.reason) == (422, "Invalid")
    image = {"spec": {"containers": [{"name": "main", "image": "registry.example/main:2"}]}}
    kind = "application/strategic-merge-patch+json"
    changed = await cluster.patch(PODS, namespace, "a", image, kind)  # type: ignore[arg-type]
    assert changed["spec"]["containers"][0]["image"] == "registry.example/main:2"


async def test_gates_are_only_taken_away(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, pod(namespace, "a", schedulingGates=[{"name": "example.com/one"}]))
    more = {"spec": {"schedulingGates": [{"name": "example.com/one"}, {"name": "example.com/two"}]}}
    assert (await refused(cluster.patch(PODS, namespace, "a", more))).status == 422
    opened = await cluster.patch(PODS, namespace, "a", {"spec": {"schedulingGates": None}})
    assert not opened["spec"].get("schedulingGates")

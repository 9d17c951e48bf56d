"""Lists and watches."""

from muster.api.resources import CONFIG_MAPS, POD_GROUPS, PODS
from muster.kube.cluster import Change, Cluster
from tests.contract.given import api_error_of, config_map, next_change, plain_pod, pod_group


async def test_lists_are_sorted_by_name_and_selected_by_labels_and_fields(cluster: Cluster, namespace: str) -> None:
    for name, labels in (("c", {"a": "1"}), ("a", {"a": "2"}), ("b", {})):
        await cluster.create(POD_GROUPS, {**pod_group(namespace, name), "metadata": {
            "name": name, "namespace": namespace, "labels": labels}})  # fmt: skip

    async def names(labels: str = "", fields: str = "") -> list[str]:
        listing = await cluster.list(POD_GROUPS, namespace, labels=labels, fields=fields)
        return [item["metadata"]["name"] for item in listing.items]

    assert await names() == ["a", "b", "c"]
    assert await names("a") == ["a", "c"]
    assert await names("!a") == ["b"]
    assert await names("a=1") == ["c"]
    assert await names("a!=1") == ["a", "b"]
    assert await names("a in (1,2),a notin (2)") == ["c"]
    assert await names(fields="metadata.name=b") == ["b"]


async def test_pods_are_selected_by_node_and_phase(cluster: Cluster, namespace: str) -> None:
    for name in ("a", "b"):
        made = await cluster.create(PODS, plain_pod(namespace, name))
    await cluster.bind(namespace, "b", made["metadata"]["uid"], "n1")
    for fields, names in (
        ("spec.nodeName=n1", ["b"]),
        ("spec.nodeName=", ["a"]),
        ("spec.nodeName!=", ["b"]),
        ("status.phase=Pending,spec.nodeName=n1", ["b"]),
    ):
        listing = await cluster.list(PODS, namespace, fields=fields)
        assert [item["metadata"]["name"] for item in listing.items] == names, fields


async def test_selectors_that_cannot_be_read_are_bad_requests(cluster: Cluster, namespace: str) -> None:
    assert (await api_error_of(cluster.list(PODS, namespace, labels="a in"))).status == 400
    assert (await api_error_of(cluster.list(PODS, namespace, fields="spec.containers=1"))).status == 400


async def test_all_pages_show_one_version(cluster: Cluster, namespace: str) -> None:
    for name in "abcde":
        await cluster.create(POD_GROUPS, pod_group(namespace, name))
    first = await cluster.list(POD_GROUPS, namespace, limit=2)
    await cluster.delete(POD_GROUPS, namespace, "c")
    await cluster.create(POD_GROUPS, pod_group(namespace, "cc"))
    second = await cluster.list(POD_GROUPS, namespace, limit=2, after=first.more)
    third = await cluster.list(POD_GROUPS, namespace, limit=2, after=second.more)
    names = [item["metadata"]["name"] for page in (first, second, third) for item in page.items]
    assert names == ["a", "b", "c", "d", "e"]
    assert first.resource_version == second.resource_version == third.resource_version
    assert third.more == ""


async def test_a_watch_continues_from_the_version_of_a_list(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, config_map(namespace, "before"))
    listing = await cluster.list(CONFIG_MAPS, namespace)
    made = await cluster.create(CONFIG_MAPS, config_map(namespace, "a", x="1"))
    async with cluster.watch(CONFIG_MAPS, listing.resource_version, namespace) as changes:
        changed = await cluster.patch(CONFIG_MAPS, namespace, "a", {"data": {"x": "2"}})
        await cluster.delete(CONFIG_MAPS, namespace, "a")
        seen = [await next_change(changes) for _ in range(3)]
    assert [change.type for change in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert seen[0].object == made
    assert seen[1].object == changed
    assert int(seen[2].resource_version) > int(seen[1].resource_version)


async def test_a_watch_continues_from_the_version_of_any_event(cluster: Cluster, namespace: str) -> None:
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    for name in ("a", "b", "c"):
        await cluster.create(CONFIG_MAPS, config_map(namespace, name))
    async with cluster.watch(CONFIG_MAPS, start, namespace) as changes:
        first = await next_change(changes)
    async with cluster.watch(CONFIG_MAPS, first.resource_version, namespace) as changes:
        rest = [await next_change(changes) for _ in range(2)]
    assert [change.object["metadata"]["name"] for change in (first, *rest)] == ["a", "b", "c"]


async def test_a_watch_sees_one_namespace_only(cluster: Cluster, namespace: str) -> None:
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    await cluster.create(CONFIG_MAPS, config_map("default", f"{namespace}-elsewhere"))
    await cluster.create(CONFIG_MAPS, config_map(namespace, "here"))
    async with cluster.watch(CONFIG_MAPS, start, namespace) as changes:
        assert (await next_change(changes)).object["metadata"]["name"] == "here"


async def test_an_object_that_begins_to_match_is_added_and_one_that_ceases_to_is_deleted(
    cluster: Cluster, namespace: str
) -> None:
    start = (await cluster.list(CONFIG_MAPS, namespace)).resource_version
    await cluster.create(CONFIG_MAPS, config_map(namespace, "a", {"show": "no"}))
    await cluster.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"labels": {"show": "yes"}}})
    await cluster.patch(CONFIG_MAPS, namespace, "a", {"data": {"x": "1"}})
    await cluster.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"labels": {"show": "no"}}})
    async with cluster.watch(CONFIG_MAPS, start, namespace, labels="show=yes") as changes:
        seen = [await next_change(changes) for _ in range(3)]
    assert [change.type for change in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert seen[2].object["metadata"]["labels"] == {"show": "yes"}


async def test_a_bound_pod_is_deleted_from_a_watch_of_unbound_pods(cluster: Cluster, namespace: str) -> None:
    start = (await cluster.list(PODS, namespace)).resource_version
    made = await cluster.create(PODS, plain_pod(namespace, "a"))
    await cluster.bind(namespace, "a", made["metadata"]["uid"], "n1")
    async with cluster.watch(PODS, start, namespace, fields="spec.nodeName=") as changes:
        seen: list[Change] = [await next_change(changes) for _ in range(2)]
    assert [change.type for change in seen] == ["ADDED", "DELETED"]


async def test_resource_versions_increase_over_all_kinds(cluster: Cluster, namespace: str) -> None:
    first = await cluster.create(CONFIG_MAPS, config_map(namespace, "a"))
    second = await cluster.create(PODS, plain_pod(namespace, "a"))
    third = await cluster.create(POD_GROUPS, pod_group(namespace, "a"))
    versions = [int(raw["metadata"]["resourceVersion"]) for raw in (first, second, third)]
    assert versions == sorted(set(versions))

"""Tens of thousands of objects: lists in pages and deletions cost what they concern, not all that is stored."""

from collections.abc import Iterator
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.resources import CONFIG_MAPS, JOBS, Resource
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.store.object_store import ObjectStore
from muster.embedded.store.versioned_table import Table
from muster.kube.cluster import Listing, Raw


def put(store: ClusterStore, resource: Resource, name: str, owner: Raw | None = None) -> Raw:
    references = []
    if owner is not None:
        meta = owner["metadata"]
        kind = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
        references = [{**kind, "controller": True, "blockOwnerDeletion": True}]
    metadata = {"name": name, "namespace": "default", "ownerReferences": references}
    spec = {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}} if resource == JOBS else {}
    return store.create(
        resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **spec}
    )


def pages(store: ClusterStore, limit: int) -> Iterator[Listing]:
    after = ""
    while True:
        page = store.list(CONFIG_MAPS, limit=limit, after=after)
        yield page
        after = page.more
        if not after:
            return


def names(items: tuple[Raw, ...]) -> list[str]:
    return [raw["metadata"]["name"] for raw in items]


def test_a_list_in_pages_sorts_the_objects_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store, sorts = ClusterStore(), 0
    for number in range(200):
        put(store, CONFIG_MAPS, f"c{number:03}")
    objects = Table.objects

    def counted(table: Table, namespace: str = "") -> Iterator[object]:
        nonlocal sorts
        sorts += 1
        return objects(table, namespace)

    monkeypatch.setattr(Table, "objects", counted)
    listed = [*pages(store, 10)]
    assert len(listed) == 20
    assert [page.remaining for page in listed[:2]] == [190, 180]
    assert sorts == 1


@settings(max_examples=30)
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 5))
def test_pages_show_what_one_list_shows_though_objects_change_between_them(changed: list[int], limit: int) -> None:
    """All pages show one version, whatever else is listed and written meanwhile."""
    store = ClusterStore()
    for number in range(0, 10, 2):
        put(store, CONFIG_MAPS, f"c{number}")
    whole = names(store.list(CONFIG_MAPS).items)
    changes, read = iter(changed), []
    for page in pages(store, limit):
        read.append(names(page.items))
        if (index := next(changes, None)) is not None:
            if f"c{index}" in names(store.list(CONFIG_MAPS).items):
                store.delete(CONFIG_MAPS, "default", f"c{index}")
            else:
                put(store, CONFIG_MAPS, f"c{index}")
            store.list(CONFIG_MAPS, limit=1)
    assert [*chain.from_iterable(read)] == whole


def test_a_deletion_in_the_foreground_does_not_copy_all_dependents_for_each_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, copies = ClusterStore(), 0
    owner = put(store, JOBS, "train")
    for number in range(50):
        put(store, CONFIG_MAPS, f"c{number}", owner)
    dependents = ObjectStore.dependents

    def counted(objects: ObjectStore, uid: str) -> list[object]:
        nonlocal copies
        copies += uid == owner["metadata"]["uid"]
        return [*dependents(objects, uid)]

    monkeypatch.setattr(ObjectStore, "dependents", counted)
    store.delete(JOBS, "default", "train", propagation="Foreground")
    assert not store.list(CONFIG_MAPS).items
    assert not store.list(JOBS).items
    assert copies <= 2

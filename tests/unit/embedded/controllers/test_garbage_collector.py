"""Objects that come too late: their owners are gone already."""

import pytest

from muster.api.resources import CONFIG_MAPS
from muster.embedded.controllers import garbage_collector
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cluster import Raw


def config_map(name: str, *owners: Raw) -> Raw:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        for owner in owners
    ]
    return {"metadata": {"name": name, "namespace": "default", "ownerReferences": references}}


async def names(cluster: MemoryCluster) -> list[str]:
    return [raw["metadata"]["name"] for raw in (await cluster.list(CONFIG_MAPS, "default")).items]


async def owner(cluster: MemoryCluster, name: str) -> Raw:
    return await cluster.create(CONFIG_MAPS, config_map(name))


async def test_an_object_that_is_made_after_its_owner_was_deleted_is_collected() -> None:
    """As the garbage collector of Kubernetes does: controllers may create a child while its owner goes."""
    cluster = MemoryCluster()
    gone = await owner(cluster, "gone")
    await cluster.delete(CONFIG_MAPS, "default", "gone")
    created = await cluster.create(CONFIG_MAPS, config_map("late", gone))
    assert created["metadata"]["uid"]
    assert await names(cluster) == []


async def test_an_object_with_another_owner_that_lives_stays() -> None:
    cluster = MemoryCluster()
    gone, living = await owner(cluster, "gone"), await owner(cluster, "living")
    await cluster.delete(CONFIG_MAPS, "default", "gone")
    await cluster.create(CONFIG_MAPS, config_map("late", gone, living))
    assert await names(cluster) == ["late", "living"]


async def test_an_object_whose_owner_was_never_here_stays() -> None:
    """Pods of a snapshot run on without owners that were not captured."""
    cluster = MemoryCluster()
    await cluster.create(CONFIG_MAPS, config_map("late", {"metadata": {"name": "elsewhere", "uid": "u"}}))
    assert await names(cluster) == ["late"]


async def test_only_so_many_removed_owners_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage_collector, "MOST_GONE", 1)
    cluster = MemoryCluster()
    first, second = await owner(cluster, "first"), await owner(cluster, "second")
    for name in ("first", "second"):
        await cluster.delete(CONFIG_MAPS, "default", name)
    await cluster.create(CONFIG_MAPS, config_map("of-first", first))
    await cluster.create(CONFIG_MAPS, config_map("of-second", second))
    assert await names(cluster) == ["of-first"]

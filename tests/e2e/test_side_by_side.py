"""Several schedulers on one cluster: none touches an object of another, and no node is given out twice."""

from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from muster.api.names import NODE_POOL
from muster.api.resources import EVENTS, POD_GROUPS, PODS
from muster.kube.cluster import PatchType, Raw
from tests.e2e.installed import until
from tests.e2e.side_by_side import SharedCluster, shared_cluster
from tests.support.apiserver.apiserver import ApiServer

STRATEGIC: PatchType = "application/strategic-merge-patch+json"
NOW = "2026-05-01T12:00:00Z"


async def kai_gang(shared: SharedCluster, name: str, at: str = "") -> None:
    """As KAI leaves a gang: PodGroup of its podgrouper with its status, pods with its condition or on a node."""
    labels, owner = {"kai.scheduler/queue": "kai-q"}, "name: job\nuid: u1\ngroup: batch\nversion: v1\nkind: Job\n"
    await shared.add_gang(name, "kai-scheduler", "kai-q", labels)
    notes = {"metadata": {"annotations": {"kai.scheduler/top-owner-metadata": owner, "runai/job-id": "u1"}}}
    await shared.cluster.patch(POD_GROUPS, shared.space, name, notes)
    waits = {
        "type": "UnschedulableOnNodePool",
        "nodePool": "default",
        "reason": "Unschedulable",
        "message": "no nodes with enough resources were found",
        "transitionID": "1",
        "lastTransitionTime": NOW,
        "status": "True",
    }
    await shared.cluster.patch(
        POD_GROUPS, shared.space, name, {"status": {"schedulingConditions": [waits]}}, subresource="status"
    )
    for i in range(2):
        if at:
            uid = (await shared.cluster.get(PODS, shared.space, f"{name}-{i}"))["metadata"]["uid"]
            await shared.cluster.bind(shared.space, f"{name}-{i}", uid, at)
        else:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "by KAI"}
            patch: Raw = {"status": {"conditions": [condition]}}
            await shared.cluster.patch(PODS, shared.space, f"{name}-{i}", patch, kind=STRATEGIC, subresource="status")


async def versions(shared: SharedCluster, prefix: str) -> dict[str, str]:
    """Of every pod and PodGroup whose name begins so: it changes with every write."""
    return {
        f"{resource.plural}/{name}": raw["metadata"]["resourceVersion"]
        for resource in (PODS, POD_GROUPS)
        for name, raw in (await shared.objects(resource)).items()
        if name.startswith(prefix)
    }


async def test_two_musters_and_kai_leave_each_others_objects_alone(apiserver: ApiServer, tmp_path: Path) -> None:
    """On the same nodes, with more gangs than room, and while one of them is down and comes back."""
    async with shared_cluster(apiserver, "beside", tmp_path) as shared:
        for name in ("n0", "n1", "n2"):
            await shared.add_node(f"beside-{name}", {})
        for name in ("one", "two", "kai"):
            await shared.add_queue(f"{name}-q", {})
        await kai_gang(shared, "kai-runs", "beside-n0")
        await kai_gang(shared, "kai-waits")
        before = await versions(shared, "kai-waits")
        schedulers: dict[str, Raw] = {name: {"schedulerNames": [name]} for name in ("one", "two")}
        async with await shared.muster("one", schedulers["one"]):
            async with await shared.muster("two", schedulers["two"]):
                for name in ("one", "two"):
                    await shared.add_gang(f"{name}-a", name, f"{name}-q")
                    await until(partial(shared.runs, f"{name}-a"))
                for name in ("one", "two"):  # nothing is free any more
                    await shared.add_gang(f"{name}-b", name, f"{name}-q")
                    await until(partial(is_reported, shared, f"{name}-b"))
                assert not await shared.runs("one-b")
            await shared.remove_gang("two-a")  # the last free node, while its scheduler is down
            await until(lambda: shared.runs("one-b"))  # the one that is up takes it
            async with await shared.muster("two", schedulers["two"]):
                await until(lambda: is_reported(shared, "two-b"))  # it still waits
                assert not await shared.runs("two-b")
                await shared.remove_gang("kai-runs")
                await until(lambda: shared.runs("one-a", "one-b", "two-b"))  # all of them run
        await shared.assert_apart("one", "two")
        assert await versions(shared, "kai-waits") == before
        assert not [raw for raw in (await events(shared)) if raw["involvedObject"]["name"].startswith("kai-")]


async def test_two_shards_leave_each_others_objects_alone(apiserver: ApiServer, tmp_path: Path) -> None:
    """Same scheduler name; PodGroups of users and of the grouper; and a pool that no muster serves."""
    pool, ghost = {NODE_POOL: "pool"}, {NODE_POOL: "ghost"}
    async with shared_cluster(apiserver, "shards", tmp_path) as shared:
        await shared.add_node("shards-n0", {})
        for name in ("n1", "n2"):
            await shared.add_node(f"shards-{name}", pool)
        await shared.add_queue("plain-q", {})
        await shared.add_queue("pool-q", pool)
        await shared.add_gang("ghost-a", "muster", "pool-q", ghost)
        untouched = await versions(shared, "ghost")
        async with (
            await shared.muster("plain", {"shard": {"enabled": True}}),
            await shared.muster("pool", {"shard": {"enabled": True, "partitionLabelValue": "pool"}}),
        ):
            await shared.add_gang("plain-a", "muster", "plain-q")
            await shared.add_gang("pool-a", "muster", "pool-q", pool)
            alone = shared.pod("pool-alone", "muster", labels={**pool, "kai.scheduler/queue": "pool-q"})
            await shared.cluster.create(PODS, alone)
            await until(lambda: shared.runs("plain-a", "pool-a"))  # each has its own
            await until(lambda: is_bound(shared, "pool-alone"))  # it is grouped and bound
            places = await shared.places()
            assert {places[f"plain-a-{i}"] for i in range(2)} == {"shards-n0"}
            assert not {places["pool-a-0"], places["pool-a-1"], places["pool-alone"]} & {"shards-n0"}
            await shared.add_gang("plain-b", "muster", "plain-q")
            await until(lambda: is_reported(shared, "plain-b"))  # it has no room, though the other pool has
        await shared.assert_apart("plain", "pool")
        assert await versions(shared, "ghost") == untouched


async def test_four_shards_bind_at_once_and_leave_each_others_objects_alone(
    apiserver: ApiServer, tmp_path: Path
) -> None:
    """One node and one queue of each; two gangs each, of which one has room, while all others run."""
    pools = {"main": {}, "red": {NODE_POOL: "red"}, "green": {NODE_POOL: "green"}, "blue": {NODE_POOL: "blue"}}
    async with shared_cluster(apiserver, "four", tmp_path) as shared, AsyncExitStack() as musters:
        for name, labels in pools.items():
            await shared.add_node(f"four-{name}", labels)
            await shared.add_queue(f"{name}-q", labels)
            shard = {"enabled": True, "partitionLabelValue": labels.get(NODE_POOL, "")}
            await musters.enter_async_context(await shared.muster(name, {"shard": shard}))
        for gang in ("a", "b"):
            for name, labels in pools.items():
                await shared.add_gang(f"{name}-{gang}", "muster", f"{name}-q", labels)
            await until(lambda: shared.runs(*(f"{name}-a" for name in pools)))
        for name in pools:
            await until(partial(is_reported, shared, f"{name}-b"))  # its only node is full
        places = await shared.places()
        assert {places[f"{name}-a-{i}"] == f"four-{name}" for name in pools for i in range(2)} == {True}
        assert not any(places[f"{name}-b-{i}"] for name in pools for i in range(2))
        for name in pools:
            await shared.remove_gang(f"{name}-a")
        await until(lambda: shared.runs(*(f"{name}-b" for name in pools)))  # each in its own pool
        places = await shared.places()
        assert {places[f"{name}-b-{i}"] == f"four-{name}" for name in pools for i in range(2)} == {True}
        await shared.assert_apart(*pools)


async def is_reported(shared: SharedCluster, name: str) -> bool:
    raw = (await shared.objects(POD_GROUPS))[name]
    return bool(raw.get("status", {}).get("conditions"))


async def is_bound(shared: SharedCluster, name: str) -> bool:
    return bool((await shared.places())[name])


async def events(shared: SharedCluster) -> list[Raw]:
    return [*(await shared.objects(EVENTS)).values()]

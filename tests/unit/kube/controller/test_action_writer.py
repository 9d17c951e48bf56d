"""Actions on a cluster: a start that is slow, then as many at once as there is place for; an end where all fails."""

import asyncio
import time
from collections.abc import Awaitable, Sequence

from muster.api.resources import CONFIG_MAPS, PODS, SECRETS, Resource
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.controller.action_writer import LARGEST_BATCH, ActionWriter, FailedAction, batches
from muster.kube.controller.object_cache import ObjectCache
from muster.kube.errors import ApiError
from muster.workloads.types import Create, Remove

LONGEST_SECONDS = 20.0


def test_creations_start_small_and_double() -> None:
    actions = [Create(PODS, {}) for _ in range(200)]
    assert [len(batch) for batch in batches(actions)] == [1, 2, 4, 8, 16, 32]
    assert [len(batch) for batch in batches(actions[:5])] == [1, 2, 2]


def test_deletions_do_not_start_small() -> None:
    """One that is refused says nothing about the others."""
    actions = [Remove(PODS, "default", str(number), "") for number in range(70)]
    assert [*batches(actions)] == []


class SlowCluster:
    """Deletions that end when a test lets them, or fail."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.error, self.sent, self.gate = error, list[str](), asyncio.Event()

    async def delete(self, _resource: Resource, _namespace: str, name: str, **_options: str) -> None:
        self.sent.append(name)
        if name == "0":
            await self.gate.wait()
        if self.error is not None:
            raise self.error


def _deletions(cluster: SlowCluster, number: int) -> Awaitable[Sequence[FailedAction]]:
    writer = ActionWriter(cluster, ObjectCache(time.monotonic, lambda *_: None), lambda: "")  # type: ignore[arg-type]
    return writer.perform([Remove(PODS, "default", str(i), "u") for i in range(number)], 0)


async def test_one_slow_answer_holds_up_no_other_request() -> None:
    cluster = SlowCluster()
    run = asyncio.ensure_future(_deletions(cluster, 3 * LARGEST_BATCH))
    async with asyncio.timeout(LONGEST_SECONDS):
        while len(cluster.sent) < 3 * LARGEST_BATCH:
            await asyncio.sleep(0.01)
    assert not run.done()
    cluster.gate.set()
    assert await run == []


async def test_an_api_server_that_fails_gets_no_more_requests() -> None:
    cluster = SlowCluster(ApiError(500, "InternalError", "down"))
    cluster.gate.set()
    failures = await _deletions(cluster, 3 * LARGEST_BATCH)
    assert len(cluster.sent) == len(failures) <= LARGEST_BATCH


async def test_refusals_without_an_end_end_a_run() -> None:
    cluster = SlowCluster(ApiError(403, "Forbidden", "no"))
    cluster.gate.set()
    await _deletions(cluster, 5 * LARGEST_BATCH)
    assert LARGEST_BATCH <= len(cluster.sent) < 3 * LARGEST_BATCH


async def test_an_object_that_is_refused_holds_up_no_other() -> None:
    """A name that is taken, or a quota: the rest of the run is sent, and what comes after it."""
    cluster = MemoryCluster()
    for name in ("a", "c"):
        await cluster.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "u", "controller": True}
    metadata = {"namespace": "default", "ownerReferences": [owner]}
    writer = ActionWriter(cluster, ObjectCache(time.monotonic, lambda *_: None), lambda: "")
    actions = [Create(CONFIG_MAPS, {"metadata": {**metadata, "name": name}}) for name in "abcdef"]
    failures = await writer.perform([*actions, Create(SECRETS, {"metadata": {**metadata, "name": "later"}})], 0)
    assert [failure.action.object["metadata"]["name"] for failure in failures] == ["a", "c"]  # type: ignore[union-attr]
    assert {raw["metadata"]["name"] for raw in cluster.store.list(CONFIG_MAPS).items} >= set("abcdef")
    assert [raw["metadata"]["name"] for raw in cluster.store.list(SECRETS).items] == ["later"]


async def test_where_all_are_refused_what_comes_after_waits() -> None:
    cluster = MemoryCluster()
    await cluster.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "default"}})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "u", "controller": True}
    metadata = {"namespace": "default", "ownerReferences": [owner]}
    writer = ActionWriter(cluster, ObjectCache(time.monotonic, lambda *_: None), lambda: "")
    first = Create(CONFIG_MAPS, {"metadata": {**metadata, "name": "a"}})
    failures = await writer.perform([first, Create(SECRETS, {"metadata": {**metadata, "name": "later"}})], 0)
    assert len(failures) == 1
    assert not cluster.store.list(SECRETS).items

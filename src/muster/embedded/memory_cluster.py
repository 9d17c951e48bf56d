"""The embedded cluster, async: a thin face over `Store` that speaks the Cluster protocol.

One event loop owns a Memory and its Store; neither is meant for several threads.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from muster.api.resources import Resource
from muster.embedded.cluster_store import ClusterStore, StoreWatch
from muster.kube.cluster import Change, Listing, PatchType, Raw

BOOKMARK_SECONDS = 60.0


async def _turn() -> None:
    """Nothing here waits for anything; whoever asks in a tight loop still lets the others have their turn."""
    await asyncio.sleep(0)


def _typed(resource: Resource, raw: Any, subresource: str = "") -> Any:
    """With its kind, which the caller need not say twice."""
    if not isinstance(raw, dict) or subresource == "scale":
        return raw
    return {"apiVersion": resource.api_version, "kind": resource.kind, **raw}


class MemoryCluster:
    """A Cluster in this process."""

    def __init__(self, store: ClusterStore | None = None, *, bookmark_seconds: float = BOOKMARK_SECONDS) -> None:
        self.store = store or ClusterStore()
        self._bookmark_seconds = bookmark_seconds

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        after: str = "",
    ) -> Listing:
        """See Cluster."""
        await _turn()
        return self.store.list(resource, namespace, labels=labels, fields=fields, limit=limit, after=after)

    @asynccontextmanager
    async def watch(
        self, resource: Resource, since: str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[AsyncIterator[Change]]:
        """See Cluster."""
        with self.store.watch(resource, since, namespace, labels=labels, fields=fields) as watch:
            yield changes(watch, self._bookmark_seconds)

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        """See Cluster."""
        await _turn()
        return self.store.get(resource, namespace, name)

    async def create(self, resource: Resource, raw: Raw) -> Raw:
        """See Cluster."""
        await _turn()
        return self.store.create(resource, _typed(resource, raw))

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        """See Cluster."""
        await _turn()
        return self.store.replace(resource, _typed(resource, raw, subresource), subresource)

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        kind: PatchType = "application/merge-patch+json",
        subresource: str = "",
        field_manager: str = "muster",
        force: bool = False,
    ) -> Raw:
        """See Cluster."""
        await _turn()
        whole = _typed(resource, patch, subresource) if kind == "application/apply-patch+yaml" else patch
        return self.store.patch(
            resource, namespace, name, whole, kind, subresource, field_manager=field_manager, force=force
        )

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """See Cluster."""
        await _turn()
        self.store.delete(resource, namespace, name, uid=uid, grace_seconds=grace_seconds)

    async def bind(self, namespace: str, pod: str, uid: str, node: str) -> None:
        """See Cluster."""
        await _turn()
        self.store.bind(namespace, pod, uid, node)

    async def evict(self, namespace: str, pod: str, uid: str, *, dry_run: bool = False) -> None:
        """See Cluster."""
        await _turn()
        self.store.evict(namespace, pod, uid, dry_run=dry_run)

    async def close(self) -> None:
        """See Cluster."""


async def changes(watch: StoreWatch, bookmark_seconds: float = BOOKMARK_SECONDS) -> AsyncIterator[Change]:
    """The changes of a watch as they come, and a bookmark after each quiet spell; ApiError 410 where it fell behind."""
    woken = asyncio.Event()
    watch.wake = woken.set
    while not watch.closed:
        woken.clear()
        for change in watch.take():
            yield change
        if watch.pending:
            await asyncio.sleep(0)
            continue
        try:
            async with asyncio.timeout(bookmark_seconds):  # unlike wait_for, it never swallows a cancellation
                await woken.wait()
        except TimeoutError:
            yield watch.bookmark()

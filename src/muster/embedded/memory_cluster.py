"""The embedded cluster behind the async Cluster protocol: a thin layer over `ClusterStore`.

One event loop owns a MemoryCluster and its store; neither is thread-safe.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from muster.api.resources import Resource
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.store.watch import StoreWatch
from muster.kube.cluster import Change, Listing, PatchType, Raw
from muster.kube.pod_mark import PodMark

BOOKMARK_SECONDS = 60.0


async def _yield_to_loop() -> None:
    """Calls never wait; a caller in a tight loop must still let other tasks run."""
    await asyncio.sleep(0)


def _with_kind(resource: Resource, raw: Any, subresource: str = "") -> Any:
    """The object with apiVersion and kind, which callers may leave out."""
    if not isinstance(raw, dict) or subresource == "scale":
        return raw
    return {"apiVersion": resource.api_version, "kind": resource.kind, **raw}


class MemoryCluster:
    """A Cluster in this process; see Cluster for its methods."""

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
        await _yield_to_loop()
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
        await _yield_to_loop()
        return self.store.get(resource, namespace, name)

    async def create(self, resource: Resource, raw: Raw) -> Raw:
        """See Cluster."""
        await _yield_to_loop()
        return self.store.create(resource, _with_kind(resource, raw))

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        """See Cluster."""
        await _yield_to_loop()
        return self.store.replace(resource, _with_kind(resource, raw, subresource), subresource)

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
        await _yield_to_loop()
        document = _with_kind(resource, patch, subresource) if kind == "application/apply-patch+yaml" else patch
        return self.store.patch(
            resource, namespace, name, document, kind, subresource, field_manager=field_manager, force=force
        )

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """See Cluster."""
        await _yield_to_loop()
        self.store.delete(resource, namespace, name, uid=uid, grace_seconds=grace_seconds)

    async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:
        """See Cluster."""
        await _yield_to_loop()
        metadata = {"annotations": dict(mark.annotations), "labels": dict(mark.labels)} if mark else None
        self.store.bind(namespace, pod, uid, node, metadata=metadata)

    async def expect_bindings(self, number: int) -> None:
        """See Cluster."""

    async def binds_with_labels(self) -> bool:
        """See Cluster."""
        return True

    async def evict(self, namespace: str, pod: str, uid: str, *, dry_run: bool = False) -> None:
        """See Cluster."""
        await _yield_to_loop()
        self.store.evict(namespace, pod, uid, dry_run=dry_run)

    async def close(self) -> None:
        """See Cluster."""


async def changes(watch: StoreWatch, bookmark_seconds: float = BOOKMARK_SECONDS) -> AsyncIterator[Change]:
    """The changes of a watch, and a bookmark after each idle period; ApiError 410 where the watch fell behind."""
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

"""A live cluster as objects: what reading verbs take instead of files."""

import asyncio
from collections.abc import AsyncIterator

from muster.api.codec import Document
from muster.cluster.mirror import FOLLOWED
from muster.cluster.store import ApiError, Cluster, Raw, Resource
from muster.errors import InputError

PAGE = 500


def documents(kubeconfig: str | None, context: str | None) -> list[Document]:
    """Everything that planning reads, as it is stored."""
    from muster.cluster.kubernetes import connect  # asked for only where a cluster is

    return asyncio.run(_read(connect(kubeconfig, context)))


async def _read(cluster: Cluster) -> list[Document]:
    try:
        return [
            Document(f"{resource.plural}/{raw['metadata']['name']}", raw)
            for resource in FOLLOWED
            async for raw in _all(cluster, resource)
        ]
    finally:
        await cluster.close()


async def _all(cluster: Cluster, resource: Resource) -> AsyncIterator[Raw]:
    """Page by page; a kind that the cluster does not know has no objects."""
    after = ""
    while True:
        try:
            page = await cluster.list(resource, limit=PAGE, after=after)
        except ApiError as error:
            if error.status == 404:
                return
            raise InputError(f"cannot list {resource.plural}: {error.message}") from error
        for raw in page.items:
            yield {"apiVersion": resource.api_version, "kind": resource.kind, **raw}
        after = page.more
        if not after:
            return

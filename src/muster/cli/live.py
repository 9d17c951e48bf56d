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


def _way_out(error: ApiError, resource: Resource) -> str:
    match error.status:
        case 401:
            return "its token or certificate is not accepted: log in again, or choose another --context or --kubeconfig"
        case 403:
            group = f".{resource.group}" if resource.group else ""
            return f"ask for the right to list {resource.plural}{group} in all namespaces"
        case 503 if "certificate" in error.message:
            return "`certificate-authority` of the cluster in the kubeconfig is another's, out of date, or missing"
        case 503 | 504:
            return (
                "see that the cluster is up and its address right: `kubectl cluster-info`, or choose another --context"
            )
        case _:
            return "`kubectl get` with the same kubeconfig tells more"


async def _all(cluster: Cluster, resource: Resource) -> AsyncIterator[Raw]:
    """Page by page; a kind that the cluster does not know has no objects."""
    after = ""
    while True:
        try:
            page = await cluster.list(resource, limit=PAGE, after=after)
        except ApiError as error:
            if error.status == 404:
                return
            raise InputError(
                f"cannot list {resource.plural}: {error.message}", hint=_way_out(error, resource)
            ) from error
        for raw in page.items:
            yield {"apiVersion": resource.api_version, "kind": resource.kind, **raw}
        after = page.more
        if not after:
            return

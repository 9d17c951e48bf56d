"""Reads Grove's objects of a live cluster: PodCliqueSets, and what became of them."""

import asyncio

from muster.api.codec import Document
from muster.api.objects import GROVE_KINDS, OtherObject
from muster.cli import live
from muster.kube.errors import ApiError

SOURCE = "the live cluster"


def read(kubeconfig: str | None, context: str | None) -> tuple[OtherObject, ...]:
    """Every object of Grove's kinds; kinds that are not installed have none."""
    return asyncio.run(_read(live.connect(kubeconfig, context)))


async def _read(cluster: live.LiveCluster) -> tuple[OtherObject, ...]:
    others: list[OtherObject] = []
    try:
        for resource in GROVE_KINDS:
            try:
                pages = await live.list_pages(cluster, resource, _objects)
            except ApiError as error:
                if error.status != 404:
                    raise live.unreadable(error, cluster.server, resource) from error
                continue
            others += (other for page in pages for other in page)
    finally:
        await cluster.close()
    return tuple(others)


def _objects(page: list[Document]) -> list[OtherObject]:
    return [OtherObject(SOURCE, document.raw, is_live=True) for document in page]

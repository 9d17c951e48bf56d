"""Where objects live, as a protocol: the embedded cluster and Kubernetes are two real implementations of it.

Objects travel as plain values, as in JSON; `api.shape.decode` makes them into structs. Every failure is an ApiError
with the status that an API server would answer with.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

from msgspec import Struct

from muster.api.resources import Resource

Raw = dict[str, Any]
PatchType = Literal[
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
]


class Listing(Struct, frozen=True):
    """Objects at one moment; `resource_version` is where a watch goes on."""

    items: tuple[Raw, ...]
    resource_version: str
    more: str = ""  # where the next page begins; empty: this was the last
    remaining: int = 0  # how many follow on other pages; 0: none, or nobody counted


class Change(Struct, frozen=True):
    """One event of a watch. BOOKMARK: nothing changed up to this resource version."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Raw
    opened: bool = False  # a bookmark of the client itself: it asks anew from here, and was told nothing yet

    @property
    def resource_version(self) -> str:
        """Where a watch goes on after it."""
        return str(self.object["metadata"]["resourceVersion"])


class Cluster(Protocol):
    """What muster asks of a cluster."""

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
        """Objects, of one namespace or of all; ApiError 410 `Expired` where `after` is too old."""

    def watch(
        self, resource: Resource, since: str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AbstractAsyncContextManager[AsyncIterator[Change]]:
        """Events after a resource version, with bookmarks, until it is left; ApiError 410 `Expired`: list anew."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        """One object; ApiError 404 `NotFound`."""

    async def create(self, resource: Resource, raw: Raw) -> Raw:
        """A new object as it is stored; 409 `AlreadyExists`, 422 `Invalid`, 403 `Forbidden`."""

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        """The whole object, or its status or scale; 409 `Conflict` where its resource version is out of date."""

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
        """Part of an object; server-side apply creates it where it is missing."""

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """Gone, or on its way; 409 `Conflict` where the uid is another's."""

    async def bind(self, namespace: str, pod: str, uid: str, node: str) -> None:
        """`pods/binding`: 409 `Conflict` where the pod is another one or is bound already."""

    async def evict(self, namespace: str, pod: str, uid: str, *, dry_run: bool = False) -> None:
        """`pods/eviction`: 429 `TooManyRequests` where a PodDisruptionBudget says no; `dry_run`: only ask."""

    async def close(self) -> None:
        """Let go of connections."""

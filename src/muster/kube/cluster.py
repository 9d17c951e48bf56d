"""The cluster protocol. Kubernetes over HTTP and the embedded cluster implement it.

Objects are plain values, as in JSON; `api.decoding.decode` makes structs of them. Every failure is an ApiError with the
status of an API server's response.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

from msgspec import Struct

from muster.api.resources import Resource
from muster.kube.pod_mark import PodMark
from muster.kube.stored_object import Raw as Raw
from muster.kube.stored_object import StoredObject, raw_of, version_of

PatchType = Literal[
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
]


class Listing(Struct, frozen=True):
    """Objects at one moment; a watch resumes at `resource_version`."""

    stored: tuple[StoredObject, ...]
    resource_version: str
    more: str = ""  # continue token of the next page; empty: this is the last one
    remaining: int = 0  # how many follow on other pages; 0: none, or not known

    @property
    def items(self) -> tuple[Raw, ...]:
        """The objects as plain values."""
        return tuple(map(raw_of, self.stored))


class Change(Struct, frozen=True):
    """One event of a watch. BOOKMARK: nothing changed up to this resourceVersion."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    stored: StoredObject
    is_reopened: bool = False  # a bookmark of the client itself: it resumed the watch, and received nothing yet

    @property
    def object(self) -> Raw:
        """The object as a plain value."""
        return raw_of(self.stored)

    @property
    def resource_version(self) -> str:
        """Where a watch resumes after it."""
        return version_of(self.stored)[1]


class Cluster(Protocol):
    """What muster does with a cluster."""

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
        """Events after a resourceVersion, with bookmarks, until the caller leaves; ApiError 410 `Expired`: relist."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        """One object; ApiError 404 `NotFound`."""

    async def create(self, resource: Resource, raw: Raw) -> Raw:
        """A new object as it is stored; 409 `AlreadyExists`, 422 `Invalid`, 403 `Forbidden`."""

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        """The whole object, or its status or scale; 409 `Conflict` where its resourceVersion is out of date."""

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
        """Deleted, or terminating; 409 `Conflict` where the uid differs."""

    async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:
        """`pods/binding`: 409 `Conflict` where the uid differs or the pod is bound already; the pod gets the mark."""

    async def expect_bindings(self, number: int) -> None:
        """So many may be posted at once, soon: prepares what it can for them, and never fails."""

    async def binds_with_labels(self) -> bool:
        """Whether pods get the labels of their Binding: Kubernetes 1.35 and later. Annotations they always get."""

    async def evict(self, namespace: str, pod: str, uid: str, *, dry_run: bool = False) -> None:
        """`pods/eviction`: 429 `TooManyRequests` where a PodDisruptionBudget forbids it."""

    async def close(self) -> None:
        """Closes connections."""

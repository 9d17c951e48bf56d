"""Kubernetes as a Cluster, over HTTP."""

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import msgspec
from msgspec import Struct

from muster.api.core import Node
from muster.api.meta import Wire
from muster.api.podgroup import PodGroup
from muster.api.resources import BINDINGS, EVICTIONS, NODES, POD_GROUPS, PODS, Resource
from muster.kube.client.cluster_config import find_loader
from muster.kube.client.credentials import Credentials
from muster.kube.client.http import Http, Limits, Observe, Request
from muster.kube.client.paths import collection_path, creation_path, namespace_and_name, object_path
from muster.kube.client.responses import check_confirmation, decode_body, unexpected_response
from muster.kube.client.watch import open_watch
from muster.kube.cluster import Change, Listing, PatchType
from muster.kube.errors import ApiError
from muster.kube.listed_pod import ListedPod
from muster.kube.pod_mark import PodMark
from muster.kube.stored_object import ObjectHead, Raw, decode_page, is_object

PAGE: Final = 500  # objects of one request where the caller lists all
MANAGER: Final = {"fieldManager": "muster"}
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML

STRUCTS: Final[Mapping[Resource, type[Wire]]] = {  # of kinds with many objects: decoded when they come
    PODS: ListedPod,
    NODES: Node,
    POD_GROUPS: PodGroup,
}

LABELS_SINCE: Final = (1, 35)  # pods get the labels of their Binding (feature gate PodTopologyLabelsAdmission)
_NUMBER: Final = re.compile(r"[0-9]{1,9}")  # providers write a minor version as `35+`

_encode = msgspec.json.Encoder().encode


_decode = msgspec.json.Decoder(Raw).decode


class _BindingMeta(Struct, frozen=True, omit_defaults=True):
    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str | None] = {}


class _BindingTarget(Struct, frozen=True, rename="camel"):
    name: str
    api_version: str = NODES.api_version
    kind: str = NODES.kind


class _Binding(Struct, frozen=True, rename="camel"):
    metadata: _BindingMeta
    target: _BindingTarget
    api_version: str = BINDINGS.api_version
    kind: str = BINDINGS.kind


def connect(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    observe: Observe = lambda *_: None,
) -> "Kubernetes":
    """The cluster of a kubeconfig's context, or the one that muster runs in; InputError where there is none."""
    credentials = Credentials(find_loader(kubeconfig, context))
    credentials.access.build_tls_context()  # fails now where a file cannot be used
    return Kubernetes(Http(credentials, limits, observe=observe), credentials.access.server)


class Kubernetes:
    """A Cluster over HTTP; `kube.cluster.Cluster` says what each verb promises."""

    def __init__(self, http: Http, server: str = "") -> None:
        self._http = http
        self.server = server  # its address, for messages

    def __repr__(self) -> str:
        return f"Kubernetes({self._http!r})"

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
        """One page, or all of them; where pages expire on the way, it reads all in one piece."""
        path, query = collection_path(resource, namespace), _selected(labels, fields)
        if limit:
            return await self._page(resource, path, query, limit, after)
        page = await self._page(resource, path, query, PAGE, after)
        stored = [*page.stored]
        while page.more:
            try:
                page = await self._page(resource, path, query, PAGE, page.more)
            except ApiError as error:
                if error.status != 410 or after:
                    raise
                return await self._page(resource, path, query, 0, "")
            stored += page.stored
        return Listing(tuple(stored), page.resource_version)

    async def _page(self, resource: Resource, path: str, query: Mapping[str, str], limit: int, after: str) -> Listing:
        page = {"limit": str(limit)} if limit else {}
        page |= {"continue": after} if after else {}
        body = await self._http.call(Request("GET", path, {**query, **page}))
        kind, struct = (resource.api_version, resource.kind), STRUCTS.get(resource, ObjectHead)
        stored, metadata = decode_body(lambda data: decode_page(data, kind, struct), body, path)
        return Listing(stored, metadata.resource_version, metadata.continue_)

    def watch(
        self, resource: Resource, since: str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AbstractAsyncContextManager[AsyncIterator[Change]]:
        """Streams with bookmarks, resumed where they end."""
        path, struct = collection_path(resource, namespace), STRUCTS.get(resource, ObjectHead)
        return open_watch(self._http, path, _selected(labels, fields), since, struct)

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        """One object."""
        return await self._call(Request("GET", object_path(resource, namespace, name)))

    async def create(self, resource: Resource, raw: Raw) -> Raw:
        """Retried only where it was rejected unread: after a lost response the object may exist."""
        return await self._call(
            Request("POST", creation_path(resource, namespace_and_name(raw)[0]), MANAGER, _body(resource, raw))
        )

    async def review(self, resource: Resource, raw: Raw) -> Raw:
        """The answer to a review: an object that is never stored, and has no name."""
        body = _body(resource, raw)
        request = Request("POST", creation_path(resource, ""), body=body, repeatable=True)
        return decode_body(_decode, await self._http.call(request), request.path)

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        """After a lost response, a retry may fail with `Conflict` because the first attempt was applied."""
        path = object_path(resource, *namespace_and_name(raw), subresource)
        return await self._call(Request("PUT", path, MANAGER, _body(resource, raw, subresource), repeatable=True))

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
        """All patches but JSON patches are idempotent, and retried."""
        query = {"fieldManager": field_manager} | ({"force": "true"} if force and kind == APPLY else {})
        path = object_path(resource, namespace, name, subresource)
        body = _body(resource, patch, subresource) if kind == APPLY and isinstance(patch, dict) else _encode(patch)
        return await self._call(Request("PATCH", path, query, body, kind, repeatable=kind != JSON_PATCH))

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """Dependents are deleted in the background, as with kubectl."""
        options = {"propagationPolicy": "Background", **_options(uid, grace_seconds)}
        body = _encode({"apiVersion": "v1", "kind": "DeleteOptions", **options})
        path = object_path(resource, namespace, name)
        await self._do(Request("DELETE", path, body=body, repeatable=True, applied_if=404))

    async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:
        """Retried only where it was rejected unread; after a lost response, the caller reads the pod."""
        marked = (mark.annotations, mark.labels) if mark is not None else ()
        binding = _Binding(_BindingMeta(namespace, pod, uid, *marked), _BindingTarget(node))
        path = object_path(PODS, namespace, pod, "binding")
        check_confirmation(await self._http.call(Request("POST", path, body=_encode(binding))), path)

    async def expect_bindings(self, number: int) -> None:
        """Opens as many connections: a handshake costs both sides as much as three bindings."""
        await self._http.open_ahead(number)

    async def binds_with_labels(self) -> bool:
        """By its version: API servers before 1.35 drop the labels of a Binding."""
        raw = decode_body(_decode, await self._http.call(Request("GET", "/version")), "/version")
        numbers = [_NUMBER.match(str(raw.get(part))) for part in ("major", "minor")]
        version = tuple(int(number.group()) for number in numbers if number is not None)
        return len(version) == 2 and version >= LABELS_SINCE

    async def evict(self, namespace: str, pod: str, uid: str, *, dry_run: bool = False) -> None:
        """Carries the uid, so that a retry cannot evict another pod of the same name."""
        meta = {"namespace": namespace, "name": pod}
        kind = {"apiVersion": EVICTIONS.api_version, "kind": EVICTIONS.kind}
        eviction = {**kind, "metadata": meta, "deleteOptions": _options(uid)}
        path = object_path(PODS, namespace, pod, "eviction")
        query = {"dryRun": "All"} if dry_run else {}
        await self._do(Request("POST", path, query, body=_encode(eviction), repeatable=bool(uid), applied_if=404))

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.close()

    async def _call(self, request: Request) -> Raw:
        raw = decode_body(_decode, await self._http.call(request), request.path)
        if not is_object(raw):
            raise unexpected_response(request.path)
        return raw

    async def _do(self, request: Request) -> None:
        check_confirmation(await self._http.call(request), request.path)


def _selected(labels: str, fields: str) -> dict[str, str]:
    return {key: text for key, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}


def _body(resource: Resource, raw: Raw, subresource: str = "") -> bytes:
    """The object with its kind, also where the caller left that out; a Scale has a kind of its own."""
    kind = {} if subresource == "scale" else {"apiVersion": resource.api_version, "kind": resource.kind}
    return _encode({**kind, **raw})


def _options(uid: str, grace_seconds: int | None = None) -> Raw:
    preconditions = {"preconditions": {"uid": uid}} if uid else {}
    return preconditions if grace_seconds is None else {**preconditions, "gracePeriodSeconds": grace_seconds}

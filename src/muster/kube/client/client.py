"""Kubernetes as a Cluster, over HTTP."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from muster.api.resources import BINDINGS, EVICTIONS, NODES, PODS, Resource
from muster.kube.client.cluster_config import find_loader
from muster.kube.client.credentials import Credentials
from muster.kube.client.http import Http, Limits, Request
from muster.kube.client.paths import collection, home, item, named
from muster.kube.client.responses import confirmed, decoded, is_object, nonsense
from muster.kube.client.watch import watching
from muster.kube.cluster import Change, Listing, PatchType, Raw
from muster.kube.errors import ApiError

PAGE: Final = 500  # objects of one request where all are wanted
MANAGER: Final = {"fieldManager": "muster"}
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML

_encode = msgspec.json.Encoder().encode


class _ListMeta(Struct, frozen=True, rename="camel"):
    resource_version: Annotated[str, Meta(min_length=1)]
    continue_: str = field(name="continue", default="")


class _List(Struct, frozen=True):
    """Nothing is left out that tells an empty list from something else: else all objects would seem to be gone."""

    metadata: _ListMeta
    items: list[Raw] | None


_decode_list = msgspec.json.Decoder(_List).decode
_decode = msgspec.json.Decoder(Raw).decode


def connect(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> "Kubernetes":
    """The cluster of a kubeconfig's context, or the one we run in; InputError where there is none."""
    credentials = Credentials(find_loader(kubeconfig, context))
    credentials.access.build_tls_context()  # files that cannot be used are told now
    return Kubernetes(Http(credentials, limits), credentials.access.server)


class Kubernetes:
    """A Cluster; see `store.Cluster` for what each verb promises."""

    def __init__(self, http: Http, server: str = "") -> None:
        self._http = http
        self.server = server  # its address, for sentences

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
        """One page, or all of it; a list that grows too old on the way is read in one piece."""
        path, query = collection(resource, namespace), _selected(labels, fields)
        if limit:
            return await self._page(resource, path, query, limit, after)
        page = await self._page(resource, path, query, PAGE, after)
        items = [*page.items]
        while page.more:
            try:
                page = await self._page(resource, path, query, PAGE, page.more)
            except ApiError as error:
                if error.status != 410 or after:
                    raise
                return await self._page(resource, path, query, 0, "")
            items += page.items
        return Listing(tuple(items), page.resource_version)

    async def _page(self, resource: Resource, path: str, query: Mapping[str, str], limit: int, after: str) -> Listing:
        page = {"limit": str(limit)} if limit else {}
        page |= {"continue": after} if after else {}
        found = decoded(_decode_list, await self._http.call(Request("GET", path, {**query, **page})), path)
        items = found.items or ()
        if not all(map(is_object, items)):
            raise nonsense(path)
        for raw in items:  # API servers leave them out in lists of their own kinds
            raw.setdefault("apiVersion", resource.api_version)
            raw.setdefault("kind", resource.kind)
        return Listing(tuple(items), found.metadata.resource_version, found.metadata.continue_)

    def watch(
        self, resource: Resource, since: str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AbstractAsyncContextManager[AsyncIterator[Change]]:
        """Streams with bookmarks, taken up where they end."""
        return watching(self._http, collection(resource, namespace), _selected(labels, fields), since)

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        """One object."""
        return await self._call(Request("GET", item(resource, namespace, name)))

    async def create(self, resource: Resource, raw: Raw) -> Raw:
        """Sent again only where it was turned away: an answer that is lost leaves open whether it exists."""
        return await self._call(Request("POST", home(resource, named(raw)[0]), MANAGER, _body(resource, raw)))

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        """Where the answer to a first try was lost, a second one may say `Conflict` with what the first wrote."""
        path = item(resource, *named(raw), subresource)
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
        """All kinds but JSON patches say how it should be, so that they may be sent again."""
        query = {"fieldManager": field_manager} | ({"force": "true"} if force and kind == APPLY else {})
        path = item(resource, namespace, name, subresource)
        body = _body(resource, patch, subresource) if kind == APPLY and isinstance(patch, dict) else _encode(patch)
        return await self._call(Request("PATCH", path, query, body, kind, repeatable=kind != JSON_PATCH))

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """Its dependents go after it, as with kubectl."""
        options = {"propagationPolicy": "Background", **_options(uid, grace_seconds)}
        body = _encode({"apiVersion": "v1", "kind": "DeleteOptions", **options})
        path = item(resource, namespace, name)
        await self._do(Request("DELETE", path, body=body, repeatable=True, done_if=404))

    async def bind(self, namespace: str, pod: str, uid: str, node: str) -> None:
        """Sent again only where it was turned away unread: the caller finds out what became of a lost one."""
        meta = {"namespace": namespace, "name": pod, "uid": uid}
        target = {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": node}
        kind = {"apiVersion": BINDINGS.api_version, "kind": BINDINGS.kind}
        body = _encode({**kind, "metadata": meta, "target": target})
        await self._do(Request("POST", item(PODS, namespace, pod, "binding"), body=body))

    async def evict(self, namespace: str, pod: str, uid: str, *, dry_run: bool = False) -> None:
        """Carries the uid, so that it may be sent again without harm to a pod of the same name."""
        meta = {"namespace": namespace, "name": pod}
        kind = {"apiVersion": EVICTIONS.api_version, "kind": EVICTIONS.kind}
        eviction = {**kind, "metadata": meta, "deleteOptions": _options(uid)}
        path = item(PODS, namespace, pod, "eviction")
        query = {"dryRun": "All"} if dry_run else {}
        await self._do(Request("POST", path, query, body=_encode(eviction), repeatable=bool(uid), done_if=404))

    async def close(self) -> None:
        """Let go of connections."""
        await self._http.close()

    async def _call(self, request: Request) -> Raw:
        raw = decoded(_decode, await self._http.call(request), request.path)
        if not is_object(raw):
            raise nonsense(request.path)
        return raw

    async def _do(self, request: Request) -> None:
        confirmed(await self._http.call(request), request.path)


def _selected(labels: str, fields: str) -> dict[str, str]:
    return {key: text for key, text in (("labelSelector", labels), ("fieldSelector", fields)) if text}


def _body(resource: Resource, raw: Raw, subresource: str = "") -> bytes:
    """An object says what it is, also where its writer left that to the resource; a scale is of a kind of its own."""
    kind = {} if subresource == "scale" else {"apiVersion": resource.api_version, "kind": resource.kind}
    return _encode({**kind, **raw})


def _options(uid: str, grace_seconds: int | None = None) -> Raw:
    preconditions = {"preconditions": {"uid": uid}} if uid else {}
    return preconditions if grace_seconds is None else {**preconditions, "gracePeriodSeconds": grace_seconds}

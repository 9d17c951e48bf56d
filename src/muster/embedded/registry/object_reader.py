"""Reads of the embedded cluster: list with pages, get, and watch, each at a resourceVersion."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable
from itertools import islice

import msgspec

from muster.api.resources import Resource
from muster.embedded.api_errors import bad_request, expired, no_such_method, not_found, not_served, too_large
from muster.embedded.registry import scale
from muster.embedded.store import selectors
from muster.embedded.store.kind_registry import KindRegistry
from muster.embedded.store.kinds import Kind
from muster.embedded.store.object_store import ObjectStore, group_resource
from muster.embedded.store.versioned_table import NamespacedName, StoredObject
from muster.embedded.store.watch import StoreWatch
from muster.kube.cluster import Listing, Raw

UPDATE_SUBRESOURCES = ("status", "scale")  # that get, replace and patch accept


class ObjectReader:
    """Reads objects of every served kind. Callers own what they get; failures are ApiErrors, as in Kubernetes."""

    def __init__(self, history: int) -> None:
        self._object_store = ObjectStore(history)
        self._kind_registry = KindRegistry(self._object_store)

    @property
    def version(self) -> str:
        """The resourceVersion of the latest change."""
        return str(self._object_store.version)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Every served kind: built in, and of CRDs."""
        return self._kind_registry.kinds

    def kind(self, group: str, version: str, plural: str) -> Kind:
        """A served kind; ApiError 404 where it is not served."""
        kind = self._kind_registry.find(group, version, plural)
        if kind is None:
            raise not_served()
        return kind

    def _kind_of(self, resource: Resource, subresource: str = "") -> Kind:
        kind = self.kind(resource.group, resource.version, resource.plural)
        if subresource and (subresource not in kind.subresources or subresource not in UPDATE_SUBRESOURCES):
            raise no_such_method(resource, subresource)
        return kind

    def _stored(self, kind: Kind, namespace: str, name: str) -> StoredObject:
        key = (namespace if kind.resource.namespaced else "", name)
        stored = self._object_store.get(group_resource(kind.resource), key)
        if stored is None:
            raise not_found(kind.resource, name)
        return stored

    def _predicate(self, kind: Kind, labels: str, fields: str) -> Callable[[Raw], bool]:
        match_labels = selectors.label_predicate(labels)
        match_fields = selectors.field_predicate(kind.resource, fields)
        from_storage = self._kind_registry.from_storage(kind)
        if not fields:
            return lambda raw: not labels or match_labels(raw["metadata"].get("labels") or {})
        return lambda raw: match_labels(raw["metadata"].get("labels") or {}) and match_fields(from_storage(raw))

    def _past_version(self, version: str) -> int:
        """A resourceVersion that exists; ApiError 504 for a future one, as nothing here waits for it."""
        number = _parse_version(version or "0")
        if number > self._object_store.version:
            raise too_large(number, self._object_store.version)
        return number

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        after: str = "",
        version: str = "",
        exact: bool = False,
    ) -> Listing:
        """Objects sorted by namespace and name; all pages show one version. ApiError 410: `after` is too old.

        `after` is the continue token. `version`: not older than it, or with `exact` at this very version.
        """
        kind, table = self._kind_of(resource), self._object_store.table(group_resource(resource))
        if after and version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        minimum = self._past_version(version)
        at, start = _decode_token(after) if after else (minimum if exact else self._object_store.version, None)
        if at < table.history.compacted or at > self._object_store.version:
            raise expired("The provided continue parameter is too old to display a consistent list result.")
        matches = self._predicate(kind, labels, fields)
        objects = table.paged_at(at, namespace if resource.namespaced else "")
        first = 0 if start is None else bisect_right(objects, start, key=lambda stored: stored.key)
        selected = (stored for stored in objects[first:] if matches(stored.raw))
        page = list(islice(selected, limit if limit > 0 else None))
        has_more = next(selected, None) is not None
        if not has_more:
            table.forget_pages()
        token = _encode_token(at, page[-1].key) if has_more else ""
        from_storage = self._kind_registry.from_storage(kind)
        items = tuple(from_storage(stored.copy()) for stored in page)
        is_counted = has_more and not labels and not fields
        return Listing(items, str(at), token, len(objects) - first - len(page) if is_counted else 0)

    def get(self, resource: Resource, namespace: str, name: str, subresource: str = "", *, version: str = "") -> Raw:
        """One object, or its `scale`; `status` gets the whole object. `version`: not older than it."""
        kind = self._kind_of(resource, subresource)
        self._past_version(version)
        raw = self._kind_registry.from_storage(kind)(self._stored(kind, namespace, name).copy())
        return scale.scale_of(raw, kind.scale_paths) if subresource == "scale" else raw

    def watch(
        self,
        resource: Resource,
        since: str = "",
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        initial: bool | None = None,
    ) -> StoreWatch:
        """Changes after a version; ApiError 410 where it is too old. Empty or `0`: existing objects first, as ADDED.

        `initial` (sendInitialEvents): existing objects, then a BOOKMARK annotated `k8s.io/initial-events-end: "true"`;
        False: only changes from now on, where no version is given.
        """
        kind, table = self._kind_of(resource), self._object_store.table(group_resource(resource))
        is_unset, version = since in ("", "0"), _parse_version(since or "0")
        sends_initial = is_unset if initial is None else initial
        start = self._object_store.version if sends_initial or is_unset else version
        if start < table.history.compacted or start > self._object_store.version:
            raise expired(f"too old resource version: {start} ({table.history.compacted})")
        matches, scope = self._predicate(kind, labels, fields), namespace if resource.namespaced else ""
        watch = StoreWatch(
            resource,
            table,
            start,
            matches=matches,
            namespace=scope,
            from_storage=self._kind_registry.from_storage(kind),
            latest_version=lambda: self._object_store.version,
        )
        if sends_initial:
            existing = [stored for stored in table.objects(scope) if matches(stored.raw)]
            watch.send_initial(existing, with_bookmark=bool(initial))
        return watch


def _parse_version(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise bad_request(f"invalid resource version: `{text[:40]}`")
    return int(text)


def _encode_token(version: int, key: NamespacedName) -> str:
    return urlsafe_b64encode(msgspec.json.encode([version, *key])).decode()


def _decode_token(text: str) -> tuple[int, NamespacedName | None]:
    try:
        version, namespace, name = msgspec.json.decode(urlsafe_b64decode(text), type=tuple[int, str, str])
    except ValueError:
        raise bad_request("continue key is not valid") from None
    return version, (namespace, name)

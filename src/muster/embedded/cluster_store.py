"""The embedded cluster as a plain synchronous store with Kubernetes' semantics.

Nothing waits and nothing runs beside it: when a call returns, all that follows from it has happened.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec

from muster.api.resources import BINDINGS, BUDGETS, DEFINITIONS, NAMESPACES, PODS, PRIORITY_CLASSES, Resource
from muster.embedded.admission import pods
from muster.embedded.admission.admission_chain import Unknown, dropped
from muster.embedded.admission.metadata import raised
from muster.embedded.admission.request_decoding import read, received
from muster.embedded.admission.validation import SYSTEM_CLASSES
from muster.embedded.api_errors import (
    already_exists,
    bad_request,
    conflict,
    expired,
    forbidden,
    no_such_method,
    not_found,
    not_served,
    other_uid,
    too_large,
)
from muster.embedded.controllers import disruption_budgets
from muster.embedded.controllers.disruption_controller import DisruptionController
from muster.embedded.controllers.garbage_collector import GarbageCollector
from muster.embedded.patch.merge_keys import MergeKeys
from muster.embedded.patch.patches import patched
from muster.embedded.patch.server_side_apply import Manager, applied
from muster.embedded.store import event_versions, scale, selectors
from muster.embedded.store.kind_registry import Registry
from muster.embedded.store.kinds import Kind
from muster.embedded.store.object_store import ObjectStore, home
from muster.embedded.store.versioned_table import Stored
from muster.embedded.store.watch import StoreWatch
from muster.embedded.store.write_strategy import WriteStrategy
from muster.kube.cluster import Listing, PatchType, Raw
from muster.validation.crds import crds

__all__ = ["ClusterStore", "StoreWatch"]

HISTORY = 10_000
PROTECTED = ("default", "kube-system", "kube-public", "kube-node-lease")
_APPLY = "application/apply-patch+yaml"


def _now() -> datetime:
    return datetime.now(UTC)


def _uid() -> str:
    return str(uuid4())


class ClusterStore:
    """Objects of every kind. What comes out is the caller's own; failures are ApiErrors, as Kubernetes answers."""

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = _now,
        new_uid: Callable[[], str] = _uid,
        history: int = HISTORY,
        custom: Iterable[Raw] = (),
    ) -> None:
        """`history`: events kept per kind. `custom`: CRDs to start with; muster's own are always there."""
        self._clock = clock
        self._object_store = ObjectStore(history)
        self._registry = Registry(self._object_store)
        self._garbage_collector = GarbageCollector(self._object_store, self.moment)
        self._disruption_controller = DisruptionController(self._object_store, self.moment)
        self._events = event_versions.Expiry(self._object_store, clock)
        self._writing = WriteStrategy(self._object_store, self.moment, new_uid)
        self._seed([*crds(), *custom])

    def _seed(self, definitions: Iterable[Raw]) -> None:
        for name in PROTECTED:
            self.create(NAMESPACES, {"metadata": {"name": name}})
        for name, value in SYSTEM_CLASSES.items():
            raw = {"metadata": {"name": name}, "value": value, "description": "Kubernetes' own."}
            self.create(PRIORITY_CLASSES, raw)
        for definition in definitions:
            self.create(DEFINITIONS, definition)

    def moment(self, later_seconds: int = 0) -> str:
        """Now, or so much later, as objects write it: whole seconds."""
        at = (self._clock() + timedelta(seconds=later_seconds)).astimezone(UTC)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def now(self) -> datetime:
        """The time here."""
        return self._clock()

    @property
    def version(self) -> str:
        """The resource version of the last change."""
        return str(self._object_store.version)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Every kind that is served now: built in, and by CRDs."""
        return self._registry.kinds

    def kind(self, group: str, version: str, plural: str) -> Kind:
        """One of them; ApiError 404 where it is not served."""
        found = self._registry.find(group, version, plural)
        if found is None:
            raise not_served()
        return found

    def _kind(self, resource: Resource, subresource: str = "") -> Kind:
        kind = self.kind(resource.group, resource.version, resource.plural)
        if subresource and (subresource not in kind.subresources or subresource not in ("status", "scale")):
            raise no_such_method(resource, subresource)
        return kind

    def _found(self, kind: Kind, namespace: str, name: str) -> Stored:
        stored = self._object_store.get(home(kind.resource), (namespace if kind.resource.namespaced else "", name))
        if stored is None:
            raise not_found(kind.resource, name)
        return stored

    # reading

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
        """Objects by namespace and name, at one moment also across pages; 410 `Expired`: `after` is too old.

        `version`: not before it, or with `exact` as it was then.
        """
        kind, table = self._kind(resource), self._object_store.table(home(resource))
        if after and version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        reached = self._reached(version)
        at, start = _token(after) if after else (reached if exact else self._object_store.version, None)
        if at < table.history.lost or at > self._object_store.version:
            raise expired("The provided continue parameter is too old to display a consistent list result.")
        test = self._test(kind, labels, fields)
        present = table.at(at, namespace if resource.namespaced else "")
        matching = [one for one in present if (start is None or one.key > start) and test(one.raw)]
        page = matching[:limit] if limit > 0 else matching
        left = len(matching) - len(page)
        more = _as_token(at, page[-1].key) if left else ""
        out = self._registry.outward(kind)
        items = tuple(out(one.copy()) for one in page)
        return Listing(items, str(at), more, 0 if labels or fields else left)

    def _reached(self, version: str) -> int:
        """A version that has been; 504 where it has not, as nobody here waits for it."""
        wanted = _version(version or "0")
        if wanted > self._object_store.version:
            raise too_large(wanted, self._object_store.version)
        return wanted

    def _test(self, kind: Kind, labels: str, fields: str) -> Callable[[Raw], bool]:
        of_labels, of_fields = selectors.label_predicate(labels), selectors.field_predicate(kind.resource, fields)
        out = self._registry.outward(kind)
        if not fields:
            return lambda raw: not labels or of_labels(raw["metadata"].get("labels") or {})
        return lambda raw: of_labels(raw["metadata"].get("labels") or {}) and of_fields(out(raw))

    def get(self, resource: Resource, namespace: str, name: str, subresource: str = "", *, version: str = "") -> Raw:
        """One object, or its `scale`; with `status` the whole object. `version`: not before it."""
        kind = self._kind(resource, subresource)
        self._reached(version)
        raw = self._registry.outward(kind)(self._found(kind, namespace, name).copy())
        return scale.scale_of(raw) if subresource == "scale" else raw

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
        """Changes after a version; 410 `Expired` where it is too old. Empty or `0`: what is there first, as ADDED.

        `initial` (sendInitialEvents): what is there, then a BOOKMARK annotated `k8s.io/initial-events-end: "true"`;
        False: from now on, where no version is given.
        """
        kind, table = self._kind(resource), self._object_store.table(home(resource))
        anywhere, given = since in ("", "0"), _version(since or "0")
        whole = anywhere if initial is None else initial
        start = self._object_store.version if whole or anywhere else given
        if start < table.history.lost or start > self._object_store.version:
            raise expired(f"too old resource version: {start} ({table.history.lost})")
        test, inside = self._test(kind, labels, fields), namespace if resource.namespaced else ""
        watch = StoreWatch(
            resource,
            table,
            start,
            test=test,
            namespace=inside,
            out=self._registry.outward(kind),
            latest=lambda: self._object_store.version,
        )
        if whole:
            watch.begin([one for one in table.objects(inside) if test(one.raw)], end=bool(initial))
        return watch

    # writing

    def create(
        self,
        resource: Resource,
        raw: Raw,
        *,
        namespace: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        unknown: Unknown = dropped,
    ) -> Raw:
        """A new object. `namespace`: of the request, where the object itself names none; 400 where they differ.

        `unknown`: is told of fields that nobody knows, before they are dropped.
        """
        _ = field_manager  # ownership begins with the first server-side apply
        kind = self._kind(resource)
        given = self._registry.inward(kind)(read(raw, kind))
        new = self._writing.created(kind, given, namespace, unknown)
        return self._stored(kind, new, dry_run)

    def _stored(self, kind: Kind, new: Raw, dry_run: bool) -> Raw:
        """Put where the name is free; the name of `generateName` was chosen so."""
        key = (new["metadata"].get("namespace", ""), new["metadata"]["name"])
        if self._object_store.get(home(kind.resource), key) is not None:
            raise already_exists(kind.resource, key[1])
        out = self._registry.outward(kind)
        if dry_run:
            return out(received(new))
        self._object_store.put(home(kind.resource), new)
        return out(self._found(kind, *key).copy())

    def replace(
        self,
        resource: Resource,
        raw: Raw,
        subresource: str = "",
        *,
        namespace: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        unknown: Unknown = dropped,
    ) -> Raw:
        """The whole object, its `status` or its `scale`; 409 where its resource version or uid is another."""
        kind = self._kind(resource, subresource)
        if subresource == "scale":
            return self._scaled(kind, received(raw), namespace, dry_run, field_manager)
        given = self._registry.inward(kind)(read(raw, kind))
        space = self._writing.space(kind, given, namespace)
        old = self._found(kind, space, given["metadata"].get("name") or "")
        self._writing.same(kind, old, given["metadata"], needed=True)
        who = Manager(field_manager or "unknown", "Update", subresource, frozenset(), self.moment())
        return self._update(kind, old, given, subresource, who, dry_run, unknown)

    def _scaled(self, kind: Kind, given: Any, namespace: str, dry_run: bool, field_manager: str) -> Raw:
        metadata = scale.metadata_of(given)
        old = self._found(kind, namespace or metadata.get("namespace") or "", metadata.get("name") or "")
        self._writing.same(kind, old, metadata, needed=False)
        who = Manager(field_manager or "unknown", "Update", "scale", frozenset(), self.moment())
        return scale.scale_of(self._update(kind, old, scale.scaled(old.copy(), given), "", who, dry_run, dropped))

    def _update(
        self, kind: Kind, old: Stored, given: Raw, subresource: str, who: Manager, dry_run: bool, unknown: Unknown
    ) -> Raw:
        new = self._writing.updated(kind, old, given, subresource, who, unknown)
        out = self._registry.outward(kind)
        if dry_run:
            return out(received(new))
        if new == old.raw:
            return out(old.copy())
        stored = self._object_store.put(home(kind.resource), new)
        self._garbage_collector.finish(home(kind.resource), stored.key)
        self._garbage_collector.settle()
        return out((self._object_store.get(home(kind.resource), stored.key) or stored).copy())

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        kind: PatchType = "application/merge-patch+json",
        subresource: str = "",
        *,
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
        unknown: Unknown = dropped,
    ) -> Raw:
        """Part of an object, its status or its scale. `patch` is the decoded document.

        Server-side apply creates what is missing; 409 with the owners in `details.causes` unless forced.
        """
        of = self._kind(resource, subresource)
        given = received(patch)
        if kind == _APPLY:
            return self._apply(of, namespace, name, given, subresource, field_manager, force, dry_run, unknown)
        old = self._found(of, namespace, name)
        out = self._registry.outward(of)
        seen = out(old.copy())
        shown = scale.scale_of(seen) if subresource == "scale" else seen
        wanted = patched(shown, given, kind, custom=of.custom)
        if subresource == "scale":
            return self._scaled(of, wanted, namespace, dry_run, field_manager)
        new = self._registry.inward(of)(read(wanted, of))
        self._writing.same(of, old, new["metadata"], needed=False)
        self._writing.named(of, old, new)
        who = Manager(field_manager or "unknown", "Update", subresource, frozenset(), self.moment())
        return self._update(of, old, new, subresource, who, dry_run, unknown)

    def _apply(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        config: Any,
        subresource: str,
        field_manager: str,
        force: bool,
        dry_run: bool,
        unknown: Unknown,
    ) -> Raw:
        """Server-side apply."""
        if not field_manager:
            raise bad_request("fieldManager is required for apply patch")
        given = self._registry.inward(kind)(read(config, kind))
        given = self._writing.applicable(kind, given, namespace, name, subresource)
        who = Manager(field_manager, "Apply", subresource, frozenset(), self.moment())
        merge_keys, key = MergeKeys.of(kind.schema), (namespace if kind.resource.namespaced else "", name)
        old = self._object_store.get(home(kind.resource), key)
        if old is None and subresource:
            raise not_found(kind.resource, name)
        if old is None:
            fresh = applied(given, given, merge_keys, who, kind.resource, force=force)
            return self._stored(kind, self._writing.created(kind, fresh, namespace, unknown), dry_run)
        self._writing.same(kind, old, given["metadata"], needed=False)
        merged = applied(old.raw, given, merge_keys, who, kind.resource, force=force)
        return self._update(kind, old, merged, subresource, who, dry_run, unknown)

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: str = "",
        dry_run: bool = False,
    ) -> Raw:
        """A `Status` where the object is gone, or the object where it is on its way.

        `propagation`: Background (also empty), Foreground or Orphan.
        """
        kind = self._kind(resource)
        old = self._found(kind, namespace, name)
        self._writing.same(kind, old, {"uid": uid, "resourceVersion": resource_version}, needed=False)
        if propagation not in ("", "Background", "Foreground", "Orphan"):
            raise bad_request(f"invalid propagationPolicy: {propagation}")
        if kind.resource == NAMESPACES and name in PROTECTED:
            raise forbidden(resource, name, "this namespace may not be deleted")
        if kind.resource == PRIORITY_CLASSES and name in SYSTEM_CLASSES:
            raise forbidden(resource, name, "this is a system priority class and cannot be deleted")
        out = self._registry.outward(kind)
        left = old if dry_run else self._garbage_collector.delete(home(resource), old.key, grace_seconds, propagation)
        return _success(kind, old) if left is None else out(left.copy())

    def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        grace_seconds: int | None = None,
        propagation: str = "",
        dry_run: bool = False,
    ) -> Listing:
        """All that the selectors find; what was found is returned."""
        found = self.list(resource, namespace, labels=labels, fields=fields)
        for raw in () if dry_run else found.items:
            space, name = raw["metadata"].get("namespace", ""), raw["metadata"]["name"]
            if self._object_store.get(home(resource), (space, name)) is not None:
                self.delete(resource, space, name, grace_seconds=grace_seconds, propagation=propagation)
        return found

    # pods

    def bind(
        self, namespace: str, pod: str, uid: str, node: str, *, dry_run: bool = False, metadata: Raw | None = None
    ) -> None:
        """`pods/binding`; `uid` may be empty; labels and annotations of the Binding's `metadata` go to the pod."""
        old = self._found(self._kind(PODS), namespace, pod)
        if uid and uid != old.uid:
            raise other_uid(PODS, pod, uid, old.uid)
        why = pods.refusal(old.raw)
        if why:
            raise conflict(BINDINGS, pod, why)
        if not node:
            raise bad_request("a Binding names a node: target.name is empty")
        if not dry_run:
            new = pods.bound(old.raw, node, self.moment(), received(metadata or {}))
            self._object_store.put(home(PODS), raised(old.raw, new, self._kind(PODS)))

    def evict(
        self, namespace: str, pod: str, uid: str = "", *, grace_seconds: int | None = None, dry_run: bool = False
    ) -> None:
        """`pods/eviction`: 429 where a PodDisruptionBudget says no."""
        old = self._found(self._kind(PODS), namespace, pod)
        if uid and uid != old.uid:
            raise other_uid(PODS, pod, uid, old.uid)
        here = self._object_store.table(home(BUDGETS)).spaces.get(namespace, {})
        refusal = disruption_budgets.eviction_error(old.raw, [one.raw for one in here.values()])
        if refusal:
            raise refusal
        if dry_run:
            return
        if not old.raw["metadata"].get("deletionTimestamp"):
            self._object_store.put(home(PODS), pods.evicted(old.raw, self.moment()))
        self._garbage_collector.delete(home(PODS), old.key, grace_seconds)


def _success(kind: Kind, old: Stored) -> Raw:
    group = {"group": kind.resource.group} if kind.resource.group else {}
    details = {"name": old.key[1], **group, "kind": kind.resource.plural, "uid": old.uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _version(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise bad_request(f"invalid resource version: `{text[:40]}`")
    return int(text)


def _as_token(version: int, key: tuple[str, str]) -> str:
    return urlsafe_b64encode(msgspec.json.encode([version, *key])).decode()


def _token(text: str) -> tuple[int, tuple[str, str] | None]:
    try:
        version, namespace, name = msgspec.json.decode(urlsafe_b64decode(text), type=tuple[int, str, str])
    except ValueError:
        raise bad_request("continue key is not valid") from None
    return version, (namespace, name)

"""The embedded cluster as a synchronous store with Kubernetes' semantics.

Nothing waits and nothing runs in the background: when a call returns, all its consequences have happened.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from muster.api.resources import BINDINGS, BUDGETS, DEFINITIONS, NAMESPACES, PODS, PRIORITY_CLASSES, Resource
from muster.embedded.admission import pods
from muster.embedded.admission.admission_chain import UnknownFieldHandler, drop_unknown_fields
from muster.embedded.admission.metadata import with_generation
from muster.embedded.admission.request_decoding import checked_copy, decode_object
from muster.embedded.admission.validation import SYSTEM_PRIORITY_CLASSES
from muster.embedded.api_errors import already_exists, bad_request, conflict, forbidden, not_found, other_uid
from muster.embedded.controllers import disruption_budgets
from muster.embedded.controllers.disruption_controller import DisruptionController
from muster.embedded.controllers.garbage_collector import GarbageCollector
from muster.embedded.patch.merge_keys import MergeKeys
from muster.embedded.patch.patches import apply_patch
from muster.embedded.patch.server_side_apply import FieldManager, apply_configuration
from muster.embedded.registry import scale
from muster.embedded.registry.object_reader import ObjectReader
from muster.embedded.registry.write_strategy import WriteStrategy
from muster.embedded.store.event_versions import EventExpiry
from muster.embedded.store.kinds import Kind
from muster.embedded.store.object_store import group_resource
from muster.embedded.store.versioned_table import StoredObject
from muster.kube.cluster import Listing, PatchType, Raw
from muster.validation.crds import crds

HISTORY = 10_000
SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_APPLY_PATCH = "application/apply-patch+yaml"


def _now() -> datetime:
    return datetime.now(UTC)


def _uid() -> str:
    return str(uuid4())


class ClusterStore(ObjectReader):
    """Reads and writes objects of every served kind, with admission, defaulting, finalizers and garbage collection."""

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = _now,
        new_uid: Callable[[], str] = _uid,
        history: int = HISTORY,
        custom: Iterable[Raw] = (),
    ) -> None:
        """`history`: changes kept per kind. `custom`: CRDs to install beside muster's own."""
        super().__init__(history)
        self._clock = clock
        self._garbage_collector = GarbageCollector(self._object_store, self.timestamp)
        self._disruption_controller = DisruptionController(self._object_store, self.timestamp)
        self._event_expiry = EventExpiry(self._object_store, clock)
        self._strategy = WriteStrategy(self._object_store, self.timestamp, new_uid)
        self._create_system_objects([*crds(), *custom])

    def _create_system_objects(self, definitions: Iterable[Raw]) -> None:
        for name in SYSTEM_NAMESPACES:
            self.create(NAMESPACES, {"metadata": {"name": name}})
        for name, value in SYSTEM_PRIORITY_CLASSES.items():
            raw = {"metadata": {"name": name}, "value": value, "description": "Kubernetes' own."}
            self.create(PRIORITY_CLASSES, raw)
        for definition in definitions:
            self.create(DEFINITIONS, definition)

    def timestamp(self, later_seconds: int = 0) -> str:
        """Now, or so many seconds later, as objects hold it: RFC 3339 in whole seconds."""
        at = (self._clock() + timedelta(seconds=later_seconds)).astimezone(UTC)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def now(self) -> datetime:
        """The time of the store's clock."""
        return self._clock()

    # create and update

    def create(
        self,
        resource: Resource,
        raw: Raw,
        *,
        namespace: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        on_unknown_fields: UnknownFieldHandler = drop_unknown_fields,
    ) -> Raw:
        """Create an object. `namespace`: of the request, where the object has none; ApiError 400 where they differ.

        `on_unknown_fields` gets the paths of unknown fields before they are pruned.
        """
        _ = field_manager  # managed fields begin with the first server-side apply
        kind = self._kind_of(resource)
        decoded = self._kind_registry.to_storage(kind)(decode_object(raw, kind))
        new = self._strategy.prepare_create(kind, decoded, namespace, on_unknown_fields)
        return self._insert(kind, new, dry_run)

    def _insert(self, kind: Kind, new: Raw, dry_run: bool) -> Raw:
        key = (new["metadata"].get("namespace", ""), new["metadata"]["name"])
        if self._object_store.get(group_resource(kind.resource), key) is not None:
            raise already_exists(kind.resource, key[1])
        from_storage = self._kind_registry.from_storage(kind)
        if dry_run:
            return from_storage(checked_copy(new))
        stored = self._object_store.put(group_resource(kind.resource), new).copy()
        self._garbage_collector.collect_late(group_resource(kind.resource), key)
        return from_storage(stored)

    def replace(
        self,
        resource: Resource,
        raw: Raw,
        subresource: str = "",
        *,
        namespace: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        on_unknown_fields: UnknownFieldHandler = drop_unknown_fields,
    ) -> Raw:
        """Replace an object, its `status` or its `scale`; ApiError 409 where resourceVersion or uid differ."""
        kind = self._kind_of(resource, subresource)
        if subresource == "scale":
            return self._replace_scale(kind, checked_copy(raw), namespace, dry_run, field_manager)
        decoded = self._kind_registry.to_storage(kind)(decode_object(raw, kind))
        own_namespace = self._strategy.namespace_of(kind, decoded, namespace)
        old = self._stored(kind, own_namespace, decoded["metadata"].get("name") or "")
        self._strategy.check_preconditions(kind, old, decoded["metadata"], requires_version=True)
        manager = self._updater(field_manager, subresource)
        return self._update(kind, old, decoded, subresource, manager, dry_run, on_unknown_fields)

    def _updater(self, name: str, subresource: str) -> FieldManager:
        return FieldManager(name or "unknown", "Update", subresource, frozenset(), self.timestamp())

    def _replace_scale(self, kind: Kind, new_scale: Any, namespace: str, dry_run: bool, field_manager: str) -> Raw:
        metadata = scale.scale_metadata(new_scale)
        old = self._stored(kind, namespace or metadata.get("namespace") or "", metadata.get("name") or "")
        self._strategy.check_preconditions(kind, old, metadata)
        new = scale.with_scale(old.copy(), new_scale, kind.scale_paths)
        manager = self._updater(field_manager, "scale")
        updated = self._update(kind, old, new, "", manager, dry_run, drop_unknown_fields)
        return scale.scale_of(updated, kind.scale_paths)

    def _update(
        self,
        kind: Kind,
        old: StoredObject,
        raw: Raw,
        subresource: str,
        manager: FieldManager,
        dry_run: bool,
        on_unknown_fields: UnknownFieldHandler,
    ) -> Raw:
        new = self._strategy.prepare_update(kind, old, raw, subresource, manager, on_unknown_fields)
        from_storage = self._kind_registry.from_storage(kind)
        if dry_run:
            return from_storage(checked_copy(new))
        if new == old.raw:
            return from_storage(old.copy())
        stored = self._object_store.put(group_resource(kind.resource), new)
        self._garbage_collector.finish_deletion(group_resource(kind.resource), stored.key)
        self._garbage_collector.process_removals()
        latest = self._object_store.get(group_resource(kind.resource), stored.key)
        return from_storage((latest or stored).copy())

    # patch and apply

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        patch_type: PatchType = "application/merge-patch+json",
        subresource: str = "",
        *,
        field_manager: str = "",
        force: bool = False,
        dry_run: bool = False,
        on_unknown_fields: UnknownFieldHandler = drop_unknown_fields,
    ) -> Raw:
        """Patch an object, its status or its scale. `patch` is the decoded document.

        Server-side apply creates a missing object; conflicts are ApiError 409 with `details.causes`, unless forced.
        """
        kind = self._kind_of(resource, subresource)
        document = checked_copy(patch)
        if patch_type == _APPLY_PATCH:
            return self._apply(
                kind, namespace, name, document, subresource, field_manager, force, dry_run, on_unknown_fields
            )
        old = self._stored(kind, namespace, name)
        served = self._kind_registry.from_storage(kind)(old.copy())
        base = scale.scale_of(served, kind.scale_paths) if subresource == "scale" else served
        patched = apply_patch(base, document, patch_type, is_custom=kind.is_custom)
        if subresource == "scale":
            return self._replace_scale(kind, patched, namespace, dry_run, field_manager)
        new = self._kind_registry.to_storage(kind)(decode_object(patched, kind))
        self._strategy.check_patched(kind, old, new["metadata"])
        self._strategy.check_not_renamed(kind, old, new)
        manager = self._updater(field_manager, subresource)
        return self._update(kind, old, new, subresource, manager, dry_run, on_unknown_fields)

    def _apply(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        document: Any,
        subresource: str,
        field_manager: str,
        force: bool,
        dry_run: bool,
        on_unknown_fields: UnknownFieldHandler,
    ) -> Raw:
        """Server-side apply."""
        if not field_manager:
            raise bad_request("fieldManager is required for apply patch")
        decoded = self._kind_registry.to_storage(kind)(decode_object(document, kind))
        config = self._strategy.prepare_apply(kind, decoded, namespace, name, subresource)
        manager = FieldManager(field_manager, "Apply", subresource, frozenset(), self.timestamp())
        merge_keys, key = MergeKeys.of(kind.schema), (namespace if kind.resource.namespaced else "", name)
        old = self._object_store.get(group_resource(kind.resource), key)
        if old is None and subresource:
            raise not_found(kind.resource, name)
        if old is None:
            if uid := config["metadata"].get("uid"):
                raise conflict(kind.resource, name, f"uid mismatch: no object has the uid {uid}")
            raw = apply_configuration(config, config, merge_keys, manager, force=force)
            return self._insert(kind, self._strategy.prepare_create(kind, raw, namespace, on_unknown_fields), dry_run)
        self._strategy.check_patched(kind, old, config["metadata"])
        merged = apply_configuration(old.raw, config, merge_keys, manager, force=force)
        return self._update(kind, old, merged, subresource, manager, dry_run, on_unknown_fields)

    # delete

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
        """Delete an object; returns a `Status` where it is gone, or the object where it is terminating.

        `propagation`: Background (also empty), Foreground or Orphan.
        """
        kind = self._kind_of(resource)
        old = self._stored(kind, namespace, name)
        self._strategy.check_preconditions(kind, old, {"uid": uid, "resourceVersion": resource_version})
        if propagation not in ("", "Background", "Foreground", "Orphan"):
            raise bad_request(f"invalid propagationPolicy: {propagation}")
        if kind.resource == NAMESPACES and name in SYSTEM_NAMESPACES:
            raise forbidden(resource, name, "this namespace may not be deleted")
        if kind.resource == PRIORITY_CLASSES and name in SYSTEM_PRIORITY_CLASSES:
            raise forbidden(resource, name, "this is a system priority class and cannot be deleted")
        terminating: StoredObject | None = old
        if not dry_run:
            table = group_resource(resource)
            terminating = self._garbage_collector.delete(table, old.key, grace_seconds, propagation)
        if terminating is None:
            return _deletion_status(kind, old)
        return self._kind_registry.from_storage(kind)(terminating.copy())

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
        """Delete all objects that the selectors match; returns them as they were."""
        listing = self.list(resource, namespace, labels=labels, fields=fields)
        for raw in () if dry_run else listing.items:
            key = (raw["metadata"].get("namespace", ""), raw["metadata"]["name"])
            if self._object_store.get(group_resource(resource), key) is not None:
                self.delete(resource, *key, grace_seconds=grace_seconds, propagation=propagation)
        return listing

    # subresources of pods

    def bind(
        self, namespace: str, pod: str, uid: str, node: str, *, dry_run: bool = False, metadata: Raw | None = None
    ) -> None:
        """`pods/binding`; `uid` may be empty; labels and annotations of the Binding's `metadata` go to the pod."""
        old = self._pod(namespace, pod, uid)
        if reason := pods.binding_conflict(old.raw):
            raise conflict(BINDINGS, pod, reason)
        if not node:
            raise bad_request("a Binding names a node: target.name is empty")
        if not dry_run:
            new = pods.bound_pod(old.raw, node, self.timestamp(), checked_copy(metadata or {}))
            self._object_store.put(group_resource(PODS), with_generation(old.raw, new, self._kind_of(PODS)))

    def evict(
        self, namespace: str, pod: str, uid: str = "", *, grace_seconds: int | None = None, dry_run: bool = False
    ) -> None:
        """`pods/eviction`; ApiError 429 where a PodDisruptionBudget allows no disruption."""
        old = self._pod(namespace, pod, uid)
        budgets = self._object_store.table(group_resource(BUDGETS)).by_namespace.get(namespace, {})
        error = disruption_budgets.eviction_error(old.raw, [budget.raw for budget in budgets.values()])
        if error:
            raise error
        if dry_run:
            return
        if not old.raw["metadata"].get("deletionTimestamp"):
            self._object_store.put(group_resource(PODS), pods.with_disruption_target(old.raw, self.timestamp()))
        self._garbage_collector.delete(group_resource(PODS), old.key, grace_seconds)

    def _pod(self, namespace: str, name: str, uid: str) -> StoredObject:
        """A pod; ApiError 409 where it has another uid. An empty uid is not compared."""
        stored = self._stored(self._kind_of(PODS), namespace, name)
        if uid and uid != stored.uid:
            raise other_uid(PODS, name, uid, stored.uid)
        return stored


def _deletion_status(kind: Kind, old: StoredObject) -> Raw:
    group = {"group": kind.resource.group} if kind.resource.group else {}
    details = {"name": old.key[1], **group, "kind": kind.resource.plural, "uid": old.uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

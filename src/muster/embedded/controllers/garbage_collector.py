"""Deletion: grace periods, finalizers, owner references, and namespaces and CRDs with all their objects.

Kubernetes leaves the consequences to controllers that act later; here they have happened when a call returns.
"""

from collections import deque
from collections.abc import Callable

from muster.api.resources import DEFINITIONS, NAMESPACES, PODS
from muster.embedded.admission.metadata import (
    CRD_CLEANUP_FINALIZER,
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    mark_terminating,
    with_finalizers,
)
from muster.embedded.admission.pods import grace_period
from muster.embedded.store.object_store import (
    GroupResource,
    ObjectStore,
    StorageKey,
    group_resource,
    owner_references,
)
from muster.embedded.store.versioned_table import NamespacedName, StoredObject
from muster.kube.cluster import Raw

_PODS, _NAMESPACES, _DEFINITIONS = group_resource(PODS), group_resource(NAMESPACES), group_resource(DEFINITIONS)
MOST_GONE = 10_000  # removed owners that are remembered
_FINALIZER_BY_POLICY = {"Foreground": FOREGROUND_FINALIZER, "Orphan": ORPHAN_FINALIZER}


class GarbageCollector:
    """Deletes objects and, by owner references, their dependents. `timestamp(seconds)`: now plus seconds, as text."""

    def __init__(self, object_store: ObjectStore, timestamp: Callable[[int], str]) -> None:
        self._object_store, self._timestamp = object_store, timestamp
        self._removed: deque[tuple[GroupResource, Raw]] = deque()  # whose consequences are still to be processed
        self._gone: dict[str, None] = {}  # uids of removed objects, oldest first

    def delete(
        self,
        resource: GroupResource,
        key: NamespacedName,
        grace_seconds: int | None = None,
        propagation: str = "",
    ) -> StoredObject | None:
        """Delete an object; returns its terminating state, or None where it is gone."""
        self._delete(resource, key, grace_seconds, propagation)
        self.process_removals()
        return self._object_store.get(resource, key)

    def collect_late(self, resource: GroupResource, key: NamespacedName) -> None:
        """Delete an object that was created after all of its owners were removed; owners never seen here are kept."""
        stored = self._object_store.get(resource, key)
        owners = [owner.get("uid", "") for owner in owner_references(stored.raw)] if stored is not None else []
        if owners and all(uid in self._gone for uid in owners):
            self.delete(resource, key, propagation="Background")

    def process_removals(self) -> None:
        """Process the dependents, owners, namespace and CRD of every removed object."""
        while self._removed:
            resource, raw = self._removed.popleft()
            for dependent in self._object_store.dependents(raw["metadata"].get("uid", "")):
                self._collect_dependent(dependent)
            for owner in owner_references(raw):
                self._finish_foreground_deletion(owner.get("uid", ""))
            self._remove_empty_containers(resource, raw["metadata"].get("namespace", ""))

    def _delete(
        self, resource: GroupResource, key: NamespacedName, grace_seconds: int | None, propagation: str
    ) -> None:
        stored = self._object_store.get(resource, key)
        if stored is None:
            return
        seconds = grace_period(stored.raw, grace_seconds) if resource == _PODS else 0
        finalizers = _deletion_finalizers(resource, stored.raw, propagation)
        if seconds == 0 and not finalizers and resource != _NAMESPACES:
            self._remove(resource, key)
            return
        new = self._terminating(stored.raw, seconds, finalizers)
        if resource == _NAMESPACES:
            new = {**new, "status": {**new.get("status", {}), "phase": "Terminating"}}
        if new != stored.raw:  # else the deletion is under way already; owner references may form a cycle
            self._object_store.put(resource, new)
            self._process_terminating(resource, key)

    def _terminating(self, raw: Raw, seconds: int, finalizers: list[str]) -> Raw:
        """The object with its deletion timestamp; a second deletion can only shorten the grace period."""
        metadata = raw["metadata"]
        earlier = metadata.get("deletionTimestamp")
        is_shorter = seconds < metadata.get("deletionGracePeriodSeconds", seconds + 1)
        if earlier and not is_shorter:
            return mark_terminating(raw, earlier, metadata.get("deletionGracePeriodSeconds", 0), finalizers)
        return mark_terminating(raw, self._timestamp(seconds), seconds, finalizers)

    def _process_terminating(self, resource: GroupResource, key: NamespacedName) -> None:
        """Delete or orphan the objects that a terminating object waits for."""
        stored = self._object_store.get(resource, key)
        assert stored is not None
        finalizers = stored.raw["metadata"].get("finalizers") or ()
        if resource == _NAMESPACES:
            for content in list(self._object_store.keys_in_namespace(key[1])):
                self._delete(*content, None, "Background")
            self._remove_empty_containers(resource, key[1])
        elif CRD_CLEANUP_FINALIZER in finalizers:
            self._delete_custom_resources(stored.raw["spec"])
        elif FOREGROUND_FINALIZER in finalizers:
            for dependent in self._object_store.dependents(stored.uid):
                self._delete(*dependent, None, "Foreground")
            self._finish_foreground_deletion(stored.uid)
        elif ORPHAN_FINALIZER in finalizers:
            for dependent in self._object_store.dependents(stored.uid):
                self._remove_owners(dependent, {stored.uid})
            self._remove_finalizer(resource, key, ORPHAN_FINALIZER)

    def _delete_custom_resources(self, crd_spec: Raw) -> None:
        custom_resource = (crd_spec["group"], crd_spec["names"]["plural"])
        for stored in list(self._object_store.table(custom_resource).objects()):
            self._delete(custom_resource, stored.key, None, "Background")
        self._remove_empty_containers(custom_resource, "")

    def _remove(self, resource: GroupResource, key: NamespacedName) -> None:
        last = self._object_store.remove(resource, key)
        self._removed.append((resource, last.raw))
        self._gone[last.uid] = None
        if len(self._gone) > MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def _collect_dependent(self, dependent: StorageKey) -> None:
        """Delete a dependent whose owners are all gone; otherwise remove the references to those that are."""
        stored = self._object_store.get(*dependent)
        if stored is None:
            return
        owner_uids = {owner.get("uid", "") for owner in owner_references(stored.raw)}
        gone = {uid for uid in owner_uids if self._object_store.find_by_uid(uid) is None}
        if owner_uids == gone:
            if not stored.raw["metadata"].get("deletionTimestamp"):
                self._delete(*dependent, None, "Background")
        else:
            self._remove_owners(dependent, gone)

    def _remove_owners(self, dependent: StorageKey, owner_uids: set[str]) -> None:
        stored = self._object_store.get(*dependent)
        if stored is None:
            return
        remaining = [owner for owner in owner_references(stored.raw) if owner.get("uid", "") not in owner_uids]
        metadata = {name: value for name, value in stored.raw["metadata"].items() if name != "ownerReferences"}
        new = {**stored.raw, "metadata": {**metadata, **({"ownerReferences": remaining} if remaining else {})}}
        self._object_store.put(dependent[0], new)

    def _finish_foreground_deletion(self, owner_uid: str) -> None:
        """Release an owner in foreground deletion once no dependent blocks it."""
        key = self._object_store.find_by_uid(owner_uid)
        owner = self._object_store.get(*key) if key else None
        if key is None or owner is None or FOREGROUND_FINALIZER not in (owner.raw["metadata"].get("finalizers") or ()):
            return
        if not self._object_store.has_dependent(owner_uid, lambda dependent: self._blocks_owner(dependent, owner_uid)):
            self._remove_finalizer(*key, FOREGROUND_FINALIZER)

    def _blocks_owner(self, dependent: StorageKey, owner_uid: str) -> bool:
        stored = self._object_store.get(*dependent)
        return stored is not None and any(
            owner.get("uid") == owner_uid and owner.get("blockOwnerDeletion") for owner in owner_references(stored.raw)
        )

    def _remove_empty_containers(self, resource: GroupResource, namespace: str) -> None:
        """Remove a terminating namespace, and release a terminating CRD, whose last object is gone."""
        container = self._object_store.get(_NAMESPACES, ("", namespace)) if namespace else None
        if container and container.raw["metadata"].get("deletionTimestamp"):
            finalizers = container.raw["metadata"].get("finalizers")
            if not finalizers and self._object_store.is_namespace_empty(namespace):
                self._remove(_NAMESPACES, ("", namespace))
        group, plural = resource
        definition = self._object_store.get(_DEFINITIONS, ("", f"{plural}.{group}")) if group else None
        if definition is None or self._object_store.table(resource).by_namespace:
            return
        metadata = definition.raw["metadata"]
        if metadata.get("deletionTimestamp") and CRD_CLEANUP_FINALIZER in (metadata.get("finalizers") or ()):
            self._remove_finalizer(_DEFINITIONS, definition.key, CRD_CLEANUP_FINALIZER)

    def _remove_finalizer(self, resource: GroupResource, key: NamespacedName, finalizer: str) -> None:
        stored = self._object_store.get(resource, key)
        assert stored is not None
        remaining = [name for name in stored.raw["metadata"].get("finalizers") or () if name != finalizer]
        metadata = with_finalizers(stored.raw["metadata"], remaining)
        self._object_store.put(resource, {**stored.raw, "metadata": metadata})
        self.finish_deletion(resource, key)

    def finish_deletion(self, resource: GroupResource, key: NamespacedName) -> None:
        """Remove a terminating object that neither a finalizer nor a grace period holds."""
        stored = self._object_store.get(resource, key)
        if stored is None or not stored.raw["metadata"].get("deletionTimestamp"):
            return
        metadata = stored.raw["metadata"]
        if resource == _NAMESPACES:
            self._remove_empty_containers(resource, key[1])
        elif not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds"):
            self._remove(resource, key)


def _deletion_finalizers(resource: GroupResource, raw: Raw, propagation: str) -> list[str]:
    """The finalizers of an object that is deleted with this propagation policy."""
    finalizers = list(raw["metadata"].get("finalizers") or ())
    if resource == _DEFINITIONS and not raw["metadata"].get("deletionTimestamp"):
        finalizers = [*(name for name in finalizers if name != CRD_CLEANUP_FINALIZER), CRD_CLEANUP_FINALIZER]
    if not propagation:
        return finalizers
    others = [name for name in finalizers if name not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
    return [*others, _FINALIZER_BY_POLICY[propagation]] if propagation in _FINALIZER_BY_POLICY else others

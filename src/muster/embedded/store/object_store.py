"""All tables of the embedded cluster under one resourceVersion counter, with indexes by uid and by owner."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from muster.api.resources import EVENTS, NEW_EVENTS, Resource
from muster.embedded.store.versioned_table import NamespacedName, StoredObject, Table, encode, namespaced_name
from muster.kube.cluster import Raw

GroupResource = tuple[str, str]  # group and plural: the versions of a kind share a table
StorageKey = tuple[GroupResource, NamespacedName]
# called after every change with the old and the new state; None: it did not, or does no longer, exist
ChangeListener = Callable[[GroupResource, StoredObject | None, StoredObject | None], None]


def group_resource(resource: Resource) -> GroupResource:
    """The table that holds a kind; events of both groups share one."""
    return (EVENTS.group, EVENTS.plural) if resource == NEW_EVENTS else (resource.group, resource.plural)


def owner_references(raw: Raw) -> Iterator[Mapping[str, Any]]:
    """The owner references of an object."""
    yield from raw["metadata"].get("ownerReferences") or ()


class ObjectStore:
    """Tables, the resourceVersion, and indexes by uid and by owner."""

    def __init__(self, history: int) -> None:
        self.version = 0
        self.listeners: list[ChangeListener] = []
        self._history = history
        self._tables: dict[GroupResource, Table] = {}
        self._by_uid: dict[str, StorageKey] = {}
        self._dependents: dict[str, dict[StorageKey, None]] = {}

    def table(self, resource: GroupResource) -> Table:
        """The table of a kind; an empty one where nothing was stored yet."""
        if resource not in self._tables:
            self._tables[resource] = Table(self._history)
        return self._tables[resource]

    def get(self, resource: GroupResource, key: NamespacedName) -> StoredObject | None:
        """One object; None: it does not exist."""
        return self.table(resource).get(key)

    def find_by_uid(self, uid: str) -> StorageKey | None:
        """The key of the object with this uid; None: it does not exist."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> list[StorageKey]:
        """Objects that name this one as an owner."""
        return list(self._dependents.get(uid, ()))

    def has_dependent(self, uid: str, test: Callable[[StorageKey], bool]) -> bool:
        """Whether an object that names this one as an owner passes the test, which changes nothing."""
        return any(map(test, self._dependents.get(uid, ())))

    def keys_in_namespace(self, namespace: str) -> Iterator[StorageKey]:
        """Every object in a namespace."""
        for resource, table in tuple(self._tables.items()):
            for stored in list(table.objects(namespace)):
                yield resource, stored.key

    def is_namespace_empty(self, namespace: str) -> bool:
        """Whether a namespace holds no object."""
        return not any(namespace in table.by_namespace for table in self._tables.values())

    def put(self, resource: GroupResource, raw: Raw) -> StoredObject:
        """Store an object, or its new state, under the next version."""
        table, key = self.table(resource), namespaced_name(raw)
        old, new = table.get(key), self._next_version_of(raw)
        self._index(resource, old, new)
        table.put(new)
        self._notify(resource, old, new)
        return new

    def remove(self, resource: GroupResource, key: NamespacedName) -> StoredObject:
        """Remove an object; returns its last state, at the version of the deletion."""
        table = self.table(resource)
        old = table.get(key)
        assert old is not None, key
        last = self._next_version_of(old.raw)
        self._index(resource, old, None)
        table.remove(last)
        self._notify(resource, old, None)
        return last

    def _next_version_of(self, raw: Raw) -> StoredObject:
        self.version += 1
        versioned = {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(self.version)}}
        return StoredObject(versioned, encode(versioned), self.version)

    def _notify(self, resource: GroupResource, old: StoredObject | None, new: StoredObject | None) -> None:
        for listener in self.listeners:
            listener(resource, old, new)

    def _index(self, resource: GroupResource, old: StoredObject | None, new: StoredObject | None) -> None:
        before = {owner.get("uid", "") for owner in owner_references(old.raw)} if old else set()
        after = {owner.get("uid", "") for owner in owner_references(new.raw)} if new else set()
        for stored, uids in ((old, before - after), (new, after - before)):
            for uid in uids:
                assert stored is not None
                self._index_dependent(uid, (resource, stored.key), added=stored is new)
        if old and not new:
            self._by_uid.pop(old.uid, None)
        elif new and not old:
            self._by_uid[new.uid] = (resource, new.key)

    def _index_dependent(self, owner_uid: str, dependent: StorageKey, *, added: bool) -> None:
        if added:
            self._dependents.setdefault(owner_uid, {})[dependent] = None
            return
        dependents = self._dependents.get(owner_uid, {})
        dependents.pop(dependent, None)
        if not dependents:
            self._dependents.pop(owner_uid, None)

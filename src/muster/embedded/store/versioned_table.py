"""Versioned tables, one for each kind: the objects, the history of their changes, and the watches on it.

Rule 1: a stored object never changes and never leaves this package; `StoredObject.copy` decodes a new one.
Rule 2: nothing here knows what an object means.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from muster.kube.cluster import Raw

NamespacedName = tuple[str, str]  # an empty namespace: cluster-scoped
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class StoredObject(Struct, frozen=True, eq=False):
    """An object as it is stored. `raw` is read-only; to keep or change the object, take a `copy`."""

    raw: Raw
    data: bytes
    version: int  # metadata.resourceVersion

    @property
    def key(self) -> NamespacedName:
        """Its namespace and name."""
        return namespaced_name(self.raw)

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        return str(self.raw["metadata"].get("uid", ""))

    def copy(self) -> Raw:
        """A copy that the caller owns."""
        return decode(self.data)


class TableChange(Struct, frozen=True, eq=False):
    """One change of an object. `old`: its state before; None: it did not exist."""

    version: int
    type: ChangeType
    new: StoredObject  # of a deletion: the last state, at the version of the deletion
    old: StoredObject | None


def namespaced_name(raw: Raw) -> NamespacedName:
    """Namespace and name of an object."""
    metadata = raw["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def decode(data: bytes) -> Raw:
    """The object in the bytes."""
    raw: Raw = _decode(data)
    return raw


def encode(raw: Any) -> bytes:
    """An object as bytes; TypeError and ValueError where it is not JSON."""
    return _encode(raw)


class History:
    """The latest changes of a table, in order, bounded."""

    def __init__(self, most: int) -> None:
        self._most, self._changes = most, list[TableChange]()
        self.compacted = 0  # the newest version that is no longer in the history

    def add(self, change: TableChange) -> None:
        """Append a change; from time to time, compact the oldest ones."""
        self._changes.append(change)
        if len(self._changes) > self._most + max(16, self._most // 4):
            cut = len(self._changes) - self._most
            self.compacted = self._changes[cut - 1].version
            del self._changes[:cut]

    def changes_after(self, version: int, most: int | None = None) -> list[TableChange]:
        """Changes after a version, oldest first."""
        start = bisect_right(self._changes, version, key=lambda change: change.version)
        return self._changes[start : None if most is None else start + most]


class Table:
    """Objects of one kind by namespace and name, with their history and the callbacks of open watches."""

    def __init__(self, history: int) -> None:
        self.by_namespace: dict[str, dict[str, StoredObject]] = {}
        self.history = History(history)
        self.wakeups: dict[int, Callable[[], None]] = {}  # of open watches, by their id
        self._paged: tuple[int, str, Sequence[StoredObject]] | None = None  # of a list whose pages are being read

    def get(self, key: NamespacedName) -> StoredObject | None:
        """One object; None: it does not exist."""
        return self.by_namespace.get(key[0], {}).get(key[1])

    def put(self, new: StoredObject) -> None:
        """Add an object, or replace its state."""
        namespace, name = new.key
        objects = self.by_namespace.setdefault(namespace, {})
        old = objects.get(name)
        objects[name] = new
        self._record(TableChange(new.version, "MODIFIED" if old else "ADDED", new, old))

    def remove(self, last: StoredObject) -> None:
        """Remove an object; `last` carries the version of the deletion."""
        namespace, name = last.key
        old = self.by_namespace[namespace].pop(name)
        if not self.by_namespace[namespace]:
            del self.by_namespace[namespace]
        self._record(TableChange(last.version, "DELETED", last, old))

    def _record(self, change: TableChange) -> None:
        self.history.add(change)
        for wake in tuple(self.wakeups.values()):
            wake()

    def objects(self, namespace: str = "") -> Iterator[StoredObject]:
        """Objects of one namespace or of all, sorted by namespace and name."""
        for space in (namespace,) if namespace else sorted(self.by_namespace):
            for _, stored in sorted(self.by_namespace.get(space, {}).items()):
                yield stored

    def paged_at(self, version: int, namespace: str = "") -> Sequence[StoredObject]:
        """What `objects_at` gives, kept for the next page: all pages of a list show one version."""
        if self._paged is None or self._paged[:2] != (version, namespace):
            self._paged = version, namespace, self.objects_at(version, namespace)
        return self._paged[2]

    def forget_pages(self) -> None:
        """The last page was read."""
        self._paged = None

    def objects_at(self, version: int, namespace: str = "") -> list[StoredObject]:
        """Objects as they were at a version that the history still holds: undoes the later changes."""
        later = self.history.changes_after(version)
        if not later:
            return list(self.objects(namespace))
        objects = {stored.key: stored for stored in self.objects(namespace)}
        for change in reversed(later):
            if namespace and change.new.key[0] != namespace:
                continue
            if change.old is None:
                objects.pop(change.new.key, None)
            else:
                objects[change.old.key] = change.old
        return [objects[key] for key in sorted(objects)]

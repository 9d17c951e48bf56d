"""Versioned tables, one for each kind of objects: what is there, what changed, and who reads along.

Rule 1: a stored value never changes, and nobody outside gets hold of it: `Stored.copy` makes a new one from its bytes.
Rule 2: nothing here knows what an object means.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from muster.kube.cluster import Raw

Key = tuple[str, str]  # namespace (empty: cluster-scoped), name
Type = Literal["ADDED", "MODIFIED", "DELETED"]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Stored(Struct, frozen=True, eq=False):
    """An object as it is stored. `raw` is for reading inside only; whoever wants to keep or change it takes `copy`."""

    raw: Raw
    data: bytes
    version: int

    @property
    def key(self) -> Key:
        """Where it is in its table."""
        return key_of(self.raw)

    @property
    def uid(self) -> str:
        """Its identity."""
        return str(self.raw["metadata"].get("uid", ""))

    def copy(self) -> Raw:
        """A value of the caller's own."""
        return copied(self.data)


class TableChange(Struct, frozen=True, eq=False):
    """One change. `old`: as it was before; None: it was not."""

    version: int
    type: Type
    new: Stored  # for a deletion: the last state, with the version of the deletion
    old: Stored | None


def key_of(raw: Raw) -> Key:
    """Namespace and name."""
    metadata = raw["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def copied(data: bytes) -> Raw:
    """The object in the bytes."""
    found: Raw = _decode(data)
    return found


def encoded(raw: Any) -> bytes:
    """As bytes; TypeError and ValueError where it is not JSON."""
    return _encode(raw)


class History:
    """The last changes of a table, in order, bounded. `lost`: the newest version that is no longer in it."""

    def __init__(self, most: int) -> None:
        self._most, self._entries, self.lost = most, list[TableChange](), 0

    def add(self, entry: TableChange) -> None:
        """One more; every now and then the oldest are dropped together."""
        self._entries.append(entry)
        if len(self._entries) > self._most + max(16, self._most // 4):
            cut = len(self._entries) - self._most
            self.lost = self._entries[cut - 1].version
            del self._entries[:cut]

    def since(self, version: int, most: int | None = None) -> list[TableChange]:
        """Changes after a version, oldest first."""
        start = bisect_right(self._entries, version, key=lambda entry: entry.version)
        return self._entries[start : None if most is None else start + most]


class Table:
    """Objects of one kind by namespace and name, with their history and those who watch it."""

    def __init__(self, history: int) -> None:
        self.spaces: dict[str, dict[str, Stored]] = {}
        self.history = History(history)
        self.wakes: dict[int, Callable[[], None]] = {}

    def get(self, key: Key) -> Stored | None:
        """One object."""
        return self.spaces.get(key[0], {}).get(key[1])

    def put(self, new: Stored) -> None:
        """A new object, or a new state of one."""
        namespace, name = new.key
        space = self.spaces.setdefault(namespace, {})
        old = space.get(name)
        space[name] = new
        self._tell(TableChange(new.version, "MODIFIED" if old else "ADDED", new, old))

    def remove(self, last: Stored) -> None:
        """Gone; `last` carries the version of the deletion."""
        namespace, name = last.key
        old = self.spaces[namespace].pop(name)
        if not self.spaces[namespace]:
            del self.spaces[namespace]
        self._tell(TableChange(last.version, "DELETED", last, old))

    def _tell(self, entry: TableChange) -> None:
        self.history.add(entry)
        for wake in tuple(self.wakes.values()):
            wake()

    def objects(self, namespace: str = "") -> Iterator[Stored]:
        """Objects of a namespace, or of all of them, by namespace and name."""
        for space in (namespace,) if namespace else sorted(self.spaces):
            for _, stored in sorted(self.spaces.get(space, {}).items()):
                yield stored

    def at(self, version: int, namespace: str = "") -> list[Stored]:
        """Objects as they were at a version that the history still reaches: later changes are taken back."""
        later = self.history.since(version)
        if not later:
            return list(self.objects(namespace))
        found = {stored.key: stored for stored in self.objects(namespace)}
        for entry in reversed(later):
            if namespace and entry.new.key[0] != namespace:
                continue
            if entry.old is None:
                found.pop(entry.new.key, None)
            else:
                found[entry.old.key] = entry.old
        return [found[key] for key in sorted(found)]

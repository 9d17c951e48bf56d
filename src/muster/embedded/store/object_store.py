"""Every table of the embedded cluster under one counter of versions, and who owns whom."""

from collections.abc import Callable, Iterator

from muster.api.resources import EVENTS, NEW_EVENTS, Resource
from muster.embedded.admission.metadata import owners
from muster.embedded.store.versioned_table import Key, Stored, Table, encoded, key_of
from muster.kube.cluster import Raw

Home = tuple[str, str]  # group and plural: versions of a kind share a table
Place = tuple[Home, Key]
Told = Callable[[Home, Stored | None, Stored | None], None]  # old, new; None: it is not there


def home(resource: Resource) -> Home:
    """Where objects of a kind are kept: events of both groups in one place."""
    return (EVENTS.group, EVENTS.plural) if resource == NEW_EVENTS else (resource.group, resource.plural)


class ObjectStore:
    """Tables, versions, and indexes by uid and by owner."""

    def __init__(self, history: int) -> None:
        self.version = 0
        self.tell: list[Told] = []
        self._history = history
        self._tables: dict[Home, Table] = {}
        self._alive: dict[str, Place] = {}
        self._dependents: dict[str, dict[Place, None]] = {}

    def table(self, where: Home) -> Table:
        """One table; empty where nothing was ever put."""
        if where not in self._tables:
            self._tables[where] = Table(self._history)
        return self._tables[where]

    @property
    def tables(self) -> dict[Home, Table]:
        """Those that exist."""
        return dict(self._tables)

    def get(self, where: Home, key: Key) -> Stored | None:
        """One object."""
        return self.table(where).get(key)

    def alive(self, uid: str) -> Place | None:
        """Where the object with this uid is."""
        return self._alive.get(uid)

    def dependents(self, uid: str) -> list[Place]:
        """Objects that name this one as an owner."""
        return list(self._dependents.get(uid, ()))

    def _stored(self, raw: Raw) -> Stored:
        self.version += 1
        found = {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(self.version)}}
        return Stored(found, encoded(found), self.version)

    def put(self, where: Home, raw: Raw) -> Stored:
        """A new object or state, under the next version."""
        table, key = self.table(where), key_of(raw)
        old, new = table.get(key), self._stored(raw)
        self._index(where, old, new)
        table.put(new)
        self._told(where, old, new)
        return new

    def remove(self, where: Home, key: Key) -> Stored:
        """An object is gone; its last state, at the version of that."""
        table = self.table(where)
        old = table.get(key)
        assert old is not None, key
        last = self._stored(old.raw)
        self._index(where, old, None)
        table.remove(last)
        self._told(where, old, None)
        return last

    def _told(self, where: Home, old: Stored | None, new: Stored | None) -> None:
        for told in self.tell:
            told(where, old, new)

    def _index(self, where: Home, old: Stored | None, new: Stored | None) -> None:
        before = {owner.get("uid", "") for owner in owners(old.raw)} if old else set()
        after = {owner.get("uid", "") for owner in owners(new.raw)} if new else set()
        for stored, ids in ((old, before - after), (new, after - before)):
            for uid in ids:
                assert stored is not None
                self._depend(uid, (where, stored.key), added=stored is new)
        if old and not new:
            self._alive.pop(old.uid, None)
        elif new and not old:
            self._alive[new.uid] = (where, new.key)

    def _depend(self, uid: str, place: Place, *, added: bool) -> None:
        if added:
            self._dependents.setdefault(uid, {})[place] = None
            return
        places = self._dependents.get(uid, {})
        places.pop(place, None)
        if not places:
            self._dependents.pop(uid, None)

    def within(self, namespace: str) -> Iterator[Place]:
        """Everything in a namespace."""
        for where, table in self.tables.items():
            for stored in list(table.objects(namespace)):
                yield where, stored.key

    def occupied(self, namespace: str) -> bool:
        """Whether anything is in a namespace."""
        return any(namespace in table.spaces for table in self._tables.values())

"""A watch is a position in the history of a table. It buffers no events: a slow reader gets 410 and must relist."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Self

from muster.api.resources import Resource
from muster.embedded.api_errors import expired
from muster.embedded.store.versioned_table import StoredObject, Table, TableChange
from muster.kube.cluster import Change, Raw

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
Predicate = Callable[[Raw], bool]
Conversion = Callable[[Raw], Raw]


def _no_wakeup() -> None:
    """No reader waits."""


class StoreWatch:
    """Changes of one kind for one reader; a context manager that closes the watch.

    Set `wake` to a callback for new changes, such as the `set` of an event.
    """

    def __init__(
        self,
        resource: Resource,
        table: Table,
        since: int,
        *,
        matches: Predicate,
        namespace: str,
        from_storage: Conversion,
        latest_version: Callable[[], int],
    ) -> None:
        self.wake: Callable[[], None] = _no_wakeup
        self.closed = False
        self._resource, self._table, self._version = resource, table, since
        self._matches, self._namespace = matches, namespace
        self._from_storage, self._latest_version = from_storage, latest_version
        self._initial: deque[StoredObject | None] = deque()  # None: the bookmark at their end
        table.wakeups[id(self)] = self._on_change

    def send_initial(self, objects: list[StoredObject], *, with_bookmark: bool) -> None:
        """Send these objects first, as ADDED; `with_bookmark`: and a bookmark that marks their end."""
        self._initial.extend(objects)
        if with_bookmark:
            self._initial.append(None)

    @property
    def pending(self) -> bool:
        """Whether `take` would look at something new."""
        return bool(self._initial) or bool(self._table.history.changes_after(self._version, 1))

    def take(self, most: int = 1000) -> list[Change]:
        """Changes since the last call; `most` bounds how far one call looks, so it may be empty and still `pending`.

        ApiError 410 `Expired` where the history no longer reaches back to this watch.
        """
        return list(self.read(most))

    def read(self, most: int = 1000) -> Iterator[Change]:
        """The same one by one: what is not consumed stays pending."""
        if self._initial:
            for _ in range(min(most, len(self._initial))):
                yield self._initial_change(self._initial.popleft())
            return
        if self._version < self._table.history.compacted:
            self.close()
            raise expired(f"too old resource version: {self._version} ({self._table.history.compacted})")
        for entry in self._table.history.changes_after(self._version, most):
            self._version = entry.version
            if change := self._selected_change(entry):
                yield change

    def _selected_change(self, entry: TableChange) -> Change | None:
        """A change as the selectors show it: an object that begins to match is ADDED, one that ceases to is DELETED."""
        if self._namespace and entry.new.key[0] != self._namespace:
            return None
        before = entry.old is not None and self._matches(entry.old.raw)
        now = entry.type != "DELETED" and self._matches(entry.new.raw)
        if now:
            return Change("MODIFIED" if before else "ADDED", self._from_storage(entry.new.copy()))
        if before:
            return self._deleted(entry)
        return None

    def _deleted(self, entry: TableChange) -> Change:
        """The last state that matched, at the version of this change."""
        assert entry.old is not None
        raw = (entry.new if entry.type == "DELETED" else entry.old).copy()
        raw["metadata"]["resourceVersion"] = str(entry.version)
        return Change("DELETED", self._from_storage(raw))

    def _initial_change(self, stored: StoredObject | None) -> Change:
        if stored is not None:
            return Change("ADDED", self._from_storage(stored.copy()))
        return self._bookmark({"annotations": {INITIAL_EVENTS_END: "true"}})

    def bookmark(self) -> Change:
        """A BOOKMARK at the version up to which `take` has looked; the latest one where nothing is pending."""
        if not self.pending:
            self._version = max(self._version, self._latest_version())
        return self._bookmark({})

    def _bookmark(self, extra_metadata: Raw) -> Change:
        metadata = {"resourceVersion": str(self._version), "creationTimestamp": None, **extra_metadata}
        raw = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": metadata}
        return Change("BOOKMARK", raw)

    def _on_change(self) -> None:
        self.wake()

    def close(self) -> None:
        """Close the watch and wake its reader."""
        self._table.wakeups.pop(id(self), None)
        if not self.closed:
            self.closed = True
            self.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

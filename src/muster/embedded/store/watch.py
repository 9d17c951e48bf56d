"""A watch is a place in a table's history. It keeps no events: a slow reader costs nothing, and is cut off."""

from collections import deque
from collections.abc import Callable
from typing import Self

from muster.api.resources import Resource
from muster.embedded.api_errors import expired
from muster.embedded.store.versioned_table import Stored, Table, TableChange
from muster.kube.cluster import Change, Raw

INITIAL_END = "k8s.io/initial-events-end"
Test = Callable[[Raw], bool]
Outward = Callable[[Raw], Raw]


def _nothing() -> None:
    """Nobody is waiting."""


class StoreWatch:
    """Changes of one kind for one reader; a context manager, and leaving it ends it.

    Set `wake` to what should be called when there may be something new: your event's `set`.
    """

    def __init__(
        self,
        resource: Resource,
        table: Table,
        since: int,
        *,
        test: Test,
        namespace: str,
        out: Outward,
        latest: Callable[[], int],
    ) -> None:
        self.wake: Callable[[], None] = _nothing
        self.closed = False
        self._resource, self._table, self._at = resource, table, since
        self._test, self._namespace, self._out, self._latest = test, namespace, out, latest
        self._first: deque[Stored | None] = deque()  # what is to be told first; None: the mark that this was all
        table.wakes[id(self)] = self._woken

    def begin(self, present: list[Stored], end: bool) -> None:
        """Tell first what is there; `end`: and a bookmark that says so."""
        self._first.extend(present)
        if end:
            self._first.append(None)

    @property
    def pending(self) -> bool:
        """Whether `take` would look at something new."""
        return bool(self._first) or bool(self._table.history.since(self._at, 1))

    def take(self, most: int = 1000) -> list[Change]:
        """Changes since the last call; `most` bounds how far one call looks, so it may be empty and still `pending`.

        ApiError 410 `Expired` where the reader is so slow that it fell out of the history.
        """
        if self._first:
            return [self._told(self._first.popleft()) for _ in range(min(most, len(self._first)))]
        if self._at < self._table.history.lost:
            self.close()
            raise expired(f"too old resource version: {self._at} ({self._table.history.lost})")
        found: list[Change] = []
        for entry in self._table.history.since(self._at, most):
            self._at = entry.version
            change = self._seen(entry)
            found += [change] if change else []
        return found

    def _seen(self, entry: TableChange) -> Change | None:
        """What a change looks like through the selectors: coming into view is ADDED, going out of it DELETED."""
        if self._namespace and entry.new.key[0] != self._namespace:
            return None
        before = entry.old is not None and self._test(entry.old.raw)
        now = entry.type != "DELETED" and self._test(entry.new.raw)
        if now:
            return Change("MODIFIED" if before else "ADDED", self._out(entry.new.copy()))
        if before:
            return self._deleted(entry)
        return None

    def _deleted(self, entry: TableChange) -> Change:
        """The last state that was in view, at the version at which it went."""
        assert entry.old is not None
        raw = (entry.new if entry.type == "DELETED" else entry.old).copy()
        raw["metadata"]["resourceVersion"] = str(entry.version)
        return Change("DELETED", self._out(raw))

    def _told(self, stored: Stored | None) -> Change:
        if stored is not None:
            return Change("ADDED", self._out(stored.copy()))
        return self._mark({"annotations": {INITIAL_END: "true"}})

    def bookmark(self) -> Change:
        """A BOOKMARK at the version up to which `take` has looked, at whatever kind the last changes were of."""
        if not self.pending:
            self._at = max(self._at, self._latest())
        return self._mark({})

    def _mark(self, more: Raw) -> Change:
        metadata = {"resourceVersion": str(self._at), "creationTimestamp": None, **more}
        raw = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": metadata}
        return Change("BOOKMARK", raw)

    def _woken(self) -> None:
        self.wake()

    def close(self) -> None:
        """It ends, and whoever waits is woken."""
        self._table.wakes.pop(id(self), None)
        if not self.closed:
            self.closed = True
            self.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""How objects go: grace, finalizers, owners and dependents, namespaces and definitions with all that is in them.

Kubernetes leaves the rest to controllers that follow after a while; here all that must follow has happened on return.
"""

from collections import deque
from collections.abc import Callable

from muster.api.resources import DEFINITIONS, NAMESPACES, PODS
from muster.embedded.admission.metadata import FOREGROUND, ORPHAN, marked, owners, with_finalizers
from muster.embedded.admission.pods import grace
from muster.embedded.store.object_store import Home, ObjectStore, Place, home
from muster.embedded.store.versioned_table import Key, Stored
from muster.kube.cluster import Raw

_PODS, _NAMESPACES, _DEFINITIONS = home(PODS), home(NAMESPACES), home(DEFINITIONS)
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_OF_POLICY = {"Foreground": FOREGROUND, "Orphan": ORPHAN}


class GarbageCollector:
    """Deletion, and what follows from it. `moment(seconds)`: the time so far from now, as text."""

    def __init__(self, object_store: ObjectStore, moment: Callable[[int], str]) -> None:
        self._object_store, self._moment = object_store, moment
        self._gone: deque[tuple[Home, Raw]] = deque()

    def delete(self, where: Home, key: Key, grace_seconds: int | None = None, propagation: str = "") -> Stored | None:
        """None: the object is gone; otherwise as it is on its way."""
        self._delete(where, key, grace_seconds, propagation)
        self.settle()
        return self._object_store.get(where, key)

    def settle(self) -> None:
        """All that follows from what has gone."""
        while self._gone:
            where, raw = self._gone.popleft()
            for place in self._object_store.dependents(raw["metadata"].get("uid", "")):
                self._abandoned(place)
            for owner in owners(raw):
                self._relieve(owner.get("uid", ""))
            self._empty(where, raw["metadata"].get("namespace", ""))

    def _delete(self, where: Home, key: Key, grace_seconds: int | None, propagation: str) -> None:
        stored = self._object_store.get(where, key)
        if stored is None:
            return
        raw = stored.raw
        seconds = grace(raw, grace_seconds) if where == _PODS else 0
        finalizers = _finalizers(where, raw, propagation)
        held = bool(finalizers) or where == _NAMESPACES
        if not held and seconds == 0:
            self._remove(where, key)
            return
        before = raw["metadata"].get("deletionTimestamp")
        shorter = seconds < raw["metadata"].get("deletionGracePeriodSeconds", seconds + 1)
        new = marked(raw, self._moment(seconds) if shorter or not before else before, seconds, finalizers)
        if before and not shorter:
            kept = raw["metadata"].get("deletionGracePeriodSeconds", 0)
            new = {**new, "metadata": {**new["metadata"], "deletionGracePeriodSeconds": kept}}
        if where == _NAMESPACES:
            new = {**new, "status": {**new.get("status", {}), "phase": "Terminating"}}
        if new != raw:  # else all that follows is under way already, and owners may go round in a circle
            self._object_store.put(where, new)
            self._pursue(where, key)

    def _pursue(self, where: Home, key: Key) -> None:
        """What a terminating object waits for is set in motion."""
        stored = self._object_store.get(where, key)
        assert stored is not None
        finalizers = stored.raw["metadata"].get("finalizers") or ()
        if where == _NAMESPACES:
            for inner_where, inner_key in list(self._object_store.within(key[1])):
                self._delete(inner_where, inner_key, None, "Background")
            self._empty(where, key[1])
        elif CLEANUP in finalizers:
            spec = stored.raw["spec"]
            inside = (spec["group"], spec["names"]["plural"])
            for one in list(self._object_store.table(inside).objects()):
                self._delete(inside, one.key, None, "Background")
            self._empty(inside, "")
        elif FOREGROUND in finalizers:
            for inner_where, inner_key in self._object_store.dependents(stored.uid):
                self._delete(inner_where, inner_key, None, "Foreground")
            self._relieve(stored.uid)
        elif ORPHAN in finalizers:
            for place in self._object_store.dependents(stored.uid):
                self._disown(place, {stored.uid})
            self._release(where, key, ORPHAN)

    def _remove(self, where: Home, key: Key) -> None:
        last = self._object_store.remove(where, key)
        self._gone.append((where, last.raw))

    def _abandoned(self, place: Place) -> None:
        """A dependent whose owner is gone: it goes with its last owner, or forgets the one that is gone."""
        stored = self._object_store.get(*place)
        if stored is None:
            return
        ids = {owner.get("uid", "") for owner in owners(stored.raw)}
        dead = {uid for uid in ids if self._object_store.alive(uid) is None}
        if ids == dead:
            if not stored.raw["metadata"].get("deletionTimestamp"):
                self._delete(*place, None, "Background")
        else:
            self._disown(place, dead)

    def _disown(self, place: Place, ids: set[str]) -> None:
        stored = self._object_store.get(*place)
        if stored is None:
            return
        left = [owner for owner in owners(stored.raw) if owner.get("uid", "") not in ids]
        metadata = {name: value for name, value in stored.raw["metadata"].items() if name != "ownerReferences"}
        new = {**stored.raw, "metadata": {**metadata, **({"ownerReferences": left} if left else {})}}
        self._object_store.put(place[0], new)

    def _relieve(self, uid: str) -> None:
        """An owner that goes last goes when no dependent holds it any more."""
        place = self._object_store.alive(uid)
        owner = self._object_store.get(*place) if place else None
        if place is None or owner is None or FOREGROUND not in (owner.raw["metadata"].get("finalizers") or ()):
            return
        if not any(self._blocks(dependent, uid) for dependent in self._object_store.dependents(uid)):
            self._release(*place, FOREGROUND)

    def _blocks(self, place: Place, uid: str) -> bool:
        stored = self._object_store.get(*place)
        return stored is not None and any(
            owner.get("uid") == uid and owner.get("blockOwnerDeletion") for owner in owners(stored.raw)
        )

    def _empty(self, where: Home, namespace: str) -> None:
        """A terminating namespace, or definition, goes with the last object in it."""
        space = self._object_store.get(_NAMESPACES, ("", namespace)) if namespace else None
        if space and space.raw["metadata"].get("deletionTimestamp"):
            finalizers = space.raw["metadata"].get("finalizers")
            if not finalizers and not self._object_store.occupied(namespace):
                self._remove(_NAMESPACES, ("", namespace))
        definition = self._object_store.get(_DEFINITIONS, ("", f"{where[1]}.{where[0]}")) if where[0] else None
        if definition is None or self._object_store.table(where).spaces:
            return
        metadata = definition.raw["metadata"]
        if metadata.get("deletionTimestamp") and CLEANUP in (metadata.get("finalizers") or ()):
            self._release(_DEFINITIONS, definition.key, CLEANUP)

    def _release(self, where: Home, key: Key, finalizer: str) -> None:
        """One finalizer less."""
        stored = self._object_store.get(where, key)
        assert stored is not None
        left = [one for one in stored.raw["metadata"].get("finalizers") or () if one != finalizer]
        self._object_store.put(where, {**stored.raw, "metadata": with_finalizers(stored.raw["metadata"], left)})
        self.finish(where, key)

    def finish(self, where: Home, key: Key) -> None:
        """A terminating object that nothing holds any more is gone."""
        stored = self._object_store.get(where, key)
        if stored is None or not stored.raw["metadata"].get("deletionTimestamp"):
            return
        metadata = stored.raw["metadata"]
        if where == _NAMESPACES:
            self._empty(where, key[1])
        elif not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds"):
            self._remove(where, key)


def _finalizers(where: Home, raw: Raw, propagation: str) -> list[str]:
    """The finalizers of an object that is deleted in this way."""
    before = list(raw["metadata"].get("finalizers") or ())
    if where == _DEFINITIONS and not raw["metadata"].get("deletionTimestamp"):
        before = [*(one for one in before if one != CLEANUP), CLEANUP]
    if not propagation:
        return before
    kept = [one for one in before if one not in (FOREGROUND, ORPHAN)]
    return [*kept, _OF_POLICY[propagation]] if propagation in _OF_POLICY else kept

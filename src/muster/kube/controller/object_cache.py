"""Objects of controllers and their children, as last seen: one cache for all, indexed by the uid of the controller.

Rule 1: what a controller wrote is in the cache when the write returns. A watch event that is older changes nothing, so
a watch that lags never makes a controller create a pod twice. Rule 2: a creation that no watch confirms in time is
dropped: the object may be gone, and its deletion missed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from muster.api.resources import Resource
from muster.kube.cluster import Raw
from muster.workloads.types import Key

UNCONFIRMED_SECONDS = 300.0  # how long a creation may wait for the watch
MOST_OWNERS = 16  # above an object that are followed
MOST_DELETED = 20_000  # uids of deleted objects that are remembered
Listener = Callable[[Key, Raw], None]  # called with the object as it is, or was


class ObjectCache:
    """Objects by kind and name. `on_change` is called for each object that changed or is gone."""

    def __init__(self, clock: Callable[[], float], on_change: Listener) -> None:
        self._clock, self._on_change = clock, on_change
        self._objects: dict[Key, Raw] = {}
        self._kinds: dict[Resource, dict[Key, None]] = {}
        self._keys: dict[str, Key] = {}  # by uid
        self._children: dict[str, dict[Resource, dict[Key, None]]] = {}  # by the uid of their controller, and kind
        self._ownerless: set[str] = set()  # uids of controllers that are not here, and whose children are
        self._unconfirmed: dict[str, float] = {}  # uids of objects that no watch has shown yet, and since when
        self._deleted: dict[str, None] = {}  # uids, the latest one last

    def get(self, resource: Resource, namespace: str, name: str) -> Raw | None:
        """An object; None: there is none."""
        return self._objects.get((resource, namespace, name))

    def all_keys(self, resource: Resource | None = None) -> list[Key]:
        """All objects, or those of one kind; from a copy, as another thread may read them."""
        return list(self._objects) if resource is None else list(self._kinds.get(resource, ()))

    def every(self, resource: Resource) -> Iterable[Raw]:
        """See KnownObjects."""
        return [raw for key in self.all_keys(resource) if (raw := self._objects.get(key)) is not None]

    def find(self, uid: str) -> Key | None:
        """The object with this uid; None: there is none."""
        return self._keys.get(uid)

    def of(self, owner: Raw, resource: Resource) -> Sequence[Raw]:
        """See Children."""
        keys = self._children.get(owner["metadata"].get("uid", ""), {}).get(resource, ())
        return sorted((self._objects[key] for key in keys), key=_age)

    def orphans(self, resource: Resource) -> Iterable[Raw]:
        """See Children."""
        return [self._objects[key] for uid in self._ownerless for key in self._children[uid].get(resource, ())]

    def was_deleted(self, uid: str) -> bool:
        """Whether a watch showed the deletion of an object with this uid, not too long ago."""
        return uid in self._deleted

    def children(self, uid: str) -> Iterable[Key]:
        """All objects whose controller has this uid."""
        return tuple(key for keys in self._children.get(uid, {}).values() for key in keys)

    def count_children(self, uid: str) -> int:
        """How many objects have this controller."""
        return sum(map(len, self._children.get(uid, {}).values()))

    def owners_of(self, raw: Raw) -> Iterator[tuple[str, Key | None]]:
        """Uid and key of the controller of an object, and of those above; None: it is not here."""
        seen: set[str] = set()
        while (uid := controller_uid(raw)) and uid not in seen and len(seen) < MOST_OWNERS:
            seen.add(uid)
            key = self._keys.get(uid)
            yield uid, key
            if key is None:
                return
            raw = self._objects[key]

    # what a watch shows

    def observe(self, resource: Resource, raw: Raw) -> None:
        """An object of a list or a watch."""
        self._unconfirmed.pop(raw["metadata"].get("uid", ""), None)
        self._put(resource, raw)

    def forget(self, uid: str) -> None:
        """An object is not to be kept any more."""
        if (key := self._keys.get(uid)) is not None:
            self._drop(key)

    def observe_deletion(self, raw: Raw) -> None:
        """An object is gone."""
        uid = raw["metadata"].get("uid", "")
        self._remember_deletion(uid)
        key = self._keys.get(uid)
        if key is not None:
            self._drop(key)

    def _remember_deletion(self, uid: str) -> None:
        self._deleted[uid] = None
        if len(self._deleted) > MOST_DELETED:
            del self._deleted[next(iter(self._deleted))]

    # what a controller wrote

    def created(self, resource: Resource, raw: Raw) -> None:
        """An object as the API server returned it from its creation; without a controller, only a watch adds it."""
        uid = raw["metadata"].get("uid", "")
        if uid in self._deleted or uid in self._keys or not controller_uid(raw):
            return
        self._unconfirmed[uid] = self._clock()
        self._put(resource, raw)

    def updated(self, resource: Resource, raw: Raw) -> None:
        """An object as the API server returned it from an update; it may be gone by now."""
        if raw["metadata"].get("uid", "") in self._keys:
            self._put(resource, raw)

    def deletion_requested(self, key: Key, uid: str, at: str) -> None:
        """An object is terminating, or gone, though no watch has shown it yet."""
        raw = self._objects.get(key)
        if raw is not None and raw["metadata"].get("uid") == uid and not raw["metadata"].get("deletionTimestamp"):
            self._put(key[0], {**raw, "metadata": {**raw["metadata"], "deletionTimestamp": at}})

    def expire(self) -> None:
        """Drop creations that no watch has confirmed in time."""
        old = self._clock() - UNCONFIRMED_SECONDS
        for uid in [uid for uid, since in self._unconfirmed.items() if since < old]:
            del self._unconfirmed[uid]
            if uid in self._keys:
                self._drop(self._keys[uid])

    # the index

    def _put(self, resource: Resource, raw: Raw) -> None:
        metadata = raw["metadata"]
        key, uid = (resource, metadata.get("namespace", ""), metadata["name"]), metadata.get("uid", "")
        old = self._objects.get(key)
        if old is not None and old["metadata"].get("uid") != uid:  # deleted and made again between two lists
            self._remember_deletion(old["metadata"].get("uid", ""))
            self._drop(key)
        elif old is not None and not _is_newer(raw, old):
            return
        new = {"apiVersion": resource.api_version, "kind": resource.kind, **raw}
        if old is not None and controller_uid(old) != controller_uid(new):
            self._unlink(key, old)
        self._objects[key], self._keys[uid] = new, key
        self._ownerless.discard(uid)
        self._kinds.setdefault(resource, {})[key] = None
        if owner := controller_uid(new):
            self._children.setdefault(owner, {}).setdefault(resource, {})[key] = None
            self._note_owner(owner)
        self._on_change(key, new)

    def _drop(self, key: Key) -> None:
        old = self._objects.pop(key)
        self._kinds[key[0]].pop(key, None)
        uid = old["metadata"].get("uid", "")
        if self._keys.get(uid) == key:  # another object may claim the same uid
            del self._keys[uid]
        self._note_owner(uid)
        self._unlink(key, old)
        self._on_change(key, old)

    def _unlink(self, key: Key, old: Raw) -> None:
        owner = controller_uid(old)
        kinds = self._children.get(owner, {})
        kinds.get(key[0], {}).pop(key, None)
        if not kinds.get(key[0]):
            kinds.pop(key[0], None)
        if not kinds:
            self._children.pop(owner, None)
            self._ownerless.discard(owner)

    def _note_owner(self, uid: str) -> None:
        """Whether the controller of these children is here."""
        if uid in self._children and uid not in self._keys:
            self._ownerless.add(uid)


def controller_uid(raw: Raw) -> str:
    """The uid of the owner that controls an object; empty: none does."""
    for reference in raw["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference.get("uid", ""))
    return ""


def _is_newer(raw: Raw, old: Raw) -> bool:
    """Whether an object differs from the cached one and is not older: versions of one object are numbers that grow."""
    new_version, old_version = (str(each["metadata"].get("resourceVersion", "")) for each in (raw, old))
    if new_version.isdigit() and old_version.isdigit() and new_version != old_version:
        return int(new_version) > int(old_version)
    deleted = raw["metadata"].get("deletionTimestamp")
    return new_version != old_version or bool(deleted and not old["metadata"].get("deletionTimestamp"))


def _age(raw: Raw) -> tuple[str, str]:
    metadata = raw["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]

"""One kind of owner, watched since a pod first named it: the objects, as small as grouping needs them."""

from collections.abc import Callable
from contextlib import aclosing

from muster.api.meta import OwnerReference
from muster.api.resources import Resource
from muster.grouping.owner_reader import read_owner
from muster.grouping.owners import Missing
from muster.grouping.types import Owner
from muster.kube.cache.reflector import (
    ListCompleted,
    ObjectDeleted,
    ObjectUpdated,
    Reflector,
    ReflectorHealth,
)
from muster.kube.cluster import Cluster, Raw
from muster.kube.stored_object import identity

FORBIDDEN, NO_SUCH_KIND = (401, 403), (404, 405)


class OwnerWatch:
    """Owners of one kind, by namespace and name; `changed` is called with the uid of each that changed.

    `listed` is called when the kind is listed, or when the reason changes for which it cannot be.
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        changed: Callable[[str], None],
        listed: Callable[[Resource], None],
        clock: Callable[[], float],
    ) -> None:
        self.resource = resource
        self._owners: dict[tuple[str, str], Owner] = {}
        self._changed, self._listed = changed, listed
        self.health = ReflectorHealth(clock, on_change=lambda _: listed(resource))
        self._reflector = Reflector(cluster, resource, health=self.health)

    @property
    def is_unserved(self) -> bool:
        """Whether the cluster never had this kind in this version."""
        error = self.health.error
        return not self.health.has_synced and error is not None and error.status in NO_SUCH_KIND

    async def run(self) -> None:
        """Watches without end."""
        async with aclosing(self._reflector.events()) as events:
            async for event in events:
                match event:
                    case ObjectUpdated(object=raw):
                        self.put(raw)
                    case ObjectDeleted(object=raw):
                        self._drop(identity(raw))
                    case ListCompleted():
                        self._listed(self.resource)

    def put(self, raw: Raw) -> None:
        """The object as it is now, from the watch or from a read."""
        typed = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        owner, before = read_owner({**raw, **typed}), self._owners.get(identity(raw))
        if owner == before:
            return
        self._owners[identity(raw)] = owner
        for uid in {owner.metadata.uid, before.metadata.uid if before else owner.metadata.uid}:
            self._changed(uid)

    def _drop(self, key: tuple[str, str]) -> None:
        owner = self._owners.pop(key, None)
        if owner is not None:
            self._changed(owner.metadata.uid)

    def find(self, reference: OwnerReference, namespace: str) -> Owner | Missing:
        """The owner that a reference names, whatever its uid, in the namespace or of a kind without namespaces.

        `NotFound` may only mean that the watch is behind.
        """
        owner = self._owners.get((namespace, reference.name)) or self._owners.get(("", reference.name))
        if owner is not None:
            return owner
        error = self.health.error
        if self.health.has_synced:
            return "NotFound"
        if error is not None and error.status in FORBIDDEN:
            return "Forbidden"
        return "NoSuchKind" if self.is_unserved else "Unsynced"

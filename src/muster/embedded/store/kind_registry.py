"""The kinds that are served now, and how their served versions differ from the stored one."""

from collections.abc import Callable

from muster.api.resources import DEFINITIONS, NEW_EVENTS
from muster.embedded.store import event_versions
from muster.embedded.store.kinds import BUILT_IN, Kind, by_resource, kinds_of_crd
from muster.embedded.store.object_store import GroupResource, ObjectStore, group_resource
from muster.embedded.store.versioned_table import StoredObject
from muster.kube.cluster import Raw

Conversion = Callable[[Raw], Raw]


def _unchanged(raw: Raw) -> Raw:
    return raw


class KindRegistry:
    """Built-in kinds, and those of the stored CRDs."""

    def __init__(self, object_store: ObjectStore) -> None:
        self._built_in, self._custom = by_resource(BUILT_IN), dict[str, tuple[Kind, ...]]()
        self._served = dict(self._built_in)
        object_store.listeners.append(self._on_change)

    def _on_change(self, resource: GroupResource, old: StoredObject | None, new: StoredObject | None) -> None:
        if resource != group_resource(DEFINITIONS):
            return
        if new is not None:
            self._custom[new.key[1]] = kinds_of_crd(new.raw)
        elif old is not None:
            self._custom.pop(old.key[1], None)
        custom = by_resource(kind for kinds in self._custom.values() for kind in kinds)
        self._served = {**custom, **self._built_in}

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Every served kind."""
        return tuple(self._served.values())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """A served kind; None: it is not served."""
        return self._served.get((group, version, plural))

    def to_storage(self, kind: Kind) -> Conversion:
        """From the served to the stored version."""
        return event_versions.to_storage if kind.resource == NEW_EVENTS else _unchanged

    def from_storage(self, kind: Kind) -> Conversion:
        """From the stored to the served version; versions of a custom kind differ in `apiVersion` only."""
        if kind.resource == NEW_EVENTS:
            return event_versions.from_storage
        if not kind.is_custom:
            return _unchanged
        return lambda raw: {**raw, "apiVersion": kind.resource.api_version}

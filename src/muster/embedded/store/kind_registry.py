"""Which kinds are served at the moment, and how their versions differ from what is stored."""

from collections.abc import Callable

from muster.api.resources import DEFINITIONS, NEW_EVENTS
from muster.embedded.store import event_versions
from muster.embedded.store.kinds import BUILT_IN, Kind, by_resource, defined
from muster.embedded.store.object_store import Home, ObjectStore, home
from muster.embedded.store.versioned_table import Stored
from muster.kube.cluster import Raw

Turn = Callable[[Raw], Raw]


def _same(raw: Raw) -> Raw:
    return raw


class Registry:
    """Built-in kinds, and those of the CRDs that are stored."""

    def __init__(self, object_store: ObjectStore) -> None:
        self._built_in, self._custom = by_resource(BUILT_IN), dict[str, tuple[Kind, ...]]()
        self._known = dict(self._built_in)
        object_store.tell.append(self._told)

    def _told(self, where: Home, old: Stored | None, new: Stored | None) -> None:
        """A definition came, changed or went."""
        if where != home(DEFINITIONS):
            return
        if new is not None:
            self._custom[new.key[1]] = defined(new.raw)
        elif old is not None:
            self._custom.pop(old.key[1], None)
        custom = by_resource(kind for kinds in self._custom.values() for kind in kinds)
        self._known = {**custom, **self._built_in}

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """All of them."""
        return tuple(self._known.values())

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """One of them."""
        return self._known.get((group, version, plural))

    def inward(self, kind: Kind) -> Turn:
        """From what is served to what is stored."""
        return event_versions.inward if kind.resource == NEW_EVENTS else _same

    def outward(self, kind: Kind) -> Turn:
        """From what is stored to what is served: versions of a custom kind differ in name only."""
        if kind.resource == NEW_EVENTS:
            return event_versions.outward
        if not kind.custom:
            return _same
        return lambda raw: {**raw, "apiVersion": kind.resource.api_version}

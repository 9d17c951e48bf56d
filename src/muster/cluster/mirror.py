"""The cluster as muster reads it, kept up to date from news: objects as structs, and snapshots of them.

What muster does not read is dropped when an object is decoded. `snapshot(now)` is `take` of what is here.
"""

from datetime import datetime
from typing import Any

from muster.api.meta import Wire
from muster.api.objects import CLUSTER_SCOPED, FIELDS, KINDS, Objects
from muster.api.shape import decode
from muster.cluster.follow import Changed, Gone, News
from muster.cluster.store import Raw, Resource
from muster.model.snapshot import Snapshot, take

PLURALS = {
    "PodGroup": "podgroups",
    "Queue": "queues",
    "Topology": "topologies",
    "Pod": "pods",
    "Node": "nodes",
    "Namespace": "namespaces",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PriorityClass": "priorityclasses",
    "PodDisruptionBudget": "poddisruptionbudgets",
}


def _resource(api_version: str, kind: str, struct: type[Wire]) -> Resource:
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, PLURALS[kind], kind, struct not in CLUSTER_SCOPED)


FOLLOWED: dict[Resource, type[Wire]] = {
    _resource(api_version, kind, struct): struct for (api_version, kind), struct in KINDS.items()
}


def resource_of(struct: type[Wire]) -> Resource:
    """The kind that a struct is read from."""
    return next(resource for resource, known in FOLLOWED.items() if known is struct)


class Mirror:
    """Every object that planning reads."""

    def __init__(self) -> None:
        self._held: dict[type[Wire], dict[tuple[str, str], Wire]] = {struct: {} for struct in FOLLOWED.values()}
        self._objects: Objects | None = None
        self.version = 0  # how often something changed

    def hear(self, struct: type[Wire], news: News) -> bool:
        """Fold one piece of news in; whether anything that muster reads is different now."""
        match news:
            case Changed(object=raw):
                found, _ = decode(_unversioned(raw), struct)
                changed = self._held[struct].get(_key(raw)) != found
                self._held[struct][_key(raw)] = found
            case Gone(object=raw):
                changed = self._held[struct].pop(_key(raw), None) is not None
            case _:
                return False
        if changed:
            self._objects = None
            self.version += 1
        return changed

    @property
    def objects(self) -> Objects:
        """Everything, as a value."""
        if self._objects is None:
            held: dict[str, Any] = {FIELDS[struct]: tuple(found.values()) for struct, found in self._held.items()}
            self._objects = Objects(**held)
        return self._objects

    def get(self, struct: type[Wire], namespace: str, name: str) -> Wire | None:
        """One object, if it is known."""
        return self._held[struct].get((namespace, name))

    def snapshot(self, now: datetime) -> Snapshot:
        """The cluster at this moment."""
        return take(self.objects, now)


def _unversioned(raw: Raw) -> Raw:
    """Without what differs with every write, whoever wrote whatever."""
    return {**raw, "metadata": {name: value for name, value in raw["metadata"].items() if name != "resourceVersion"}}


def _key(raw: Raw) -> tuple[str, str]:
    meta = raw["metadata"]
    return meta.get("namespace", ""), meta["name"]

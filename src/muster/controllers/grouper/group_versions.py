"""Which PodGroups there are, and which of their changes concern grouping: a status does not."""

from collections.abc import Iterator

from muster.api import names
from muster.kube.cluster import Raw
from muster.kube.stored_object import identity


class PodGroupVersions:
    """By gang: uid, generation, digest and pool of its PodGroup."""

    def __init__(self, pool_label: str) -> None:
        self._pool_label = pool_label
        self._versions: dict[str, tuple[str, int, str, str]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._versions))

    def update(self, raw: Raw) -> bool:
        """A PodGroup as it is now; returns whether it is new or has another spec."""
        meta, gang = raw["metadata"], "/".join(identity(raw))
        digest = (meta.get("annotations") or {}).get(names.GROUPING, "")
        pool = (meta.get("labels") or {}).get(self._pool_label, "")
        version = meta.get("uid", ""), meta.get("generation", 0), digest, pool
        if self._versions.get(gang) == version:
            return False
        self._versions[gang] = version
        return True

    def drop(self, gang: str) -> None:
        """A PodGroup is gone."""
        self._versions.pop(gang, None)

"""How lists merge: by which fields their entries are told apart, as sets, or as a whole.

Built-in kinds go by the name of the field, custom kinds by `x-kubernetes-list-type` in their schema.
"""

from typing import Any

from muster.kube.cluster import Raw

# field -> alternatives of merge keys; the first whose fields all entries have is taken
STRATEGIC: dict[str, tuple[tuple[str, ...], ...]] = {
    "containers": (("name",),),
    "initContainers": (("name",),),
    "ephemeralContainers": (("name",),),
    "env": (("name",),),
    "volumes": (("name",),),
    "volumeMounts": (("mountPath",),),
    "volumeDevices": (("devicePath",),),
    "ports": (("containerPort",), ("port",)),
    "conditions": (("type",),),
    "addresses": (("type",),),
    "imagePullSecrets": (("name",),),
    "secrets": (("name",),),
    "ownerReferences": (("uid",),),
    "topologySpreadConstraints": (("topologyKey",),),
    "schedulingGates": (("name",),),
    "resourceClaims": (("name",),),
    "hostAliases": (("ip",),),
}
SETS = frozenset(("finalizers",))
# where server-side apply tells entries apart by more
APPLIED: dict[str, tuple[tuple[str, ...], ...]] = {
    **STRATEGIC,
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
}
Keys = tuple[str, ...] | None  # None: the list is one value; empty: a set of plain values


def keys_of(field: str, entries: Any, table: dict[str, tuple[tuple[str, ...], ...]] | None = None) -> Keys:
    """How a list of a built-in kind merges."""
    if field in SETS:
        return ()
    for keys in (STRATEGIC if table is None else table).get(field, ()):
        if isinstance(entries, list) and all(
            isinstance(one, dict) and all(key in one for key in keys) for one in entries
        ):
            return keys
    return None


class MergeKeys:
    """What is known of the lists in a kind: its schema, or for built-in kinds the names of the fields."""

    def __init__(self, schema: Raw | None, field: str = "", built_in: bool = False) -> None:
        self.schema, self.field, self.built_in = schema, field, built_in

    @classmethod
    def of(cls, schema: Raw | None) -> "MergeKeys":
        """Of a whole object."""
        return cls(schema, "", schema is None)

    def inside(self, field: str) -> "MergeKeys":
        """Of one field."""
        if self.built_in or (field == "metadata" and not self.field):
            return MergeKeys(None, field, built_in=True)
        schema = self.schema or {}
        inner = schema.get("properties", {}).get(field) or schema.get("additionalProperties")
        return MergeKeys(inner if isinstance(inner, dict) else None, field)

    def entry(self) -> "MergeKeys":
        """Of an entry of a list."""
        if self.built_in:
            return self
        return MergeKeys((self.schema or {}).get("items"), self.field)

    def keys(self, entries: Any) -> Keys:
        """How this list merges."""
        if self.built_in:
            return keys_of(self.field, entries, APPLIED)
        schema = self.schema or {}
        match schema.get("x-kubernetes-list-type"):
            case "map":
                keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
                whole = all(isinstance(one, dict) and all(key in one for key in keys) for one in entries)
                return keys if whole else None
            case "set":
                return ()
            case _:
                return None

    @property
    def atomic(self) -> bool:
        """Whether a map is one value."""
        return (self.schema or {}).get("x-kubernetes-map-type") == "atomic"

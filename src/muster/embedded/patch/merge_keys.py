"""How lists merge: by the merge keys of their items, as sets, or atomically.

Built-in kinds have a table by field name, custom kinds `x-kubernetes-list-type` in their schema.
"""

from typing import Any

from muster.kube.cluster import Raw

# field -> alternatives of merge keys; the first one that all items have is used
STRATEGIC_MERGE_KEYS: dict[str, tuple[tuple[str, ...], ...]] = {
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
SET_FIELDS = frozenset(("finalizers",))
ATOMIC_ITEMS = frozenset(("ownerReferences",))  # lists whose items have one manager each, and none of their fields
# server-side apply has more keys than strategic merge patch
APPLY_MERGE_KEYS: dict[str, tuple[tuple[str, ...], ...]] = {
    **STRATEGIC_MERGE_KEYS,
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
}
Keys = tuple[str, ...] | None  # None: the list is atomic; empty: a set of scalars


def _builtin_keys(field: str, items: Any) -> Keys:
    """The merge keys of a list of a built-in kind."""
    if field in SET_FIELDS:
        return ()
    for keys in APPLY_MERGE_KEYS.get(field, ()):
        if isinstance(items, list) and _all_have_keys(items, keys):
            return keys
    return None


def _all_have_keys(items: Any, keys: tuple[str, ...]) -> bool:
    return all(isinstance(item, dict) and all(key in item for key in keys) for item in items)


class MergeKeys:
    """How the lists below one field of a kind merge: by its schema, or for built-in kinds by field names."""

    def __init__(self, schema: Raw | None, field: str = "", built_in: bool = False) -> None:
        self.schema, self.field, self.built_in = schema, field, built_in

    @classmethod
    def of(cls, schema: Raw | None) -> "MergeKeys":
        """Those of a whole object."""
        return cls(schema, "", schema is None)

    def of_field(self, field: str) -> "MergeKeys":
        """Those of one field."""
        if self.built_in or (field == "metadata" and not self.field):
            return MergeKeys(None, field, built_in=True)
        schema = self.schema or {}
        field_schema = schema.get("properties", {}).get(field) or schema.get("additionalProperties")
        return MergeKeys(field_schema if isinstance(field_schema, dict) else None, field)

    def of_items(self) -> "MergeKeys":
        """Those of the items of this list."""
        if self.built_in:
            return MergeKeys(None, f"{self.field}[]", built_in=True)
        return MergeKeys((self.schema or {}).get("items"), self.field)

    def keys(self, items: Any) -> Keys:
        """The merge keys of this list."""
        if self.built_in:
            return _builtin_keys(self.field, items)
        schema = self.schema or {}
        match schema.get("x-kubernetes-list-type"):
            case "map":
                keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
                return keys if _all_have_keys(items, keys) else None
            case "set":
                return ()
            case _:
                return None

    @property
    def atomic(self) -> bool:
        """Whether a map merges as one value."""
        is_atomic_item = self.built_in and self.field.removesuffix("[]") in ATOMIC_ITEMS
        return is_atomic_item or (self.schema or {}).get("x-kubernetes-map-type") == "atomic"

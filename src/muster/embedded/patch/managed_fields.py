"""Field sets of managed fields, and merging and removing the fields of a set.

A field is a path whose steps are those of `fieldsV1`: `f:name`, `k:{"name":"a"}` (an item of a list map) or `v:"x"` (an
item of a list set).
"""

import json
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

from muster.embedded.patch.merge_keys import MergeKeys
from muster.kube.cluster import Raw

Path = tuple[str, ...]
FieldSet = frozenset[Path]
_MISSING = object()
_UNMANAGED = frozenset(
    (
        ("f:apiVersion",),
        ("f:kind",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name",
                "namespace",
                "uid",
                "resourceVersion",
                "generation",
                "creationTimestamp",
                "managedFields",
                "selfLink",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "generateName",
            )
        ),
    )
)


def field_set(value: Any, merge_keys: MergeKeys) -> FieldSet:
    """The fields that an object sets, without those that only the server sets."""
    return frozenset(field_values(value, merge_keys))


def field_values(value: Any, merge_keys: MergeKeys) -> dict[Path, Any]:
    """The fields that an object sets, and their values."""
    fields = _fields(value, merge_keys, ())
    return {path: field for path, field in fields if path[:1] not in _UNMANAGED and path[:2] not in _UNMANAGED}


def _fields(value: Any, merge_keys: MergeKeys, at: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value and not merge_keys.atomic:
        for name, field in value.items():
            yield from _fields(field, merge_keys.of_field(name), (*at, f"f:{name}"))
    elif isinstance(value, list) and value and (keys := merge_keys.keys(value)) is not None:
        for item in value:
            step = _item_step(item, keys)
            yield (*at, step), item
            if keys:
                yield from _fields(item, merge_keys.of_items(), (*at, step))
    elif at:
        yield at, value


def _item_step(item: Any, keys: tuple[str, ...]) -> str:
    if not keys:
        return f"v:{json.dumps(item)}"
    return f"k:{json.dumps({key: item[key] for key in keys}, separators=(',', ':'), sort_keys=True)}"


def to_fields_v1(fields: FieldSet) -> Raw:
    """A field set as the tree `fieldsV1`; `.` marks an item that is a member itself and has members below it."""
    tree: Raw = {}
    for path in sorted(fields):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
    for path in fields:
        node = tree
        for step in path:
            node = node[step]
        if node:
            node["."] = {}
    return tree


def from_fields_v1(tree: Any, at: Path = ()) -> Iterator[Path]:
    """The paths in the tree `fieldsV1`."""
    if not isinstance(tree, dict):
        return
    if (not tree or "." in tree) and at:
        yield at
    for step, node in tree.items():
        if step != ".":
            yield from from_fields_v1(node, (*at, step))


def merge_config(value: Any, config: Any, merge_keys: MergeKeys) -> Any:
    """`value` with an apply configuration merged in: maps merge, lists by their list type."""
    if isinstance(value, dict) and isinstance(config, dict) and not merge_keys.atomic:
        merged = {
            name: merge_config(value.get(name), field, merge_keys.of_field(name)) for name, field in config.items()
        }
        return {**value, **merged}
    if isinstance(value, list) and isinstance(config, list):
        keys = merge_keys.keys([*value, *config])
        if keys is None:
            return config
        return _merge_items(
            {_item_step(item, keys): item for item in value},
            {_item_step(item, keys): item for item in config},
            merge_keys.of_items(),
        )
    return config


def _merge_items(live: dict[str, Any], applied: dict[str, Any], merge_keys: MergeKeys) -> list[Any]:
    merged = {
        step: merge_config(live[step], item, merge_keys) if step in live else item for step, item in applied.items()
    }
    return [merged[step] if step in merged else live[step] for step in _merged_order(live, applied)]


def _merged_order(live: Collection[str], applied: Collection[str]) -> Iterator[str]:
    """The items of a configuration in its order; items of others stay before those that they preceded."""
    remaining, shared = deque(applied), deque(step for step in applied if step in live)
    for step in live:
        if step not in applied:
            yield step
        elif shared and step == shared[0]:
            shared.popleft()
            while (next_step := remaining.popleft()) != step:
                yield next_step
            yield step
    yield from remaining


def remove_fields(value: Any, dropped: FieldSet, kept: FieldSet, merge_keys: MergeKeys) -> Any:
    """`value` without some fields, and without parents that are empty then and not in `kept`."""
    affected = dropped | parents_of(dropped)
    return _remove_fields(value, (), merge_keys, dropped, affected, kept)


def parents_of(fields: FieldSet) -> FieldSet:
    """The paths above the fields of a set."""
    return frozenset(path[:end] for path in fields for end in range(1, len(path)))


def _remove_fields(
    value: Any, at: Path, merge_keys: MergeKeys, dropped: FieldSet, affected: FieldSet, kept: FieldSet
) -> Any:
    def remaining(child: Any, path: Path, child_keys: MergeKeys) -> Any:
        if path not in affected:
            return child
        new = _MISSING if path in dropped else _remove_fields(child, path, child_keys, dropped, affected, kept)
        return _MISSING if new in ({}, []) and path not in kept else new

    if isinstance(value, dict):
        fields = {
            name: remaining(field, (*at, f"f:{name}"), merge_keys.of_field(name)) for name, field in value.items()
        }
        return {name: field for name, field in fields.items() if field is not _MISSING}
    if not isinstance(value, list) or (keys := merge_keys.keys(value)) is None:
        return value
    items = [remaining(item, (*at, _item_step(item, keys)), merge_keys.of_items()) for item in value]
    return [item for item in items if item is not _MISSING]

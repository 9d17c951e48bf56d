"""Field sets of managed fields, and merging and removing the fields of a set.

A field is a path whose steps are those of `fieldsV1`: `f:name`, `k:{"name":"a"}` (an item of a list map) or `v:"x"` (an
item of a list set).
"""

import json
from collections.abc import Iterator
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
    paths = _paths(value, merge_keys, ())
    return frozenset(path for path in paths if path[:1] not in _UNMANAGED and path[:2] not in _UNMANAGED)


def _paths(value: Any, merge_keys: MergeKeys, at: Path) -> Iterator[Path]:
    if isinstance(value, dict) and value and not merge_keys.atomic:
        for name, field in value.items():
            yield from _paths(field, merge_keys.of_field(name), (*at, f"f:{name}"))
    elif isinstance(value, list) and value and (keys := merge_keys.keys(value)) is not None:
        for item in value:
            step = _item_step(item, keys)
            yield (*at, step)
            if keys:
                yield from _paths(item, merge_keys.of_items(), (*at, step))
    elif at:
        yield at


def _item_step(item: Any, keys: tuple[str, ...]) -> str:
    if not keys:
        return f"v:{json.dumps(item)}"
    return f"k:{json.dumps({key: item[key] for key in keys}, separators=(',', ':'), sort_keys=True)}"


def value_at(value: Any, path: Path) -> Any:
    """The value at a path; `_MISSING` where there is none."""
    for step in path:
        value = _value_at_step(value, step)
    return value


def _value_at_step(value: Any, step: str) -> Any:
    if step.startswith("f:"):
        return value.get(step[2:], _MISSING) if isinstance(value, dict) else _MISSING
    if not isinstance(value, list):
        return _MISSING
    return next((item for item in value if _is_item(item, step)), _MISSING)


def _is_item(item: Any, step: str) -> bool:
    expected = json.loads(step[2:])
    if step.startswith("v:"):
        return bool(item == expected)
    return isinstance(item, dict) and all(item.get(key) == value for key, value in expected.items())


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
        items = {_item_step(item, keys): item for item in value}
        for item in config:
            step = _item_step(item, keys)
            items[step] = merge_config(items[step], item, merge_keys.of_items()) if step in items else item
        return list(items.values())
    return config


def remove_field(value: Any, path: Path, owned: FieldSet) -> Any:
    """`value` without the field at a path, and without parents that are empty then and not in `owned`."""
    value = _without(value, path)
    for end in range(len(path) - 1, 0, -1):
        if path[:end] in owned or value_at(value, path[:end]) not in ({}, []):
            break
        value = _without(value, path[:end])
    return value


def _without(value: Any, path: Path) -> Any:
    step, rest = path[0], path[1:]
    child = _value_at_step(value, step)
    if child is _MISSING:
        return value
    new = _without(child, rest) if rest else None
    if isinstance(value, dict):
        name = step[2:]
        return {key: new if key == name else field for key, field in value.items() if key != name or rest}
    return [new if item is child else item for item in value if item is not child or rest]

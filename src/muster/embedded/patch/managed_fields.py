"""Sets of fields: a field is a path, and a step of it `f:name`, `k:{"name":"a"}` (an entry of a list) or `v:"x"` (a
plain entry), as they stand in `fieldsV1`. What is in a set, and objects with some of their fields laid over or gone.
"""

import json
from collections.abc import Iterator
from typing import Any

from muster.embedded.patch.merge_keys import MergeKeys
from muster.kube.cluster import Raw

Path = tuple[str, ...]
Paths = frozenset[Path]
_MISSING = object()
_IDENTITY = frozenset(
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


def paths(value: Any, merge_keys: MergeKeys) -> Paths:
    """The fields that an object sets, without its identity."""
    found = frozenset(_paths(value, merge_keys, ()))
    return frozenset(path for path in found if path[:1] not in _IDENTITY and path[:2] not in _IDENTITY)


def _paths(value: Any, merge_keys: MergeKeys, at: Path) -> Iterator[Path]:
    if isinstance(value, dict) and value and not merge_keys.atomic:
        for name, inner in value.items():
            yield from _paths(inner, merge_keys.inside(name), (*at, f"f:{name}"))
    elif isinstance(value, list) and value and (keys := merge_keys.keys(value)) is not None:
        for one in value:
            step = _step(one, keys)
            yield (*at, step)
            if keys:
                yield from _paths(one, merge_keys.entry(), (*at, step))
    elif at:
        yield at


def _step(one: Any, keys: tuple[str, ...]) -> str:
    if not keys:
        return f"v:{json.dumps(one)}"
    return f"k:{json.dumps({key: one[key] for key in keys}, separators=(',', ':'), sort_keys=True)}"


def at(value: Any, path: Path) -> Any:
    """What is at a path; `_MISSING` where nothing is."""
    for step in path:
        value = _inner(value, step)
    return value


def _inner(value: Any, step: str) -> Any:
    if step.startswith("f:"):
        return value.get(step[2:], _MISSING) if isinstance(value, dict) else _MISSING
    if not isinstance(value, list):
        return _MISSING
    return next((one for one in value if _fits(one, step)), _MISSING)


def _fits(one: Any, step: str) -> bool:
    wanted = json.loads(step[2:])
    if step.startswith("v:"):
        return bool(one == wanted)
    return isinstance(one, dict) and all(one.get(key) == value for key, value in wanted.items())


def nested(fields: Paths) -> Raw:
    """As `fieldsV1`: a tree; `.` marks an entry that is a field itself and has fields."""
    tree: Raw = {}
    for path in sorted(fields):
        inner = tree
        for step in path:
            inner = inner.setdefault(step, {})
    for path in fields:
        inner = tree
        for step in path:
            inner = inner[step]
        if inner:
            inner["."] = {}
    return tree


def flat(tree: Any, at_path: Path = ()) -> Iterator[Path]:
    """The paths in `fieldsV1`."""
    if not isinstance(tree, dict):
        return
    if (not tree or "." in tree) and at_path:
        yield at_path
    for step, inner in tree.items():
        if step != ".":
            yield from flat(inner, (*at_path, step))


def overlaid(value: Any, config: Any, merge_keys: MergeKeys) -> Any:
    """`config` laid over `value`: maps merge, lists as their kind says."""
    if isinstance(value, dict) and isinstance(config, dict) and not merge_keys.atomic:
        return {
            **value,
            **{name: overlaid(value.get(name), inner, merge_keys.inside(name)) for name, inner in config.items()},
        }
    if isinstance(value, list) and isinstance(config, list):
        keys = merge_keys.keys([*value, *config])
        if keys is None:
            return config
        found = {_step(one, keys): one for one in value}
        for one in config:
            step = _step(one, keys)
            found[step] = overlaid(found[step], one, merge_keys.entry()) if step in found else one
        return list(found.values())
    return config


def cleared(value: Any, path: Path, owned: Paths) -> Any:
    """`value` without what is at a path, and without the maps and lists above it that are empty then and nobody's."""
    value = without(value, path)
    for end in range(len(path) - 1, 0, -1):
        if path[:end] in owned or at(value, path[:end]) not in ({}, []):
            break
        value = without(value, path[:end])
    return value


def without(value: Any, path: Path) -> Any:
    """`value` without what is at a path."""
    step, rest = path[0], path[1:]
    inner = _inner(value, step)
    if inner is _MISSING:
        return value
    left = without(inner, rest) if rest else None
    if isinstance(value, dict):
        return {name: left if name == step[2:] else one for name, one in value.items() if name != step[2:] or rest}
    return [left if one is inner else one for one in value if one is not inner or rest]

"""Strategic merge patch: a merge patch that merges the lists of built-in kinds by key, with its `$` directives."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from muster.embedded.api_errors import bad_request
from muster.embedded.patch.merge_keys import SET_FIELDS, STRATEGIC_MERGE_KEYS

_DELETE_FROM, _SET_ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def strategic_merge(value: Any, patch: Any) -> Any:
    """A copy of `value` with `patch` merged into it."""
    if not isinstance(patch, dict):
        return patch
    match patch.get("$patch"):
        case "replace":
            return {name: field for name, field in patch.items() if name != "$patch"}
        case "delete":
            return {}
        case None | "merge":
            return _merge_maps(value if isinstance(value, dict) else {}, patch)
        case directive:
            raise bad_request(f"unknown patch type: {directive}")


def _merge_maps(value: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = _retain_keys(value, patch.get("$retainKeys"))
    for name, field in patch.items():
        if name.startswith("$"):
            continue
        if field is None:
            merged.pop(name, None)
        elif isinstance(field, list):
            before = merged.get(name)
            merged[name] = _merge_lists(name, before if isinstance(before, list) else [], field)
        else:
            merged[name] = _without_nulls(strategic_merge(merged.get(name), field))
    for name, order in _directives(patch, _SET_ORDER, merged):
        key = _merge_key(name, order, merged[name])
        merged[name] = _reorder(key, merged[name], order, value.get(name) or [])
    for name, deleted in _directives(patch, _DELETE_FROM, merged):
        merged[name] = [item for item in merged[name] if item not in deleted]
    changed = {name.removeprefix(_DELETE_FROM) for name in patch}
    return {name: field for name, field in merged.items() if field != [] or name not in changed}


def _directives(patch: dict[str, Any], prefix: str, merged: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """The list fields that a directive names, with its value for each; ApiError 400 where either is no list."""
    for name, value in patch.items():
        field = name.removeprefix(prefix)
        if field == name or field not in merged:
            continue
        if not isinstance(value, list) or not isinstance(merged[field], list):
            raise bad_request(f"{name}: this directive is a list, about a list")
        yield field, value


def _retain_keys(value: dict[str, Any], keys: Any) -> dict[str, Any]:
    return {name: field for name, field in value.items() if keys is None or name in keys}


def _without_nulls(value: Any) -> Any:
    """A value without nulls that had no field to delete."""
    if isinstance(value, dict):
        return {name: _without_nulls(field) for name, field in value.items() if field is not None}
    return value


def _merge_lists(field: str, value: list[Any], patch: list[Any]) -> list[Any]:
    if field in SET_FIELDS:
        return _reorder(None, value + [item for item in patch if item not in value], patch, value)
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    key = _merge_key(field, patch, value)
    if key is None:
        return [_without_nulls(item) for item in patch]
    return _reorder(key, _merge_by_key(key, value, patch), patch, value)


def _merge_key(field: str, patch: Any, value: list[Any]) -> str | None:
    """The merge key of a list; None: its items are scalars, or the list is atomic."""
    keys = [key for (key,) in STRATEGIC_MERGE_KEYS.get(field, ())]
    if not keys:
        return None
    if not isinstance(patch, list) or any(not isinstance(item, dict) for item in [*value, *patch]):
        raise bad_request(f"{field}: every entry of this list must be an object")
    key = next((key for key in keys if any(key in item for item in [*value, *patch])), keys[0])
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {str(item)[:200]} does not contain declared merge key: {key}")
    return key


def _merge_by_key(key: str, value: list[Any], patch: list[Any]) -> list[Any]:
    items = {_identity(item, key): item for item in value}
    for item in patch:
        identity = _identity(item, key)
        if item.get("$patch") == "delete":
            items.pop(identity, None)
        else:
            items[identity] = _without_nulls(strategic_merge(items.get(identity), item))
    return list(items.values())


def _identity(item: Any, key: str | None) -> str:
    """The value of an item's merge key, or of a scalar item, with its type."""
    value = item.get(key) if key and isinstance(item, dict) else item
    return f"{type(value).__name__}:{value}"


def _reorder(key: str | None, merged: list[Any], order: list[Any], before: list[Any]) -> list[Any]:
    """Items that the patch names in its order; each other item in front of the first one that it preceded before.

    So new items come first where the patch gives no order.
    """
    patch_index, old_index = _indexes(key, order), _indexes(key, before)
    items = [(_identity(item, key), item) for item in merged]
    named = deque(sorted((pair for pair in items if pair[0] in patch_index), key=lambda pair: patch_index[pair[0]]))
    ordered: list[Any] = []
    for identity, item in items:
        if identity in patch_index:
            continue
        while named and not (identity in old_index and old_index[identity] < old_index.get(named[0][0], -1)):
            ordered.append(named.popleft()[1])
        ordered.append(item)
    return ordered + [item for _, item in named]


def _indexes(key: str | None, items: list[Any]) -> dict[str, int]:
    return {_identity(item, key): i for i, item in enumerate(items)}

"""Patches as pure functions: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge patch."""

from typing import Any

from muster.embedded.api_errors import Cause, bad_request, unsupported
from muster.embedded.patch.strategic_merge import strategic_merge
from muster.kube.cluster import PatchType, Raw
from muster.kube.errors import ApiError

MOST_OPERATIONS = 10_000


def apply_patch(value: Raw, patch: Any, patch_type: PatchType, *, is_custom: bool = False) -> Raw:
    """A patched copy of `value`. Custom kinds support no strategic merge patch (ApiError 415)."""
    match patch_type:
        case "application/merge-patch+json":
            result = merge_patch(value, _require_object(patch))
        case "application/json-patch+json":
            result = json_patch(value, patch)
        case "application/strategic-merge-patch+json" if not is_custom:
            result = strategic_merge(value, _require_object(patch))
        case _:
            raise unsupported(f"the body of the request was in an unknown format: {patch_type}")
    return _require_object(result)


def _require_object(value: Any) -> Raw:
    if not isinstance(value, dict):
        raise bad_request("a patch must be, and must leave, an object")
    return value


def merge_patch(value: Any, patch: Any) -> Any:
    """JSON merge patch: null deletes a field, objects merge, other values replace."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, field in patch.items():
        if field is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), field)
    return merged


def json_patch(value: Any, operations: Any) -> Any:
    """JSON patch: all operations in order; ApiError 422 where one does not apply."""
    if not isinstance(operations, list) or len(operations) > MOST_OPERATIONS:
        raise bad_request(f"a JSON patch is a list of at most {MOST_OPERATIONS} operations")
    for i, operation in enumerate(operations):
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request(f"operation {i} of the JSON patch has no path")
        value = _apply_operation(value, operation, i)
    return value


def _apply_operation(value: Any, operation: Raw, i: int) -> Any:
    try:
        path = _parse_pointer(operation["path"])
        match operation.get("op"):
            case "add":
                return _add(value, path, operation["value"])
            case "remove":
                return _remove(value, path)
            case "replace":
                _get(value, path)
                return _put(value, path, operation["value"])
            case "move":
                source = _parse_pointer(operation["from"])
                return _add(_remove(value, source), path, _get(value, source))
            case "copy":
                return _add(value, path, _get(value, _parse_pointer(operation["from"])))
            case "test":
                return _test(value, path, operation["value"])
            case name:
                raise bad_request(f"operation {i} of the JSON patch: unknown `{name}`")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        message = f"operation {i} ({operation.get('op')} {operation['path']}) does not apply: {error}"
        details = _error_details(operation, message)
        raise ApiError(422, "Invalid", f"the server rejected our request: {message}", details) from None


def _error_details(operation: Raw, message: str) -> dict[str, Any]:
    cause = Cause(operation["path"], message)
    return {"causes": [{"field": cause.field, "message": cause.message, "reason": cause.reason}]}


def _parse_pointer(path: Any) -> tuple[str, ...]:
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise ValueError(f"`{path}` is not a JSON pointer")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])


def _index(value: list[Any], step: str, end: int) -> int:
    index = int(step) if step.isdigit() else -1
    if not 0 <= index < end:
        raise IndexError(f"no place `{step}` in a list of {len(value)}")
    return index


def _get(value: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        value = value[_index(value, step, len(value))] if isinstance(value, list) else _field(value, step)
    return value


def _field(value: Any, step: str) -> Any:
    if not isinstance(value, dict) or step not in value:
        raise KeyError(step)
    return value[step]


def _put(value: Any, path: tuple[str, ...], new: Any) -> Any:
    """A copy of `value` with the value at one path replaced."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        index = _index(value, step, len(value))
        return [*value[:index], _put(value[index], rest, new), *value[index + 1 :]]
    if not isinstance(value, dict):
        raise KeyError(step)
    return {**value, step: _put(_field(value, step), rest, new) if rest else new}


def _add(value: Any, path: tuple[str, ...], new: Any) -> Any:
    if not path:
        return new
    parent = _get(value, path[:-1])
    if isinstance(parent, list):
        index = len(parent) if path[-1] == "-" else _index(parent, path[-1], len(parent) + 1)
        return _put(value, path[:-1], [*parent[:index], new, *parent[index:]])
    return _put(value, path, new)


def _remove(value: Any, path: tuple[str, ...]) -> Any:
    _get(value, path)
    parent = _get(value, path[:-1])
    if isinstance(parent, list):
        index = _index(parent, path[-1], len(parent))
        return _put(value, path[:-1], [*parent[:index], *parent[index + 1 :]])
    return _put(value, path[:-1], {name: field for name, field in parent.items() if name != path[-1]})


def _test(value: Any, path: tuple[str, ...], expected: Any) -> Any:
    if _get(value, path) != expected:
        raise ValueError(f"testing value {'/'.join(path)} failed")
    return value

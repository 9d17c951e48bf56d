"""Patches as pure functions: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge patch."""

from typing import Any

from muster.embedded.api_errors import Cause, bad_request, unsupported
from muster.embedded.patch.strategic_merge import strategic
from muster.kube.cluster import PatchType, Raw
from muster.kube.errors import ApiError

MOST_OPERATIONS = 10_000


def patched(value: Raw, patch: Any, kind: PatchType, *, custom: bool = False) -> Raw:
    """`value` as a patch makes it; neither is changed. Custom kinds know no strategic merge (415)."""
    match kind:
        case "application/merge-patch+json":
            result = merge(value, _document(patch))
        case "application/json-patch+json":
            result = json_patch(value, patch)
        case "application/strategic-merge-patch+json" if not custom:
            result = strategic(value, _document(patch))
        case _:
            raise unsupported(f"the body of the request was in an unknown format: {kind}")
    return _document(result)


def _document(value: Any) -> Raw:
    if not isinstance(value, dict):
        raise bad_request("a patch must be, and must leave, an object")
    return value


def merge(value: Any, patch: Any) -> Any:
    """JSON merge patch: null deletes, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for name, inner in patch.items():
        if inner is None:
            found.pop(name, None)
        else:
            found[name] = merge(found.get(name), inner)
    return found


def json_patch(value: Any, operations: Any) -> Any:
    """JSON patch: every operation in order, or ApiError 422 and none of them."""
    if not isinstance(operations, list) or len(operations) > MOST_OPERATIONS:
        raise bad_request(f"a JSON patch is a list of at most {MOST_OPERATIONS} operations")
    for i, operation in enumerate(operations):
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request(f"operation {i} of the JSON patch has no path")
        value = _operate(value, operation, i)
    return value


def _operate(value: Any, operation: Raw, i: int) -> Any:
    try:
        path = _steps(operation["path"])
        match operation.get("op"):
            case "add":
                return _add(value, path, operation["value"])
            case "remove":
                return _remove(value, path)
            case "replace":
                _get(value, path)
                return _put(value, path, operation["value"])
            case "move":
                source = _steps(operation["from"])
                return _add(_remove(value, source), path, _get(value, source))
            case "copy":
                return _add(value, path, _get(value, _steps(operation["from"])))
            case "test":
                return _tested(value, path, operation["value"])
            case other:
                raise bad_request(f"operation {i} of the JSON patch: unknown `{other}`")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        what = f"operation {i} ({operation.get('op')} {operation['path']}) does not apply: {error}"
        raise ApiError(422, "Invalid", f"the server rejected our request: {what}", _cause(operation, what)) from None


def _cause(operation: Raw, what: str) -> dict[str, Any]:
    cause = Cause(operation["path"], what)
    return {"causes": [{"field": cause.field, "message": cause.message, "reason": cause.reason}]}


def _steps(path: Any) -> tuple[str, ...]:
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise ValueError(f"`{path}` is not a JSON pointer")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])


def _index(value: list[Any], step: str, end: int) -> int:
    at = int(step) if step.isdigit() else -1
    if not 0 <= at < end:
        raise IndexError(f"no place `{step}` in a list of {len(value)}")
    return at


def _get(value: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        value = value[_index(value, step, len(value))] if isinstance(value, list) else _field(value, step)
    return value


def _field(value: Any, step: str) -> Any:
    if not isinstance(value, dict) or step not in value:
        raise KeyError(step)
    return value[step]


def _put(value: Any, path: tuple[str, ...], new: Any) -> Any:
    """With one place changed; copies along the way only."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        at = _index(value, step, len(value))
        return [*value[:at], _put(value[at], rest, new), *value[at + 1 :]]
    if not isinstance(value, dict):
        raise KeyError(step)
    return {**value, step: _put(_field(value, step), rest, new) if rest else new}


def _add(value: Any, path: tuple[str, ...], new: Any) -> Any:
    if not path:
        return new
    parent = _get(value, path[:-1])
    if isinstance(parent, list):
        at = len(parent) if path[-1] == "-" else _index(parent, path[-1], len(parent) + 1)
        return _put(value, path[:-1], [*parent[:at], new, *parent[at:]])
    return _put(value, path, new)


def _remove(value: Any, path: tuple[str, ...]) -> Any:
    _get(value, path)
    parent = _get(value, path[:-1])
    if isinstance(parent, list):
        at = _index(parent, path[-1], len(parent))
        return _put(value, path[:-1], [*parent[:at], *parent[at + 1 :]])
    return _put(value, path[:-1], {name: inner for name, inner in parent.items() if name != path[-1]})


def _tested(value: Any, path: tuple[str, ...], wanted: Any) -> Any:
    if _get(value, path) != wanted:
        raise ValueError(f"testing value {'/'.join(path)} failed")
    return value

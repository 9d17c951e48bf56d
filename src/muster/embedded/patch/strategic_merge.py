"""Strategic merge patch: a merge patch that knows how the lists of built-in kinds merge, with its `$` directives."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from muster.embedded.api_errors import bad_request
from muster.embedded.patch.merge_keys import SETS, STRATEGIC

_DELETE, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def strategic(value: Any, patch: Any) -> Any:
    """`value` with `patch` merged into it; neither is changed."""
    if not isinstance(patch, dict):
        return patch
    match patch.get("$patch"):
        case "replace":
            return {name: inner for name, inner in patch.items() if name != "$patch"}
        case "delete":
            return {}
        case None | "merge":
            return _merged(value if isinstance(value, dict) else {}, patch)
        case other:
            raise bad_request(f"unknown patch type: {other}")


def _merged(value: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    found = _retained(value, patch.get("$retainKeys"))
    for name, inner in patch.items():
        if name.startswith("$"):
            continue
        if inner is None:
            found.pop(name, None)
        elif isinstance(inner, list):
            before = found.get(name)
            found[name] = _list(name, before if isinstance(before, list) else [], inner)
        else:
            found[name] = _plain(strategic(found.get(name), inner))
    for field, inner in _directed(patch, _ORDER, found):
        found[field] = _arranged(_key(field, inner, found[field]), found[field], inner, value.get(field) or [])
    for field, inner in _directed(patch, _DELETE, found):
        found[field] = [one for one in found[field] if one not in inner]
    changed = {name.removeprefix(_DELETE) for name in patch}
    return {name: inner for name, inner in found.items() if inner != [] or name not in changed}


def _directed(patch: dict[str, Any], directive: str, found: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """The lists that a directive is about, with what it says of each; ApiError 400 where either is no list."""
    for name, inner in patch.items():
        field = name.removeprefix(directive)
        if field == name or field not in found:
            continue
        if not isinstance(inner, list) or not isinstance(found[field], list):
            raise bad_request(f"{name}: this directive is a list, about a list")
        yield field, inner


def _retained(value: dict[str, Any], keys: Any) -> dict[str, Any]:
    return {name: inner for name, inner in value.items() if keys is None or name in keys}


def _plain(value: Any) -> Any:
    """Without nulls that had nothing to delete."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    return value


def _list(field: str, value: list[Any], patch: list[Any]) -> list[Any]:
    if field in SETS:
        return _arranged(None, value + [one for one in patch if one not in value], patch, value)
    if any(isinstance(one, dict) and one.get("$patch") == "replace" for one in patch):
        return [one for one in patch if not (isinstance(one, dict) and "$patch" in one)]
    key = _key(field, patch, value)
    if key is None:
        return [_plain(one) for one in patch]
    return _arranged(key, _by_key(key, value, patch), patch, value)


def _key(field: str, patch: Any, value: list[Any]) -> str | None:
    """The one field that tells the entries apart; None: they are plain, or the list is replaced as a whole."""
    keys = [key for (key,) in STRATEGIC.get(field, ())]
    if not keys:
        return None
    if not isinstance(patch, list) or any(not isinstance(one, dict) for one in [*value, *patch]):
        raise bad_request(f"{field}: every entry of this list must be an object")
    key = next((key for key in keys if any(key in one for one in [*value, *patch])), keys[0])
    for one in patch:
        if key not in one:
            raise bad_request(f"map: {str(one)[:200]} does not contain declared merge key: {key}")
    return key


def _by_key(key: str, value: list[Any], patch: list[Any]) -> list[Any]:
    found = {_mark(one, key): one for one in value}
    for one in patch:
        mark = _mark(one, key)
        if one.get("$patch") == "delete":
            found.pop(mark, None)
        else:
            found[mark] = _plain(strategic(found.get(mark), one))
    return list(found.values())


def _mark(one: Any, key: str | None) -> str:
    """What tells an entry apart, as text."""
    value = one.get(key) if key and isinstance(one, dict) else one
    return f"{type(value).__name__}:{value}"


def _arranged(key: str | None, merged: list[Any], order: list[Any], before: list[Any]) -> list[Any]:
    """Entries that the patch names in its order, the others as they were: each in front of the first that it was in
    front of before. So new entries come first where nothing else is said.
    """
    wanted, live = _places(key, order), _places(key, before)
    marked = [(_mark(one, key), one) for one in merged]
    named = deque(sorted((pair for pair in marked if pair[0] in wanted), key=lambda pair: wanted[pair[0]]))
    found: list[Any] = []
    for mark, one in marked:
        if mark in wanted:
            continue
        while named and not (mark in live and live[mark] < live.get(named[0][0], -1)):
            found.append(named.popleft()[1])
        found.append(one)
    return found + [one for _, one in named]


def _places(key: str | None, entries: list[Any]) -> dict[str, int]:
    return {_mark(one, key): i for i, one in enumerate(entries)}

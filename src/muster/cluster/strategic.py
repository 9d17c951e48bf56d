"""Strategic merge patch: a merge patch that knows how the lists of built-in kinds merge, with its `$` directives."""

from typing import Any

from muster.cluster.failures import bad_request
from muster.cluster.listkeys import SETS, STRATEGIC

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
    for name, inner in patch.items():
        if name.startswith(_DELETE):
            field = name.removeprefix(_DELETE)
            found[field] = [one for one in found.get(field, ()) if one not in inner]
    for name, inner in patch.items():
        if name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            found[field] = _ordered(field, found.get(field, []), inner)
    return {name: inner for name, inner in found.items() if inner != [] or name not in patch or patch[name] == []}


def _retained(value: dict[str, Any], keys: Any) -> dict[str, Any]:
    return {name: inner for name, inner in value.items() if keys is None or name in keys}


def _plain(value: Any) -> Any:
    """Without nulls that had nothing to delete."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    return value


def _list(field: str, value: Any, patch: list[Any]) -> list[Any]:
    if field in SETS:
        before = list(value or ())
        return before + [one for one in patch if one not in before]
    if any(isinstance(one, dict) and one.get("$patch") == "replace" for one in patch):
        return [one for one in patch if not (isinstance(one, dict) and "$patch" in one)]
    key = _key(field, value, patch)
    if key is None:
        return [_plain(one) for one in patch]
    return _by_key(key, list(value or ()), patch)


def _key(field: str, value: Any, patch: list[Any]) -> str | None:
    """The one field that tells the entries apart; None: the list is replaced as a whole."""
    entries = [*(value or ()), *patch]
    for (key,) in STRATEGIC.get(field, ()):
        if all(isinstance(one, dict) and key in one for one in entries):
            return key
    if STRATEGIC.get(field) and any(not isinstance(one, dict) for one in entries):
        raise bad_request(f"{field}: every entry of this list must be an object")
    return None


def _by_key(key: str, value: list[Any], patch: list[Any]) -> list[Any]:
    found = {_mark(one[key]): one for one in value}
    for one in patch:
        mark = _mark(one[key])
        if one.get("$patch") == "delete":
            found.pop(mark, None)
        else:
            found[mark] = _plain(strategic(found.get(mark), one))
    return list(found.values())


def _mark(value: Any) -> str:
    return f"{type(value).__name__}:{value}"


def _ordered(field: str, value: list[Any], order: Any) -> list[Any]:
    """Entries in the given order; those that it does not name come after it, as they were."""
    wanted = [_name(field, one) for one in order]
    places = {name: i for i, name in reversed(list(enumerate(wanted)))}
    return sorted(value, key=lambda one: places.get(_name(field, one), len(places)))


def _name(field: str, one: Any) -> str:
    """What tells an entry apart, as text."""
    if not isinstance(one, dict):
        return _mark(one)
    return next((_mark(one[key]) for (key,) in STRATEGIC.get(field, ()) if key in one), "")

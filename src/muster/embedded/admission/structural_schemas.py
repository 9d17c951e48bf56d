"""Structural schemas of custom kinds: what is pruned, what is filled in, and what does not fit.

CEL rules are not judged here: for muster's own kinds `rules.check` says the same and more.
"""

import re
from collections.abc import Iterator
from typing import Any

from muster.api.moment import moment
from muster.embedded.api_errors import Cause
from muster.kube.cluster import Raw

_KEEP = "x-kubernetes-preserve-unknown-fields"
_ANY = "x-kubernetes-int-or-string"
MOST_PROBLEMS = 100


def pruned(value: Any, schema: Raw, top: bool = True) -> Any:
    """Without fields that the schema does not know; the metadata of an object is not its business."""
    if isinstance(value, list):
        items = schema.get("items")
        return [pruned(one, items, False) for one in value] if isinstance(items, dict) else value
    if not isinstance(value, dict):
        return value
    return {
        name: pruned(one, inner, False) if isinstance(inner, dict) else one
        for name, one in value.items()
        if (inner := _inner(schema, name, top)) is not None
    }


def _inner(schema: Raw, name: str, top: bool) -> Raw | bool | None:
    """The schema of a field; True: whatever it is, it stays; None: it is unknown."""
    if top and name in ("apiVersion", "kind", "metadata"):
        return True
    if name in schema.get("properties", {}):
        found: Raw = schema["properties"][name]
        return found
    more = schema.get("additionalProperties")
    if isinstance(more, dict) or more is True:
        return more
    return True if schema.get(_KEEP) else None


def unknown(value: Any, schema: Raw, at: str = "", top: bool = True) -> Iterator[str]:
    """Where fields are that `pruned` would drop."""
    if isinstance(value, list):
        for i, one in enumerate(value):
            yield from unknown(one, schema.get("items") or {_KEEP: True}, f"{at}[{i}]", False)
    if not isinstance(value, dict):
        return
    for name, one in value.items():
        place = f"{at}.{name}" if at else str(name)
        inner = _inner(schema, name, top)
        if inner is None:
            yield place
        elif isinstance(inner, dict):
            yield from unknown(one, inner, place, False)


def filled(value: Any, schema: Raw) -> Any:
    """With the defaults of fields that are missing, or null where null is not allowed."""
    if isinstance(value, list):
        items = schema.get("items")
        return [filled(one, items) for one in value] if isinstance(items, dict) else value
    if not isinstance(value, dict):
        return value
    found = dict(value)
    for name, inner in schema.get("properties", {}).items():
        missing = name not in found or (found[name] is None and not inner.get("nullable"))
        if missing and "default" in inner:
            found[name] = inner["default"]
        if name in found:
            found[name] = filled(found[name], inner)
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        known = schema.get("properties", {})
        found = {name: one if name in known else filled(one, more) for name, one in found.items()}
    return found


def misfits(value: Any, schema: Raw, at: str = "") -> Iterator[Cause]:
    """Everything about a value that its schema does not allow."""
    if value is None and schema.get("nullable"):
        return
    if not _typed(value, schema):
        wanted = "integer or string" if schema.get(_ANY) else schema.get("type", "")
        yield Cause(at, f'Invalid value: "{_called(value)}": must be of type {wanted}', "FieldValueTypeInvalid")
        return
    if "enum" in schema and value not in schema["enum"]:
        words = ", ".join(f'"{one}"' for one in schema["enum"])
        yield Cause(at, f'Unsupported value: "{str(value)[:80]}": supported values: {words}', "FieldValueNotSupported")
    if isinstance(value, dict):
        yield from _of_map(value, schema, at)
    elif isinstance(value, list):
        yield from _of_list(value, schema, at)
    elif isinstance(value, str):
        yield from _of_text(value, schema, at)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _of_number(value, schema, at)


def _typed(value: Any, schema: Raw) -> bool:
    if schema.get(_ANY):
        return isinstance(value, int | str) and not isinstance(value, bool)
    match schema.get("type"):
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return (isinstance(value, int) and not isinstance(value, bool)) or (
                isinstance(value, float) and value.is_integer()
            )
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            return True


def _called(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")


def _of_map(value: Raw, schema: Raw, at: str) -> Iterator[Cause]:
    for name in schema.get("required", ()):
        if name not in value:
            yield Cause(_at(at, name), "Required value", "FieldValueRequired")
    yield from _counted(len(value), schema, "Properties", at)
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    for name, one in value.items():
        inner = properties.get(name, more)
        if isinstance(inner, dict):
            yield from misfits(one, inner, _at(at, name))


def _at(at: str, name: str) -> str:
    return f"{at}.{name}" if at else str(name)


def _of_list(value: list[Any], schema: Raw, at: str) -> Iterator[Cause]:
    yield from _counted(len(value), schema, "Items", at)
    items = schema.get("items")
    if isinstance(items, dict):
        for i, one in enumerate(value):
            yield from misfits(one, items, f"{at}[{i}]")
    yield from _unique(value, schema, at)


def _unique(value: list[Any], schema: Raw, at: str) -> Iterator[Cause]:
    """List sets and list maps hold nothing twice."""
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("map", "set"):
        return
    keys, seen = schema.get("x-kubernetes-list-map-keys", ()), set()
    for i, one in enumerate(value):
        mark = repr([one.get(key) for key in keys]) if kind == "map" and isinstance(one, dict) else repr(one)
        if mark in seen:
            yield Cause(f"{at}[{i}]", f"Duplicate value: {mark[:80]}", "FieldValueDuplicate")
        seen.add(mark)


def _counted(count: int, schema: Raw, word: str, at: str) -> Iterator[Cause]:
    if count > schema.get(f"max{word}", count):
        yield Cause(at, f"Too many: {count}: must have at most {schema[f'max{word}']} items", "FieldValueTooMany")
    if count < schema.get(f"min{word}", count):
        yield Cause(at, f"Invalid value: {count}: must have at least {schema[f'min{word}']} items")


def _of_text(value: str, schema: Raw, at: str) -> Iterator[Cause]:
    if len(value) > schema.get("maxLength", len(value)):
        yield Cause(at, f"Too long: may not be more than {schema['maxLength']} bytes", "FieldValueTooLong")
    if len(value) < schema.get("minLength", 0):
        yield Cause(at, f'Invalid value: "{value}": should be at least {schema["minLength"]} chars long')
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield Cause(at, f"Invalid value: \"{value[:80]}\": should match '{schema['pattern']}'")
    if schema.get("format") == "date-time" and moment(value) is None:
        yield Cause(at, f'Invalid value: "{value[:80]}": must be of type date-time')


def _of_number(value: float, schema: Raw, at: str) -> Iterator[Cause]:
    if value < schema.get("minimum", value) or (value == schema.get("minimum") and schema.get("exclusiveMinimum")):
        yield Cause(at, f"Invalid value: {value}: should be greater than or equal to {schema['minimum']}")
    if value > schema.get("maximum", value) or (value == schema.get("maximum") and schema.get("exclusiveMaximum")):
        yield Cause(at, f"Invalid value: {value}: should be less than or equal to {schema['maximum']}")


# what a schema itself must look like; its parts are looked at one by one
_META: Raw = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": ["object", "array", "string", "boolean", "integer", "number", ""]},
        "format": {"type": "string"},
        "pattern": {"type": "string"},
        "required": {"type": "array", "items": {"type": "string"}},
        "properties": {"type": "object", "additionalProperties": {"type": "object"}},
        "items": {"type": "object"},
        "enum": {"type": "array"},
        "nullable": {"type": "boolean"},
        "x-kubernetes-list-type": {"type": "string", "enum": ["atomic", "set", "map"]},
        "x-kubernetes-list-map-keys": {"type": "array", "items": {"type": "string"}},
        **{
            f"{bound}{what}": {"type": "integer"}
            for bound in ("min", "max")
            for what in ("Length", "Items", "Properties")
        },
        "minimum": {"type": "number"},
        "maximum": {"type": "number"},
    },
}


def broken(schema: Any, at: str) -> Iterator[Cause]:
    """What is wrong with a schema itself."""
    found = list(misfits(schema, _META, at))
    yield from found
    if found:
        return
    yield from _pattern(schema.get("pattern", ""), f"{at}.pattern")
    for name, inner in schema.get("properties", {}).items():
        yield from broken(inner, f"{at}.properties[{name}]")
    if "items" in schema:
        yield from broken(schema["items"], f"{at}.items")
    more = schema.get("additionalProperties", True)
    if not isinstance(more, bool):
        yield from broken(more, f"{at}.additionalProperties")


def _pattern(text: str, at: str) -> Iterator[Cause]:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        yield Cause(at, f'Invalid value: "{text[:80]}": must be a valid regular expression, but isn\'t: {error}')

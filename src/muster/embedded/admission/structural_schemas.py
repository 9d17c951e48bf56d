"""Structural schemas of custom kinds: pruning, defaulting and validation.

CEL rules are not evaluated: for muster's own kinds `validation.check` finds the same problems and more.
"""

import re
from collections.abc import Iterator
from typing import Any

from muster.api.moment import parse_time
from muster.embedded.api_errors import Cause
from muster.kube.cluster import Raw

_PRESERVE_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
MOST_PROBLEMS = 100


def prune(value: Any, schema: Raw, is_root: bool = True) -> Any:
    """A value without fields that the schema does not declare; the metadata of an object is kept whole."""
    if isinstance(value, list):
        items = schema.get("items")
        return [prune(item, items, False) for item in value] if isinstance(items, dict) else value
    if not isinstance(value, dict):
        return value
    return {
        name: prune(field, field_schema, False) if isinstance(field_schema, dict) else field
        for name, field in value.items()
        if (field_schema := _field_schema(schema, name, is_root)) is not None
    }


def _field_schema(schema: Raw, name: str, is_root: bool) -> Raw | bool | None:
    """The schema of a field; True: any value is kept; None: the field is unknown."""
    if is_root and name in ("apiVersion", "kind", "metadata"):
        return True
    if name in schema.get("properties", {}):
        field_schema: Raw = schema["properties"][name]
        return field_schema
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict) or additional is True:
        return additional
    return True if schema.get(_PRESERVE_UNKNOWN) else None


def unknown_fields(value: Any, schema: Raw, at: str = "", is_root: bool = True) -> Iterator[str]:
    """The paths of fields that `prune` would drop."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from unknown_fields(item, schema.get("items") or {_PRESERVE_UNKNOWN: True}, f"{at}[{i}]", False)
    if not isinstance(value, dict):
        return
    for name, field in value.items():
        path = _join(at, name)
        field_schema = _field_schema(schema, name, is_root)
        if field_schema is None:
            yield path
        elif isinstance(field_schema, dict):
            yield from unknown_fields(field, field_schema, path, False)


def apply_schema_defaults(value: Any, schema: Raw) -> Any:
    """A value with the defaults of fields that are missing, or null where null is not allowed."""
    if isinstance(value, list):
        items = schema.get("items")
        return [apply_schema_defaults(item, items) for item in value] if isinstance(items, dict) else value
    if not isinstance(value, dict):
        return value
    defaulted, properties = dict(value), schema.get("properties", {})
    for name, field_schema in properties.items():
        is_missing = name not in defaulted or (defaulted[name] is None and not field_schema.get("nullable"))
        if is_missing and "default" in field_schema:
            defaulted[name] = field_schema["default"]
        if name in defaulted:
            defaulted[name] = apply_schema_defaults(defaulted[name], field_schema)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        for name in defaulted.keys() - properties.keys():
            defaulted[name] = apply_schema_defaults(defaulted[name], additional)
    return defaulted


def schema_violations(value: Any, schema: Raw, at: str = "") -> Iterator[Cause]:
    """Everything about a value that its schema does not allow."""
    if value is None and schema.get("nullable"):
        return
    if not _has_type(value, schema):
        expected = "integer or string" if schema.get(_INT_OR_STRING) else schema.get("type", "")
        yield Cause(at, f'Invalid value: "{_type_name(value)}": must be of type {expected}', "FieldValueTypeInvalid")
        return
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{item}"' for item in schema["enum"])
        yield Cause(
            at, f'Unsupported value: "{str(value)[:80]}": supported values: {supported}', "FieldValueNotSupported"
        )
    if isinstance(value, dict):
        yield from _map_violations(value, schema, at)
    elif isinstance(value, list):
        yield from _list_violations(value, schema, at)
    elif isinstance(value, str):
        yield from _string_violations(value, schema, at)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_violations(value, schema, at)


def _has_type(value: Any, schema: Raw) -> bool:
    if schema.get(_INT_OR_STRING):
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


def _type_name(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")


def _map_violations(value: Raw, schema: Raw, at: str) -> Iterator[Cause]:
    for name in schema.get("required", ()):
        if name not in value:
            yield Cause(_join(at, name), "Required value", "FieldValueRequired")
    yield from _size_violations(len(value), schema, "Properties", at)
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    for name, field in value.items():
        field_schema = properties.get(name, additional)
        if isinstance(field_schema, dict):
            yield from schema_violations(field, field_schema, _join(at, name))


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else str(name)


def _list_violations(value: list[Any], schema: Raw, at: str) -> Iterator[Cause]:
    yield from _size_violations(len(value), schema, "Items", at)
    items = schema.get("items")
    if isinstance(items, dict):
        for i, item in enumerate(value):
            yield from schema_violations(item, items, f"{at}[{i}]")
    yield from _duplicates(value, schema, at)


def _duplicates(value: list[Any], schema: Raw, at: str) -> Iterator[Cause]:
    """Items of a list set, or map keys of a list map, that occur twice."""
    list_type = schema.get("x-kubernetes-list-type")
    if list_type not in ("map", "set"):
        return
    keys, seen = schema.get("x-kubernetes-list-map-keys", ()), set()
    for i, item in enumerate(value):
        is_map_item = list_type == "map" and isinstance(item, dict)
        identity = repr([item.get(key) for key in keys]) if is_map_item else repr(item)
        if identity in seen:
            yield Cause(f"{at}[{i}]", f"Duplicate value: {identity[:80]}", "FieldValueDuplicate")
        seen.add(identity)


def _size_violations(count: int, schema: Raw, word: str, at: str) -> Iterator[Cause]:
    if count > schema.get(f"max{word}", count):
        yield Cause(at, f"Too many: {count}: must have at most {schema[f'max{word}']} items", "FieldValueTooMany")
    if count < schema.get(f"min{word}", count):
        yield Cause(at, f"Invalid value: {count}: must have at least {schema[f'min{word}']} items")


def _string_violations(value: str, schema: Raw, at: str) -> Iterator[Cause]:
    if len(value) > schema.get("maxLength", len(value)):
        yield Cause(at, f"Too long: may not be more than {schema['maxLength']} bytes", "FieldValueTooLong")
    if len(value) < schema.get("minLength", 0):
        yield Cause(at, f'Invalid value: "{value}": should be at least {schema["minLength"]} chars long')
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield Cause(at, f"Invalid value: \"{value[:80]}\": should match '{schema['pattern']}'")
    if schema.get("format") == "date-time" and parse_time(value) is None:
        yield Cause(at, f'Invalid value: "{value[:80]}": must be of type date-time')


def _number_violations(value: float, schema: Raw, at: str) -> Iterator[Cause]:
    if value < schema.get("minimum", value) or (value == schema.get("minimum") and schema.get("exclusiveMinimum")):
        yield Cause(at, f"Invalid value: {value}: should be greater than or equal to {schema['minimum']}")
    if value > schema.get("maximum", value) or (value == schema.get("maximum") and schema.get("exclusiveMaximum")):
        yield Cause(at, f"Invalid value: {value}: should be less than or equal to {schema['maximum']}")


# the schema of a schema; nested schemas are validated one by one
_META_SCHEMA: Raw = {
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


def schema_problems(schema: Any, at: str) -> Iterator[Cause]:
    """What is wrong with a schema itself."""
    violations = list(schema_violations(schema, _META_SCHEMA, at))
    yield from violations
    if violations:
        return
    yield from _pattern_problems(schema.get("pattern", ""), f"{at}.pattern")
    for name, field_schema in schema.get("properties", {}).items():
        yield from schema_problems(field_schema, f"{at}.properties[{name}]")
    if "items" in schema:
        yield from schema_problems(schema["items"], f"{at}.items")
    additional = schema.get("additionalProperties", True)
    if not isinstance(additional, bool):
        yield from schema_problems(additional, f"{at}.additionalProperties")


def _pattern_problems(text: str, at: str) -> Iterator[Cause]:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        yield Cause(at, f'Invalid value: "{text[:80]}": must be a valid regular expression, but isn\'t: {error}')

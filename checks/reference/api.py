"""docs/reference/api.md, from the CRDs that `muster crds` prints."""

import json
from collections.abc import Iterator
from typing import Any

from checks.reference.tables import row
from muster.validation.crds import crds

Schema = dict[str, Any]
HEAD = """\
# Fields of the API

<!-- Made from src/muster/api and src/muster/validation/crds.py by `make golden`; change it there. -->

The kinds that muster reads and writes, field by field, as `muster crds` prints them. `[]` stands for the items of a
list and `{}` for the values of a map. The admission webhook and `muster validate` check more than a schema can:
[the rules](rules.md) say what.

| kind | version | short name | |
|---|---|---|---|
"""


def reference() -> str:
    """Every kind with its fields and the rules of its schema."""
    return HEAD + "".join(map(_kind_row, crds())) + "".join(map(_section, crds()))


def _kind_row(crd: Schema) -> str:
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    about = version["schema"]["openAPIV3Schema"]["description"]
    group = f"{crd['spec']['group']}/{version['name']}"
    return row(f"[{names['kind']}](#{names['kind'].lower()})", f"`{group}`", f"`{names['shortNames'][0]}`", about)


def _section(crd: Schema) -> str:
    kind, schema = crd["spec"]["names"]["kind"], crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    scope = "in a namespace" if crd["spec"]["scope"] == "Namespaced" else "for the whole cluster"
    text = f"\n## {kind}\n\n{schema['description']} It exists {scope}.\n"
    for part in ("spec", "status"):
        if part in schema["properties"]:
            text += f"\n### {kind} {part}\n\n{_table(schema['properties'][part], part)}"
    rules = "".join(f"- `{path}`: {message}\n" for path, message in _rules(schema, ""))
    return text + (f"\n### {kind} rules of the schema\n\n{rules}" if rules else "")


def _table(schema: Schema, at: str) -> str:
    rows = "".join(row(f"`{path}`", _type(field), _about(field, must)) for path, field, must in _fields(schema, at))
    return f"| field | type | meaning |\n|---|---|---|\n{rows}"


def _fields(schema: Schema, at: str) -> Iterator[tuple[str, Schema, bool]]:
    """Every field below, with its path and whether it must be there."""
    for name, field in schema.get("properties", {}).items():
        path = f"{at}.{name}"
        yield path, field, name in schema.get("required", ())
        for inner, suffix in _inside(field):
            yield from _fields(inner, f"{path}{suffix}")


def _inside(field: Schema) -> Iterator[tuple[Schema, str]]:
    """The schema whose fields stand below this one: its own, or those of its items or values."""
    if "items" in field:
        yield field["items"], "[]"
    elif isinstance(field.get("additionalProperties"), dict):
        yield field["additionalProperties"], "{}"
    else:
        yield field, ""


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity or number"
    if "items" in field:
        return f"list of {_type(field['items'])}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map of {_type(field['additionalProperties'])}"
    return str({"date-time": "time"}.get(field.get("format", ""), field.get("type", "any")))


def _about(field: Schema, is_required: bool) -> str:
    limits = list(_limits(field))
    about = field.get("description") or field.get("items", {}).get("description", "")
    parts = ("**Required.**" if is_required else "", about, f"({'; '.join(limits)})" if limits else "")
    return " ".join(filter(None, parts))


def _limits(field: Schema) -> Iterator[str]:
    if "enum" in field:
        yield ", ".join(f"`{word}`" for word in field["enum"])
    if "default" in field:
        yield f"default `{json.dumps(field['default'])}`"
    if "minimum" in field:
        yield f"at least {field['minimum']}"
    if "maxItems" in field:
        yield f"at most {field['maxItems']:,} items"
    if "maxLength" in field:
        yield f"at most {field['maxLength']:,} characters"
    if "pattern" in field:
        yield f"matches `{field['pattern']}`"


def _rules(schema: Schema, at: str) -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield at or "the object", rule["message"]
    for name, field in schema.get("properties", {}).items():
        for inner, suffix in _inside(field):
            yield from _rules(inner, f"{at}.{name}{suffix}".lstrip("."))

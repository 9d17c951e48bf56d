"""Structural schemas: pruning, defaulting and validation."""

from typing import Any

import pytest

from muster.embedded.admission.structural_schemas import (
    apply_schema_defaults,
    prune,
    schema_problems,
    schema_violations,
    unknown_fields,
)
from muster.validation.crds import crds

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "share": {"type": "number"},
                "on": {"type": "boolean", "default": True},
                "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
                "when": {"type": "string", "format": "date-time"},
                "port": {"x-kubernetes-int-or-string": True},
                "maybe": {"type": "string", "nullable": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "words": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "map": {
                    "type": "array",
                    "maxItems": 2,
                    "minItems": 1,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"default": 1}}},
                },
            },
        }
    },
}


def test_unknown_fields_are_pruned_and_metadata_is_not() -> None:
    raw = {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "a", "annotations": {"x": "y"}},
        "spec": {"size": 1, "no": 1, "free": {"any": [1]}, "words": {"w": "x"}, "map": [{"k": "a", "no": 1}]},
        "no": 1,
    }
    pruned = prune(raw, SCHEMA)
    assert pruned["metadata"] == raw["metadata"]
    assert pruned["spec"] == {"size": 1, "free": {"any": [1]}, "words": {"w": "x"}, "map": [{"k": "a"}]}
    assert "no" not in pruned
    assert sorted(unknown_fields(raw, SCHEMA)) == ["no", "spec.map[0].no", "spec.no"]
    assert list(unknown_fields(pruned, SCHEMA)) == []


def test_defaults_replace_missing_and_null_fields() -> None:
    raw = {"spec": {"size": 1, "on": None, "map": [{"k": "a"}]}}
    assert apply_schema_defaults(raw, SCHEMA) == {
        "spec": {"size": 1, "on": True, "mode": "a", "map": [{"k": "a", "v": 1}]}
    }
    assert apply_schema_defaults({}, SCHEMA) == {}
    assert raw == {"spec": {"size": 1, "on": None, "map": [{"k": "a"}]}}


@pytest.mark.parametrize(
    "spec",
    [
        {"size": 9, "share": 1, "on": False, "mode": "b", "name": "ab", "when": "2026-01-01T00:00:00Z"},
        {"size": 1.0, "share": 0.5, "port": 80, "maybe": None},
        {"size": 1, "port": "http", "free": {"a": []}, "words": {}, "set": ["a", "b"]},
        {"size": 1, "map": [{"k": "a"}, {"k": "b"}]},
    ],
)
def test_valid_values_have_no_violations(spec: Any) -> None:
    assert list(schema_violations({"spec": spec}, SCHEMA)) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", "1"),
        ("size", True),
        ("size", 1.5),
        ("size", 0),
        ("size", 10),
        ("share", "1"),
        ("on", 1),
        ("mode", "c"),
        ("name", "a"),
        ("name", "abcde"),
        ("name", "AB"),
        ("name", None),
        ("when", "yesterday"),
        ("port", True),
        ("port", 1.5),
        ("free", []),
        ("words", {"a": 1}),
        ("words", {"a": "", "b": "", "c": ""}),
        ("set", ["a", "a"]),
        ("set", "a"),
        ("map", []),
        ("map", [{"k": "a"}, {"k": "a"}]),
        ("map", [{"k": "a"}, {"k": "b"}, {"k": "c"}]),
    ],
)
def test_violations_name_their_field(field: str, value: Any) -> None:
    (problem,) = schema_violations({"spec": {"size": 1, field: value}}, SCHEMA)
    assert problem.field.startswith(f"spec.{field}")


def test_missing_required_fields_are_violations() -> None:
    assert [violation.field for violation in schema_violations({}, SCHEMA)] == ["spec"]
    assert [violation.field for violation in schema_violations({"spec": {}}, SCHEMA)] == ["spec.size"]


def test_musters_schemas_declare_all_their_fields() -> None:
    schema = crds()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    raw = {"spec": {"subGroups": [{"name": "a", "minMember": 1, "nonsense": 1}], "queue": "q"}}
    assert list(unknown_fields(raw, schema)) == ["spec.subGroups[0].nonsense"]
    assert list(schema_violations(prune(raw, schema), schema)) == []


@pytest.mark.parametrize(
    "schema",
    [3, [], {"type": "text"}, {"properties": []}, {"properties": {"a": 1}}, {"items": []}, {"required": "a"},
     {"pattern": "("}, {"enum": 1}, {"maxItems": "1"}, {"additionalProperties": 1}, {"minimum": "1"},
     {"properties": {"a": {"items": {"pattern": "["}}}}, {"x-kubernetes-list-map-keys": 1}],
)  # fmt: skip
def test_invalid_schemas_have_problems(schema: Any) -> None:
    assert len(list(schema_problems(schema, "schema"))) == 1


def test_valid_schemas_have_no_problems() -> None:
    schemas = [version["schema"]["openAPIV3Schema"] for crd in crds() for version in crd["spec"]["versions"]]
    for schema in (SCHEMA, *schemas):
        assert list(schema_problems(schema, "schema")) == []

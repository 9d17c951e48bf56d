"""Kinds are named once."""

import ast
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import muster
from muster.api import resources
from muster.api.resources import Resource

HOME = Path(resources.__file__)
SOURCES = [path for path in Path(muster.__file__).parent.rglob("*.py") if path != HOME]
KNOWN = {name: value for name, value in vars(resources).items() if isinstance(value, Resource)}


def literals(tree: ast.AST) -> Iterator[ast.Constant]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def resource_calls(tree: ast.AST) -> Iterator[ast.Call]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    yield from (call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Resource")


def test_no_other_module_spells_out_a_resource() -> None:
    """One place to look up a kind, and to change its version. A CRD's own names are read, not spelt out."""
    spelt_out = [
        f"{path}:{call.lineno}"
        for path in SOURCES
        for call in resource_calls(ast.parse(path.read_text()))
        if any(isinstance(argument, ast.Constant) and isinstance(argument.value, str) for argument in call.args)
    ]
    assert spelt_out == []


def test_no_other_module_spells_out_a_group_and_version() -> None:
    versions = {resource.api_version for resource in KNOWN.values() if resource.group}
    spelt_out = [
        f"{path}:{literal.lineno}: {literal.value!r}"
        for path in SOURCES
        for literal in literals(ast.parse(path.read_text()))
        if literal.value in versions
    ]
    assert spelt_out == []


def test_no_kind_is_there_twice() -> None:
    names = sorted((resource.api_version, resource.plural, resource.kind) for resource in KNOWN.values())
    assert [name for name, group in groupby(names) if len([*group]) > 1] == []

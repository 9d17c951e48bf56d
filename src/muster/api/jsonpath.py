"""The JSONPath of printer columns and of users' own kinds.

`.a.b`, `[0]`, `[-1:]`, `[*]`, `['a.b']`, `[?(@.type=="Ready")]`.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"""\.?(?P<field>(?:[\w\-/]|\\\.)+)|\[(?P<index>-?\d{1,9})\]|\[(?P<range>(?:-?\d{1,9})?:(?:-?\d{1,9})?)\]"""
    r"""|(?P<all>\[\*\]|\.\*)|\[['"](?P<quoted>[^'"]+)['"]\]"""
    r"""|\[\?\(@\.(?P<where>[\w.]+)\s*==\s*['"]?(?P<value>[^'")]*)['"]?\)\]"""
)


@lru_cache(maxsize=1024)
def parse_path(expression: str) -> tuple[tuple[str, str], ...]:
    """The steps of a path; one that cannot be read matches nothing."""
    text = expression.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    parts: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            return (("none", ""),)
        parts.append(_step(step))
        at = step.end()
    return tuple(parts)


def _step(step: re.Match[str]) -> tuple[str, str]:
    if step["where"]:
        return ("where", f"{step['where']}={step['value']}")
    if step["all"]:
        return ("all", "")
    if step["range"]:
        return ("range", step["range"])
    if step["index"]:
        return ("index", step["index"])
    return ("field", (step["field"] or step["quoted"]).replace("\\.", "."))


def is_readable(expression: str) -> bool:
    """Whether a path has the form of one, and names something."""
    return bool(steps := parse_path(expression)) and steps[0][0] != "none"


def evaluate(raw: Any, expression: str) -> list[Any]:
    """The values at a path, without nulls."""
    values = [raw]
    for operation, operand in parse_path(expression):
        values = [inner for value in values for inner in _inner(value, operation, operand)]
    return [value for value in values if value is not None]


def _inner(value: Any, operation: str, operand: str) -> Iterator[Any]:
    match operation, value:
        case "field", dict():
            yield value.get(operand)
        case "index", list() if -len(value) <= int(operand) < len(value):
            yield value[int(operand)]
        case "range", list():
            start, end = (int(text) if text else None for text in operand.split(":"))
            yield from value[start:end]
        case "all", list():
            yield from value
        case "all", dict():
            yield from value.values()
        case "where", list():
            field, _, expected = operand.partition("=")
            yield from (item for item in value if expected in map(str, evaluate(item, f".{field}")))
        case _:
            return

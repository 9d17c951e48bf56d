"""Reads the source for every word that it gives as a reason: in refusals, conditions, events and holds."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from muster.planning.refusal import Refusal
from muster.reporting import event_messages
from muster.validation.pods.membership import Why

SOURCE = Path(__file__).parents[2] / "src"
# Which argument of a call is the reason. `WorkloadCondition` is not among them: these conditions are those of the
# operators that the embedded cluster stands in for.
REASON_AT = {
    "Ungrouped": 0,
    "OwnerEvent": 0,
    "GateHold": 0,
    "termination_event": 0,
    "Condition": 2,
    "HealthCondition": 2,
    "event": 2,
    "about_group": 1,
    "record_failure": 2,
}


def reasons_in_code() -> set[str]:
    """Words of types and tables, and constants where a condition, an event or a hold is made."""
    events = {event_messages.SCHEDULED, *event_messages.DONE.values(), *event_messages.DOING.values()}
    refusals = {kind.__name__ for kind in get_args(Refusal)}
    return {*refusals, *get_args(Why), *events, *_constants()}


def _constants() -> Iterator[str]:
    for path in sorted((SOURCE / "muster").rglob("*.py")):
        syntax = ast.parse(path.read_text(encoding="utf-8"))
        if expressions := [*_reasons(syntax)]:
            name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            names = vars(import_module(name))
            yield from (word for expression in expressions for word in _words(expression, names))


def _reasons(syntax: ast.Module) -> Iterator[ast.expr]:
    """What stands for a reason: an argument of a call, or what is assigned to `reason`."""
    for node in ast.walk(syntax):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in REASON_AT:
                yield from node.args[REASON_AT[name] : REASON_AT[name] + 1]
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id="reason"), *_])], value=ast.Tuple(elts=[value, *_])):
                yield value
            case _:
                continue


def _words(expression: ast.expr, names: dict[str, Any]) -> Iterator[str]:
    """The constants of an expression; what is handed on, such as a parameter, was a constant elsewhere."""
    match expression:
        case ast.Constant(value=str(word)):
            yield word
        case ast.Name(id=name) if isinstance(names.get(name), str):
            yield names[name]
        case ast.IfExp(body=body, orelse=other):
            yield from (*_words(body, names), *_words(other, names))
        case ast.BoolOp(values=values):
            yield from (word for value in values for word in _words(value, names))
        case _:
            return

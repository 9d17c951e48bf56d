"""Rows by table and key, and changes of them: what differs, one change after another, and the way back.

Rule 1: `apply(before, diff(before, after)) == after`. Rule 2: a change holds values, not steps: of two changes of one
row the later one counts. Rule 3: None is a row that is gone.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")
Tables = Mapping[str, Mapping[str, T]]
Changes = Mapping[str, Mapping[str, T | None]]


def diff(before: Tables[T], after: Tables[T]) -> dict[str, dict[str, T | None]]:
    """What differs; tables without a difference are absent."""
    changes = {name: _rows_changed(before.get(name, {}), after.get(name, {})) for name in {**before, **after}}
    return {name: rows for name, rows in changes.items() if rows}


def _rows_changed(before: Mapping[str, T], after: Mapping[str, T]) -> dict[str, T | None]:
    gone: dict[str, T | None] = dict.fromkeys(before.keys() - after.keys())
    return {key: row for key, row in after.items() if before.get(key) != row} | gone


def apply(tables: Tables[T], changes: Changes[T]) -> dict[str, dict[str, T]]:
    """The tables after a change."""
    after = {name: dict(rows) for name, rows in tables.items()}
    for name, rows in changes.items():
        table = after.setdefault(name, {})
        for key, row in rows.items():
            if row is None:
                table.pop(key, None)
            else:
                table[key] = row
    return after


def merge(changes: Iterable[Changes[T]]) -> dict[str, dict[str, T | None]]:
    """One change for several, in their order."""
    merged: dict[str, dict[str, T | None]] = {}
    for change in changes:
        for name, rows in change.items():
            merged.setdefault(name, {}).update(rows)
    return merged


def reverse(before: Tables[T], changes: Changes[T]) -> dict[str, dict[str, T | None]]:
    """The change that leads from the tables after a change to those before it."""
    return {name: {key: before.get(name, {}).get(key) for key in rows} for name, rows in changes.items()}

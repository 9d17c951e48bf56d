"""Styled text as a value: spans with a role each. The shell decides whether roles become colours."""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

Role = Literal["plain", "name", "good", "bad", "warn", "dim"]


class Span(Struct, frozen=True):
    """A piece of a line."""

    text: str
    role: Role = "plain"


Line = Sequence[Span]


def plain(lines: Iterable[Line]) -> str:
    """Without any style: for pipes, files and tests."""
    return "\n".join("".join(span.text for span in line).rstrip() for line in lines)


def many(number: int, word: str) -> str:
    """A number with its noun: `1 pod`, `2 pods`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def table(rows: Sequence[Sequence[Span]], gap: int = 2) -> list[list[Span]]:
    """Columns as wide as their widest cell; the last one is not padded."""
    if not rows:
        return []
    widths = [max(len(row[i].text) for row in rows if i < len(row)) for i in range(max(map(len, rows)))]
    return [
        [
            Span(cell.text + " " * (widths[i] - len(cell.text) + gap) * (i < len(row) - 1), cell.role)
            for i, cell in enumerate(row)
        ]
        for row in rows
    ]

"""Styled text as a value: spans with a role each. The shell decides whether roles become colours."""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from muster.api.quantity import format_amount, is_in_bytes
from muster.control_characters import visible

DEEPEST_DRAWN = 40  # levels
LONGEST_AMOUNT = 8  # characters
Role = Literal["plain", "name", "good", "bad", "warn", "dim"]


class Span(Struct, frozen=True):
    """A piece of a line."""

    text: str
    role: Role = "plain"


Line = Sequence[Span]


def plain(lines: Iterable[Line]) -> str:
    """Without any style: for pipes, files and tests. What objects hold paints nothing on a terminal, either."""
    return "\n".join(visible("".join(span.text for span in line).rstrip()) for line in lines)


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


def bar(taken: int, capacity: int, width: int = 8) -> str:
    """How much of something is taken, as a picture; anything at all shows."""
    filled = min(width, -(-taken * width // capacity)) if capacity else 0
    return "█" * filled + "░" * (width - filled)


def rough(resource: str, value: int) -> str:
    """An amount for people: exact where that is short, else to a tenth of its unit."""
    exact = format_amount(resource, value)
    if not is_in_bytes(resource) or len(exact) <= LONGEST_AMOUNT:
        return exact
    step = min((abs(value).bit_length() - 1) // 10, 6)
    tenths = (value * 10) >> (10 * step)
    return f"~{tenths // 10}.{tenths % 10}{'KMGTPE'[step - 1]}i"


def guides(parts: Iterable[tuple[str, Sequence[str]]]) -> dict[str, str]:
    """The lines in front of every name of a tree, given as parts with their children, parents first.

    Below `DEEPEST_DRAWN` a number stands for the lines.
    """
    lines: dict[str, str] = {}
    beneath: dict[str, str] = {}
    level: dict[str, int] = {}
    for name, children in parts:
        lines.setdefault(name, "")
        for child in children:
            level[child] = level.get(name, 0) + 1
            if level[child] <= DEEPEST_DRAWN:
                last = child == children[-1]
                lines[child] = beneath.get(name, "") + ("└─ " if last else "├─ ")
                beneath[child] = beneath.get(name, "") + ("   " if last else "│  ")
            else:
                lines[child] = f"⋯ level {level[child]}: "
    return lines

"""A problem is data: where it is, what is wrong, and what would be right."""

from typing import Literal

from msgspec import Struct

Severity = Literal["error", "warning"]


class Problem(Struct, frozen=True):
    """One thing that is wrong with an object.

    `rule` is the id of the rule. `key` identifies the problem apart from numbers: two versions of an object that share
    a key have the same problem (V4).
    """

    at: str
    says: str
    hint: str = ""
    severity: Severity = "error"
    rule: str = ""
    key: str = ""

    def __str__(self) -> str:
        text = f"{self.at}: {self.says}" if self.at else self.says
        return f"{text}\n  hint: {self.hint}" if self.hint else text


def listed(words: object, most: int = 12) -> str:
    """Names for a hint: sorted, at most `most` of them."""
    known = sorted(str(word) for word in words)  # type: ignore[attr-defined]
    shown = ", ".join(known[:most]) or "none"
    return shown if len(known) <= most else f"{shown}, … ({len(known)} in all)"

"""Reads plain values that nothing has validated: a value of a wrong type counts as missing."""

from typing import Any


def at(raw: Any, path: str) -> Any:
    """The value at a path of fields such as `spec.template.metadata`; None: there is none."""
    for name in path.split("."):
        if not isinstance(raw, dict):
            return None
        raw = raw.get(name)
    return raw


def integer(raw: Any, path: str, default: int = 0) -> int:
    """A whole number from 0 up; the default where there is none."""
    value = at(raw, path)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def text(raw: Any, path: str) -> str:
    """Text; empty where there is none."""
    value = at(raw, path)
    return value if isinstance(value, str) else ""


def items(raw: Any, path: str) -> list[dict[str, Any]]:
    """The objects of a list."""
    value = at(raw, path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def mapping(raw: Any, path: str) -> dict[str, Any]:
    """An object; empty where there is none."""
    value = at(raw, path)
    return value if isinstance(value, dict) else {}


def texts(raw: Any, path: str) -> dict[str, str]:
    """An object of texts, such as labels."""
    return {name: value for name, value in mapping(raw, path).items() if isinstance(value, str)}


def number(text: str) -> int | None:
    """The whole number from 0 up that a label or an annotation states; None: it states none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None

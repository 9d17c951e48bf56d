"""JSON merge patch (RFC 7386) on plain values."""

from typing import Any

from muster.workloads.types import Raw


def merged(raw: Raw, patch: Raw) -> Raw:
    """A copy of an object with a patch merged into it; None removes a field."""
    result = dict(raw)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _value(raw.get(name), value)
    return result


def _value(old: Any, new: Any) -> Any:
    return merged(old if isinstance(old, dict) else {}, new) if isinstance(new, dict) else new

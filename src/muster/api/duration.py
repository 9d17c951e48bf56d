"""Durations as whole nanoseconds: Go's form (`1h30m`, `250ms`), or a plain number of seconds."""

import re
from fractions import Fraction

_PART = r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_WHOLE = re.compile(rf"([+-]?)((?:{_PART})+)")
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def parse_nanoseconds(value: str | int) -> int:
    """ValueError says what is wrong with it."""
    if isinstance(value, int):
        return value * 10**9
    if re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        return int(value) * 10**9
    match = _WHOLE.fullmatch(value) if len(value) < 100 else None
    if not match:
        raise ValueError(f"`{value[:60]}` is not a duration")
    total = sum(int(Fraction(number) * _UNITS[unit]) for number, unit in re.findall(_PART, match[2]))
    return -total if match[1] == "-" else total

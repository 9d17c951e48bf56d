"""Kubernetes quantities as exact integers in base units (X6).

cpu counts millicores, everything else whole units (bytes, devices). What is finer is rounded away from zero and what
is larger than an int64 is capped, as Kubernetes does.
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

LARGEST = 2**63 - 1
FINEST = 10**9  # Kubernetes keeps nothing below a nano

_SYNTAX = re.compile(
    r"(?P<sign>[+-]?)(?P<digits>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:[eE](?P<power>[+-]?[0-9]+)|(?P<suffix>[KMGTPE]i|[numkMGTPE])?)"
)
_SUFFIXES: Mapping[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{letter: Fraction(10 ** (3 * step)) for step, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(2 ** (10 * step)) for step, letter in enumerate("KMGTPE", 1)},
}
_LONGEST = 512  # characters
MOST_KNOWN = 4096  # resource lists
_WIDEST_POWER = 2 * _LONGEST  # beyond it no number of that length comes back into range; more must not cost memory


class Resources(dict[str, int]):
    """Amounts by resource name, in base units. Decoded from the wire in one go, so that errors name the resource."""


_KNOWN: dict[tuple[tuple[str, object], ...], Resources] = {}  # by the items of the list


def parse_amount(resource: str, text: str | float) -> int:
    """A quantity of one resource in its base unit; ValueError says what is wrong with it."""
    return _scaled(str(text), 1000 if resource == "cpu" else 1)


def parse_exact(text: str | float) -> Fraction:
    """A quantity of any size, to the nano: what two ways to write it have in common."""
    return Fraction(_nanos(str(text)), FINEST)


def parse_resources(raw: object) -> Resources:
    """A resource list from the wire; the same value for equal lists, of which a cluster has few."""
    if not isinstance(raw, dict):
        raise ValueError("expected amounts by resource name")
    items = tuple(raw.items())
    try:
        known = _KNOWN.get(items)
    except TypeError:  # a value that is no quantity
        known = None
    return _parse_new(items) if known is None else known


def _parse_new(items: tuple[tuple[str, object], ...]) -> Resources:
    """Remembered where every value is text: 1, 1.0 and True would be one key."""
    amounts = _parse_items(items)
    if all(type(value) is str for _, value in items):
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[items] = amounts
    return amounts


def _parse_items(items: Iterable[tuple[object, object]]) -> Resources:
    amounts = Resources()
    for name, value in items:
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"`{name}`: expected a quantity such as `500m` or `16Gi`")
        try:
            amounts[str(name)] = parse_amount(str(name), value)
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from None
    return amounts


def format_amount(resource: str, value: int) -> str:
    """An amount as a quantity; `parse_amount` reads it back exactly."""
    if resource == "cpu":
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if not is_in_bytes(resource) or not value:
        return str(value)
    return min((_counted(value, units) for units in ("Ki Mi Gi Ti Pi Ei", "k M G T P E")), key=len)


def _counted(value: int, units: str) -> str:
    """In the largest of these units of which it is a whole number."""
    suffix = next((unit for unit in reversed(units.split()) if value % _SUFFIXES[unit] == 0), "")
    return f"{value // int(_SUFFIXES[suffix])}{suffix}" if suffix else str(value)


def is_in_bytes(resource: str) -> bool:
    """Whether a resource is counted in bytes."""
    return resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")


@lru_cache(maxsize=65536)
def _scaled(text: str, per_unit: int) -> int:
    nanos = _nanos(text)
    units = min(_up(Fraction(abs(nanos) * per_unit, FINEST)), LARGEST)
    return -units if nanos < 0 else units


def _nanos(text: str) -> int:
    match = _SYNTAX.fullmatch(text) if len(text) <= _LONGEST else None
    if not match:
        raise ValueError(f"`{text[:60]}` is not a quantity")
    nanos = _up(Fraction(match["digits"]) * _factor(match["power"], match["suffix"]) * FINEST)
    return -nanos if match["sign"] == "-" else nanos


def _factor(power: str | None, suffix: str | None) -> Fraction:
    if power is not None:
        bounded = max(-_WIDEST_POWER, min(_WIDEST_POWER, int(power)))
        return Fraction(10) ** bounded
    return _SUFFIXES[suffix] if suffix else Fraction(1)


def _up(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)

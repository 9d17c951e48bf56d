"""What is said of gangs that start after their base gang."""

from collections.abc import Mapping
from typing import Any, Final

from muster.planning.grove.scaled_gangs import ScaledGang

NONE_SCALED: Final[Mapping[str, ScaledGang]] = {}


def after_base(scaled: ScaledGang) -> str:
    """Whether the plan is about the time after the base, or the gang waits for it."""
    if not scaled.is_lifted:
        return f"its pods stay behind their gate until base gang `{scaled.base}` is scheduled{_conflict(scaled)}"
    pinned = f", and is held to its domain {_domain(scaled.pin)}" if scaled.pin else ""
    return f"starts once base gang `{scaled.base}` is scheduled{pinned}: planned as of then"


def _conflict(scaled: ScaledGang) -> str:
    if not scaled.pin:
        return ""
    return f" where their node selector allows: it will be in {_domain(scaled.pin)}"


def _domain(pin: Mapping[str, str]) -> str:
    return "/".join(pin.values())


def scaled_data(scaled: ScaledGang | None) -> dict[str, Any]:
    """For programs; nothing for gangs that start by themselves."""
    if scaled is None:
        return {}
    return {"after": {"podGroup": scaled.base, "isPlanned": scaled.is_lifted, "nodeSelector": dict(scaled.pin)}}

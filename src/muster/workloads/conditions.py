"""Conditions and times in the status of workloads, as Kubernetes' controllers write them."""

from collections.abc import Sequence
from datetime import UTC, datetime

from muster.api.fields import items
from muster.workloads.types import Raw


def timestamp(now: datetime) -> str:
    """A time as objects hold it: RFC 3339 in whole seconds."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find_condition(raw: Raw, kind: str) -> Raw | None:
    """A condition of an object; None: it has none of this type."""
    return next((condition for condition in items(raw, "status.conditions") if condition.get("type") == kind), None)


def is_condition_true(raw: Raw, kind: str) -> bool:
    """Whether an object has this condition, and it is True."""
    condition = find_condition(raw, kind)
    return condition is not None and condition.get("status") == "True"


def with_condition(conditions: Sequence[Raw], new: Raw, now: datetime, *stamps: str) -> list[Raw]:
    """Conditions with a new one. `stamps`: further times that tell when it was written.

    It stays as it was where status and reason are equal; where only the status is, it keeps the time of its transition.
    """
    old = next((condition for condition in conditions if condition.get("type") == new["type"]), None)
    if old and (old.get("status"), old.get("reason")) == (new["status"], new.get("reason")):
        return list(conditions)
    at = timestamp(now)
    since = old.get("lastTransitionTime", at) if old and old.get("status") == new["status"] else at
    stamped = {**new, **dict.fromkeys(stamps, at), "lastTransitionTime": since}
    return [*without_condition(conditions, new["type"]), stamped]


def without_condition(conditions: Sequence[Raw], kind: str) -> list[Raw]:
    """Conditions but those of this type."""
    return [condition for condition in conditions if condition.get("type") != kind]


def without_zeros(status: Raw) -> Raw:
    """A status as API servers keep it: fields that are zero or empty are left out."""
    return {field: value for field, value in status.items() if value not in (0, "", None, [], {})}

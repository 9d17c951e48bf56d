"""Owners from plain objects: what rules read of them, and nothing that changes all the time.

Rule: two states of an object that group alike are equal, so that a new status of a Job with 5,000 pods costs nothing.
"""

from typing import Any

from msgspec.structs import replace

from muster.api import names
from muster.api.decoding import decode
from muster.api.meta import ObjectMeta
from muster.grouping.types import Owner, Raw

FINISHED = frozenset(("Complete", "Completed", "Failed", "Succeeded", "Finished", "FailureTarget"))
UNREAD_FIELDS = frozenset(("containers", "initContainers", "ephemeralContainers", "volumes", "affinity", "tolerations"))
MOST_LEVELS = 40  # of nesting: deeper parts of a spec are left out


def read_owner(raw: Raw) -> Owner:
    """The owner that a plain object describes; values of wrong types count as missing."""
    metadata, _ = decode(raw.get("metadata") or {}, ObjectMeta)
    annotations = {name: text for name, text in metadata.annotations.items() if name != names.LAST_APPLIED}
    spec = _without_containers(raw.get("spec"))
    return Owner(
        api_version=str(raw.get("apiVersion") or ""),
        kind=str(raw.get("kind") or ""),
        metadata=replace(metadata, resource_version="", generation=0, annotations=annotations),
        spec=spec if isinstance(spec, dict) else {},
        is_finished=_is_finished(raw.get("status")),
    )


def _without_containers(value: Any, levels: int = MOST_LEVELS) -> Any:
    """A spec without the parts of pod templates that no rule reads: they are most of it."""
    if levels == 0:
        return None
    if isinstance(value, dict):
        return {
            name: _without_containers(inner, levels - 1) for name, inner in value.items() if name not in UNREAD_FIELDS
        }
    if isinstance(value, list):
        return [_without_containers(item, levels - 1) for item in value]
    return value


def _is_finished(status: Any) -> bool:
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return isinstance(conditions, list) and any(
        isinstance(condition, dict) and condition.get("type") in FINISHED and condition.get("status") == "True"
        for condition in conditions
    )

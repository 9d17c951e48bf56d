"""A field of a Queue's spec by its path in the user's words, such as `priority` or `gpu.quota`.

Rule: every wrong path or value raises an InputError with a hint.
"""

import re
from math import isfinite
from typing import Final

from msgspec.structs import replace

from muster.api.queue import QueueResource, QueueSpec
from muster.errors import InputError
from muster.validation.fields import FieldChange, Value

AMOUNTS: Final = {"quota": "quota", "limit": "limit", "overQuotaWeight": "over_quota_weight"}
PRIORITY, RESOURCES = "priority", "resources."
KNOWN: Final = f"known: {PRIORITY}, {', '.join(f'RESOURCE.{name}' for name in AMOUNTS)}"
NUMBER: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,9})?")


def set_queue_field(spec: QueueSpec, path: str, value: Value) -> FieldChange:
    """Copy the spec with a number at a path; None or empty unsets it."""
    if path == PRIORITY:
        now = int(_number(value, QueueSpec().priority))
        return FieldChange(replace(spec, priority=now), spec.priority, now)
    resource, _, word = path.removeprefix(RESOURCES).rpartition(".")
    if not resource or word not in AMOUNTS:
        raise InputError(f"a Queue has no field `{path[:80]}` that can be set", hint=KNOWN)
    field, before = AMOUNTS[word], spec.resources.get(resource, QueueResource())
    amount = _number(value, getattr(QueueResource(), field))
    after = replace(before, **{field: amount})
    return FieldChange(replace(spec, resources={**spec.resources, resource: after}), getattr(before, field), amount)


def _number(value: Value, default: float) -> int | float:
    if value is None or value == "":
        return default
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = float(value) if "." in value else int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InputError(f"expected a number, got `{str(value)[:60]}`", hint="-1 is unlimited")
    return value

"""Validation of built-in kinds, as far as scheduling, budgets and priorities depend on it.

Rule: rejects only what Kubernetes rejects, in its words. The reference lists what is not validated.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from muster.api.quantity import parse_amount
from muster.api.resources import (
    BUDGETS,
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    NODES,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SECRETS,
    STATEFUL_SETS,
    Resource,
)
from muster.embedded.api_errors import Cause
from muster.kube.cluster import Raw
from muster.workloads.batch.cron_schedule import parse_schedule

Validator = Callable[[Raw, Raw | None], Iterator[Cause]]  # the object, and its old state in an update
SYSTEM_PRIORITY_CLASSES: Mapping[str, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
HIGHEST_PRIORITY = 1_000_000_000
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_IMMUTABLE = "Forbidden: field is immutable when `immutable` is set"
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_HINT = "a valid percent string must be a numeric string followed by an ending '%'"


def problems(raw: Raw, old: Raw | None, resource: Resource) -> Iterator[Cause]:
    """What is wrong with an object of a built-in kind, as a new one or as an update."""
    validator = _VALIDATORS.get(resource)
    if validator is not None:
        yield from validator(raw, old)


def _forbidden(path: str, reason: str) -> Cause:
    return Cause(path, f"Forbidden: {reason}", "FieldValueForbidden")


def unsupported_value(value: Any, supported: tuple[str, ...], path: str) -> Iterator[Cause]:
    """A problem where a value is none of the supported ones."""
    if value not in supported:
        listed = ", ".join(f'"{item}"' for item in supported)
        yield Cause(
            path, f'Unsupported value: "{str(value)[:60]}": supported values: {listed}', "FieldValueNotSupported"
        )


# nodes --------------------------------------------------------------------------------------------------------------


def _node(raw: Raw, _: Raw | None) -> Iterator[Cause]:
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(raw.get("spec", {}).get("taints") or ()):
        at, effect = f"metadata.taints[{i}]", taint.get("effect", "")
        if not taint.get("key"):
            yield Cause(f"{at}.key", 'Invalid value: "": name part must be non-empty')
        if not effect:
            yield Cause(f"{at}.effect", "Required value", "FieldValueRequired")
        else:
            yield from unsupported_value(effect, EFFECTS, f"{at}.effect")
        if (taint.get("key", ""), effect) in seen:
            message = f'Duplicate value: "{taint.get("key", "")}": taints must be unique by key and effect pair'
            yield Cause(at, message, "FieldValueDuplicate")
        seen.add((taint.get("key", ""), effect))


# resources ----------------------------------------------------------------------------------------------------------


def resource_problems(container: Raw, at: str) -> Iterator[Cause]:
    """What is wrong with the requests and limits of a container."""
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            yield from _quantity_problems(name, text, f"{at}.resources.{part}[{name}]")
    for name, text in requests.items():
        yield from _limit_problems(name, text, limits.get(name), f"{at}.resources.requests")


def _forbids_overcommit(name: str) -> bool:
    """Whether requests must equal limits: extended resources and huge pages."""
    return ("/" in name and "kubernetes.io/" not in name) or name.startswith("hugepages-")


def _milli_value(text: Any) -> int:
    return parse_amount("cpu", text)


def _quantity_problems(name: str, text: Any, at: str) -> Iterator[Cause]:
    if _milli_value(text) < 0:
        yield Cause(at, f'Invalid value: "{text}": must be greater than or equal to 0')
    if _forbids_overcommit(name) and "/" in name and _milli_value(text) % 1000:
        yield Cause(at, f'Invalid value: "{text}": must be an integer')


def _limit_problems(name: str, text: Any, limit: Any, at: str) -> Iterator[Cause]:
    if limit is None:
        return
    if _forbids_overcommit(name) and _milli_value(text) != _milli_value(limit):
        yield Cause(at, f'Invalid value: "{text}": must be equal to {name} limit of {limit}')
    elif _milli_value(text) > _milli_value(limit):
        yield Cause(at, f'Invalid value: "{text}": must be less than or equal to {name} limit of {limit}')


# budgets and priorities ---------------------------------------------------------------------------------------------


def _budget(raw: Raw, _: Raw | None) -> Iterator[Cause]:
    spec = raw.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield Cause("spec", "Invalid value: minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            yield from _int_or_percent_problems(spec[field], f"spec.{field}")
    if "unhealthyPodEvictionPolicy" in spec:
        policies = ("AlwaysAllow", "IfHealthyBudget")
        yield from unsupported_value(spec["unhealthyPodEvictionPolicy"], policies, "spec.unhealthyPodEvictionPolicy")


def _int_or_percent_problems(value: Any, at: str) -> Iterator[Cause]:
    """A number of pods, or a percentage of them."""
    if isinstance(value, int):
        if value < 0:
            yield Cause(at, f"Invalid value: {value}: must be greater than or equal to 0")
    elif not _PERCENT.fullmatch(value):
        yield Cause(at, f'Invalid value: "{value[:60]}": {_PERCENT_HINT}')
    elif int(value[:-1]) > 100:
        yield Cause(at, f'Invalid value: "{value}": must not be greater than 100%')


def _priority_class(raw: Raw, old: Raw | None) -> Iterator[Cause]:
    name, value = raw["metadata"].get("name") or "", raw.get("value", 0)
    if old is not None:
        if value != old.get("value", 0):
            yield _forbidden("value", "may not be changed in an update.")
        yield from _immutable_field(raw, old, "preemptionPolicy")
    elif name.startswith("system-"):
        if SYSTEM_PRIORITY_CLASSES.get(name) != value:
            reason = "priority class names with 'system-' prefix are reserved for system use only. error: "
            yield _forbidden("metadata.name", f"{reason}{name} is not a known system priority class")
    elif value > HIGHEST_PRIORITY:
        yield _forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}")
    yield from unsupported_value(raw.get("preemptionPolicy"), ("PreemptLowerPriority", "Never"), "preemptionPolicy")


def _immutable_field(raw: Raw, old: Raw, field: str, at: str = "") -> Iterator[Cause]:
    if raw.get(field) != old.get(field):
        value = msgspec.json.encode(raw.get(field)).decode()
        yield Cause(f"{at}{field}", f"Invalid value: {value[:200]}: field is immutable")


# other kinds --------------------------------------------------------------------------------------------------------


def _config(raw: Raw, old: Raw | None) -> Iterator[Cause]:
    if old is None or not old.get("immutable"):
        return
    if not raw.get("immutable"):
        yield Cause("immutable", _IMMUTABLE, "FieldValueForbidden")
    for field in ("data", "binaryData"):
        if (raw.get(field) or {}) != (old.get(field) or {}):
            yield Cause(field, _IMMUTABLE, "FieldValueForbidden")


def _secret(raw: Raw, old: Raw | None) -> Iterator[Cause]:
    if old is not None:
        yield from _immutable_field(raw, old, "type")
    yield from _config(raw, old)


def _workload(raw: Raw, old: Raw | None) -> Iterator[Cause]:
    if old is not None:
        yield from _immutable_field(raw.get("spec") or {}, old.get("spec") or {}, "selector", "spec.")


def _replicated(raw: Raw, old: Raw | None) -> Iterator[Cause]:
    yield from _workload(raw, old)
    replicas = (raw.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        yield Cause("spec.replicas", f"Invalid value: {replicas}: must be greater than or equal to 0")


def _cron_job(raw: Raw, _: Raw | None) -> Iterator[Cause]:
    spec = raw.get("spec") or {}
    yield from _schedule_problems("schedule", spec.get("schedule") or "", spec.get("schedule") or "")
    yield from _schedule_problems("timeZone", spec.get("timeZone") or "", "@hourly", spec.get("timeZone") or "")


def _schedule_problems(field: str, value: str, *parts: str) -> Iterator[Cause]:
    try:
        parse_schedule(*parts)
    except ValueError as error:
        yield Cause(f"spec.{field}", f'Invalid value: "{value[:60]}": {error}')


def _event(raw: Raw, _: Raw | None) -> Iterator[Cause]:
    namespace = (raw.get("involvedObject") or {}).get("namespace") or ""
    if raw["metadata"].get("namespace") != (namespace or "default"):
        yield Cause("involvedObject.namespace", f'Invalid value: "{namespace[:253]}": does not match event.namespace')


_VALIDATORS: Mapping[Resource, Validator] = {
    NODES: _node,
    BUDGETS: _budget,
    PRIORITY_CLASSES: _priority_class,
    CONFIG_MAPS: _config,
    SECRETS: _secret,
    EVENTS: _event,
    CRON_JOBS: _cron_job,
    **dict.fromkeys((DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS), _replicated),
    DAEMON_SETS: _workload,
}

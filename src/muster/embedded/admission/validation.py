"""What Kubernetes refuses about its own kinds, as far as scheduling, budgets and priorities depend on it.

Rule: only what Kubernetes refuses as well, in its words. What is not judged is named in the reference.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from muster.api.quantity import amount
from muster.api.resources import (
    BUDGETS,
    CONFIG_MAPS,
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

Judge = Callable[[Raw, Raw | None], Iterator[Cause]]
SYSTEM_CLASSES: Mapping[str, int] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
HIGHEST_PRIORITY = 1_000_000_000
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SEALED = "Forbidden: field is immutable when `immutable` is set"
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_HINT = "a valid percent string must be a numeric string followed by an ending '%'"


def problems(raw: Raw, old: Raw | None, resource: Resource) -> Iterator[Cause]:
    """What is wrong with an object of a built-in kind, as a new one or as an update."""
    judge = _JUDGES.get(resource)
    if judge is not None:
        yield from judge(raw, old)


def _forbidden(at: str, why: str) -> Cause:
    return Cause(at, f"Forbidden: {why}", "FieldValueForbidden")


def one_of(value: Any, known: tuple[str, ...], at: str) -> Iterator[Cause]:
    """That a word is one of a few."""
    if value not in known:
        words = ", ".join(f'"{one}"' for one in known)
        yield Cause(at, f'Unsupported value: "{str(value)[:60]}": supported values: {words}', "FieldValueNotSupported")


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
            yield from one_of(effect, EFFECTS, f"{at}.effect")
        if (taint.get("key", ""), effect) in seen:
            said = f'Duplicate value: "{taint.get("key", "")}": taints must be unique by key and effect pair'
            yield Cause(at, said, "FieldValueDuplicate")
        seen.add((taint.get("key", ""), effect))


# resources ----------------------------------------------------------------------------------------------------------


def demands(container: Raw, at: str) -> Iterator[Cause]:
    """What is wrong with the requests and limits of a container."""
    found = container.get("resources") or {}
    requests, limits = found.get("requests") or {}, found.get("limits") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            yield from _quantity(name, text, f"{at}.resources.{part}[{name}]")
    for name, text in requests.items():
        yield from _bounded(name, text, limits.get(name), f"{at}.resources.requests")


def _device(name: str) -> bool:
    """Extended resources and huge pages: what nobody may have more of than there is."""
    return ("/" in name and "kubernetes.io/" not in name) or name.startswith("hugepages-")


def _thousandths(text: Any) -> int:
    return amount("cpu", text)


def _quantity(name: str, text: Any, at: str) -> Iterator[Cause]:
    if _thousandths(text) < 0:
        yield Cause(at, f'Invalid value: "{text}": must be greater than or equal to 0')
    if _device(name) and "/" in name and _thousandths(text) % 1000:
        yield Cause(at, f'Invalid value: "{text}": must be an integer')


def _bounded(name: str, text: Any, limit: Any, at: str) -> Iterator[Cause]:
    if limit is None:
        return
    if _device(name) and _thousandths(text) != _thousandths(limit):
        yield Cause(at, f'Invalid value: "{text}": must be equal to {name} limit of {limit}')
    elif _thousandths(text) > _thousandths(limit):
        yield Cause(at, f'Invalid value: "{text}": must be less than or equal to {name} limit of {limit}')


# budgets and priorities ---------------------------------------------------------------------------------------------


def _budget(raw: Raw, _: Raw | None) -> Iterator[Cause]:
    spec = raw.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield Cause("spec", "Invalid value: minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            yield from _share(spec[field], f"spec.{field}")
    if "unhealthyPodEvictionPolicy" in spec:
        known = ("AlwaysAllow", "IfHealthyBudget")
        yield from one_of(spec["unhealthyPodEvictionPolicy"], known, "spec.unhealthyPodEvictionPolicy")


def _share(value: Any, at: str) -> Iterator[Cause]:
    """A number of pods, or a percentage of them."""
    if isinstance(value, int):
        if value < 0:
            yield Cause(at, f"Invalid value: {value}: must be greater than or equal to 0")
    elif not _PERCENT.fullmatch(value):
        yield Cause(at, f'Invalid value: "{value[:60]}": {_PERCENT_HINT}')
    elif int(value[:-1]) > 100:
        yield Cause(at, f'Invalid value: "{value}": must not be greater than 100%')


def _class(raw: Raw, old: Raw | None) -> Iterator[Cause]:
    name, value = raw["metadata"].get("name") or "", raw.get("value", 0)
    if old is not None:
        if value != old.get("value", 0):
            yield _forbidden("value", "may not be changed in an update.")
        yield from _same(raw, old, "preemptionPolicy")
    elif name.startswith("system-"):
        if SYSTEM_CLASSES.get(name) != value:
            why = "priority class names with 'system-' prefix are reserved for system use only. error: "
            yield _forbidden("metadata.name", f"{why}{name} is not a known system priority class")
    elif value > HIGHEST_PRIORITY:
        yield _forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}")
    yield from one_of(raw.get("preemptionPolicy"), ("PreemptLowerPriority", "Never"), "preemptionPolicy")


def _same(raw: Raw, old: Raw, field: str, at: str = "") -> Iterator[Cause]:
    if raw.get(field) != old.get(field):
        value = msgspec.json.encode(raw.get(field)).decode()
        yield Cause(f"{at}{field}", f"Invalid value: {value[:200]}: field is immutable")


# the rest -----------------------------------------------------------------------------------------------------------


def _config(raw: Raw, old: Raw | None) -> Iterator[Cause]:
    if old is None or not old.get("immutable"):
        return
    if not raw.get("immutable"):
        yield Cause("immutable", _SEALED, "FieldValueForbidden")
    for field in ("data", "binaryData"):
        if (raw.get(field) or {}) != (old.get(field) or {}):
            yield Cause(field, _SEALED, "FieldValueForbidden")


def _secret(raw: Raw, old: Raw | None) -> Iterator[Cause]:
    if old is not None:
        yield from _same(raw, old, "type")
    yield from _config(raw, old)


def _workload(raw: Raw, old: Raw | None) -> Iterator[Cause]:
    if old is not None:
        yield from _same(raw.get("spec") or {}, old.get("spec") or {}, "selector", "spec.")


def _replicated(raw: Raw, old: Raw | None) -> Iterator[Cause]:
    yield from _workload(raw, old)
    replicas = (raw.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        yield Cause("spec.replicas", f"Invalid value: {replicas}: must be greater than or equal to 0")


def _event(raw: Raw, _: Raw | None) -> Iterator[Cause]:
    about = (raw.get("involvedObject") or {}).get("namespace") or ""
    if raw["metadata"].get("namespace") != (about or "default"):
        yield Cause("involvedObject.namespace", f'Invalid value: "{about[:253]}": does not match event.namespace')


_JUDGES: Mapping[Resource, Judge] = {
    NODES: _node,
    BUDGETS: _budget,
    PRIORITY_CLASSES: _class,
    CONFIG_MAPS: _config,
    SECRETS: _secret,
    EVENTS: _event,
    **dict.fromkeys((DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS), _replicated),
    DAEMON_SETS: _workload,
}

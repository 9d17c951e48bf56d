"""What an API server fills into new objects of its own kinds, as far as anyone here reads it. Pods are in `pods`."""

from base64 import b64encode
from collections.abc import Callable, Mapping

from muster.api.names import NAMESPACE_NAME
from muster.api.resources import (
    BUDGETS,
    CLAIMS,
    DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SECRETS,
    STATEFUL_SETS,
    VOLUMES,
    Resource,
)
from muster.embedded.controllers.garbage_collector import CLEANUP
from muster.embedded.store.kinds import Kind
from muster.kube.cluster import Raw

Fill = Callable[[Raw, str], Raw]


def filled_in(kind: Kind, raw: Raw, now: str) -> Raw:
    """The object with its defaults."""
    fill = _FILLS.get(kind.resource)
    return fill(raw, now) if fill else raw


def _namespace(raw: Raw, _: str) -> Raw:
    metadata = raw["metadata"]
    labels = {**(metadata.get("labels") or {}), NAMESPACE_NAME: metadata["name"]}
    return {
        **raw,
        "metadata": {**metadata, "labels": labels},
        "spec": {"finalizers": ["kubernetes"], **(raw.get("spec") or {})},
        "status": raw.get("status") or {"phase": "Active"},
    }


def _definition(raw: Raw, now: str) -> Raw:
    """Served at once, and cleaned up after."""
    spec, metadata = raw.get("spec") or {}, raw["metadata"]
    names = spec.get("names")
    if not isinstance(names, dict) or "kind" not in names:
        return raw
    kind = str(names["kind"])
    names = {"singular": kind.lower(), "listKind": f"{kind}List", **names}
    conditions = [
        {"type": word, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now}
        for word, reason in (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
    ]
    status = raw.get("status") or {
        "conditions": conditions,
        "acceptedNames": names,
        "storedVersions": [one["name"] for one in _versions(spec) if one.get("storage")],
    }
    if not metadata.get("deletionTimestamp"):
        metadata = {**metadata, "finalizers": sorted({*(metadata.get("finalizers") or ()), CLEANUP})}
    spec = {"conversion": {"strategy": "None"}, **spec, "names": names}
    return {**raw, "metadata": metadata, "spec": spec, "status": status}


def _versions(spec: Raw) -> list[Raw]:
    found = spec.get("versions")
    return [one for one in found if isinstance(one, dict) and "name" in one] if isinstance(found, list) else []


def _phase(phase: str) -> Fill:
    return lambda raw, _: {**raw, "status": raw.get("status") or {"phase": phase}}


def _replicated(raw: Raw, _: str) -> Raw:
    return {**raw, "spec": {"replicas": 1, **(raw.get("spec") or {})}}


def _secret(raw: Raw, _: str) -> Raw:
    plain = raw.get("stringData") or {}
    data = {**(raw.get("data") or {}), **{name: b64encode(str(one).encode()).decode() for name, one in plain.items()}}
    rest = {name: value for name, value in raw.items() if name not in ("data", "stringData")}
    return {"type": "Opaque", **rest, **({"data": data} if data else {})}


def _budget(raw: Raw, _: str) -> Raw:
    empty = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}
    return {**raw, "status": raw.get("status") or empty}


_FILLS: Mapping[Resource, Fill] = {
    NAMESPACES: _namespace,
    DEFINITIONS: _definition,
    CLAIMS: _phase("Pending"),
    VOLUMES: _phase("Available"),
    SECRETS: _secret,
    BUDGETS: _budget,
    DEPLOYMENTS: _replicated,
    PRIORITY_CLASSES: lambda raw, _: {"preemptionPolicy": "PreemptLowerPriority", **raw},
    REPLICA_SETS: _replicated,
    STATEFUL_SETS: _replicated,
}

"""Defaults of built-in kinds, as far as muster and the embedded cluster read them.

Those of pods are in `pods`, those of workloads in `workloads.defaults`.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping

from muster.api.names import NAMESPACE_NAME
from muster.api.resources import (
    BUDGETS,
    CLAIMS,
    DEFINITIONS,
    NAMESPACES,
    PRIORITY_CLASSES,
    SECRETS,
    VOLUMES,
    Resource,
)
from muster.embedded.admission.metadata import CRD_CLEANUP_FINALIZER
from muster.embedded.store.kinds import Kind
from muster.kube.cluster import Raw
from muster.workloads.defaults import with_defaults

Defaulter = Callable[[Raw, str], Raw]  # object and timestamp


def apply_defaults(kind: Kind, raw: Raw, now: str) -> Raw:
    """An object with the defaults of its kind."""
    defaulter = _DEFAULTERS.get(kind.resource)
    return defaulter(raw, now) if defaulter else with_defaults(raw)


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
    """Accepted and established at once; the finalizer deletes its objects with it."""
    spec, metadata = raw.get("spec") or {}, raw["metadata"]
    names = spec.get("names")
    if not isinstance(names, dict) or "kind" not in names:
        return raw
    kind = str(names["kind"])
    names = {"singular": kind.lower(), "listKind": f"{kind}List", **names}
    conditions = [
        {"type": condition, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now}
        for condition, reason in (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
    ]
    status = raw.get("status") or {
        "conditions": conditions,
        "acceptedNames": names,
        "storedVersions": [version["name"] for version in _versions(spec) if version.get("storage")],
    }
    if not metadata.get("deletionTimestamp"):
        metadata = {**metadata, "finalizers": sorted({*(metadata.get("finalizers") or ()), CRD_CLEANUP_FINALIZER})}
    spec = {"conversion": {"strategy": "None"}, **spec, "names": names}
    return {**raw, "metadata": metadata, "spec": spec, "status": status}


def _versions(spec: Raw) -> list[Raw]:
    versions = spec.get("versions")
    if not isinstance(versions, list):
        return []
    return [version for version in versions if isinstance(version, dict) and "name" in version]


def _phase(phase: str) -> Defaulter:
    return lambda raw, _: {**raw, "status": raw.get("status") or {"phase": phase}}


def _secret(raw: Raw, _: str) -> Raw:
    plain = raw.get("stringData") or {}
    encoded = {name: b64encode(str(text).encode()).decode() for name, text in plain.items()}
    data = {**(raw.get("data") or {}), **encoded}
    rest = {name: value for name, value in raw.items() if name not in ("data", "stringData")}
    return {"type": "Opaque", **rest, **({"data": data} if data else {})}


def _budget(raw: Raw, _: str) -> Raw:
    empty = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}
    return {**raw, "status": raw.get("status") or empty}


_DEFAULTERS: Mapping[Resource, Defaulter] = {
    NAMESPACES: _namespace,
    DEFINITIONS: _definition,
    CLAIMS: _phase("Pending"),
    VOLUMES: _phase("Available"),
    SECRETS: _secret,
    BUDGETS: _budget,
    PRIORITY_CLASSES: lambda raw, _: {"preemptionPolicy": "PreemptLowerPriority", **raw},
}

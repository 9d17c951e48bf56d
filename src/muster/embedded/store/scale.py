"""The scale subresource: how many replicas, seen and set without the rest."""

from typing import Any

from muster.api.resources import SCALES
from muster.embedded.admission.builtin_schemas import METADATA, fields
from muster.embedded.admission.structural_schemas import misfits
from muster.embedded.api_errors import bad_request
from muster.embedded.store.selectors import selector_text
from muster.kube.cluster import Raw

_SHAPE: Raw = {**fields(metadata=METADATA), "required": ["metadata"]}


def scale_of(raw: Raw) -> Raw:
    """The Scale of an object."""
    metadata, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": SCALES.kind,
        "apiVersion": SCALES.api_version,
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {"replicas": status.get("replicas", 0), "selector": selector_text(spec.get("selector"))},
    }


def scaled(raw: Raw, scale: Any) -> Raw:
    """An object with the replicas of a Scale; ApiError 400 where it says none."""
    spec = scale.get("spec") if isinstance(scale, dict) else None
    replicas = (spec or {}).get("replicas", 0) if isinstance(spec or {}, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        raise bad_request("spec.replicas of a Scale must be a number from 0 up")
    return {**raw, "spec": {**raw.get("spec", {}), "replicas": replicas}}


def metadata_of(scale: Any) -> Raw:
    """Whose Scale it is; ApiError 400 where it does not say."""
    wrong = next(misfits(scale, _SHAPE), None)
    if wrong is not None:
        raise bad_request(f"expected a Scale: {wrong.field}: {wrong.message}")
    found: Raw = scale["metadata"]
    return found

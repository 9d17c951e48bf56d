"""The scale subresource: reads and sets `spec.replicas` of an object."""

from typing import Any

from muster.api.resources import SCALES
from muster.embedded.admission.builtin_schemas import METADATA, fields
from muster.embedded.admission.structural_schemas import schema_violations
from muster.embedded.api_errors import bad_request
from muster.embedded.store.selectors import selector_text
from muster.kube.cluster import Raw

_SCALE_SCHEMA: Raw = {**fields(metadata=METADATA), "required": ["metadata"]}
_METADATA_FIELDS = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(raw: Raw) -> Raw:
    """The Scale of an object."""
    metadata, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
    return {
        "kind": SCALES.kind,
        "apiVersion": SCALES.api_version,
        "metadata": {name: metadata[name] for name in _METADATA_FIELDS if name in metadata},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {"replicas": status.get("replicas", 0), "selector": selector_text(spec.get("selector"))},
    }


def with_scale(raw: Raw, scale: Any) -> Raw:
    """An object with the replicas of a Scale; ApiError 400 where the Scale has none."""
    spec = scale.get("spec") if isinstance(scale, dict) else None
    replicas = (spec or {}).get("replicas", 0) if isinstance(spec or {}, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        raise bad_request("spec.replicas of a Scale must be a number from 0 up")
    return {**raw, "spec": {**raw.get("spec", {}), "replicas": replicas}}


def scale_metadata(scale: Any) -> Raw:
    """The metadata of a Scale; ApiError 400 where it is no Scale."""
    violation = next(schema_violations(scale, _SCALE_SCHEMA), None)
    if violation is not None:
        raise bad_request(f"expected a Scale: {violation.field}: {violation.message}")
    metadata: Raw = scale["metadata"]
    return metadata

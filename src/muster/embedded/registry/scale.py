"""The scale subresource: reads and sets the replicas of an object, where its kind keeps them."""

from typing import Any

from muster.api.fields import at, integer, text
from muster.api.resources import SCALES
from muster.embedded.admission.builtin_schemas import METADATA, fields
from muster.embedded.admission.structural_schemas import schema_violations
from muster.embedded.api_errors import Cause, bad_request, invalid
from muster.embedded.store.kinds import ScalePaths
from muster.embedded.store.selectors import selector_text
from muster.kube.cluster import Raw

_SCALE_SCHEMA: Raw = {**fields(metadata=METADATA), "required": ["metadata"]}
_METADATA_FIELDS = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(raw: Raw, paths: ScalePaths) -> Raw:
    """The Scale of an object."""
    metadata = raw["metadata"]
    selector = text(raw, paths.selector) if paths.selector else selector_text(at(raw, "spec.selector"))
    return {
        "kind": SCALES.kind,
        "apiVersion": SCALES.api_version,
        "metadata": {name: metadata[name] for name in _METADATA_FIELDS if name in metadata},
        "spec": {"replicas": integer(raw, paths.replicas, 1)},
        "status": {"replicas": integer(raw, paths.status_replicas), "selector": selector},
    }


def with_scale(raw: Raw, scale: Any, paths: ScalePaths) -> Raw:
    """An object with the replicas of a Scale; ApiError 400 where the Scale has none, 422 below 0."""
    spec = scale.get("spec") if isinstance(scale, dict) else None
    replicas = (spec or {}).get("replicas", 0) if isinstance(spec or {}, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("spec.replicas of a Scale must be a number")
    if replicas < 0:
        cause = Cause("spec.replicas", f"Invalid value: {replicas}: must be greater than or equal to 0")
        raise invalid(SCALES, text(raw, "metadata.name"), [cause])
    return _with_value(raw, paths.replicas.split("."), replicas)


def _with_value(raw: Any, path: list[str], value: int) -> Raw:
    """A copy of an object with a value at a path; objects on the way are made where they are missing."""
    copied = dict(raw) if isinstance(raw, dict) else {}
    first, rest = path[0], path[1:]
    copied[first] = _with_value(copied.get(first), rest, value) if rest else value
    return copied


def scale_metadata(scale: Any) -> Raw:
    """The metadata of a Scale; ApiError 400 where it is no Scale."""
    violation = next(schema_violations(scale, _SCALE_SCHEMA), None)
    if violation is not None:
        raise bad_request(f"expected a Scale: {violation.field}: {violation.message}")
    metadata: Raw = scale["metadata"]
    return metadata

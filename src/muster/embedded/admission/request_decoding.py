"""Decoding of requests: JSON of the right kind, of limited size and depth, with fields of the types that we rely on."""

from typing import Any

from muster.api.decoding import decode
from muster.api.objects import KINDS
from muster.embedded.admission.builtin_schemas import METADATA, builtin_schema, fields, without_nulls
from muster.embedded.admission.structural_schemas import schema_violations
from muster.embedded.api_errors import bad_request
from muster.embedded.store.kinds import Kind
from muster.embedded.store.versioned_table import decode as decode_json
from muster.embedded.store.versioned_table import encode as encode_json
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError

MOST_BYTES = 3 * 2**20
MOST_DEPTH = 100


def checked_copy(value: Any) -> Any:
    """A copy of a JSON value; ApiError 400 or 413 where it is not JSON, too large or nested too deep."""
    try:
        data = encode_json(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise bad_request(f"this is not JSON: {error}") from None
    if len(data) > MOST_BYTES:
        limit = f"Request entity too large: limit is {MOST_BYTES}"
        raise ApiError(413, "RequestEntityTooLarge", limit)
    if data.count(b"{") + data.count(b"[") > MOST_DEPTH and _is_too_deep(data):
        raise bad_request(f"this is nested more than {MOST_DEPTH} levels deep")
    return decode_json(data)


def _is_too_deep(data: bytes) -> bool:
    """Whether brackets outside of strings are nested too deep."""
    depth = deepest = 0
    in_string = is_escaped = False
    for byte in data:
        if in_string:
            in_string, is_escaped = (True, False) if is_escaped else (byte != 0x22, byte == 0x5C)
        elif byte == 0x22:
            in_string = True
        elif byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"}]":
            depth -= 1
    return deepest > MOST_DEPTH


def decode_object(value: Any, kind: Kind) -> Raw:
    """An object of a kind, with apiVersion and kind; ApiError 400 where it is something else."""
    raw = checked_copy(value)
    if not isinstance(raw, dict):
        raise bad_request(f"expected an object of kind {kind.resource.kind}")
    for field, expected in (("apiVersion", kind.resource.api_version), ("kind", kind.resource.kind)):
        if not raw.get(field) and kind.is_custom:
            raise bad_request(f"the object provided is unrecognized (must be of type {kind.resource.kind}): no {field}")
        if raw.get(field) not in (None, "", expected):
            raise bad_request(f'the {field} in the data ("{str(raw[field])[:80]}") does not match "{expected}"')
    metadata = raw.get("metadata")
    decoded = {
        **(raw if kind.is_custom else without_nulls(raw)),
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {} if metadata is None else without_nulls(metadata),
    }
    _check_types(decoded, kind)
    return decoded


def _check_types(raw: Raw, kind: Kind) -> None:
    """ApiError 400 for a field of the wrong type. Custom kinds: only in the metadata, their schema does the rest."""
    schemas = (fields(metadata=METADATA), *(() if kind.is_custom else builtin_schema(kind.resource)))
    violation = next((cause for schema in schemas for cause in schema_violations(raw, schema)), None)
    if violation is not None:
        raise _type_error(kind, violation.field, violation.message)
    wire_type = None if kind.is_custom else KINDS.get((raw["apiVersion"], raw["kind"]))
    if wire_type is not None:
        _, misfits = decode(raw, wire_type)
        if misfits:
            raise _type_error(kind, misfits[0].at, misfits[0].says)


def _type_error(kind: Kind, path: str, message: str) -> ApiError:
    name, version = kind.resource.kind, kind.resource.version
    return bad_request(f'{name} in version "{version}" cannot be handled as a {name}: {path}: {message}')

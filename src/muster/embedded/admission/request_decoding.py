"""What comes in: JSON of the right kind, of a bearable size and depth, whose parts have the types that we rely on."""

from typing import Any

from muster.api.decoding import decode
from muster.api.objects import KINDS
from muster.embedded.admission.builtin_schemas import METADATA, builtin_schema, fields, without_nulls
from muster.embedded.admission.structural_schemas import misfits
from muster.embedded.api_errors import bad_request
from muster.embedded.store.kinds import Kind
from muster.embedded.store.versioned_table import copied, encoded
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError

MOST_BYTES = 3 * 2**20
MOST_DEPTH = 100


def received(value: Any) -> Any:
    """A copy of a JSON value that nobody else holds; ApiError 400 or 413 where it is none, or too large or deep."""
    try:
        data = encoded(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise bad_request(f"this is not JSON: {error}") from None
    if len(data) > MOST_BYTES:
        limit = f"Request entity too large: limit is {MOST_BYTES}"
        raise ApiError(413, "RequestEntityTooLarge", limit)
    if data.count(b"{") + data.count(b"[") > MOST_DEPTH and _deep(data):
        raise bad_request(f"this is nested more than {MOST_DEPTH} levels deep")
    return copied(data)


def _deep(data: bytes) -> bool:
    """Whether brackets are nested too deep; those in texts only make it stricter where they are unbalanced."""
    depth = deepest = 0
    text = inside = False
    for byte in data:
        if text:
            text, inside = (True, False) if inside else (byte != 0x22, byte == 0x5C)
        elif byte == 0x22:
            text = True
        elif byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"}]":
            depth -= 1
    return deepest > MOST_DEPTH


def read(value: Any, kind: Kind) -> Raw:
    """An object of a kind, with its type written into it; ApiError 400 where it is something else."""
    raw = received(value)
    if not isinstance(raw, dict):
        raise bad_request(f"expected an object of kind {kind.resource.kind}")
    for field, wanted in (("apiVersion", kind.resource.api_version), ("kind", kind.resource.kind)):
        if not raw.get(field) and kind.custom:
            raise bad_request(f"the object provided is unrecognized (must be of type {kind.resource.kind}): no {field}")
        if raw.get(field) not in (None, "", wanted):
            raise bad_request(f'the {field} in the data ("{str(raw[field])[:80]}") does not match "{wanted}"')
    metadata = raw.get("metadata")
    found = {
        **(raw if kind.custom else without_nulls(raw)),
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {} if metadata is None else without_nulls(metadata),
    }
    _check_types(found, kind)
    return found


def _check_types(raw: Raw, kind: Kind) -> None:
    """The parts that a store reads itself; the rest of a custom kind is its schema's to judge."""
    schemas = (fields(metadata=METADATA), *(() if kind.custom else builtin_schema(kind.resource)))
    wrong = next((cause for one in schemas for cause in misfits(raw, one)), None)
    if wrong is not None:
        raise _mistyped(kind, wrong.field, wrong.message)
    known = None if kind.custom else KINDS.get((raw["apiVersion"], raw["kind"]))
    if known is not None:
        _, unread = decode(raw, known)
        if unread:
            raise _mistyped(kind, unread[0].at, unread[0].says)


def _mistyped(kind: Kind, at: str, says: str) -> ApiError:
    name, version = kind.resource.kind, kind.resource.version
    return bad_request(f'{name} in version "{version}" cannot be handled as a {name}: {at}: {says}')

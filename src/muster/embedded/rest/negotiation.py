"""Content negotiation and request decoding: media types, bodies, query parameters.

Rule: malformed input is rejected here with 400, 406, 413 or 415 and a message that says what is wrong.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request

from muster.api.reader import parse_documents
from muster.embedded.rest import protobuf
from muster.embedded.rest.protobuf import PROTOBUF
from muster.embedded.rest.responses import JSON, YAML, status_error
from muster.errors import InputError
from muster.kube.cluster import PatchType

MAX_BODY_BYTES = 3 * 1024 * 1024  # bytes, as Kubernetes
View = Literal["Object", "Table", "PartialObjectMetadata"]
META_VERSIONS = ("v1", "v1beta1")
PATCH_TYPES = get_args(PatchType)
OBJECT_MEDIA_TYPES = (JSON, YAML, PROTOBUF)


class ResponseFormat(Struct, frozen=True):
    """The view and the media type of a response."""

    view: View = "Object"
    media: str = JSON
    version: str = "v1"  # of meta.k8s.io, for tables and metadata


class MediaType(Struct, frozen=True):
    """One entry of an Accept header."""

    type: str
    parameters: dict[str, str]


def parse_accept(header: str) -> Iterator[MediaType]:
    """Media types of an Accept header by preference: by q, then in the order of the header."""
    entries = [_parse_media_type(part) for part in header.split(",")[:50] if part.strip()]
    yield from sorted(entries, key=lambda media: -_quality(media))


def negotiate_format(header: str) -> ResponseFormat:
    """The first format of an Accept header that is supported; ApiError 406 where none is."""
    for media in parse_accept(header or "*/*"):
        response_format = _format_of(media)
        if response_format:
            return response_format
    raise status_error(406, f"only the following media types are accepted: {JSON}, {YAML}")


def _format_of(media: MediaType) -> ResponseFormat | None:
    base = {"*/*": JSON, "application/*": JSON, JSON: JSON, YAML: YAML}.get(media.type)
    if base is None:
        return None
    view, version = media.parameters.get("as", ""), media.parameters.get("v", "")
    if not view:
        return ResponseFormat(media=base)
    if media.parameters.get("g") != "meta.k8s.io" or version not in META_VERSIONS:
        return None
    if view == "Table":
        return ResponseFormat("Table", base, version)
    if view.removesuffix("List") == "PartialObjectMetadata":
        return ResponseFormat("PartialObjectMetadata", base, version)
    return None


def _parse_media_type(part: str) -> MediaType:
    name, *rest = (piece.strip() for piece in part.split(";"))
    pairs = (piece.partition("=") for piece in rest)
    return MediaType(name.lower(), {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs})


def _quality(media: MediaType) -> float:
    try:
        return float(media.parameters.get("q", "1"))
    except ValueError:
        return 0.0


# bodies -------------------------------------------------------------------------------------------------------------


def content_type(request: Request, supported: tuple[str, ...] = OBJECT_MEDIA_TYPES) -> str:
    """The media type of the body, JSON by default; ApiError 415 where it is not supported."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media in supported:
        return media
    if not media and JSON in supported:
        return JSON
    listed = ", ".join(supported)
    raise status_error(
        415, f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )


async def read_body(request: Request) -> bytes:
    """The whole body; ApiError 413 as soon as it is too large."""
    pieces: list[bytes] = []
    size = 0
    async for piece in _stream(request):
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise status_error(413, f"Request entity too large: limit is {MAX_BODY_BYTES}")
        pieces.append(piece)
    return b"".join(pieces)


async def _stream(request: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise status_error(400, "the client went away in the middle of its request") from None


def decode_body(data: bytes, media: str) -> Any:
    """The one value in a JSON, YAML or protobuf body; ApiError 400 where it cannot be read."""
    if media == PROTOBUF:
        return protobuf.read(data)
    try:
        values = parse_documents(data, "the body.json" if media.endswith("json") else "the body")
        msgspec.json.encode(values)
    except InputError as error:
        raise status_error(400, error.message.replace("the body.json", "the body")) from None
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise status_error(400, f"the body cannot be read: {error}") from None
    if len(values) != 1:
        raise status_error(400, "the body must hold one value" if values else "the body is empty: expected an object")
    return values[0]


async def read_object(request: Request) -> dict[str, Any]:
    """The object in the body; ApiError 400 where it is something else."""
    media = content_type(request)
    value = decode_body(await read_body(request), media)
    if not isinstance(value, dict):
        raise status_error(400, "the body must be an object")
    return value


# query --------------------------------------------------------------------------------------------------------------


def query_flag(query: QueryParams, name: str) -> bool:
    """A boolean query parameter, `true` and `1` as in Go; ApiError 400 for other words."""
    text = query.get(name, "")
    if text.lower() in ("true", "1", "t"):
        return True
    if text.lower() in ("", "false", "0", "f"):
        return False
    raise status_error(400, f"query parameter `{name}` must be true or false, not `{text[:60]}`")


def query_int(query: QueryParams, name: str) -> int | None:
    """An integer query parameter; None: not set. ApiError 400 for other text."""
    text = query.get(name, "")
    if not text:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 18):
        raise status_error(400, f"query parameter `{name}` must be a number, not `{text[:60]}`")
    return int(text)


def is_dry_run(query: QueryParams, options: dict[str, Any] | None = None) -> bool:
    """Whether the request is a dry run; ApiError 400 for any value but `All`."""
    values = [*query.getlist("dryRun"), *_as_list((options or {}).get("dryRun"))]
    if any(value != "All" for value in values if value):
        raise status_error(400, "dryRun: the only value that is known is `All`")
    return "All" in values


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

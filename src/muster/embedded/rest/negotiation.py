"""What a client sends and what it would like to receive: media types, bodies, query parameters.

Rule: whatever a client may write wrongly is answered here with 400, 406, 413 or 415 and a sentence.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request

from muster.api.reader import documents
from muster.embedded.rest import protobuf
from muster.embedded.rest.protobuf import PROTOBUF
from muster.embedded.rest.responses import JSON, YAML, refusal
from muster.errors import InputError
from muster.kube.cluster import PatchType

LARGEST_BODY = 3 * 1024 * 1024  # bytes, as Kubernetes
View = Literal["Object", "Table", "PartialObjectMetadata"]
META_VERSIONS = ("v1", "v1beta1")
PATCHES = get_args(PatchType)
WRITTEN = (JSON, YAML, PROTOBUF)


class Wanted(Struct, frozen=True):
    """The form of an answer that suits the client."""

    view: View = "Object"
    media: str = JSON
    version: str = "v1"  # of meta.k8s.io, for tables and metadata


class Media(Struct, frozen=True):
    """One entry of an Accept header."""

    type: str
    parameters: dict[str, str]


def accepted(header: str) -> Iterator[Media]:
    """Entries of an Accept header, in the order of preference: q first, then as written."""
    entries = [_media(part) for part in header.split(",")[:50] if part.strip()]
    yield from sorted(entries, key=lambda media: -_weight(media))


def wanted(header: str) -> Wanted:
    """The first form that both sides know; 406 where there is none."""
    for media in accepted(header or "*/*"):
        found = _form(media)
        if found:
            return found
    raise refusal(406, f"only the following media types are accepted: {JSON}, {YAML}")


def _form(media: Media) -> Wanted | None:
    written = {"*/*": JSON, "application/*": JSON, JSON: JSON, YAML: YAML}.get(media.type)
    if written is None:
        return None
    view, version = media.parameters.get("as", ""), media.parameters.get("v", "")
    if not view:
        return Wanted(media=written)
    if media.parameters.get("g") != "meta.k8s.io" or version not in META_VERSIONS:
        return None
    if view == "Table":
        return Wanted("Table", written, version)
    if view.removesuffix("List") == "PartialObjectMetadata":
        return Wanted("PartialObjectMetadata", written, version)
    return None


def _media(part: str) -> Media:
    kind, *rest = (piece.strip() for piece in part.split(";"))
    pairs = (piece.partition("=") for piece in rest)
    return Media(kind.lower(), {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs})


def _weight(media: Media) -> float:
    try:
        return float(media.parameters.get("q", "1"))
    except ValueError:
        return 0.0


# bodies -------------------------------------------------------------------------------------------------------------


def content_type(request: Request, known: tuple[str, ...] = WRITTEN) -> str:
    """What the body is said to be; nothing said is JSON. 415 for what is not known here."""
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said in known:
        return said
    if not said and JSON in known:
        return JSON
    told = ", ".join(known)
    raise refusal(415, f"the body of the request was in an unknown format - accepted media types include: {told}")


async def body(request: Request) -> bytes:
    """The whole body; 413 as soon as it is too large, before it is held."""
    pieces: list[bytes] = []
    size = 0
    async for piece in _stream(request):
        size += len(piece)
        if size > LARGEST_BODY:
            raise refusal(413, f"Request entity too large: limit is {LARGEST_BODY}")
        pieces.append(piece)
    return b"".join(pieces)


async def _stream(request: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise refusal(400, "the client went away in the middle of its request") from None


def value(data: bytes, media: str) -> Any:
    """One JSON or YAML value; 400 says what is wrong with it."""
    if media == PROTOBUF:
        return protobuf.read(data)
    try:
        found = documents(data, "the body.json" if media.endswith("json") else "the body")
        msgspec.json.encode(found)
    except InputError as error:
        raise refusal(400, error.message.replace("the body.json", "the body")) from None
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise refusal(400, f"the body cannot be read: {error}") from None
    if len(found) != 1:
        raise refusal(400, "the body must hold one value" if found else "the body is empty: expected an object")
    return found[0]


async def sent_object(request: Request) -> dict[str, Any]:
    """An object that a client sends; 400 where it is something else."""
    media = content_type(request)
    found = value(await body(request), media)
    if not isinstance(found, dict):
        raise refusal(400, "the body must be an object")
    return found


# query --------------------------------------------------------------------------------------------------------------


def flag(query: QueryParams, name: str) -> bool:
    """`true` and `1` are true, as in Go; 400 for words that are neither."""
    said = query.get(name, "")
    if said.lower() in ("true", "1", "t"):
        return True
    if said.lower() in ("", "false", "0", "f"):
        return False
    raise refusal(400, f"query parameter `{name}` must be true or false, not `{said[:60]}`")


def whole(query: QueryParams, name: str) -> int | None:
    """A number; None: nothing was said."""
    said = query.get(name, "")
    if not said:
        return None
    digits = said.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 18):
        raise refusal(400, f"query parameter `{name}` must be a number, not `{said[:60]}`")
    return int(said)


def dry_run(query: QueryParams, options: dict[str, Any] | None = None) -> bool:
    """Whether nothing is to be stored; 400 for anything but `All`."""
    said = [*query.getlist("dryRun"), *_texts((options or {}).get("dryRun"))]
    if any(word != "All" for word in said if word):
        raise refusal(400, "dryRun: the only value that is known is `All`")
    return "All" in said


def _texts(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []

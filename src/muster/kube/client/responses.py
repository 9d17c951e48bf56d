"""What an API server's answers mean: errors as ApiError, which of them are worth another try, and when.

Between us and the API server there can be somebody who answers what he likes: an answer that is not what it should be
is an ApiError as well, never a success and never an error of another kind.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from muster.kube.backoff import Backoff
from muster.kube.cluster import Raw
from muster.kube.errors import REASONS, ApiError, Unanswered, is_refused_by_budget

T = TypeVar("T")
PASSING = (500, 502, 503, 504)
FIRST_SECONDS, LONGEST_SECONDS = 0.2, 10.0  # of the backoff between the attempts of one request
LONGEST_RETRY_AFTER_SECONDS = 30.0  # a longer Retry-After is cut
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what decoders raise


class _Status(Struct, frozen=True):
    kind: str = ""
    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: dict[str, Any] | None = None


class _Kind(Struct, frozen=True):
    kind: str


_decode_kind = msgspec.json.Decoder(_Kind).decode


def error_of(status: int, body: bytes, request: str, retry_after: str = "") -> ApiError:
    """The error behind an answer; a body that is not a Status is not quoted."""
    try:
        told = msgspec.json.decode(body, type=_Status)
    except NOT_JSON:
        told = _Status()
    if told.kind != "Status":
        told = _Status(message=f"{request}: HTTP status {status}")
    return _error(told, status, request, retry_after)


def error_in_watch(status: Any, request: str) -> ApiError:
    """The error behind an ERROR event."""
    try:
        told = msgspec.convert(status, _Status)
    except msgspec.ValidationError:
        told = _Status()
    return _error(told, told.code if told.code and told.code >= 400 else 500, request)


def _error(told: _Status, status: int, request: str, retry_after: str = "") -> ApiError:
    details = dict(told.details or {})
    if retry_after.isdecimal() and len(retry_after) < 10:
        details.setdefault("retryAfterSeconds", int(retry_after))
    reason = told.reason or REASONS.get(status, "Unknown")
    reason = "Expired" if status == 410 else reason  # watches of older API servers say `Gone`
    return ApiError(status, reason, told.message or f"{request}: {reason}", details)


def decoded(decode: Callable[[bytes], T], body: bytes, request: str) -> T:
    """What a body says; 500 where it says nothing of the kind."""
    try:
        return decode(body)
    except NOT_JSON:
        raise nonsense(request) from None


def confirmed(body: bytes, request: str) -> None:
    """A write is answered with the object or with a Status, which say what they are; 500 where nobody does."""
    decoded(_decode_kind, body, request)


def nonsense(request: str) -> ApiError:
    """An answer that only looks like success. After a write, nobody knows what became of it."""
    return ApiError(500, "InternalError", f"{request}: the answer is not a Kubernetes object")


def is_object(raw: Raw) -> bool:
    """Whether it can be one that an API server stores: it has a name, and its parts are where they belong."""
    meta = raw.get("metadata")
    named = isinstance(meta, dict) and isinstance(name := meta.get("name"), str) and name != ""
    return named and isinstance(raw.get("spec") or {}, dict)


def worth_another_try(error: ApiError, repeatable: bool) -> bool:
    """Whether the same request may succeed soon, and cannot be carried out twice to anyone's harm."""
    if isinstance(error, Unanswered):
        return repeatable or not error.sent
    if error.status == 429:
        return not is_refused_by_budget(error)  # it was turned away unread
    return repeatable and error.status in PASSING


def request_backoff(chance: Callable[[], float]) -> Backoff:
    """The backoff between the attempts of one request."""
    return Backoff(FIRST_SECONDS, LONGEST_SECONDS, chance)


def retry_after_seconds(error: ApiError, chance: float) -> float | None:
    """How long the API server asks the client to wait, and up to a quarter more by `chance`; None: it does not say."""
    asked = error.details.get("retryAfterSeconds")
    if isinstance(asked, int) and asked > 0:
        return min(float(asked), LONGEST_RETRY_AFTER_SECONDS) * (1 + chance / 4)
    return None

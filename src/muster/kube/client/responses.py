"""Responses of an API server: bodies, errors as ApiError, which of them to retry, and when.

A proxy before the API server may answer anything. A response that is not what it should be is an ApiError as well,
never a success and never an exception of another kind.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from muster.kube.backoff import Backoff
from muster.kube.errors import REASONS, ApiError, Unanswered, is_refused_by_budget

B = TypeVar("B")
T = TypeVar("T")
TRANSIENT = (500, 502, 503, 504)
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


def parse_error(status: int, body: bytes, request: str, retry_after: str = "") -> ApiError:
    """The error of a response; a body that is not a Status is not quoted."""
    try:
        report = msgspec.json.decode(body, type=_Status)
    except NOT_JSON:
        report = _Status()
    if report.kind != "Status":
        report = _Status(message=f"{request}: HTTP status {status}")
    return _error(report, status, request, retry_after)


def parse_watch_error(status: Any, request: str) -> ApiError:
    """The error of an ERROR event."""
    try:
        report = msgspec.convert(status, _Status)
    except msgspec.ValidationError:
        report = _Status()
    return _error(report, report.code if report.code and report.code >= 400 else 500, request)


def _error(report: _Status, status: int, request: str, retry_after: str = "") -> ApiError:
    details = dict(report.details or {})
    if retry_after.isdecimal() and len(retry_after) < 10:
        details.setdefault("retryAfterSeconds", int(retry_after))
    reason = report.reason or REASONS.get(status, "Unknown")
    reason = "Expired" if status == 410 else reason  # watches of older API servers say `Gone`
    return ApiError(status, reason, report.message or f"{request}: {reason}", details)


def decode_body(decode: Callable[[B], T], body: B, request: str) -> T:
    """The body as a value; 500 where it is not one of that type."""
    try:
        return decode(body)
    except NOT_JSON:
        raise unexpected_response(request) from None


def check_confirmation(body: bytes, request: str) -> None:
    """The response to a write is the object or a Status, both with a `kind`; 500 where it is neither."""
    decode_body(_decode_kind, body, request)


def unexpected_response(request: str) -> ApiError:
    """A response that only looks like success. After a write: it may have been applied, or not."""
    return ApiError(500, "InternalError", f"{request}: the answer is not a Kubernetes object")


def is_retryable(error: ApiError, repeatable: bool) -> bool:
    """Whether the same request may succeed soon, and does no harm where it is applied twice."""
    if isinstance(error, Unanswered):
        return repeatable or not error.sent
    if error.status == 429:
        return not is_refused_by_budget(error)  # it was rejected unread
    return repeatable and error.status in TRANSIENT


def request_backoff(chance: Callable[[], float]) -> Backoff:
    """The backoff between the attempts of one request."""
    return Backoff(FIRST_SECONDS, LONGEST_SECONDS, chance)


def retry_after_seconds(error: ApiError, chance: float) -> float | None:
    """How long the API server asks the client to wait, and up to a quarter more by `chance`; None: it does not say."""
    requested = error.details.get("retryAfterSeconds")
    if isinstance(requested, int) and requested > 0:
        return min(float(requested), LONGEST_RETRY_AFTER_SECONDS) * (1 + chance / 4)
    return None

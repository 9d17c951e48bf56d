"""What an API server's answers mean: errors as ApiError, which of them are worth another try, and when."""

from typing import Any

import msgspec
from msgspec import Struct

from muster.cluster.store import REASONS, ApiError

PASSING = (500, 502, 503, 504)
FIRST_SECONDS = 0.2  # the pause after the first failure; it doubles each time
LONGEST_SECONDS = 10.0
ASKED_SECONDS = 30.0  # the longest Retry-After that is heeded


class Unanswered(ApiError):
    """Nobody said what became of a request. Where it was `sent`, it may have been carried out."""

    def __init__(self, status: int, message: str, *, sent: bool) -> None:
        super().__init__(status, REASONS[status], message)
        self.sent = sent


class _Status(Struct, frozen=True):
    kind: str = ""
    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: dict[str, Any] | None = None


def error_of(status: int, body: bytes, request: str, retry_after: str = "") -> ApiError:
    """The error behind an answer; a body that is not a Status is not quoted."""
    try:
        told = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
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
    return _error(told, told.code or 500, request)


def _error(told: _Status, status: int, request: str, retry_after: str = "") -> ApiError:
    details = dict(told.details or {})
    if retry_after.isdigit():
        details.setdefault("retryAfterSeconds", int(retry_after))
    reason = told.reason or REASONS.get(status, "Unknown")
    reason = "Expired" if status == 410 else reason  # watches of older API servers say `Gone`
    return ApiError(status, reason, told.message or f"{request}: {reason}", details)


def worth_another_try(error: ApiError, repeatable: bool) -> bool:
    """Whether the same request may succeed soon, and cannot be carried out twice to anyone's harm."""
    if isinstance(error, Unanswered):
        return repeatable or not error.sent
    if error.status == 429:
        return not refused_by_budget(error)  # it was turned away unread
    return repeatable and error.status in PASSING


def refused_by_budget(error: ApiError) -> bool:
    """An eviction that a PodDisruptionBudget forbids: for the caller, not for patience."""
    causes = error.details.get("causes") or ()
    return any(isinstance(cause, dict) and cause.get("reason") == "DisruptionBudget" for cause in causes)


def pause_seconds(attempt: int, error: ApiError, chance: float) -> float:
    """How long to wait after the nth failure: what the server asks for, or doubling; `chance` in [0, 1) spreads it."""
    asked = error.details.get("retryAfterSeconds")
    if isinstance(asked, int) and asked > 0:
        return min(float(asked), ASKED_SECONDS) * (1 + chance / 4)
    return backoff_seconds(attempt, chance)


def backoff_seconds(attempt: int, chance: float) -> float:
    """Doubling from the first failure on, up to a bound, and spread over the upper half."""
    return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(attempt - 1, 30)) * (0.5 + chance / 2)

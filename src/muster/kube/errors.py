"""Failures of requests to an API server, and what each says about the request.

Both clusters raise them: the client for Kubernetes and the embedded cluster.
"""

from collections.abc import Mapping
from typing import Any

from muster.errors import MusterError

REASONS: Mapping[int, str] = {  # Kubernetes' word for each status
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class ApiError(MusterError):
    """A response other than success: `status` is the HTTP status, `reason` Kubernetes' word for it."""

    exit_code = 1

    def __init__(self, status: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status, self.reason, self.details = status, reason, dict(details or {})


class Unanswered(ApiError):
    """No response came. Where the request was `sent`, the API server may have applied it."""

    def __init__(self, status: int, message: str, *, sent: bool) -> None:
        super().__init__(status, REASONS[status], message)
        self.sent = sent


def may_have_been_applied(error: ApiError) -> bool:
    """Whether the API server applied a write that failed like this, or may still apply it.

    A 5xx is not a clear rejection: behind a 500 there can be a request to etcd that only took too long, behind a 502
    an API server that still works on it.
    """
    return error.sent if isinstance(error, Unanswered) else error.status >= 500 or error.status == 408


def is_refused_by_budget(error: ApiError) -> bool:
    """Whether a PodDisruptionBudget forbids the eviction: the caller decides what to do, a retry does not help."""
    return any(cause.get("reason") == "DisruptionBudget" for cause in causes_of(error))


def is_another_object(error: ApiError) -> bool:
    """Whether a patch with a uid met another object of that name, or none."""
    return error.status == 404 or any(cause.get("field") == "metadata.uid" for cause in causes_of(error))


def causes_of(error: ApiError) -> list[Mapping[str, Any]]:
    """The causes that an API server names in its response."""
    causes = error.details.get("causes")
    return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []

"""Responses: objects as JSON or YAML, and a Kubernetes `Status` for everything else."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from muster.api.codec import to_yaml
from muster.kube.errors import REASONS, ApiError

JSON = "application/json"
YAML = "application/yaml"


def status_error(code: int, message: str, details: Mapping[str, Any] | None = None) -> ApiError:
    """An ApiError with Kubernetes' reason for the status code."""
    return ApiError(code, REASONS[code], message, details)


def failure_status(error: ApiError) -> dict[str, Any]:
    """An error as a `Status` object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        **({"details": error.details} if error.details else {}),
        "code": error.status,
    }


def success_status(details: Mapping[str, Any] | None = None, code: int = 200) -> dict[str, Any]:
    """The `Status` of a success that returns no object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        **({"details": dict(details)} if details else {}),
        **({"code": code} if code != 200 else {}),
    }


def object_response(value: Any, code: int = 200, media: str = JSON, warnings: Sequence[str] = ()) -> Response:
    """A response with one object; kubectl prints the warnings, each in a header."""
    body = to_yaml([value]).encode() if media == YAML else msgspec.json.encode(value) + b"\n"
    response = Response(body, code, media_type=media, headers={"Cache-Control": "no-cache, private"})
    for warning in warnings:
        response.headers.append("Warning", f"299 - {_quote(warning)}")
    return response


def error_response(error: ApiError) -> Response:
    """The response for an error; `Retry-After` makes clients retry by themselves."""
    response = object_response(failure_status(error), error.status)
    seconds = error.details.get("retryAfterSeconds")
    if isinstance(seconds, int) and seconds > 0:
        response.headers["Retry-After"] = str(seconds)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _quote(warning: str) -> str:
    """A warning as a quoted string of printable ASCII, as headers require."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in warning[:500])
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'

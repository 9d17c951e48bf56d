"""What goes back: JSON or YAML, and Kubernetes' `Status` for everything that is not an object."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from muster.api.codec import to_yaml
from muster.kube.errors import REASONS, ApiError

JSON = "application/json"
YAML = "application/yaml"


def refusal(code: int, message: str, details: Mapping[str, Any] | None = None) -> ApiError:
    """An answer other than success, with Kubernetes' word for its status."""
    return ApiError(code, REASONS[code], message, details)


def status(error: ApiError) -> dict[str, Any]:
    """An error as an object."""
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


def success(details: Mapping[str, Any] | None = None, code: int = 200) -> dict[str, Any]:
    """That it is done, where there is no object to show."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        **({"details": dict(details)} if details else {}),
        **({"code": code} if code != 200 else {}),
    }


def answer(value: Any, code: int = 200, media: str = JSON, warnings: Sequence[str] = ()) -> Response:
    """One object; each warning is a header that kubectl prints."""
    body = to_yaml([value]).encode() if media == YAML else msgspec.json.encode(value) + b"\n"
    response = Response(body, code, media_type=media, headers={"Cache-Control": "no-cache, private"})
    for warning in warnings:
        response.headers.append("Warning", f"299 - {_quoted(warning)}")
    return response


def failure(error: ApiError) -> Response:
    """An error as an answer. Clients come back by themselves where they are told when."""
    response = answer(status(error), error.status)
    seconds = error.details.get("retryAfterSeconds")
    if isinstance(seconds, int) and seconds > 0:
        response.headers["Retry-After"] = str(seconds)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _quoted(warning: str) -> str:
    """A header holds one line of ASCII."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in warning[:500])
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'

"""Answers of the dashboard: JSON, and refusals that name the way out."""

from typing import Any

import msgspec
from starlette.responses import Response

JSON = "application/json"


def answer(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type=JSON)


def refuse(status: int, message: str, hint: str = "") -> Response:
    """Why there is no answer, and what to do."""
    challenge = {"www-authenticate": "Bearer"} if status == 401 else None
    body = msgspec.json.encode({"message": message, "hint": hint})
    return Response(body, status, challenge, media_type=JSON)

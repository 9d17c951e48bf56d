"""Requests to an ASGI application without a socket: what it answers, and that it answers at all."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from starlette.types import ASGIApp, Message


class Reply(NamedTuple):
    """An answer as a client sees it."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def lines(self) -> list[Any]:
        """The events of a watch."""
        return [msgspec.json.decode(line) for line in self.body.splitlines()]


async def ask(
    app: ASGIApp,
    method: str,
    target: str,
    body: Any = b"",
    headers: Mapping[str, str] | None = None,
    *,
    stays_seconds: float = 10.0,
) -> Reply:
    """One request; the client leaves after a while, as one that watches does."""
    path, _, query = target.partition("?")
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode("latin-1", "replace"),
        "root_path": "",
        "headers": [(k.lower().encode(), v.encode("latin-1", "replace")) for k, v in (headers or {}).items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 443),
    }
    sent: list[Message] = []
    is_sent = False

    async def receive() -> Message:
        nonlocal is_sent
        if not is_sent:
            is_sent = True
            return {"type": "http.request", "body": data, "more_body": False}
        await asyncio.sleep(stays_seconds)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    reply_headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in start["headers"]}
    return Reply(start["status"], reply_headers, b"".join(message["body"] for message in sent[1:]))

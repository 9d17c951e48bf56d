"""An ASGI app called without a socket: what a server would send it, and what it answers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from starlette.types import ASGIApp, Message


class Answered(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def lines(self) -> list[Any]:
        """The events of a watch."""
        return [msgspec.json.decode(line) for line in self.body.splitlines()]


async def call(
    app: ASGIApp,
    path: str,
    body: bytes = b"",
    method: str = "POST",
    headers: dict[str, str] | None = None,
    pieces: int = 1,
) -> Answered:
    """One request to the webhook; the body arrives in so many pieces."""
    size = max(-(-len(body) // pieces), 1)
    chunks = [body[at : at + size] for at in range(0, len(body), size)] or [b""]

    async def receive() -> Message:
        if not chunks:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

    all_headers = {"content-type": "application/json"} | (headers or {})
    return await _exchange(app, method, f"{path}?timeout=5s", all_headers, receive)


async def ask(
    app: ASGIApp,
    method: str,
    target: str,
    body: Any = b"",
    headers: Mapping[str, str] | None = None,
    *,
    stays_seconds: float = 10.0,
) -> Answered:
    """One request to the API server; the client disconnects after a while, as one that watches does."""
    chunks = [body if isinstance(body, bytes) else msgspec.json.encode(body)]

    async def receive() -> Message:
        if chunks:
            return {"type": "http.request", "body": chunks.pop(), "more_body": False}
        await asyncio.sleep(stays_seconds)
        return {"type": "http.disconnect"}

    return await _exchange(app, method, target, headers or {}, receive)


async def _exchange(
    app: ASGIApp, method: str, target: str, headers: Mapping[str, str], receive: Callable[[], Awaitable[Message]]
) -> Answered:
    path, _, query = target.partition("?")
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
        "headers": [(k.lower().encode(), v.encode("latin-1", "replace")) for k, v in headers.items()],
        "client": ("10.0.0.1", 1),
        "server": ("muster", 443),
    }
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    answered = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
    return Answered(start["status"], answered, b"".join(message.get("body", b"") for message in sent[1:]))

"""An ASGI app called without a socket: what a server would send it, and what it answers."""

from typing import Any, NamedTuple

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


async def call(
    app: ASGIApp,
    path: str,
    body: bytes = b"",
    method: str = "POST",
    headers: dict[str, str] | None = None,
    pieces: int = 1,
) -> Answered:
    """One request; the body arrives in so many pieces."""
    size = max(-(-len(body) // pieces), 1)
    chunks = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
    sent: list[Message] = []

    async def receive() -> Message:
        if not chunks:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

    async def send(message: Message) -> None:
        sent.append(message)

    all_headers = {"content-type": "application/json"} | (headers or {})
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"timeout=5s",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in all_headers.items()],
        "client": ("10.0.0.1", 1),
        "server": ("muster", 443),
    }
    await app(scope, receive, send)
    start = sent[0]
    answered = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answered(start["status"], answered, b"".join(message.get("body", b"") for message in sent[1:]))

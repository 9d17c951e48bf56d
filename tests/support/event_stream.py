"""One viewer of a dashboard over a socket: reads events of its stream, and can stop reading."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.support.shown_cluster import apply_event, decoded_event

LIMIT = 64 * 2**20  # bytes of one event
WAIT_SECONDS = 60.0


class EventStream:
    """What a page has received."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.state: Any = {}
        self.cursor = ""
        self.names: list[str] = []  # of events, in order
        self.by_cycle: dict[int, Any] = {}  # the first state with a cycle, where no change was merged with another

    async def read(self) -> str:
        """The next event; its name."""
        event = await self._chunk()
        name, cursor, data = decoded_event(event)
        before = self.state.get("seq", 0)
        self.state, self.cursor = apply_event(self.state, event), cursor or self.cursor
        if name == "change" and data["cycles"] and data["seq"] == before + 1:
            self.by_cycle[data["cycle"]] = self.state
        self.names.append(name)
        return name

    async def _chunk(self) -> bytes:
        """One event, in chunks of the transfer encoding."""
        event = b""
        while not event.endswith(b"\n\n"):
            size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
            event += (await self.reader.readexactly(size + 2))[:-2]
            assert size, "the stream has ended"
        return event

    async def until(self, is_shown: Callable[[Any], object]) -> Any:
        """Read until the state is so."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not (self.state and is_shown(self.state)):
                await self.read()
        return self.state


@asynccontextmanager
async def event_stream(
    address: str, after: str = "", token: str = "", receive_bytes: int = 0
) -> AsyncIterator[EventStream]:
    """A stream that is open. `receive_bytes`: what the kernel holds for a viewer that does not read."""
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=receive_bytes or LIMIT)
    bearer = f"authorization: Bearer {token}\r\n" if token else ""
    query = f"?after={after}" if after else ""
    writer.write(f"GET /api/stream{query} HTTP/1.1\r\nhost: {host}:{port}\r\n{bearer}\r\n".encode())
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        yield EventStream(reader, writer)
    finally:
        writer.close()

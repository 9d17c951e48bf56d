"""A gate before a real API server: plain HTTP on loopback, which can swallow all bytes but those of leases.

Connections stay open and peers are acknowledged, as with a proxy or a load balancer that hangs: only silence shows it.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.support.apiserver.apiserver import ApiServer

LEASES_PATH = b"/apis/coordination.k8s.io/"
CHUNK_BYTES = 65536


class Gate:
    """Passes bytes on, or swallows them while it `is_shut`; the requests of a connection are all alike."""

    def __init__(self, apiserver: ApiServer) -> None:
        self._apiserver = apiserver
        self._trust = ssl.create_default_context(cafile=str(apiserver.folder / "ca.crt"))
        self.is_shut = False
        self.url = ""
        self.swallowed = 0  # bytes

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Gate"]:
        """Listens while the context is open."""
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await asyncio.open_connection("127.0.0.1", self._apiserver.port, ssl=self._trust)
        try:
            with suppress(ConnectionError, ssl.SSLError):
                first = await reader.read(CHUNK_BYTES)
                always = LEASES_PATH in first.split(b"\r\n", 1)[0]
                self._pass(first, upstream[1], always)
                pumps = self._pump(reader, upstream[1], always), self._pump(upstream[0], writer, always)
                await asyncio.wait(map(asyncio.ensure_future, pumps), return_when=asyncio.FIRST_COMPLETED)
        finally:
            upstream[1].close()
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, always: bool) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            while chunk := await reader.read(CHUNK_BYTES):
                self._pass(chunk, writer, always)
                await writer.drain()

    def _pass(self, chunk: bytes, writer: asyncio.StreamWriter, always: bool) -> None:
        if self.is_shut and not always:
            self.swallowed += len(chunk)
        else:
            writer.write(chunk)

"""An ASGI app behind a server of muster, on loopback."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp

from muster.observability.serving.asgi_server import LIMITS, AsgiServer, listen
from muster.observability.serving.connection_table import ConnectionLimits


@asynccontextmanager
async def served(
    app: ASGIApp,
    limits: ConnectionLimits = LIMITS,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[tuple[AsgiServer, int]]:
    """The server, which answers, and its port."""
    server, listener = AsgiServer(app, limits, tls), listen(host, port, "")
    bound: int = listener.getsockname()[1]
    running = asyncio.create_task(server.serve([listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server, bound
    finally:
        server.should_exit = True
        await running

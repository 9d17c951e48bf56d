"""Open connections to one API server, kept for the next requests."""

import asyncio
import ssl
from collections import deque
from typing import Final

from muster.kube.client.connection import HttpConnection, HttpResponse
from muster.kube.client.connector import open_connection
from muster.kube.client.credentials import Access

IDLE_SECONDS: Final = 15.0  # an idle connection is closed after it: sooner than an API server or a proxy closes it
OPENED_AT_ONCE: Final = 16  # ahead of requests: an API server has others to serve
CLOSE_ROUNDS: Final = 10  # of the event loop, in which aborted transports close their sockets


class ConnectionPool:
    """Connections with one set of certificates; the one that was used last is used first."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._idle: deque[HttpConnection] = deque()
        self._open: set[HttpConnection] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def exchange(
        self, access: Access, data: bytes, connect_seconds: float, silence_seconds: float
    ) -> HttpResponse:
        """Sends a request once, and returns the whole response."""
        connection = self._take_idle() or await self._connect(access, connect_seconds)
        try:
            return await connection.exchange(data, silence_seconds)
        finally:
            self._put_idle(connection)

    async def open_stream(
        self, access: Access, data: bytes, connect_seconds: float, silence_seconds: float
    ) -> tuple[HttpResponse, HttpConnection]:
        """Sends a request once on a connection of its own, which the caller aborts in the end."""
        connection = await self._connect(access, connect_seconds)
        return await connection.open_stream(data, silence_seconds), connection

    async def open_ahead(self, access: Access, number: int, connect_seconds: float) -> None:
        """Opens connections for requests to come until so many are idle; raises where one cannot be opened."""
        missing = number - len(self._idle)
        while missing > 0:
            batch = min(missing, OPENED_AT_ONCE)
            missing -= batch
            opened = (self._open_idle(access, connect_seconds) for _ in range(batch))
            failures = await asyncio.gather(*opened, return_exceptions=True)
            for failure in filter(None, failures):
                raise failure

    async def _open_idle(self, access: Access, seconds: float) -> None:
        connection = await self._connect(access, seconds)
        connection.idle_since = asyncio.get_running_loop().time()
        self._put_idle(connection)

    async def close(self) -> None:
        """Closes every connection; requests in flight lose theirs."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._open:
            connection.abort()
        self._idle.clear()
        for _ in range(CLOSE_ROUNDS):  # also for connections that were given up while they were opened
            await asyncio.sleep(0)

    async def _connect(self, access: Access, seconds: float) -> HttpConnection:
        connection = await open_connection(access, self._tls, seconds)
        connection.on_lost = self._open.discard
        self._open.add(connection)
        return connection

    def _take_idle(self) -> HttpConnection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and now - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.abort()
        return None

    def _put_idle(self, connection: HttpConnection) -> None:
        if not connection.is_open:
            return
        self._idle.append(connection)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        """Closes what was idle for long; the longest is first."""
        loop, self._timer = asyncio.get_running_loop(), None
        while self._idle and loop.time() - self._idle[0].idle_since >= IDLE_SECONDS:
            self._idle.popleft().abort()
        if self._idle:
            seconds = self._idle[0].idle_since + IDLE_SECONDS - loop.time()
            self._timer = loop.call_later(max(seconds, 0.1), self._close_idle)

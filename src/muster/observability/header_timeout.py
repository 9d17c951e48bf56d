"""Connections on which nothing, or half a request, was said for too long are let go: there are only so many.

The server has limits for the time between requests and for their bodies; this is the one for what comes before a body.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_SECONDS = 10.0


class HeaderTimeout(H11Protocol):
    """HTTP/1.1 with a time limit for the head of a request."""

    _timer: asyncio.TimerHandle | None = None
    _waited = False  # at the last look

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """From now on it is looked at."""
        super().connection_made(transport)
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left behind."""
        if self._timer:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._timer = self.loop.call_later(HEADERS_SECONDS, self._look)

    def _look(self) -> None:
        waits = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
        if waits and self._waited:
            self.transport.close()
            return
        self._waited = waits
        self._look_later()

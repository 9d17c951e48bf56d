"""Closes connections that do not complete the head of a request in time: the number of connections is bounded.

uvicorn has limits for the time between requests and for bodies; this is the limit for headers.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_SECONDS = 10.0


class HeaderTimeout(H11Protocol):
    """HTTP/1.1 with a time limit for the head of a request."""

    _timer: asyncio.TimerHandle | None = None
    _was_waiting = False  # at the last check

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the checks of the connection."""
        super().connection_made(transport)
        self._schedule_check()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the checks."""
        if self._timer:
            self._timer.cancel()
        super().connection_lost(exc)

    def _schedule_check(self) -> None:
        self._timer = self.loop.call_later(HEADERS_SECONDS, self._check)

    def _check(self) -> None:
        is_waiting = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
        if is_waiting and self._was_waiting:
            self.transport.close()
            return
        self._was_waiting = is_waiting
        self._schedule_check()

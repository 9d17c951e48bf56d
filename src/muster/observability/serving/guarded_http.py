"""HTTP/1.1 on one connection, which reports what it waits for: limits depend on it.

uvicorn limits only the time between requests, and no client that sends or reads slowly.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from muster.observability.serving.connection_table import Phase

HEAD_BYTES = 16 * 2**10
UNSENT_BYTES = 64 * 2**10  # of an answer, before the handler waits for the peer
ABORT = "muster.abort"  # an extension of ASGI: closes the connection at once, whatever is still to be sent


class StatedLengths(h11.Connection):
    """Refuses bodies in chunks: each chunk, of one byte even, costs as much as a request, and no client needs them."""

    def next_event(self) -> Any:
        """The next event of the peer; RemoteProtocolError where its request is to come in chunks."""
        event = super().next_event()
        if isinstance(event, h11.Request) and any(name == b"transfer-encoding" for name, _ in event.headers):
            raise h11.RemoteProtocolError("bodies need a content-length", error_status_hint=411)
        return event


class GuardedHttp(H11Protocol):
    """uvicorn's protocol, with `on_phase` called whenever the connection waits for something else."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        on_phase: Callable[[Phase], None],
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__(config, state, {})
        self.conn = StatedLengths(h11.SERVER, HEAD_BYTES)
        self._on_phase, self._on_lost = on_phase, on_lost
        self._phase = Phase.OPENING

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The handshake is complete, if there is one."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNSENT_BYTES)
        self.app = _with_abort(self.config.loaded_app, transport.abort)
        self._on_phase(Phase.OPENING)

    def data_received(self, data: bytes) -> None:
        """Some of a request came."""
        super().data_received(data)
        self._update_phase()

    def on_response_complete(self) -> None:
        """All of an answer was written to the transport."""
        super().on_response_complete()
        self._update_phase()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._on_lost()
        super().connection_lost(exc)

    def _update_phase(self) -> None:
        phase = self._current_phase()
        if phase != self._phase:
            self._phase = phase
            self._on_phase(phase)

    def _current_phase(self) -> Phase:
        if self.conn.their_state is h11.IDLE:
            return Phase.OPENING if self.timeout_keep_alive_task is None else Phase.IDLE
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.RECEIVING
        is_answered = self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]
        return Phase.IDLE if is_answered else Phase.ANSWERING


def _with_abort(app: ASGIApp, abort: Callable[[], None]) -> ASGIApp:
    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "extensions": {ABORT: abort}}, receive, send)

    return run

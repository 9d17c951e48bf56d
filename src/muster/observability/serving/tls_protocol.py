"""TLS of one accepted connection, in small buffers.

asyncio's own holds 256 KiB for each connection from its first moment, and up to 768 KiB for a peer that is slow. The
class behind it takes the sizes from its attributes.
"""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable

SHUTDOWN_SECONDS = 2.0  # for the peer's goodbye
BUFFER_BYTES = 16 * 2**10  # one TLS record
UNREAD_BYTES = 64 * 2**10  # received, and not taken by the handler yet


class TlsProtocol(SSLProtocol):
    """Between the socket and `inner`, which has its connection once the handshake is complete."""

    max_size = BUFFER_BYTES

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        inner: asyncio.Protocol,
        context: ssl.SSLContext,
        handshake_seconds: float,
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__(
            loop,
            inner,
            context,
            None,  # type: ignore[arg-type]  # no one waits for the handshake
            server_side=True,
            ssl_handshake_timeout=handshake_seconds,  # type: ignore[arg-type]
            ssl_shutdown_timeout=SHUTDOWN_SECONDS,
        )
        self._set_read_buffer_limits(high=UNREAD_BYTES)  # type: ignore[attr-defined]
        self._on_lost = on_lost

    def connection_lost(self, exc: BaseException | None) -> None:
        """Also during the handshake, of which `inner` does not know."""
        self._on_lost()
        super().connection_lost(exc)

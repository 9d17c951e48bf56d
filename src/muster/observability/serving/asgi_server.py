"""An ASGI server that is one task among others of a process, and holds a bounded number of connections.

Rule: the process handles signals, not the server. To stop it, cancel its task: it accepts no more connections and
completes the requests that are in flight, unless it is cancelled again. The socket is bound before the server starts:
uvicorn would exit the process where it cannot bind an address.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import uvicorn
from starlette.types import ASGIApp

from muster.errors import InputError
from muster.observability.serving.acceptor import Acceptor, OnPhase
from muster.observability.serving.connection_table import ConnectionLimits
from muster.observability.serving.guarded_http import GuardedHttp

BACKLOG = 2048
SHUTDOWN_SECONDS = 2  # for requests in flight
KERNEL_BYTES = 64 * 2**10  # each way, for each connection; the kernel would grow them to megabytes
LIMITS = ConnectionLimits(
    connections=1_000, per_peer=500
)  # an API server has at most some 200 changes in flight by default


class AsgiServer(uvicorn.Server):
    """Run it with `serve([listener])`; with TLS where it has a context."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits = LIMITS, tls: ssl.SSLContext | None = None) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            http=GuardedHttp,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(limits.idle_seconds),
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        super().__init__(config)
        self._limits, self._tls = limits, tls

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Installs no signal handlers."""
        return nullcontext()

    async def startup(self, sockets: Sequence[socket.socket] | None = None) -> None:
        """Accepts connections itself: uvicorn would accept without limits."""
        self.acceptors = [Acceptor(listener, self._limits, self._protocol, self._tls) for listener in sockets or ()]
        self.servers = self.acceptors  # type: ignore[assignment]  # uvicorn closes them
        for acceptor in self.acceptors:
            acceptor.start()
        self.started = True

    def _protocol(self, on_phase: OnPhase, on_lost: Callable[[], None]) -> GuardedHttp:
        return GuardedHttp(self.config, self.server_state, on_phase, on_lost)

    async def main_loop(self) -> None:
        """Serves until it is cancelled; uvicorn shuts down after it."""
        try:
            await super().main_loop()
        except asyncio.CancelledError:
            self.should_exit = True


def listen(host: str, port: int, hint: str) -> socket.socket:
    """A socket that accepts connections at once; InputError where it cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is given
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        listener.setsockopt(socket.SOL_SOCKET, option, KERNEL_BYTES)  # its connections inherit them
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, ValueError, TypeError) as error:  # not only OSError: a host name may be malformed
        listener.close()
        cause = getattr(error, "strerror", None) or "it is no address"
        raise InputError(f"cannot listen on {host}:{port}: {cause}", hint=hint) from None
    return listener

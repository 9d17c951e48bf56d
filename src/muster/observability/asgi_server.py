"""An ASGI server that is one task among others of a process.

Rule: the process handles signals, not the server. To stop it, cancel its task: it accepts no more connections and
completes the requests that are in flight, unless it is cancelled again. The socket is bound before the server starts:
uvicorn would exit the process where it cannot bind an address.
"""

import asyncio
import socket
from contextlib import AbstractContextManager, nullcontext

import uvicorn

from muster.errors import InputError

BACKLOG = 2048


class AsgiServer(uvicorn.Server):
    """Run it with `serve()`."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Installs no signal handlers."""
        return nullcontext()

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
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, ValueError, TypeError) as error:  # not only OSError: a host name may be malformed
        listener.close()
        cause = getattr(error, "strerror", None) or "it is no address"
        raise InputError(f"cannot listen on {host}:{port}: {cause}", hint=hint) from None
    return listener

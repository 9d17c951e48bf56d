"""A server that is one task among others of a process.

Rule: signals belong to whoever runs the process. To end the server, cancel its task: it takes no more connections, and
answers what it was asked, unless it is cancelled again. Where it listens is decided before it begins: uvicorn ends the
process where an address is not to be had.
"""

import asyncio
import socket
from contextlib import AbstractContextManager, nullcontext

import uvicorn

from muster.errors import InputError

BACKLOG = 2048


class AsgiServer(uvicorn.Server):
    """To be run with `serve()`."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leaves them alone."""
        return nullcontext()

    async def main_loop(self) -> None:
        """Until it is told to end; what comes after is the shutdown."""
        try:
            await super().main_loop()
        except asyncio.CancelledError:
            self.should_exit = True


def listening(host: str, port: int, hint: str) -> socket.socket:
    """A socket that takes connections at once; InputError where the address is not to be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(
        family, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # asyncio sets TCP_NODELAY only where it is said
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(BACKLOG)
    except (OSError, ValueError, TypeError) as error:  # not only OSError: no host could have this name
        found.close()
        said = getattr(error, "strerror", None) or "it is no address"
        raise InputError(f"cannot listen on {host}:{port}: {said}", hint=hint) from None
    return found

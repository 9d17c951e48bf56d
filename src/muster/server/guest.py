"""A server that is one task among others of a process.

Rule: signals belong to whoever runs the process. To end the server, cancel its task: it takes no more connections, and
answers what it was asked, unless it is cancelled again.
"""

import asyncio
from contextlib import AbstractContextManager, nullcontext

import uvicorn


class Guest(uvicorn.Server):
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

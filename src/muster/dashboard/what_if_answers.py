"""What if: answers one question at a time."""

from starlette.requests import Request
from starlette.responses import Response

from muster.dashboard.answers import refuse


class WhatIfAnswers:
    """Plans in a thread."""

    async def respond(self, _request: Request) -> Response:
        """One question."""
        return refuse(503, "not built yet")

"""Who may read `/metrics`: any client, the bearer of a token from a file, or who Kubernetes allows to.

Kubernetes says whose token it is, and whether that user may `get` the path `/metrics` (`access_reviews`).
"""

import hmac
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from muster.errors import InputError
from muster.observability.access_reviews import (
    LONGEST_TOKEN,
    NO_TOKEN,
    UNKNOWN_TOKEN,
    AccessRefusal,
    AccessReviews,
    ReviewedUser,
    Reviewer,
)
from muster.observability.logging import logger

READ_SECONDS = 10.0  # a token file is read again after so long
Authorize = Callable[[str], Awaitable[AccessRefusal | None]]  # a bearer token, or nothing, in


class TokenReviews:
    """Accepts users that may `get` a path."""

    def __init__(self, reviewer: Reviewer, clock: Callable[[], float], path: str = "/metrics") -> None:
        self._path = path
        self.reviews: AccessReviews[ReviewedUser] = AccessReviews(reviewer, clock, self._decide, "metrics")

    async def authorize(self, token: str) -> AccessRefusal | None:
        """Why the bearer of a token may not read metrics; None: it may."""
        answer = await self.reviews.authorize(token)
        return answer if isinstance(answer, AccessRefusal) else None

    async def _decide(self, user: ReviewedUser) -> ReviewedUser | AccessRefusal:
        if await user.may(nonResourceAttributes={"path": self._path, "verb": "get"}):
            return user
        return AccessRefusal(403, f"{user.title} may not get {self._path}")


class TokenFile:
    """Accepts the token of a file, and reads it again from time to time, as a mounted Secret may change."""

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        """InputError where the file cannot be used."""
        self._path, self._clock = Path(path), clock
        self._token, self._read_at = self._read(), clock()

    async def authorize(self, token: str) -> AccessRefusal | None:
        """Why the bearer of a token may not read metrics; None: it may."""
        if not token:
            return NO_TOKEN
        if self._clock() - self._read_at >= READ_SECONDS:
            self._read_at = self._clock()
            try:
                self._token = self._read()
            except InputError as error:  # the last one stays in use
                logger("metrics").warning("token file cannot be read again", what=str(error))
        return None if hmac.compare_digest(token.encode(), self._token) else UNKNOWN_TOKEN

    def _read(self) -> bytes:
        at, hint = f"`observability.metricsTokenFile`: {self._path}", "it holds one token, as a mounted Secret does"
        try:
            with self._path.open("rb") as file:
                token = file.read(LONGEST_TOKEN + 1).strip()
        except OSError as error:
            raise InputError(f"{at} cannot be read: {os.strerror(error.errno or 0)}", hint=hint) from None
        if not token or len(token) > LONGEST_TOKEN:
            raise InputError(f"{at} is empty, or longer than {LONGEST_TOKEN} bytes", hint=hint)
        return token

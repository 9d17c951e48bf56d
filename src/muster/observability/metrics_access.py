"""Who may read `/metrics`: any client, the bearer of a token from a file, or who Kubernetes allows to.

Kubernetes is asked as controller-runtime and kube-rbac-proxy do: a TokenReview says whose token it is, and a
SubjectAccessReview whether that user may `get` the path `/metrics`. Rule: what is asked, remembered and waited for is
bounded, and where no answer can be had, the request is refused.
"""

import asyncio
import hashlib
import hmac
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from muster.api.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from muster.errors import InputError
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.observability.logging import logger

ALLOWED_SECONDS, REFUSED_SECONDS = 60.0, 10.0  # for which an answer is remembered
MOST_ALLOWED, MOST_REFUSED = 64, 256  # answers that are remembered, apart: a flood of bad tokens forgets no good one
MOST_AT_ONCE, REVIEW_SECONDS = 4, 5.0
READ_SECONDS = 10.0  # a token file is read again after so long
LONGEST_TOKEN = 16_384


@runtime_checkable
class Reviewer(Protocol):
    """An API server that answers reviews."""

    async def review(self, resource: Resource, raw: Raw) -> Raw:
        """The review with its status."""


class MetricsRefusal(Struct, frozen=True):
    """Why a request is refused, with its HTTP status."""

    status: int
    message: str


Authorize = Callable[[str], Awaitable[MetricsRefusal | None]]  # a bearer token, or nothing, in
NO_TOKEN = MetricsRefusal(401, "a bearer token is needed")
UNKNOWN_TOKEN = MetricsRefusal(401, "the bearer token is not accepted")


class TokenReviews:
    """Asks the API server about tokens, and remembers its answers for a while."""

    def __init__(self, reviewer: Reviewer, clock: Callable[[], float], path: str = "/metrics") -> None:
        self._reviewer, self._clock, self._path = reviewer, clock, path
        self._allowed: dict[bytes, float] = {}  # by hash of a token: until when
        self._refused: dict[bytes, tuple[float, MetricsRefusal]] = {}
        self._under_way = 0
        self._log = logger("metrics")

    async def authorize(self, token: str) -> MetricsRefusal | None:
        """Why the bearer of a token may not read metrics; None: it may."""
        if not token:
            return NO_TOKEN
        if len(token) > LONGEST_TOKEN:
            return UNKNOWN_TOKEN
        key = hashlib.sha256(token.encode()).digest()
        if self._allowed.get(key, -1.0) > self._clock():
            return None
        until, refusal = self._refused.get(key, (-1.0, UNKNOWN_TOKEN))
        return refusal if until > self._clock() else await self._ask(key, token)

    async def _ask(self, key: bytes, token: str) -> MetricsRefusal | None:
        if self._under_way >= MOST_AT_ONCE:
            return MetricsRefusal(503, "too many tokens are being reviewed; try again")
        self._under_way += 1
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                refusal = await self._review(token)
        except (ApiError, TimeoutError) as error:
            what = error.message if isinstance(error, ApiError) else "no answer in time"
            self._log.warning("token of a metrics request cannot be reviewed", what=what)
            return MetricsRefusal(503, "the token cannot be reviewed now; the log of muster says why")
        finally:
            self._under_way -= 1
        self._remember(key, refusal)
        return refusal

    async def _review(self, token: str) -> MetricsRefusal | None:
        answer = await self._reviewer.review(TOKEN_REVIEWS, {"spec": {"token": token}})
        status: Raw = answer.get("status") or {}
        if not status.get("authenticated"):
            return UNKNOWN_TOKEN
        user: dict[str, Any] = status.get("user") or {}
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": self._path, "verb": "get"},
        }
        answer = await self._reviewer.review(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        if (answer.get("status") or {}).get("allowed"):
            return None
        return MetricsRefusal(403, f"`{str(spec['user'])[:200]}` may not get {self._path}")

    def _remember(self, key: bytes, refusal: MetricsRefusal | None) -> None:
        now = self._clock()
        self._allowed.pop(key, None)
        self._refused.pop(key, None)
        if refusal is None:
            self._allowed[key] = now + ALLOWED_SECONDS
        else:
            self._refused[key] = now + REFUSED_SECONDS, refusal
        if len(self._allowed) > MOST_ALLOWED:
            del self._allowed[next(iter(self._allowed))]
        if len(self._refused) > MOST_REFUSED:
            del self._refused[next(iter(self._refused))]


class TokenFile:
    """Accepts the token of a file, and reads it again from time to time, as a mounted Secret may change."""

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        """InputError where the file cannot be used."""
        self._path, self._clock = Path(path), clock
        self._token, self._read_at = self._read(), clock()

    async def authorize(self, token: str) -> MetricsRefusal | None:
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


def bearer_token(header: str) -> str:
    """The token of an Authorization header; empty: it has none."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""

"""Whose token it is, and what that user may do, as Kubernetes says: TokenReviews and SubjectAccessReviews.

Kubernetes is asked as controller-runtime and kube-rbac-proxy do. Rule: what is asked, remembered and waited for is
bounded, and where no answer can be had, the request is refused.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from muster.api.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.observability.logging import logger

ALLOWED_SECONDS, REFUSED_SECONDS = 60.0, 10.0  # for which an answer is remembered
MOST_ALLOWED, MOST_REFUSED = 64, 256  # answers that are remembered, apart: a flood of bad tokens forgets no good one
MOST_AT_ONCE, REVIEW_SECONDS = 4, 5.0
LONGEST_TOKEN = 16_384
T = TypeVar("T")


@runtime_checkable
class Reviewer(Protocol):
    """An API server that answers reviews."""

    async def review(self, resource: Resource, raw: Raw) -> Raw:
        """The review with its status."""


class AccessRefusal(Struct, frozen=True):
    """Why a request is refused, with its HTTP status."""

    status: int
    message: str


NO_TOKEN = AccessRefusal(401, "a bearer token is needed")
UNKNOWN_TOKEN = AccessRefusal(401, "the bearer token is not accepted")


class ReviewedUser(Struct, frozen=True):
    """The user of a token, and the API server that knows what it may do."""

    reviewer: Reviewer
    name: str
    subject: Raw  # as a SubjectAccessReview names it

    @property
    def title(self) -> str:
        """The name in a sentence."""
        return f"`{self.name[:200]}`"

    async def may(self, **attributes: dict[str, str]) -> bool:
        """Whether the user may do this; `resourceAttributes` or `nonResourceAttributes`."""
        answer = await self.reviewer.review(SUBJECT_ACCESS_REVIEWS, {"spec": {**self.subject, **attributes}})
        return bool((answer.get("status") or {}).get("allowed"))


class AccessReviews(Generic[T]):
    """Asks the API server about tokens, and remembers for a while what came of it.

    `decide`: what a user gets, or why it gets nothing.
    """

    def __init__(
        self,
        reviewer: Reviewer,
        clock: Callable[[], float],
        decide: Callable[[ReviewedUser], Awaitable[T | AccessRefusal]],
        requested: str,
    ) -> None:
        self._reviewer, self._clock, self._decide, self._requested = reviewer, clock, decide, requested
        self._allowed: dict[bytes, tuple[float, T]] = {}  # by hash of a token: until when
        self._refused: dict[bytes, tuple[float, AccessRefusal]] = {}
        self._under_way = 0
        self._log = logger(requested)

    @property
    def remembered(self) -> tuple[int, int]:
        """How many answers are remembered: of users that get something, and of others."""
        return len(self._allowed), len(self._refused)

    async def authorize(self, token: str) -> T | AccessRefusal:
        """What the bearer of a token gets."""
        if not token:
            return NO_TOKEN
        if len(token) > LONGEST_TOKEN:
            return UNKNOWN_TOKEN
        key, now = hashlib.sha256(token.encode("utf-8", "replace")).digest(), self._clock()
        if key in self._allowed and self._allowed[key][0] > now:
            return self._allowed[key][1]
        if key in self._refused and self._refused[key][0] > now:
            return self._refused[key][1]
        return await self._ask(key, token)

    async def _ask(self, key: bytes, token: str) -> T | AccessRefusal:
        if self._under_way >= MOST_AT_ONCE:
            return AccessRefusal(503, "too many tokens are being reviewed; try again")
        self._under_way += 1
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                answer = await self._review(token)
        except (ApiError, TimeoutError) as error:
            what = error.message if isinstance(error, ApiError) else "no answer in time"
            self._log.warning(f"token of a request for {self._requested} cannot be reviewed", what=what)
            return AccessRefusal(503, "the token cannot be reviewed now; the log of muster says why")
        finally:
            self._under_way -= 1
        self._remember(key, answer)
        return answer

    async def _review(self, token: str) -> T | AccessRefusal:
        answer = await self._reviewer.review(TOKEN_REVIEWS, {"spec": {"token": token}})
        status: Raw = answer.get("status") or {}
        if not status.get("authenticated"):
            return UNKNOWN_TOKEN
        user: dict[str, Any] = status.get("user") or {}
        subject = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
        }
        return await self._decide(ReviewedUser(self._reviewer, str(subject["user"]), subject))

    def _remember(self, key: bytes, answer: T | AccessRefusal) -> None:
        now = self._clock()
        self._allowed.pop(key, None)
        self._refused.pop(key, None)
        if isinstance(answer, AccessRefusal):
            self._refused[key] = now + REFUSED_SECONDS, answer
        else:
            self._allowed[key] = now + ALLOWED_SECONDS, answer
        if len(self._allowed) > MOST_ALLOWED:
            del self._allowed[next(iter(self._allowed))]
        if len(self._refused) > MOST_REFUSED:
            del self._refused[next(iter(self._refused))]


def bearer_token(header: str) -> str:
    """The token of an Authorization header; empty: it has none."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""

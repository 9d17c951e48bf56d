"""Who may view: any process of this machine, or who Kubernetes allows to list PodGroups.

Rule: where no answer can be had, nothing is shown. Rights hold for a minute, and are reviewed again after that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from muster.api.resources import POD_GROUPS
from muster.dashboard.rights import ViewerRights
from muster.observability.access_reviews import AccessRefusal, AccessReviews, ReviewedUser, Reviewer

MOST_NAMESPACES = 500  # that one user is asked about
AT_ONCE = 16  # reviews of one user
EVERYTHING = ViewerRights("")
Authorize = Callable[[str], Awaitable[ViewerRights | AccessRefusal]]  # a bearer token, or nothing, in


async def allow_all(_token: str) -> ViewerRights | AccessRefusal:
    """Any process that reaches a loopback address."""
    return EVERYTHING


class PodGroupReaders:
    """Users that may list PodGroups, in the whole cluster or in some namespaces."""

    def __init__(self, reviewer: Reviewer, clock: Callable[[], float], namespaces: Callable[[], Iterable[str]]) -> None:
        self._namespaces = namespaces
        self.reviews: AccessReviews[ViewerRights] = AccessReviews(reviewer, clock, self._decide, "the dashboard")

    async def authorize(self, token: str) -> ViewerRights | AccessRefusal:
        """What the bearer of a token may see."""
        return await self.reviews.authorize(token)

    async def _decide(self, user: ReviewedUser) -> ViewerRights | AccessRefusal:
        if await may_list(user):
            return ViewerRights(user.name)
        requested = sorted(set(self._namespaces()))[:MOST_NAMESPACES]
        limit = asyncio.Semaphore(AT_ONCE)

        async def is_allowed(namespace: str) -> bool:
            async with limit:
                return await may_list(user, namespace)

        answers = await asyncio.gather(*map(is_allowed, requested))
        allowed = frozenset(name for name, is_visible in zip(requested, answers, strict=True) if is_visible)
        if allowed:
            return ViewerRights(user.name, allowed)
        return AccessRefusal(403, f"{user.title} may list podgroups in no namespace")


async def may_list(user: ReviewedUser, namespace: str = "") -> bool:
    """Whether a user may list PodGroups; without a namespace, in all of them."""
    attributes = {"group": POD_GROUPS.group, "resource": POD_GROUPS.plural, "verb": "list"}
    return await user.may(resourceAttributes=attributes | ({"namespace": namespace} if namespace else {}))

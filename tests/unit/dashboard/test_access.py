"""Who may view in a cluster: what the API server is asked, and what follows."""

import asyncio

from muster.api.resources import Resource
from muster.dashboard import access
from muster.dashboard.access import PodGroupReaders
from muster.dashboard.rights import ViewerRights
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.observability.access_reviews import AccessRefusal

EVERYWHERE = ""
MAY = {"admin": {EVERYWHERE}, "lead": {"amber", "birch"}, "visitor": set[str]()}


class PodGroupReviews:
    """The two reviews of an API server, and how often each was requested."""

    def __init__(self) -> None:
        self.requests: list[Raw] = []
        self.at_once = self.most_at_once = 0
        self.error: ApiError | None = None

    async def review(self, resource: Resource, raw: Raw) -> Raw:
        if self.error:
            raise self.error
        if resource.plural == "tokenreviews":
            user = raw["spec"]["token"]
            return {"status": {"authenticated": user in MAY, "user": {"username": user, "groups": ["g"]}}}
        self.requests.append(raw["spec"])
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        attributes = raw["spec"]["resourceAttributes"]
        assert attributes.items() >= {"group": "scheduling.run.ai", "resource": "podgroups", "verb": "list"}.items()
        return {"status": {"allowed": attributes.get("namespace", EVERYWHERE) in MAY[raw["spec"]["user"]]}}


def readers(reviewer: PodGroupReviews, namespaces: list[str] | None = None) -> PodGroupReaders:
    return PodGroupReaders(reviewer, lambda: 0.0, lambda: namespaces or ["birch", "amber", "cedar", "amber"])


async def test_who_may_list_everywhere_sees_all_after_one_review() -> None:
    reviewer = PodGroupReviews()
    assert await readers(reviewer).authorize("admin") == ViewerRights("admin")
    assert len(reviewer.requests) == 1


async def test_others_see_the_namespaces_that_they_may_list() -> None:
    reviewer = PodGroupReviews()
    assert await readers(reviewer).authorize("lead") == ViewerRights("lead", frozenset({"amber", "birch"}))
    assert len(reviewer.requests) == 4, "once everywhere, and once for each namespace"
    answers = readers(reviewer)
    assert await answers.authorize("lead") == await answers.authorize("lead")


async def test_without_any_namespace_there_is_nothing() -> None:
    answer = await readers(PodGroupReviews()).authorize("visitor")
    assert answer == AccessRefusal(403, "`visitor` may list podgroups in no namespace")
    assert await readers(PodGroupReviews()).authorize("made-up") == AccessRefusal(
        401, "the bearer token is not accepted"
    )
    assert await readers(PodGroupReviews()).authorize("") == AccessRefusal(401, "a bearer token is needed")


async def test_reviews_are_bounded() -> None:
    reviewer, many = PodGroupReviews(), [f"n{i}" for i in range(2_000)]
    await readers(reviewer, many).authorize("visitor")
    assert len(reviewer.requests) == 1 + access.MOST_NAMESPACES
    assert reviewer.most_at_once <= access.AT_ONCE


async def test_without_an_answer_nothing_is_shown() -> None:
    reviewer = PodGroupReviews()
    reviewer.error = ApiError(403, "Forbidden", "tokenreviews is forbidden")
    answer = await readers(reviewer).authorize("admin")
    assert isinstance(answer, AccessRefusal)
    assert answer.status == 503

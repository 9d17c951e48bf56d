"""Who may read metrics: what is requested, remembered and refused; test_metrics_access of e2e asks a real server."""

import asyncio
from pathlib import Path

import pytest
from starlette.applications import Starlette
from structlog.testing import capture_logs

from muster.api.resources import Resource
from muster.errors import InputError
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.observability import access_reviews
from muster.observability.access_reviews import (
    MOST_ALLOWED,
    MOST_AT_ONCE,
    MOST_REFUSED,
    AccessRefusal,
    bearer_token,
)
from muster.observability.metrics import Metrics, route
from muster.observability.metrics_access import TokenFile, TokenReviews
from tests.support.asgi import call

USERS = {"good": "prometheus", "poor": "visitor"}


class Reviews:
    """The two reviews of an API server, and what was requested of it."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.error: ApiError | None = None
        self.go = asyncio.Event()
        self.go.set()

    async def review(self, resource: Resource, raw: Raw) -> Raw:
        self.requests.append(resource.plural)
        await self.go.wait()
        if self.error:
            raise self.error
        if resource.plural == "tokenreviews":
            user = USERS.get(raw["spec"]["token"].partition("-")[0])
            status: Raw = {"authenticated": user is not None}
            return {**raw, "status": status | ({"user": {"username": user, "groups": ["g"]}} if user else {})}
        assert raw["spec"]["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
        return {**raw, "status": {"allowed": raw["spec"]["user"] == "prometheus"}}


class Moved:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def reviews(reviewer: Reviews, clock: Moved | None = None) -> TokenReviews:
    return TokenReviews(reviewer, clock or Moved())


def status(refusal: AccessRefusal | None) -> int:
    return refusal.status if refusal else 200


async def test_an_answer_is_remembered_for_a_while() -> None:
    reviewer, clock = Reviews(), Moved()
    access = reviews(reviewer, clock)
    for token, expected, requests in (("", 401, 0), ("bad", 401, 1), ("poor", 403, 2), ("good", 200, 2)):
        for _ in range(3):
            assert status(await access.authorize(token)) == expected
        assert len(reviewer.requests) == requests, token
        reviewer.requests.clear()
    clock.seconds += 11
    assert (status(await access.authorize("good")), reviewer.requests) == (200, [])
    assert status(await access.authorize("poor")) == 403
    assert reviewer.requests == ["tokenreviews", "subjectaccessreviews"]
    clock.seconds += 50
    await access.authorize("good")
    assert len(reviewer.requests) == 4, "rights that are taken away end within a minute"


async def test_a_flood_of_bad_tokens_costs_no_memory_and_forgets_no_good_one() -> None:
    reviewer = Reviews()
    access = reviews(reviewer)
    await access.authorize("good")
    for number in range(MOST_REFUSED + 100):
        await access.authorize(f"bad-{number}")
    for number in range(MOST_ALLOWED - 1):
        await access.authorize(f"good-{number}")
    assert access.reviews.remembered == (MOST_ALLOWED, MOST_REFUSED)
    reviewer.requests.clear()
    assert (await access.authorize("good"), reviewer.requests) == (None, [])
    assert status(await access.authorize("x" * 20_000)) == 401
    assert reviewer.requests == [], "no token is that long"


async def test_only_a_few_tokens_are_reviewed_at_once() -> None:
    """The others are refused, and may try again; those that are known are answered all the same."""
    reviewer = Reviews()
    access = reviews(reviewer)
    await access.authorize("good")
    reviewer.go.clear()
    waiting = [asyncio.create_task(access.authorize(f"bad-{number}")) for number in range(MOST_AT_ONCE)]
    while len(reviewer.requests) < 2 + MOST_AT_ONCE:
        await asyncio.sleep(0)
    assert status(await access.authorize("one more")) == 503
    assert await access.authorize("good") is None
    reviewer.go.set()
    assert [status(await one) for one in waiting] == [401] * MOST_AT_ONCE
    assert status(await access.authorize("one more")) == 401


async def test_without_an_answer_the_request_is_refused_and_nothing_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access_reviews, "REVIEW_SECONDS", 0.01)
    reviewer = Reviews()
    access = reviews(reviewer)
    reviewer.error = ApiError(403, "Forbidden", "tokenreviews is forbidden")
    with capture_logs() as logs:
        assert status(await access.authorize("good")) == 503
    assert "secret" not in str(logs)
    reviewer.error = None
    reviewer.go.clear()
    assert status(await access.authorize("good")) == 503
    reviewer.go.set()
    assert await access.authorize("good") is None


async def test_a_token_file_is_read_again_and_stays_in_use_where_that_fails(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", Moved()
    file.write_text("one\n", encoding="utf-8")
    access = TokenFile(str(file), clock)
    assert [status(await access.authorize(token)) for token in ("", "one", "two")] == [401, 200, 401]
    file.write_text("two\n", encoding="utf-8")
    clock.seconds += 11
    assert [status(await access.authorize(token)) for token in ("one", "two")] == [401, 200]
    file.unlink()
    clock.seconds += 11
    assert await access.authorize("two") is None


@pytest.mark.parametrize("text", [None, "", "  \n", "x" * 20_000])
def test_a_token_file_that_cannot_be_used_is_refused_at_startup(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"observability\.metricsTokenFile"):
        TokenFile(str(file), Moved())


@pytest.mark.parametrize(
    ("header", "token"),
    [("", ""), ("Bearer x", "x"), ("bearer  x ", "x"), ("Basic x", ""), ("Bearer", ""), ("x", "")],
)
def test_a_bearer_token_is_read_from_its_header(header: str, token: str) -> None:
    assert bearer_token(header) == token


async def test_a_refusal_is_one_line_and_says_what_is_needed() -> None:
    app = Starlette(routes=[route(Metrics(), reviews(Reviews()).authorize)])
    nothing = await call(app, "/metrics", method="GET")
    assert (nothing.status, nothing.text) == (401, "a bearer token is needed\n")
    assert nothing.headers["www-authenticate"] == "Bearer"
    poor = await call(app, "/metrics", method="GET", headers={"authorization": "Bearer poor"})
    assert (poor.status, poor.text) == (403, "`visitor` may not get /metrics\n")
    good = await call(app, "/metrics", method="GET", headers={"authorization": "Bearer good"})
    assert good.status == 200
    assert "muster_build_info" in good.text

"""The client of Kubernetes against a small scripted server: backoff, bindings, watches, errors."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from muster.api.resources import LEASES, PODS, QUEUES
from muster.kube.backoff import no_jitter
from muster.kube.client.client import Kubernetes
from muster.kube.client.credentials import Access, Credentials
from muster.kube.client.http import Http, Limits, Request
from muster.kube.client.responses import (
    LONGEST_RETRY_AFTER_SECONDS,
    LONGEST_SECONDS,
    is_retryable,
    request_backoff,
    retry_after_seconds,
)
from muster.kube.errors import ApiError, Unanswered, may_have_been_applied
from tests.support.factories import stored_pod

SECRET = "Bearer s3cr3t-t0k3n"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Script:
    """Answers in turn, the last one for ever; remembers the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = [*answers]
        self.requests: list[tuple[str, str, Any]] = []
        self.queries: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append((request.method, request.raw_path.partition("?")[0], msgspec.json.decode(body or b"null")))
        self.queries.append(dict(request.query))
        self.headers.append(dict(request.headers))
        return await (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])(request)

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _, _ in self.requests]


def says(value: Any, status: int = 200, **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        body = msgspec.json.encode(value)
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return web.Response(status=status, body=body, content_type="application/json", headers=named)

    return answer


def fails(code: int, reason: str = "", message: str = "no", details: Any = None, **headers: str) -> Answer:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return says({**status, "message": message, "details": details}, code, **headers)


def hangs_up() -> Answer:
    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    return answer


def keeps_quiet() -> Answer:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(0.5)
        return web.Response()

    return answer


def streams(*chunks: bytes, then: Callable[[web.Request], Awaitable[None]] | None = None) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then is not None:
            await then(request)
        return response

    return answer


async def breaks(request: web.Request) -> None:
    await asyncio.sleep(0.05)  # let what was written go out
    assert request.transport is not None
    request.transport.abort()


def event(kind: str, version: int, name: str = "a") -> bytes:
    return msgspec.json.encode({"type": kind, "object": stored_pod(name, version)}) + b"\n"


@asynccontextmanager
async def cluster(
    script: Script,
    limits: Limits = Limits(),  # noqa: B008
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[tuple[Kubernetes, list[float]]]:
    """The client, and how long it waited between tries."""
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", script.answer)
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    async with TestServer(app) as server:
        address = str(server.make_url("/")).rstrip("/")
        credentials = Credentials(lambda: Access(address, (("Authorization", SECRET),)))
        client = Kubernetes(Http(credentials, limits, pause, lambda: 0.0, clock))
        try:
            yield client, waited
        finally:
            await client.close()


# paths and bodies -----------------------------------------------------------------------------------------------------


async def test_names_cannot_become_another_path() -> None:
    script = Script(says(stored_pod()))
    async with cluster(script) as (client, _):
        await client.get(PODS, "a/../b", "x?y#z")
        assert script.requests[0][1] == "/api/v1/namespaces/a%2F..%2Fb/pods/x%3Fy%23z"
        for name in ("", ".", ".."):
            with pytest.raises(ApiError) as caught:
                await client.get(PODS, "team", name)
            assert caught.value.status == 400
        assert len(script.requests) == 1


async def test_each_verb_asks_what_kubernetes_expects() -> None:
    script = Script(says(stored_pod()))
    raw = stored_pod()
    async with cluster(script) as (client, _):
        await client.create(PODS, raw)
        await client.create(QUEUES, {"metadata": {"name": "q"}})
        await client.replace(PODS, raw, "status")
        await client.patch(PODS, "team", "a", {"x": 1}, "application/apply-patch+yaml", force=True)
        await client.delete(PODS, "team", "a", uid="u1", grace_seconds=0)
        await client.bind("team", "a", "u1", "n1")
        await client.evict("team", "a", "u1")
    pods = "/api/v1/namespaces/team/pods"
    assert [(verb, path) for verb, path, _ in script.requests] == [
        ("POST", pods),
        ("POST", "/apis/scheduling.run.ai/v2/queues"),
        ("PUT", f"{pods}/a/status"),
        ("PATCH", f"{pods}/a"),
        ("DELETE", f"{pods}/a"),
        ("POST", f"{pods}/a/binding"),
        ("POST", f"{pods}/a/eviction"),
    ]
    assert script.queries[3] == {"fieldManager": "muster", "force": "true"}
    assert script.headers[3]["Content-Type"] == "application/apply-patch+yaml"
    assert script.requests[4][2]["preconditions"] == {"uid": "u1"}
    assert script.requests[4][2]["gracePeriodSeconds"] == 0
    assert script.requests[5][2]["metadata"]["uid"] == "u1"
    assert script.requests[5][2]["target"]["name"] == "n1"
    assert script.requests[6][2]["deleteOptions"] == {"preconditions": {"uid": "u1"}}
    assert all(headers["Authorization"] == SECRET for headers in script.headers)


@pytest.mark.parametrize(
    ("major", "minor", "carries"),
    [("1", "36", True), ("1", "35+", True), ("1", "34", False), ("2", "0", True), ("", "", False), (None, [], False)],
)
async def test_labels_come_with_bindings_since_kubernetes_1_35(major: Any, minor: Any, carries: bool) -> None:
    async with cluster(Script(says({"major": major, "minor": minor}))) as (client, _):
        assert await client.binds_with_labels() is carries


# lists ----------------------------------------------------------------------------------------------------------------


def page(*names: str, version: str = "7", more: str = "") -> Answer:
    items = [{"metadata": {"name": name}} for name in names]
    return says({"kind": "PodList", "metadata": {"resourceVersion": version, "continue": more}, "items": items})


async def test_a_list_is_read_page_by_page_and_each_object_says_what_it_is() -> None:
    script = Script(page("a", more="m1"), page("b", more="m2"), page("c"))
    async with cluster(script) as (client, _):
        listed = await client.list(PODS, "team", labels="app=x", fields="spec.nodeName=")
    assert [raw["metadata"]["name"] for raw in listed.items] == ["a", "b", "c"]
    assert {(raw["apiVersion"], raw["kind"]) for raw in listed.items} == {("v1", "Pod")}
    assert (listed.resource_version, listed.more) == ("7", "")
    assert [query.get("continue") for query in script.queries] == [None, "m1", "m2"]
    assert script.queries[0]["labelSelector"] == "app=x"
    assert script.queries[0]["fieldSelector"] == "spec.nodeName="


async def test_a_list_that_grows_too_old_is_read_in_one_piece() -> None:
    script = Script(page("a", more="m1"), fails(410, "Expired"), page("a", "b", version="9"))
    async with cluster(script) as (client, _):
        listed = await client.list(PODS)
    assert [raw["metadata"]["name"] for raw in listed.items] == ["a", "b"]
    assert "limit" not in script.queries[2]


async def test_an_expired_continue_token_is_an_error() -> None:
    async with cluster(Script(fails(410, "Expired"))) as (client, _):
        with pytest.raises(ApiError) as caught:
            await client.list(PODS, limit=5, after="old")
    assert (caught.value.status, caught.value.reason) == (410, "Expired")


async def test_an_empty_list_may_say_null() -> None:
    async with cluster(Script(says({"metadata": {"resourceVersion": "3"}, "items": None}))) as (client, _):
        assert (await client.list(PODS)).items == ()


# errors ---------------------------------------------------------------------------------------------------------------


async def test_an_error_keeps_what_the_status_says() -> None:
    details = {"causes": [{"field": "spec.x", "message": "bad"}]}
    async with cluster(Script(fails(422, "Invalid", "it is bad", details))) as (client, _):
        with pytest.raises(ApiError) as caught:
            await client.create(PODS, stored_pod())
    error = caught.value
    assert (error.status, error.reason, error.message, error.details) == (422, "Invalid", "it is bad", details)


@pytest.mark.parametrize(
    ("status", "reason"), [(403, "Forbidden"), (404, "NotFound"), (418, "Unknown"), (302, "Unknown")]
)
async def test_a_response_that_is_no_status_is_reported_without_its_text(status: int, reason: str) -> None:
    """A proxy may write anything, and may echo what we sent."""

    async def proxy(request: web.Request) -> web.Response:
        headers = {"Location": "http://elsewhere.invalid/"} if status == 302 else {}
        return web.Response(status=status, text=f"<html>{request.headers['Authorization']}", headers=headers)

    async with cluster(Script(proxy)) as (client, _):
        with pytest.raises(ApiError) as caught:
            await client.get(PODS, "team", "a")
    assert (caught.value.status, caught.value.reason) == (status, reason)
    assert "s3cr3t" not in str(caught.value)


async def test_an_unreachable_server_is_reported_without_a_secret() -> None:
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    access = Access("http://127.0.0.1:1", (("Authorization", SECRET),))
    client = Kubernetes(Http(Credentials(lambda: access), Limits(attempts=3), pause))
    with pytest.raises(ApiError) as caught:
        await client.create(PODS, stored_pod())  # never sent, so that it may be tried again
    await client.close()
    assert (caught.value.status, caught.value.reason) == (503, "ServiceUnavailable")
    assert len(waited) == 2
    assert "s3cr3t" not in f"{caught.value!s} {caught.value!r} {client!r} {access!r}"


# patience -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_reads_and_repeatable_writes_are_tried_again(status: int) -> None:
    script = Script(fails(status), fails(status), says(stored_pod()))
    async with cluster(script) as (client, waited):
        await client.get(PODS, "team", "a")
        script.answers = [fails(status), says(stored_pod())]
        await client.patch(PODS, "team", "a", {})
    assert len(script.requests) == 5
    assert waited == [0.1, 0.2, 0.1]


async def test_a_creation_is_tried_again_only_where_it_was_turned_away() -> None:
    script = Script(fails(429, Retry_After="2"), fails(503))
    async with cluster(script) as (client, waited):
        with pytest.raises(ApiError) as caught:
            await client.create(PODS, stored_pod())
    assert (caught.value.status, waited) == (503, [2.0])
    assert len(script.requests) == 2


async def test_a_json_patch_whose_answer_is_lost_is_not_sent_again() -> None:
    script = Script(hangs_up())
    async with cluster(script) as (client, _):
        with pytest.raises(Unanswered):
            await client.patch(PODS, "team", "a", [], "application/json-patch+json")
    assert len(script.requests) == 1


async def test_a_read_waits_for_the_whole_retry_after() -> None:
    async with cluster(Script(fails(429, Retry_After="12"), says(stored_pod()))) as (client, waited):
        await client.get(PODS, "team", "a")
    assert waited == [12.0]


@pytest.mark.parametrize("verb", ["create", "replace", "patch", "delete", "evict", "bind"])
async def test_a_write_that_is_rejected_unread_fails_instead_of_waiting_for_long(verb: str) -> None:
    """Its caller waits for some seconds, and then has to take what was a clear no for something that may happen."""
    script = Script(fails(429, "TooManyRequests", Retry_After="12"))
    async with cluster(script) as (client, waited):
        with pytest.raises(ApiError) as caught:
            await VERBS[verb](client)
    assert (caught.value.status, len(script.requests), waited) == (429, 1, [])


@pytest.mark.parametrize("verb", ["create", "bind"])
async def test_many_short_pauses_of_a_write_are_a_long_one(verb: str) -> None:
    script = Script(fails(429, "TooManyRequests", Retry_After="1"))
    async with cluster(script) as (client, waited):
        with pytest.raises(ApiError) as caught:
            await VERBS[verb](client)
    assert (caught.value.status, waited) == (429, [1.0, 1.0])


@pytest.mark.parametrize("lost", [hangs_up(), fails(500, "InternalError"), fails(503)])
@pytest.mark.parametrize("no", [fails(429, Retry_After="12"), fails(403, "Forbidden")])
@pytest.mark.parametrize("verb", ["replace", "patch", "delete", "evict"])
async def test_a_write_that_is_rejected_after_a_lost_response_stays_unconfirmed(
    verb: str, no: Answer, lost: Answer
) -> None:
    """The second no is clear, but says nothing about the first try."""
    async with cluster(Script(lost, no)) as (client, _):
        with pytest.raises(Unanswered) as caught:
            await VERBS[verb](client)
    assert (caught.value.status, caught.value.sent) == (504, True)


async def test_a_read_that_is_refused_in_the_end_is_refused() -> None:
    async with cluster(Script(fails(503), fails(403, "Forbidden"))) as (client, _):
        with pytest.raises(ApiError) as caught:
            await client.get(PODS, "team", "a")
    assert caught.value.status == 403


async def test_what_was_turned_away_before_it_was_not_found_is_not_found() -> None:
    async with cluster(Script(fails(429), fails(404, "NotFound"))) as (client, _):
        with pytest.raises(ApiError) as caught:
            await client.delete(PODS, "team", "a", uid="u1")
    assert caught.value.status == 404


async def test_retries_end() -> None:
    script = Script(fails(503))
    async with cluster(script, Limits(attempts=3)) as (client, waited):
        with pytest.raises(ApiError):
            await client.get(PODS, "team", "a")
    assert (len(script.requests), len(waited)) == (3, 2)


async def test_an_answer_that_does_not_come_is_a_timeout() -> None:
    async with cluster(Script(keeps_quiet()), Limits(answer_seconds=0.05, attempts=1)) as (client, _):
        with pytest.raises(ApiError) as caught:
            await client.get(PODS, "team", "a")
    assert (caught.value.status, caught.value.reason) == (504, "Timeout")


async def test_a_deletion_whose_answer_is_lost_and_then_not_found_was_carried_out() -> None:
    async with cluster(Script(hangs_up(), fails(404, "NotFound"))) as (client, _):
        await client.delete(PODS, "team", "a", uid="u1")
        with pytest.raises(ApiError):
            await client.delete(PODS, "team", "a", uid="u1")


@pytest.mark.parametrize("wish", [{}, {"Retry_After": "1"}], ids=["used up", "not counted yet"])
async def test_a_refusal_by_a_budget_is_not_retried(wish: dict[str, str]) -> None:
    """Patience would not help, and others wait for the answer; nor is it a reason to spare the API server."""
    details = {"causes": [{"reason": "DisruptionBudget", "message": "needs 2"}]}
    script = Script(fails(429, "TooManyRequests", details=details, **wish))
    async with cluster(script) as (client, waited):
        for _ in range(2):
            with pytest.raises(ApiError) as caught:
                await client.evict("team", "a", "u1")
            assert (caught.value.status, caught.value.message) == (429, "no")
    assert (len(script.requests), waited) == (2, [])


@pytest.mark.parametrize("verb", ["create", "replace", "patch", "delete", "evict", "bind"])
async def test_an_api_server_that_asks_for_a_long_rest_gets_it(verb: str) -> None:
    """The write fails at once, as it cannot wait for so long; but then no other one may be sent sooner either."""
    script, now = Script(fails(429, "TooManyRequests", Retry_After="8"), says(stored_pod())), [0.0]
    async with cluster(script, clock=lambda: now[0]) as (client, waited):
        with pytest.raises(ApiError):
            await client.bind("team", "a", "u1", "n1")
        for second in (0.0, 4.0, 7.9):  # asking does not make it longer
            now[0] = second
            with pytest.raises(ApiError, match="not sent") as caught:
                await VERBS[verb](client)
            assert caught.value.status == 429
        assert (len(script.requests), waited) == (1, [])
        now[0] = 8.0
        await VERBS[verb](client)
    assert len(script.requests) == 2


async def test_reads_and_leases_are_not_held_back() -> None:
    """I9: a leader that may not renew its lease leads no more."""
    script = Script(fails(429, "TooManyRequests", Retry_After="8"), says(stored_pod()))
    async with cluster(script, clock=lambda: 0.0) as (client, _):
        with pytest.raises(ApiError):
            await client.bind("team", "a", "u1", "n1")
        await client.get(PODS, "team", "a")
        await client.replace(LEASES, stored_pod())
    assert script.verbs == ["POST", "GET", "PUT"]


@pytest.mark.parametrize(
    ("error", "repeatable", "again"),
    [
        (ApiError(409, "Conflict", ""), True, False),
        (ApiError(410, "Expired", ""), True, False),
        (ApiError(403, "Forbidden", ""), True, False),
        (ApiError(429, "TooManyRequests", ""), False, True),
        (ApiError(500, "InternalError", ""), True, True),
        (ApiError(500, "InternalError", ""), False, False),
        (Unanswered(504, "", sent=True), False, False),
        (Unanswered(504, "", sent=True), True, True),
        (Unanswered(503, "", sent=False), False, True),
    ],
)
def test_which_errors_are_retryable(error: ApiError, repeatable: bool, again: bool) -> None:
    assert is_retryable(error, repeatable) is again


def test_the_wait_between_attempts_doubles_and_is_bounded() -> None:
    backoff = request_backoff(lambda: 0.0)
    assert [backoff.next_seconds() for _ in range(3)] == [0.1, 0.2, 0.4]
    assert request_backoff(no_jitter).seconds_after(10_000) == LONGEST_SECONDS


def test_a_retry_after_of_the_api_server_is_bounded() -> None:
    assert retry_after_seconds(ApiError(503, "ServiceUnavailable", ""), 0.0) is None
    assert retry_after_seconds(ApiError(429, "", "", {"retryAfterSeconds": 3}), 0.0) == 3.0
    long = ApiError(429, "", "", {"retryAfterSeconds": 10**9})
    assert retry_after_seconds(long, 0.0) == LONGEST_RETRY_AFTER_SECONDS


async def test_a_401_reads_the_credentials_again_once() -> None:
    script = Script(fails(401, "Unauthorized"), says(stored_pod()))
    now = [0.0]
    readings = iter(["Bearer old", "Bearer new"])
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", script.answer)
    async with TestServer(app) as server:
        address = str(server.make_url("/")).rstrip("/")
        credentials = Credentials(lambda: Access(address, (("Authorization", next(readings)),)), lambda: now[0])
        client = Kubernetes(Http(credentials))
        now[0] = 10.0
        await client.create(PODS, stored_pod())
        script.answers = [fails(401, "Unauthorized")]
        with pytest.raises(ApiError) as caught:
            await client.get(PODS, "team", "a")
        await client.close()
    assert [headers["Authorization"] for headers in script.headers] == ["Bearer old", "Bearer new", "Bearer new"]
    assert caught.value.status == 401


# bindings -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [hangs_up(), fails(500, "InternalError"), fails(504, "Timeout"), streams(b"<html>")])
async def test_a_binding_is_sent_once_and_what_became_of_it_is_left_to_the_caller(lost: Answer) -> None:
    """I1, I2: neither sent again nor looked up. The error tells that it may have been carried out."""
    script = Script(lost)
    async with cluster(script) as (client, waited):
        with pytest.raises(ApiError) as caught:
            await client.bind("team", "a", "u1", "n1")
    assert (may_have_been_applied(caught.value), script.verbs, waited) == (True, ["POST"], [])


async def test_a_conflict_at_the_first_attempt_is_raised_without_a_read() -> None:
    script = Script(fails(409, "Conflict"))
    async with cluster(script) as (client, _):
        with pytest.raises(ApiError):
            await client.bind("team", "a", "u1", "n1")
    assert script.verbs == ["POST"]


async def test_a_binding_that_is_turned_away_is_sent_again_without_looking() -> None:
    script = Script(fails(429), says({"kind": "Status"}))
    async with cluster(script) as (client, _):
        await client.bind("team", "a", "u1", "n1")
    assert script.verbs == ["POST", "POST"]


# watches --------------------------------------------------------------------------------------------------------------


async def taken(client: Kubernetes, count: int, since: str = "1") -> list[tuple[str, str]]:
    events: list[tuple[str, str]] = []
    async with client.watch(PODS, since, "team") as changes:
        async for change in changes:
            if not change.is_reopened:
                events.append((change.type, change.resource_version))
            if len(events) == count:
                break
    return events


async def test_a_watch_goes_on_where_its_stream_ended() -> None:
    first = streams(event("ADDED", 2), event("BOOKMARK", 5))
    script = Script(first, streams(event("DELETED", 6)))
    async with cluster(script) as (client, _):
        assert await taken(client, 3) == [("ADDED", "2"), ("BOOKMARK", "5"), ("DELETED", "6")]
    assert [query["resourceVersion"] for query in script.queries] == ["1", "5"]
    assert script.queries[0]["allowWatchBookmarks"] == "true"


async def test_each_new_stream_is_a_sign_of_life_that_says_nothing() -> None:
    """Readiness would otherwise not know a quiet watch from a dead one. But what happened before may still come."""
    script = Script(streams(event("ADDED", 2), event("BOOKMARK", 4)), streams(event("ADDED", 5)))
    async with cluster(script) as (client, _), client.watch(PODS, "1") as changes:
        seen = [await anext(changes) for _ in range(4)]
    assert [(change.type, change.resource_version, change.is_reopened) for change in seen] == [
        ("ADDED", "2", False),
        ("BOOKMARK", "4", False),
        ("BOOKMARK", "4", True),
        ("ADDED", "5", False),
    ]


async def test_a_line_that_breaks_off_comes_again() -> None:
    whole = event("MODIFIED", 3)
    script = Script(streams(event("ADDED", 2), whole[:20], then=breaks), streams(whole[:7], whole[7:]))
    async with cluster(script) as (client, _):
        assert await taken(client, 2) == [("ADDED", "2"), ("MODIFIED", "3")]
    assert [query["resourceVersion"] for query in script.queries] == ["1", "2"]


async def test_lines_may_be_longer_than_any_buffer() -> None:
    raw = stored_pod(version=2)
    raw["spec"]["note"] = "x" * 3_000_000
    line = msgspec.json.encode({"type": "ADDED", "object": raw}) + b"\n"
    async with cluster(Script(streams(line))) as (client, _):
        assert await taken(client, 1) == [("ADDED", "2")]


@pytest.mark.parametrize("reason", ["Expired", "Gone"])
async def test_a_watch_that_is_too_old_says_expired(reason: str) -> None:
    status = {"kind": "Status", "code": 410, "reason": reason, "message": "too old resource version"}
    error = msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"
    for answer in (streams(error), fails(410, reason)):
        async with cluster(Script(answer)) as (client, _):
            with pytest.raises(ApiError) as caught:
                await taken(client, 1)
        assert (caught.value.status, caught.value.reason) == (410, "Expired")


async def test_a_forbidden_watch_fails_when_it_is_opened() -> None:
    async with cluster(Script(fails(403, "Forbidden"))) as (client, _):
        with pytest.raises(ApiError) as caught:
            async with client.watch(PODS, "1"):
                pass
    assert caught.value.status == 403


async def test_streams_that_end_at_once_are_not_opened_in_a_rush() -> None:
    script = Script(streams(), streams(), streams(), streams(event("ADDED", 2)))
    async with cluster(script) as (client, waited):
        assert await taken(client, 1) == [("ADDED", "2")]
    assert waited == [0.1, 0.2, 0.4]


async def test_streams_that_keep_ending_at_once_are_no_sign_of_life() -> None:
    """The watch raises: it must not look as if all were well."""
    script = Script(streams(), streams(), streams(), streams())
    async with cluster(script) as (client, _), client.watch(PODS, "1") as changes:
        with pytest.raises(ApiError, match="ends as soon as it has begun"):
            await anext(changes)


def said(kind: str, raw: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": raw}) + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        b"<html>\n",
        b"\n",
        b'{"type": "ADDED", "object": {"metadata": {"name": "\xff"}}}\n',
        b"[" * 100_000 + b"\n",
        said("ADDED", None),
        said("ADDED", {}),
        said("MODIFIED", {"metadata": ["name"]}),
        said("ADDED", {"metadata": {"name": "a"}}),
        said("DELETED", {"metadata": {"resourceVersion": "7"}}),
        said("ADDED", {"metadata": {"name": "a", "resourceVersion": 7}}),
        said("BOOKMARK", {"metadata": {}}),
    ],
)
async def test_a_line_that_is_no_event_is_an_error(line: bytes) -> None:
    async with cluster(Script(streams(line))) as (client, _):
        with pytest.raises(ApiError, match="not an event") as caught:
            await taken(client, 1)
    assert caught.value.status == 500


@pytest.mark.parametrize("status", [None, {}, {"code": 200}, {"code": "x"}])
async def test_an_error_event_that_makes_no_sense_is_an_error(status: Any) -> None:
    async with cluster(Script(streams(said("ERROR", status)))) as (client, _):
        with pytest.raises(ApiError) as caught:
            await taken(client, 1)
    assert caught.value.status == 500


# answers that are none ------------------------------------------------------------------------------------------------


VERBS: dict[str, Callable[[Kubernetes], Awaitable[Any]]] = {
    "get": lambda client: client.get(PODS, "team", "a"),
    "list": lambda client: client.list(PODS),
    "page": lambda client: client.list(PODS, limit=5),
    "create": lambda client: client.create(PODS, stored_pod()),
    "replace": lambda client: client.replace(PODS, stored_pod()),
    "patch": lambda client: client.patch(PODS, "team", "a", {}),
    "delete": lambda client: client.delete(PODS, "team", "a"),
    "evict": lambda client: client.evict("team", "a", "u1"),
    "bind": lambda client: client.bind("team", "a", "u1", "n1"),
}
NONSENSE = [b"", b"{}", b"[]", b"null", b"<html>", b'{"kind": "\xff"}', b"[" * 100_000, b'{"metadata": {"name": 7}}']


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("body", NONSENSE)
async def test_any_response_other_than_an_object_is_an_error(verb: str, body: bytes) -> None:
    """And one that leaves a write unconfirmed: a proxy that answers so may have passed it on."""
    async with cluster(Script(streams(body)), Limits(attempts=2)) as (client, _):
        with pytest.raises(ApiError) as caught:
            await VERBS[verb](client)
    assert caught.value.status >= 500


@pytest.mark.parametrize(
    "answer",
    [
        {"metadata": {"resourceVersion": "7"}},
        {"metadata": {}, "items": []},
        {"metadata": {"resourceVersion": ""}, "items": []},
        {"metadata": {"resourceVersion": "7"}, "items": [{}]},
        {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}, "spec": [1]}]},
        {"kind": "Status", "status": "Success", "metadata": {}},
    ],
)
async def test_what_is_no_list_is_not_an_empty_list(answer: Any) -> None:
    """Everything would seem to be gone."""
    async with cluster(Script(says(answer))) as (client, _):
        with pytest.raises(ApiError, match="not a Kubernetes object"):
            await client.list(PODS)


@pytest.mark.parametrize("wish", ["²", "9" * 5000, "-1", "soon"])
async def test_a_pause_that_makes_no_sense_is_not_heeded(wish: str) -> None:
    async with cluster(Script(fails(429, details={"causes": 7}, Retry_After=wish), says(stored_pod()))) as (
        client,
        waited,
    ):
        await client.get(PODS, "team", "a")
    assert waited == [0.1]


# connections ----------------------------------------------------------------------------------------------------------


async def test_a_lease_does_not_wait_behind_writes_that_hang() -> None:
    """I9, and its other side: leadership is not lost because bindings, as many as may be set, are not answered."""
    hanging = [0]
    enough = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if "leases" in request.path:
            return await says({"metadata": {"name": "muster"}, "spec": {}})(request)
        hanging[0] += 1
        if hanging[0] == 300:
            enough.set()
        await asyncio.sleep(60)
        return web.Response()

    async with cluster(Script(answer)) as (client, _):
        async with asyncio.timeout(30):
            bindings = [asyncio.create_task(client.bind("team", f"p{nth}", "u", "n")) for nth in range(300)]
            await enough.wait()  # none waits for another
            await client.get(LEASES, "team", "muster")
        for each in bindings:
            each.cancel()
        await asyncio.gather(*bindings, return_exceptions=True)
        lines = client._http._connections[0]
        assert lines.pool(Request("GET", "/apis/coordination.k8s.io/v1/leases")) is not lines.pool(
            Request("GET", "/api/v1/pods")
        )


def breaks_off() -> Answer:
    """In the midst of saying that it was done."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"kind":')
        await breaks(request)
        return response

    return answer


LOST = {"no answer": keeps_quiet(), "half an answer": breaks_off(), "the server gave up": fails(408, "Timeout")}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
async def test_a_binding_is_sent_once_however_its_answer_was_lost(lost: Answer) -> None:
    """I1, I2: sent again blindly, it would be refused because of itself, and that would be taken for a clear no."""
    script = Script(lost)
    async with cluster(script, Limits(answer_seconds=0.2)) as (client, _):
        with pytest.raises(ApiError) as caught:
            await client.bind("team", "a", "u1", "n1")
    assert (may_have_been_applied(caught.value), script.verbs) == (True, ["POST"])


@pytest.mark.parametrize("lost", [LOST["no answer"], LOST["half an answer"]], ids=["no answer", "half an answer"])
async def test_a_creation_is_not_sent_again_however_its_answer_was_lost(lost: Answer) -> None:
    script = Script(lost)
    async with cluster(script, Limits(answer_seconds=0.2)) as (client, _):
        with pytest.raises(Unanswered):
            await client.create(PODS, stored_pod())
    assert len(script.requests) == 1


async def test_an_eviction_that_is_only_tried_says_so() -> None:
    script = Script(says({"kind": "Status"}))
    async with cluster(script) as (client, _):
        await client.evict("team", "a", "u1", dry_run=True)
        await client.evict("team", "a", "u1")
    assert script.queries == [{"dryRun": "All"}, {}]

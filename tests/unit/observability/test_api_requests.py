"""Requests to the API server are counted by verb and code, never by path."""

import asyncio

import pytest

from muster.kube.client.http import Request
from muster.observability.api_requests import count_requests, verb_of
from muster.observability.event_loop_lag import measure_lag

PODS = "/api/v1/namespaces/team/pods"


@pytest.mark.parametrize(
    ("request_", "verb"),
    [
        (Request("GET", f"{PODS}/p"), "get"),
        (Request("GET", "/api/v1/pods", {"limit": "500"}), "list"),
        (Request("GET", "/api/v1/pods", {"watch": "1", "timeoutSeconds": "60"}), "watch"),
        (Request("POST", PODS), "create"),
        (Request("POST", f"{PODS}/p/binding"), "bind"),
        (Request("POST", f"{PODS}/p/eviction", {"dryRun": "All"}), "evict"),
        (Request("PUT", f"{PODS}/p"), "update"),
        (Request("PATCH", f"{PODS}/p/status"), "patch"),
        (Request("DELETE", f"{PODS}/p"), "delete"),
        (Request("OPTIONS", PODS), "other"),
    ],
)
def test_a_request_has_one_verb(request_: Request, verb: str) -> None:
    assert verb_of(request_) == verb


def test_a_request_without_an_answer_has_no_code() -> None:
    seen: list[tuple[str, str, float]] = []
    count = count_requests(lambda *values: seen.append(values))
    count(Request("GET", f"{PODS}/p"), 404, 0.5)
    count(Request("GET", f"{PODS}/p"), 0, 1.5)
    assert seen == [("get", "404", 0.5), ("get", "none", 1.5)]


async def test_a_busy_event_loop_shows() -> None:
    """Whatever blocks it: a timer that is due fires later."""
    lags: list[float] = []
    task = asyncio.create_task(measure_lag(lags.append, 0.01))
    while len(lags) < 2:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(lag >= 0 for lag in lags)

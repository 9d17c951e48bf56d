"""Health: every check by its name, and why it fails."""

import pytest
from starlette.applications import Starlette

from muster.cli.assemble.control_plane import WATCH_SHARE
from muster.kube.cache.reflector import ReflectorHealth
from muster.kube.client.watch import STREAM_SHARE
from muster.kube.errors import ApiError
from muster.observability.health import Check, LeaseCheck, WatchCheck, WorkCheck, routes
from tests.support.asgi import call


class Broken:
    name = "broken"

    def problem(self) -> str:
        raise ZeroDivisionError("secret")


class Flag:
    def __init__(self, name: str, reason: str = "") -> None:
        self.name, self.reason = name, reason

    def problem(self) -> str:
        return self.reason


async def get(path: str, live: list[Check], ready: list[Check]) -> tuple[int, str]:
    response = await call(Starlette(routes=routes(live, ready)), path, method="GET")
    return response.status, response.text


async def test_where_every_check_passes_each_is_listed_as_ok() -> None:
    """Readiness includes liveness: `/readyz` has all checks."""
    live: list[Check] = [Flag("loop")]
    ready: list[Check] = [Flag("watch-pods")]
    assert await get("/livez", live, ready) == (200, "[+] loop ok\nlivez ok\n")
    assert await get("/readyz", live, ready) == (200, "[+] loop ok\n[+] watch-pods ok\nreadyz ok\n")


async def test_a_check_that_fails_is_named_with_its_reason() -> None:
    """And the other checks run all the same."""
    ready: list[Check] = [Flag("certificate", "it has expired"), Broken(), Flag("watch-pods")]
    status, text = await get("/readyz", [], ready)
    assert status == 503
    assert text == (
        "[-] certificate: it has expired\n[-] broken: the check itself failed: ZeroDivisionError\n"
        "[+] watch-pods ok\nreadyz failed: 2 of 3 checks\n"
    )
    assert (await get("/livez", [], ready))[0] == 200


async def test_one_check_can_be_read_alone() -> None:
    """A wrong name is answered with the names there are."""
    ready: list[Check] = [Flag("a"), Flag("b", "no")]
    assert await get("/readyz/a", [], ready) == (200, "ok\n")
    assert await get("/readyz/b", [], ready) == (503, "no\n")
    assert await get("/readyz/c", [], ready) == (404, "there is no check `c`; known: a, b\n")
    assert await get("/livez/a", [], ready) == (404, "there is no check `a`; known: none\n")


def test_a_cycle_must_have_results() -> None:
    """Counted from the last one; a replica without work, or without the lease, is alive however long that lasts."""
    now, since = [1000.0], [None]  # type: tuple[list[float], list[float | None]]
    work = WorkCheck("cycle", lambda: since[0], 30, lambda: now[0])
    assert work.problem() == ""
    since[0] = 1000.0
    now[0] = 1030.0
    assert work.problem() == ""
    now[0] = 1031.5
    assert work.problem() == "no result for 31 s, at most 30 s"
    since[0] = None
    assert work.problem() == ""


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ApiError(401, "Unauthorized", "who are you"), "unauthorised: who are you"),
        (ApiError(403, "Forbidden", "pods is forbidden"), "unauthorised: pods is forbidden"),
        (ApiError(500, "InternalError", "etcd is away"), "dead: etcd is away"),
        (ApiError(410, "Expired", "too old"), ""),
    ],
)
def test_a_watch_that_breaks_is_not_ready(error: ApiError, problem: str) -> None:
    """An expired resourceVersion is no failure: the next list mends it."""
    health = ReflectorHealth(lambda: 0.0)
    watch = WatchCheck("pods", health, 60)
    assert (watch.name, watch.problem()) == ("watch-pods", "has not begun")
    health.received()
    assert watch.problem() == "has not begun", "a page is not the whole list"
    health.listed = 1
    assert watch.problem() == ""
    health.failed(error)
    assert watch.problem() == problem
    health.received()
    assert watch.problem() == ""


def test_a_watch_that_is_silent_is_dead() -> None:
    """Also without an error: it may hang."""
    now = [0.0]
    health = ReflectorHealth(lambda: now[0])
    watch = WatchCheck("pods", health, 400)
    health.received()
    health.listed = 1
    health.opened()
    now[0] = 400
    assert watch.problem() == ""
    now[0] = 401
    assert watch.problem() == "silent for 401 s, at most 400 s"


def test_a_quiet_kind_is_not_taken_for_dead() -> None:
    """A kind that is never written shows only new streams: each ends, or is replaced, before the watch is dead."""
    assert WATCH_SHARE < 1
    assert STREAM_SHARE[1] < 1


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (None, ""),
        (ApiError(403, "Forbidden", "leases is forbidden"), "cannot be held: leases is forbidden"),
        (ApiError(404, "NotFound", 'namespaces "muster-system" not found'),
         'cannot be held: namespaces "muster-system" not found'),
        (ApiError(409, "Conflict", "somebody was faster"), ""),
        (ApiError(504, "Timeout", "no answer in time"), ""),
    ],
)  # fmt: skip
def test_a_replica_that_can_never_lead_is_not_ready(error: ApiError | None, problem: str) -> None:
    """A standby is ready, and so is a replica that only has to wait."""
    assert LeaseCheck(lambda: error).problem() == problem


def test_a_replica_that_gave_the_lease_up_is_not_ready_and_says_why() -> None:
    abstention = ["was given up: the watch of pods is dead; competes again in 30 s"]
    lease = LeaseCheck(lambda: None, lambda: abstention[0])
    assert lease.problem() == abstention[0]
    abstention[0] = ""
    assert lease.problem() == ""

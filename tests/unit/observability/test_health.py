"""Health: every check by its name, and why it fails."""

import pytest
from starlette.applications import Starlette

from muster.config.settings import Observability
from muster.kube.cache.reflector import ReflectorHealth
from muster.kube.client.watch import GRACE_SECONDS, STREAM_SECONDS
from muster.kube.errors import ApiError
from muster.observability.health import Check, Election, WatchCheck, WorkCheck, routes
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


async def asked(path: str, live: list[Check], ready: list[Check]) -> tuple[int, str]:
    answered = await call(Starlette(routes=routes(live, ready)), path, method="GET")
    return answered.status, answered.text


async def test_when_all_is_well_every_check_says_so() -> None:
    """What is not alive is not ready either: `/readyz` has them all."""
    live: list[Check] = [Flag("loop")]
    ready: list[Check] = [Flag("watch-pods")]
    assert await asked("/livez", live, ready) == (200, "[+] loop ok\nlivez ok\n")
    assert await asked("/readyz", live, ready) == (200, "[+] loop ok\n[+] watch-pods ok\nreadyz ok\n")


async def test_what_fails_is_named_with_its_reason() -> None:
    """And the others are asked all the same."""
    ready: list[Check] = [Flag("certificate", "it has expired"), Broken(), Flag("watch-pods")]
    status, text = await asked("/readyz", [], ready)
    assert status == 503
    assert text == (
        "[-] certificate: it has expired\n[-] broken: the check itself failed: ZeroDivisionError\n"
        "[+] watch-pods ok\nreadyz failed: 2 of 3 checks\n"
    )
    assert (await asked("/livez", [], ready))[0] == 200


async def test_one_check_can_be_asked_alone() -> None:
    """Which ones there are is told where the name is wrong."""
    ready: list[Check] = [Flag("a"), Flag("b", "no")]
    assert await asked("/readyz/a", [], ready) == (200, "ok\n")
    assert await asked("/readyz/b", [], ready) == (503, "no\n")
    assert await asked("/readyz/c", [], ready) == (404, "there is no check `c`; known: a, b\n")
    assert await asked("/livez/a", [], ready) == (404, "there is no check `a`; known: none\n")


def test_a_cycle_must_end() -> None:
    """Counted from its start; whoever has nothing to do, or does not lead, is alive however long that lasts."""
    now, began = [1000.0], [None]  # type: tuple[list[float], list[float | None]]
    work = WorkCheck("cycle", lambda: began[0], 30, lambda: now[0])
    assert work.problem() == ""
    began[0] = 1000.0
    now[0] = 1030.0
    assert work.problem() == ""
    now[0] = 1031.5
    assert work.problem() == "has taken 31 s, at most 30 s"
    began[0] = None
    assert work.problem() == ""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ApiError(401, "Unauthorized", "who are you"), "unauthorised: who are you"),
        (ApiError(403, "Forbidden", "pods is forbidden"), "unauthorised: pods is forbidden"),
        (ApiError(500, "InternalError", "etcd is away"), "dead: etcd is away"),
        (ApiError(410, "Expired", "too old"), ""),
    ],
)
def test_a_watch_that_breaks_is_not_ready(error: ApiError, told: str) -> None:
    """An old resource version is no failure: the next list mends it."""
    state = ReflectorHealth(lambda: 0.0)
    watch = WatchCheck("pods", state, 60)
    assert (watch.name, watch.problem()) == ("watch-pods", "has not begun")
    state.received()
    assert watch.problem() == "has not begun", "only a part was told"
    state.listed = 1
    assert watch.problem() == ""
    state.failed(error)
    assert watch.problem() == told
    state.received()
    assert watch.problem() == ""


def test_a_watch_that_is_silent_is_dead() -> None:
    """Also where nobody says so: it may hang."""
    now = [0.0]
    state = ReflectorHealth(lambda: now[0])
    watch = WatchCheck("pods", state, 400)
    state.received()
    state.listed = 1
    state.opened()
    now[0] = 400
    assert watch.problem() == ""
    now[0] = 401
    assert watch.problem() == "silent for 401 s, at most 400 s"


def test_a_quiet_kind_is_not_taken_for_dead() -> None:
    """Of a kind that nobody writes, only a new stream is heard: as late as the longest one may last."""
    assert Observability().silent_watch_seconds > STREAM_SECONDS[1] + GRACE_SECONDS


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, ""),
        (ApiError(403, "Forbidden", "leases is forbidden"), "cannot be held: leases is forbidden"),
        (ApiError(404, "NotFound", 'namespaces "muster-system" not found'),
         'cannot be held: namespaces "muster-system" not found'),
        (ApiError(409, "Conflict", "somebody was faster"), ""),
        (ApiError(504, "Timeout", "no answer in time"), ""),
    ],
)  # fmt: skip
def test_a_replica_that_can_never_lead_is_not_ready(error: ApiError | None, told: str) -> None:
    """Who stands by is, and so is whoever only has to wait."""
    assert Election(lambda: error).problem() == told


def test_who_gave_the_lease_up_is_not_ready_until_it_competes_again() -> None:
    resting = [29.5]
    lease = Election(lambda: None, lambda: resting[0])
    assert lease.problem() == "was given up, as no cycle came to an end; competes again in 30 s"
    resting[0] = 0.0
    assert lease.problem() == ""

"""Health: every check by its name, and why it fails."""

import pytest
from starlette.applications import Starlette

from muster.cluster.store import ApiError
from muster.server.health import Beat, Check, Flag, Watch, routes
from tests.asgi import call


class Broken:
    name = "broken"

    def problem(self) -> str:
        raise ZeroDivisionError("secret")


def flag(name: str, reason: str = "") -> Flag:
    found = Flag(name)
    found.ill(reason) if reason else found.well()
    return found


async def asked(path: str, live: list[Check], ready: list[Check]) -> tuple[int, str]:
    answered = await call(Starlette(routes=routes(live, ready)), path, method="GET")
    return answered.status, answered.text


async def test_when_all_is_well_every_check_says_so() -> None:
    """What is not alive is not ready either: `/readyz` has them all."""
    live: list[Check] = [flag("loop")]
    ready: list[Check] = [flag("watch-pods")]
    assert await asked("/livez", live, ready) == (200, "[+] loop ok\nlivez ok\n")
    assert await asked("/readyz", live, ready) == (200, "[+] loop ok\n[+] watch-pods ok\nreadyz ok\n")


async def test_what_fails_is_named_with_its_reason() -> None:
    """And the others are asked all the same."""
    ready: list[Check] = [flag("certificate", "it has expired"), Broken(), flag("watch-pods")]
    status, text = await asked("/readyz", [], ready)
    assert status == 503
    assert text == (
        "[-] certificate: it has expired\n[-] broken: the check itself failed: ZeroDivisionError\n"
        "[+] watch-pods ok\nreadyz failed: 2 of 3 checks\n"
    )
    assert (await asked("/livez", [], ready))[0] == 200


async def test_one_check_can_be_asked_alone() -> None:
    """Which ones there are is told where the name is wrong."""
    ready: list[Check] = [flag("a"), flag("b", "no")]
    assert await asked("/readyz/a", [], ready) == (200, "ok\n")
    assert await asked("/readyz/b", [], ready) == (503, "no\n")
    assert await asked("/readyz/c", [], ready) == (404, "there is no check `c`; known: a, b\n")
    assert await asked("/livez/a", [], ready) == (404, "there is no check `a`; known: none\n")


def test_a_flag_begins_down() -> None:
    """Nobody is ready before he has begun."""
    assert Flag("sync").problem() == "has not begun"


def test_a_loop_must_come_by() -> None:
    """On a clock that only goes forward."""
    now = [0.0]
    beat = Beat("cycle", 30, lambda: now[0])
    now[0] = 30
    assert beat.problem() == ""
    now[0] = 31.5
    assert beat.problem() == "silent for 31 s, at most 30 s"
    beat.beat()
    assert beat.problem() == ""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ApiError(401, "Unauthorized", "who are you"), "unauthorised: who are you"),
        (ApiError(403, "Forbidden", "pods is forbidden"), "unauthorised: pods is forbidden"),
        (ApiError(500, "InternalError", "etcd is away"), "dead: etcd is away"),
        (ConnectionResetError(), "dead: ConnectionResetError"),
        (ApiError(410, "Expired", "too old"), ""),
    ],
)
def test_a_watch_that_breaks_is_not_ready(error: Exception, told: str) -> None:
    """An old resource version is no failure: the next list mends it."""
    watch = Watch("pods", 60, lambda: 0.0)
    assert (watch.name, watch.problem()) == ("watch-pods", "has not begun")
    watch.heard()
    assert watch.problem() == ""
    watch.lost(error)
    assert watch.problem() == told
    watch.heard()
    assert watch.problem() == ""


def test_a_watch_that_is_silent_is_dead() -> None:
    """Bookmarks come about every minute, whatever happens."""
    now = [0.0]
    watch = Watch("pods", 180, lambda: now[0])
    watch.heard()
    now[0] = 200
    assert watch.problem() == "silent for 200 s, at most 180 s"

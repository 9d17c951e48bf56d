"""`/livez` and `/readyz`: every check by its name, with its reason when it fails.

Not alive: restart me. Not ready: send nobody here, and tell people that what I know may be old.
"""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from muster.cluster.store import ApiError

Clock = Callable[[], float]  # seconds that only go forward
UNAUTHORISED = (401, 403)


class Check(Protocol):
    """Something that is well, or says what it lacks."""

    @property
    def name(self) -> str:
        """As people see it: `watch-pods`."""

    def problem(self) -> str:
        """Empty: it is well. It must answer at once."""


class Flag:
    """A check that is told: well or not. It begins as not."""

    def __init__(self, name: str, reason: str = "has not begun") -> None:
        self.name = name
        self._reason = reason

    def well(self) -> None:
        """From now on."""
        self._reason = ""

    def ill(self, reason: str) -> None:
        """From now on, and why."""
        self._reason = reason or "not well"

    def problem(self) -> str:
        """What it was last told."""
        return self._reason


class Beat:
    """A loop that must come by: not well when it is silent for too long."""

    def __init__(self, name: str, longest_seconds: float, clock: Clock = time.monotonic) -> None:
        self.name = name
        self._longest, self._clock = longest_seconds, clock
        self._last = clock()

    def beat(self) -> None:
        """It came by."""
        self._last = self._clock()

    def problem(self) -> str:
        """How long it has been silent, if that is too long."""
        silent = self._clock() - self._last
        return "" if silent <= self._longest else f"silent for {math.floor(silent)} s, at most {self._longest:g} s"


class Watch:
    """A watch: well while events or bookmarks come; not before it begins, after a long silence, or when refused."""

    def __init__(self, name: str, longest_seconds: float, clock: Clock = time.monotonic) -> None:
        self.name = f"watch-{name}"
        self._beat = Beat(name, longest_seconds, clock)
        self._lost = "has not begun"

    def heard(self) -> None:
        """A list was read, or an event or a bookmark came."""
        self._lost = ""
        self._beat.beat()

    def lost(self, error: Exception) -> None:
        """It broke; whoever watches tries again, and it is not well until it is heard again."""
        if isinstance(error, ApiError) and error.status in UNAUTHORISED:
            self._lost = f"unauthorised: {error.message}"
        elif not (isinstance(error, ApiError) and error.status == 410):  # an old version: list anew, nothing is wrong
            self._lost = f"dead: {error}" if str(error) else f"dead: {type(error).__name__}"

    def problem(self) -> str:
        """Why it cannot be trusted."""
        return self._lost or self._beat.problem()


# answers ------------------------------------------------------------------------------------------------------------


def routes(live: Sequence[Check], ready: Sequence[Check]) -> list[Route]:
    """`/livez`, `/readyz`, and each check alone below them; what is not alive is not ready either."""
    every = [*live, *ready]
    return [
        *(Route(path, _whole(path, checks)) for path, checks in (("/livez", live), ("/readyz", every))),
        *(Route(f"{path}/{{name}}", _one(checks)) for path, checks in (("/livez", live), ("/readyz", every))),
    ]


def _whole(path: str, checks: Sequence[Check]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_request: Request) -> Response:
        found = [(check.name, _problem(check)) for check in checks]
        lines = [f"[-] {name}: {problem}" if problem else f"[+] {name} ok" for name, problem in found]
        failed = sum(bool(problem) for _, problem in found)
        lines.append(
            f"{path.strip('/')} failed: {failed} of {len(found)} checks" if failed else f"{path.strip('/')} ok"
        )
        return PlainTextResponse("\n".join(lines) + "\n", 503 if failed else 200)

    return answer


def _one(checks: Sequence[Check]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        name = request.path_params["name"]
        for check in checks:
            if check.name == name:
                problem = _problem(check)
                return PlainTextResponse(f"{problem or 'ok'}\n", 503 if problem else 200)
        known = ", ".join(check.name for check in checks) or "none"
        return PlainTextResponse(f"there is no check `{name[:80]}`; known: {known}\n", 404)

    return answer


def _problem(check: Check) -> str:
    try:
        return check.problem()
    except Exception as error:  # a check that breaks is a check that fails, and says so
        return f"the check itself failed: {type(error).__name__}"

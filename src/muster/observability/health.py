"""`/livez` and `/readyz`: every check by its name, with its reason when it fails.

Not alive: restart me. Not ready: send nobody here, and tell people that what I know may be old.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from muster.kube.cache.reflector import ReflectorHealth
from muster.kube.errors import ApiError

Clock = Callable[[], float]  # seconds that only go forward


class Check(Protocol):
    """Something that is well, or says what it lacks."""

    @property
    def name(self) -> str:
        """As people see it: `watch-pods`."""

    def problem(self) -> str:
        """Empty: it is well. It must answer at once."""


class WatchCheck:
    """A watch: well while something is heard from time to time; not before it has begun, or while it is refused."""

    def __init__(self, name: str, state: ReflectorHealth, longest_seconds: float) -> None:
        self.name = f"watch-{name}"
        self._state, self._longest = state, longest_seconds

    def problem(self) -> str:
        """Why it cannot be trusted."""
        if (error := self._state.error) is not None:
            return f"{'unauthorised' if self._state.is_unauthorised else 'dead'}: {error.message}"
        if not self._state.has_synced:
            return "has not begun"
        silent = self._state.lag_seconds()
        return "" if silent <= self._longest else f"silent for {math.floor(silent)} s, at most {self._longest:g} s"


class Election:
    """The lease: well for whoever holds it or stands by; not where nobody here can ever hold it, or just failed to."""

    name = "lease"

    def __init__(
        self, refused: Callable[[], ApiError | None], resting_seconds: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._refused, self._resting = refused, resting_seconds

    def problem(self) -> str:
        """What forbids it, as far as waiting does not help; or that it was given up a while ago."""
        if resting := self._resting():
            return f"was given up, as no cycle came to an end; competes again in {math.ceil(resting)} s"
        error = self._refused()
        return f"cannot be held: {error.message}" if error and error.status in (401, 403, 404, 422) else ""


class WorkCheck:
    """Work that must come to an end: not well while it takes too long. Whoever has nothing to do is well."""

    def __init__(self, name: str, began: Callable[[], float | None], longest_seconds: float, clock: Clock) -> None:
        self.name = name
        self._began, self._longest, self._clock = began, longest_seconds, clock

    def problem(self) -> str:
        """How long it has taken, if that is too long."""
        began = self._began()
        took = 0.0 if began is None else self._clock() - began
        return "" if took <= self._longest else f"has taken {math.floor(took)} s, at most {self._longest:g} s"


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

"""`/livez` and `/readyz`: every check by its name, with its reason when it fails.

Not alive: a restart cures it, such as a plan that hangs. Not ready: a restart does not cure it, such as an API server
that does not answer; no requests are routed to the pod, as its cache may be out of date.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from muster.kube.cache.reflector import ReflectorHealth
from muster.kube.errors import ApiError

Clock = Callable[[], float]  # seconds, monotonic


class Check(Protocol):
    """One check of `/livez` or `/readyz`."""

    @property
    def name(self) -> str:
        """As the response shows it: `watch-pods`."""

    def problem(self) -> str:
        """Why it fails; empty: it passes. It must return at once."""


class WatchCheck:
    """A reflector: passes once it has synced, while it has no error and receives something from time to time."""

    def __init__(self, name: str, health: ReflectorHealth, longest_seconds: float) -> None:
        self.name = f"watch-{name}"
        self._health, self._longest = health, longest_seconds

    def problem(self) -> str:
        """Why the cache may be out of date."""
        if (error := self._health.error) is not None:
            return f"{'unauthorised' if self._health.is_unauthorised else 'dead'}: {error.message}"
        if not self._health.has_synced:
            return "has not begun"
        lag = self._health.lag_seconds()
        return "" if lag <= self._longest else f"silent for {math.floor(lag)} s, at most {self._longest:g} s"


class LeaseCheck:
    """Leader election: passes for a leader and for a standby; fails where this replica cannot hold the lease."""

    name = "lease"

    def __init__(self, refused: Callable[[], ApiError | None], abstention: Callable[[], str] = lambda: "") -> None:
        self._refused, self._abstention = refused, abstention

    def problem(self) -> str:
        """An error that waiting does not end; or why this replica gave the lease up or does not compete."""
        if abstention := self._abstention():
            return abstention
        error = self._refused()
        return f"cannot be held: {error.message}" if error and error.status in (401, 403, 404, 422) else ""


class WorkCheck:
    """Work that must have results: fails while it has none for too long. Passes where there is no work."""

    def __init__(self, name: str, since: Callable[[], float | None], longest_seconds: float, clock: Clock) -> None:
        self.name = name
        self._since, self._longest, self._clock = since, longest_seconds, clock

    def problem(self) -> str:
        """How long it has been without a result, where that is too long."""
        since = self._since()
        elapsed = 0.0 if since is None else self._clock() - since
        return "" if elapsed <= self._longest else f"no result for {math.floor(elapsed)} s, at most {self._longest:g} s"


# responses ------------------------------------------------------------------------------------------------------------


def routes(live: Sequence[Check], ready: Sequence[Check]) -> list[Route]:
    """`/livez`, `/readyz`, and each check alone below them; readiness includes liveness."""
    every = [*live, *ready]
    return [
        *(Route(path, _all_checks(path, checks)) for path, checks in (("/livez", live), ("/readyz", every))),
        *(Route(f"{path}/{{name}}", _single_check(checks)) for path, checks in (("/livez", live), ("/readyz", every))),
    ]


def _all_checks(path: str, checks: Sequence[Check]) -> Callable[[Request], Awaitable[Response]]:
    async def respond(_request: Request) -> Response:
        problems = [(check.name, _problem(check)) for check in checks]
        lines = [f"[-] {name}: {problem}" if problem else f"[+] {name} ok" for name, problem in problems]
        failed = sum(bool(problem) for _, problem in problems)
        lines.append(
            f"{path.strip('/')} failed: {failed} of {len(problems)} checks" if failed else f"{path.strip('/')} ok"
        )
        return PlainTextResponse("\n".join(lines) + "\n", 503 if failed else 200)

    return respond


def _single_check(checks: Sequence[Check]) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        name = request.path_params["name"]
        for check in checks:
            if check.name == name:
                problem = _problem(check)
                return PlainTextResponse(f"{problem or 'ok'}\n", 503 if problem else 200)
        known = ", ".join(check.name for check in checks) or "none"
        return PlainTextResponse(f"there is no check `{name[:80]}`; known: {known}\n", 404)

    return respond


def _problem(check: Check) -> str:
    try:
        return check.problem()
    except Exception as error:  # a check that raises is a check that fails
        return f"the check itself failed: {type(error).__name__}"

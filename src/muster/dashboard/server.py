"""The HTTP API of the dashboard: reads the model, and answers what if. Nothing here writes to the cluster."""

from collections.abc import Awaitable, Callable, Collection
from functools import partial

from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from muster import __version__
from muster.dashboard.access import Authorize
from muster.dashboard.answers import answer, refuse
from muster.dashboard.guard import WHAT_IF, RequestGuard
from muster.dashboard.history import CycleGone
from muster.dashboard.messages import Messages, parse_cursor
from muster.dashboard.model import DashboardModel
from muster.dashboard.pages import Pages
from muster.dashboard.rights import ViewerRights
from muster.dashboard.slices import LoopShare
from muster.dashboard.static_files import serve_file
from muster.dashboard.streams import DashboardStreams
from muster.dashboard.what_if_answers import WhatIfAnswers
from muster.errors import InputError
from muster.observability.access_reviews import AccessRefusal, bearer_token

EVENT_STREAM = "text/event-stream"
MOST_CYCLES = 1_000  # in one answer
MOST_DIGITS = 12
TOKEN_HINT = "send a token of yours as `Authorization: Bearer TOKEN`; `kubectl create token NAME` makes one"
RIGHTS_HINT = "a Role or ClusterRole with `list` on `podgroups.scheduling.run.ai` allows it"
Handler = Callable[[Request, ViewerRights], Awaitable[Response]]


class DashboardParts(Struct, frozen=True):
    """What the server answers from."""

    model: DashboardModel
    messages: Messages
    streams: DashboardStreams
    pages: Pages
    what_if: WhatIfAnswers


class BadParameter(Exception):
    """A parameter that is no number."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class DashboardServer:
    """The routes, for viewers that `authorize` lets in."""

    def __init__(self, parts: DashboardParts, access: str, authorize: Authorize) -> None:
        self._parts, self._access, self._authorize = parts, access, authorize
        self._share = LoopShare()

    def app(self, hosts: Collection[str] | None) -> ASGIApp:
        """The guarded app; `hosts`: names that it answers to, None: any."""
        routes = [
            Route("/", _index),
            Route("/page/{name}", _file),
            Route("/api/session", self._for_viewers(self._session)),
            Route("/api/stream", self._for_viewers(self._stream)),
            Route("/api/state", self._for_viewers(self._state)),
            Route("/api/gangs/{namespace}/{name}", self._for_viewers(self._gang)),
            Route("/api/nodes/{name}", self._for_viewers(self._node)),
            Route("/api/cycles", self._for_viewers(self._cycles)),
            Route(WHAT_IF, self._for_viewers(self._what_if), methods=["POST"]),
        ]
        return RequestGuard(Starlette(routes=routes, exception_handlers=HANDLERS), hosts)

    def _for_viewers(self, handle: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            rights = await self._rights(request)
            return _refused(rights) if isinstance(rights, AccessRefusal) else await handle(request, rights)

        return respond

    async def _rights(self, request: Request) -> ViewerRights | AccessRefusal:
        return await self._authorize(bearer_token(request.headers.get("authorization", "")))

    # what is read

    async def _session(self, _request: Request, rights: ViewerRights) -> Response:
        namespaces = None if rights.namespaces is None else sorted(rights.namespaces)
        return answer(
            {
                "access": self._access,
                "user": rights.user,
                "namespaces": namespaces,
                "version": __version__,
                "leads": self._parts.model.leads,
            }
        )

    async def _stream(self, request: Request, rights: ViewerRights) -> Response:
        if request.method == "HEAD":
            return Response(media_type=EVENT_STREAM)
        streams, peer = self._parts.streams, _peer(request, rights)
        if problem := streams.problem(peer):
            return refuse(429, problem, "close one, or raise `dashboard.maxViewers`")

        async def review() -> ViewerRights | None:
            reviewed = await self._rights(request)
            return None if isinstance(reviewed, AccessRefusal) else reviewed

        after = parse_cursor(request.query_params.get("after", ""))
        return StreamingResponse(streams.events(peer, rights, after, review), media_type=EVENT_STREAM)

    async def _state(self, request: Request, rights: ViewerRights) -> Response:
        make = partial(self._parts.messages.state, rights.namespaces, _number(request, "cycle"))
        return Response(await self._share.run(_peer(request, rights), make), media_type="application/json")

    async def _gang(self, request: Request, rights: ViewerRights) -> Response:
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        page = await self._parts.pages.gang(rights, namespace, name, _number(request, "cycle"))
        return refuse(404, "there is no such gang", "it may be gone by now") if page is None else answer(page)

    async def _node(self, request: Request, rights: ViewerRights) -> Response:
        page = self._parts.pages.node(rights, request.path_params["name"], _number(request, "cycle"))
        return refuse(404, "there is no such node", "it may be gone by now") if page is None else answer(page)

    async def _cycles(self, request: Request, rights: ViewerRights) -> Response:
        before, limit = _number(request, "before"), _number(request, "limit")
        make = partial(self._parts.pages.cycles, rights, before, 100 if limit is None else min(limit, MOST_CYCLES))
        return await self._share.run(_peer(request, rights), lambda: answer({"cycles": make()}))

    # what is asked

    async def _what_if(self, request: Request, rights: ViewerRights) -> Response:
        if not rights.sees_all:
            return refuse(403, "what if is about the whole cluster", "it needs `list` on podgroups in all namespaces")
        return await self._parts.what_if.respond(request)


def _peer(request: Request, rights: ViewerRights) -> str:
    """Who is counted as one viewer."""
    return rights.user or (request.client.host if request.client else "")


async def _index(_request: Request) -> Response:
    return serve_file("index.html")


async def _file(request: Request) -> Response:
    return serve_file(request.path_params["name"])


def _number(request: Request, name: str) -> int | None:
    """A parameter that is a whole number; None: it is not given."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise BadParameter(name)
    return int(text)


def _refused(refusal: AccessRefusal) -> Response:
    return refuse(refusal.status, refusal.message, {401: TOKEN_HINT, 403: RIGHTS_HINT}.get(refusal.status, ""))


async def _on_http(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return refuse(status, "there is nothing here" if status == 404 else "this cannot be answered", "the page is at /")


async def _on_gone(_request: Request, error: Exception) -> Response:
    assert isinstance(error, CycleGone)
    kept = {"oldest": error.oldest, "newest": error.newest}
    return answer({"message": error.message, "hint": "choose one of those", **kept}, 404)


async def _on_parameter(_request: Request, error: Exception) -> Response:
    assert isinstance(error, BadParameter)
    return refuse(400, f"`{error.name}` is no whole number", "leave it out, or give one from 0 on")


async def _on_input(_request: Request, error: Exception) -> Response:
    assert isinstance(error, InputError)
    return refuse(422, error.message, error.hint)


HANDLERS = {
    HTTPException: _on_http,
    CycleGone: _on_gone,
    BadParameter: _on_parameter,
    InputError: _on_input,
}

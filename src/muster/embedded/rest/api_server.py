"""The REST API of the embedded cluster, for kubectl and every other Kubernetes client.

Rule 1: every response that is not an object is a `Status` with a message. Rule 2: it listens on loopback, with TLS and
a token, unless configured otherwise. Rule 3: nothing here decides what is valid; the store does.
"""

import hmac
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from traceback import format_exc

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from muster.embedded.cluster_store import ClusterStore
from muster.embedded.rest import discovery, openapi
from muster.embedded.rest.access_reviews import review
from muster.embedded.rest.answer_budget import PART_BYTES, AnswerBudget
from muster.embedded.rest.negotiation import parse_accept, read_object
from muster.embedded.rest.read_verbs import ServerContext
from muster.embedded.rest.request_target import not_found_error, parse_target
from muster.embedded.rest.responses import error_response, object_response, status_error
from muster.embedded.rest.verbs import dispatch
from muster.embedded.rest.watch_stream import OpenWatches
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError

log = structlog.get_logger(__name__)
MINOR = 33  # of the Kubernetes 1.x whose behaviour this follows
VERSION: Raw = {
    "major": "1",
    "minor": str(MINOR),
    "gitVersion": f"v1.{MINOR}.0+muster",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "python",
}
UNAUTHENTICATED = ("livez", "readyz", "healthz", "version")
ROOTS = ("/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
Page = Callable[[ServerContext, Request, Sequence[str]], Response]


def now() -> datetime:
    """The default clock."""
    return datetime.now(UTC)


def server_context(
    store: ClusterStore, token: str = "", clock: Callable[[], datetime] = now, schedulers: Sequence[str] = ()
) -> ServerContext:
    """What the application needs to serve a store; empty token: no authentication."""
    return ServerContext(store, clock, OpenWatches(), AnswerBudget(), token, schedulers)


def application(context: ServerContext) -> ASGIApp:
    """The ASGI application of an API server."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await _respond(context, request)
        if len(response.body) > PART_BYTES:
            await context.budget.send(response, scope, send)
        else:
            await response(scope, receive, send)

    return app


async def _respond(context: ServerContext, request: Request) -> Response:
    try:
        return await _route(context, request)
    except ApiError as error:
        return error_response(error)
    except Exception:
        # as text: a traceback with the values of variables would log what clients sent
        log.error("request failed", method=request.method, path=request.scope["path"][:300], trace=format_exc())
        return error_response(status_error(500, "this is a bug in muster; its log says more"))


async def _route(context: ServerContext, request: Request) -> Response:
    parts = tuple(request.scope["path"].strip("/").split("/"))
    if parts[0] not in UNAUTHENTICATED:
        _authenticate(context, request)
        await context.budget.admit(request.scope)
    match parts:
        case ("api", version, rest, *more) if version == "v1":
            return await _serve_resource(context, request, "", version, (rest, *more))
        case ("apis", group, version, rest, *more):
            return await _serve_resource(context, request, group, version, (rest, *more))
        case _:
            return _serve_page(context, request, parts)


def _authenticate(context: ServerContext, request: Request) -> None:
    if not context.token:
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), context.token.encode()):
        raise status_error(401, "Unauthorized")


async def _serve_resource(
    context: ServerContext, request: Request, group: str, version: str, rest: Sequence[str]
) -> Response:
    for resource in discovery.REVIEWS:
        if (resource.group, resource.version, *rest) == (group, version, resource.plural):
            if request.method != "POST":
                raise status_error(405, "the server does not allow this method on the requested resource")
            return object_response(review(resource, await read_object(request)), 201)
    return await dispatch(context, parse_target(context.store, group, version, rest), request)


# other paths --------------------------------------------------------------------------------------------------------


def _serve_page(context: ServerContext, request: Request, parts: Sequence[str]) -> Response:
    page = PAGES.get(parts[0])
    if page is None:
        raise not_found_error()
    if request.method not in ("GET", "HEAD"):
        raise status_error(405, "the server does not allow this method on the requested resource")
    return page(context, request, parts[1:])


def _root(_context: ServerContext, _request: Request, _rest: Sequence[str]) -> Response:
    return object_response({"paths": ROOTS})


def _health(_context: ServerContext, _request: Request, _rest: Sequence[str]) -> Response:
    return PlainTextResponse("ok")


def _version(_context: ServerContext, _request: Request, _rest: Sequence[str]) -> Response:
    return object_response(VERSION)


def _core(context: ServerContext, request: Request, rest: Sequence[str]) -> Response:
    entries = discovery.entries(context.store.kinds)
    if rest:
        return object_response(discovery.resource_list(entries, "", "/".join(rest)))
    return _aggregated(entries, request, core=True) or object_response(discovery.core_versions(request.url.netloc))


def _groups(context: ServerContext, request: Request, rest: Sequence[str]) -> Response:
    entries = discovery.entries(context.store.kinds)
    match tuple(rest):
        case ():
            return _aggregated(entries, request, core=False) or object_response(discovery.group_list(entries))
        case (group,):
            return object_response(discovery.group(entries, group))
        case (group, version):
            return object_response(discovery.resource_list(entries, group, version))
        case _:
            raise not_found_error()


def _aggregated(entries: Sequence[discovery.DiscoveryEntry], request: Request, *, core: bool) -> Response | None:
    version = discovery.aggregated_version(request.headers.get("accept", ""))
    if not version:
        return None
    response = object_response(discovery.aggregated(entries, version, core=core))
    response.headers["Content-Type"] = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    return response


def _openapi(context: ServerContext, request: Request, rest: Sequence[str]) -> Response:
    match tuple(rest):
        case ("v2",):
            return _openapi_v2(request)
        case ("v3",):
            return object_response(openapi.root(context.store.kinds))
        case ("v3", *path):
            return object_response(openapi.document(context.store.kinds, "/".join(path)))
        case _:
            raise not_found_error()


def _openapi_v2(request: Request) -> Response:
    first = next(parse_accept(request.headers.get("accept", "")), None)
    if first and first.type in openapi.V2_PROTOBUF_ACCEPTED:
        return Response(openapi.empty_v2_protobuf(), media_type=openapi.V2_PROTOBUF)
    return object_response(openapi.empty_v2())


PAGES: dict[str, Page] = {
    "": _root,
    "api": _core,
    "apis": _groups,
    "healthz": _health,
    "livez": _health,
    "openapi": _openapi,
    "readyz": _health,
    "version": _version,
}

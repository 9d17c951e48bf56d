"""The REST face of the embedded cluster, so that kubectl and every client of Kubernetes can speak to it.

Rule 1: every answer that is not an object is a `Status` with a sentence. Rule 2: it listens on loopback, behind TLS and
a token, unless told otherwise. Rule 3: nothing here decides what an object may be; that is the store's.
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
from muster.embedded.rest.negotiation import accepted, sent_object
from muster.embedded.rest.read_verbs import Face
from muster.embedded.rest.request_target import nowhere, target
from muster.embedded.rest.responses import answer, failure, refusal
from muster.embedded.rest.verbs import act
from muster.embedded.rest.watch_stream import Watches
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
OPEN = ("livez", "readyz", "healthz", "version")  # told to everyone
ROOTS = ("/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
Page = Callable[[Face, Request, Sequence[str]], Response]


def now() -> datetime:
    """The time, unless another clock is given."""
    return datetime.now(UTC)


def face(store: ClusterStore, token: str = "", clock: Callable[[], datetime] = now) -> Face:
    """A store, ready to be served; empty token: whoever reaches it may do everything."""
    return Face(store, clock, Watches(), token)


def application(served: Face) -> ASGIApp:
    """The ASGI application."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await _answered(served, request)
        await response(scope, receive, send)

    return app


async def _answered(served: Face, request: Request) -> Response:
    try:
        return await _routed(served, request)
    except ApiError as error:
        return failure(error)
    except Exception:
        # as text: a log that draws the values of variables would tell what clients sent
        log.error("request failed", method=request.method, path=request.scope["path"][:300], trace=format_exc())
        return failure(refusal(500, "this is a bug in muster; its log says more"))


async def _routed(served: Face, request: Request) -> Response:
    parts = tuple(request.scope["path"].strip("/").split("/"))
    if parts[0] not in OPEN:
        _authenticate(served, request)
    match parts:
        case ("api", version, rest, *more) if version == "v1":
            return await _resource(served, request, "", version, (rest, *more))
        case ("apis", group, version, rest, *more):
            return await _resource(served, request, group, version, (rest, *more))
        case _:
            return _page(served, request, parts)


def _authenticate(served: Face, request: Request) -> None:
    if not served.token:
        return
    scheme, _, said = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(said.strip().encode(), served.token.encode()):
        raise refusal(401, "Unauthorized")


async def _resource(served: Face, request: Request, group: str, version: str, rest: Sequence[str]) -> Response:
    for resource in discovery.REVIEWS:
        if (resource.group, resource.version, *rest) == (group, version, resource.plural):
            if request.method != "POST":
                raise refusal(405, "the server does not allow this method on the requested resource")
            return answer(review(resource, await sent_object(request)), 201)
    return await act(served, target(served.store, group, version, rest), request)


# pages --------------------------------------------------------------------------------------------------------------


def _page(served: Face, request: Request, parts: Sequence[str]) -> Response:
    page = PAGES.get(parts[0])
    if page is None:
        raise nowhere()
    if request.method not in ("GET", "HEAD"):
        raise refusal(405, "the server does not allow this method on the requested resource")
    return page(served, request, parts[1:])


def _root(_served: Face, _request: Request, _rest: Sequence[str]) -> Response:
    return answer({"paths": ROOTS})


def _healthy(_served: Face, _request: Request, _rest: Sequence[str]) -> Response:
    return PlainTextResponse("ok")


def _version(_served: Face, _request: Request, _rest: Sequence[str]) -> Response:
    return answer(VERSION)


def _core(served: Face, request: Request, rest: Sequence[str]) -> Response:
    found = discovery.entries(served.store.kinds)
    if rest:
        return answer(discovery.resource_list(found, "", "/".join(rest)))
    return _aggregated(found, request, core=True) or answer(discovery.core_versions(request.url.netloc))


def _groups(served: Face, request: Request, rest: Sequence[str]) -> Response:
    found = discovery.entries(served.store.kinds)
    match tuple(rest):
        case ():
            return _aggregated(found, request, core=False) or answer(discovery.group_list(found))
        case (group,):
            return answer(discovery.group(found, group))
        case (group, version):
            return answer(discovery.resource_list(found, group, version))
        case _:
            raise nowhere()


def _aggregated(found: Sequence[discovery.DiscoveryEntry], request: Request, *, core: bool) -> Response | None:
    version = discovery.aggregated_version(request.headers.get("accept", ""))
    if not version:
        return None
    response = answer(discovery.aggregated(found, version, core=core))
    response.headers["Content-Type"] = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    return response


def _openapi(served: Face, request: Request, rest: Sequence[str]) -> Response:
    match tuple(rest):
        case ("v2",):
            return _openapi_v2(request)
        case ("v3",):
            return answer(openapi.root(served.store.kinds))
        case ("v3", *place):
            return answer(openapi.document(served.store.kinds, "/".join(place)))
        case _:
            raise nowhere()


def _openapi_v2(request: Request) -> Response:
    first = next(accepted(request.headers.get("accept", "")), None)
    if first and first.type in openapi.V2_ASKED:
        return Response(openapi.empty_v2_protobuf(), media_type=openapi.V2_PROTOBUF)
    return answer(openapi.empty_v2())


PAGES: dict[str, Page] = {
    "": _root,
    "api": _core,
    "apis": _groups,
    "healthz": _healthy,
    "livez": _healthy,
    "openapi": _openapi,
    "readyz": _healthy,
    "version": _version,
}

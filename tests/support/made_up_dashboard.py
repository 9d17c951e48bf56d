"""A dashboard server with made-up rows: for what a real one cannot show easily, such as 100,000 nodes or a cut stream.

    python -m tests.support.made_up_dashboard --nodes 5000 --changes 200    serves until Ctrl-C

It serves the page of the product with the same headers, and speaks the same API.
"""

import argparse
import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from threading import Event, Thread
from typing import Any, Final

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.support.made_up_rows import MadeUpCluster

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
TYPES: Final = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html"}
BATCHES_PER_SECOND, KEPT = 4, 1000
Endpoint = Callable[[Request], Awaitable[Response]]


class MadeUpDashboard:
    """Serves a made-up cluster; tests change it, cut its streams and refuse its requests."""

    def __init__(self, cluster: MadeUpCluster, changes_per_second: int = 0, token: str = "") -> None:
        self.cluster, self.changes_per_second, self.token = cluster, changes_per_second, token
        self.streams_cut = 0  # a stream ends when this grows
        self.is_down = False  # every request fails
        self.hypotheses: list[Any] = []  # what was asked of what-if
        self._log: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def app(self) -> Starlette:
        """All routes."""
        routes: dict[str, Endpoint] = {
            "/": self._page,
            "/page/{name}": self._page,
            "/api/session": self._session,
            "/api/stream": self._stream,
            "/api/state": self._state,
            "/api/cycles": self._cycles,
            "/api/gangs/{namespace}/{name}": self._gang,
            "/api/nodes/{name}": self._node,
        }
        listed = [Route(path, self._guarded(endpoint)) for path, endpoint in routes.items()]
        return Starlette(routes=[*listed, Route("/api/what-if", self._guarded(self._what_if), methods=["POST"])])

    def publish(self, **change: Any) -> None:
        """One change to every stream."""
        self._log.append(self.cluster.number(change))

    def _guarded(self, endpoint: Endpoint) -> Endpoint:
        async def answer(request: Request) -> Response:
            is_api = request.url.path.startswith("/api/")
            if self.is_down:
                return _json({"message": "the server is starting"}, 503)
            if is_api and self.token and request.headers.get("authorization") != f"Bearer {self.token}":
                return _json({"message": "the request has no valid token", "hint": "sign in with a token"}, 401)
            return await endpoint(request)

        return answer

    async def _page(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        part = files("muster.dashboard") / "page" / name
        if not part.is_file():
            return _json({"message": f"there is no `{name}`"}, 404)
        return Response(part.read_bytes(), media_type=TYPES[name.rpartition(".")[2]], headers=HEADERS)

    async def _session(self, _: Request) -> Response:
        return _json({"access": "loopback", "user": "local", "namespaces": None, "version": "0.0.0", "leads": True})

    async def _state(self, request: Request) -> Response:
        cycle = int(request.query_params.get("cycle", self.cluster.cycle))
        if cycle < self.cluster.oldest:
            body = {
                "message": f"cycle {cycle} is not kept",
                "oldest": self.cluster.oldest,
                "newest": self.cluster.cycle,
            }
            return _json(body, 404)
        return _json(self.cluster.state() | {"cycle": cycle})

    async def _cycles(self, request: Request) -> Response:
        return _json({"cycles": self.cluster.cycles_before(int(request.query_params.get("before", 1 << 60)))})

    async def _gang(self, request: Request) -> Response:
        key = f"{request.path_params['namespace']}/{request.path_params['name']}"
        if key not in self.cluster.gangs:
            return _json({"message": f"podgroup `{key}` does not exist"}, 404)
        return _json(self.cluster.gang_page(key))

    async def _node(self, request: Request) -> Response:
        return _json(self.cluster.node_page(request.path_params["name"]))

    async def _what_if(self, request: Request) -> Response:
        self.hypotheses.append(await request.json())
        return _json(self.cluster.what_if(self.hypotheses[-1]))

    async def _stream(self, request: Request) -> Response:
        after = request.query_params.get("after", "")
        return StreamingResponse(self._events(after), media_type="text/event-stream", headers=HEADERS)

    async def _events(self, after: str) -> AsyncIterator[bytes]:
        cut, cluster = self.streams_cut, self.cluster
        boot, _, place = after.partition(":")
        seq = int(place) if boot == cluster.boot else -1
        if seq < 0:
            seq = cluster.seq
            yield _event("state", cluster.state(), f"{cluster.boot}:{seq}")
        while cut == self.streams_cut and not self.is_down:
            if self.changes_per_second:
                self.publish(**cluster.change_nodes(self.changes_per_second // BATCHES_PER_SECOND))
            yield b"event: beat\ndata: {}\n\n"
            for change in [change for change in self._log if change["seq"] > seq]:
                yield _event("change", change, f"{cluster.boot}:{change['seq']}")
                seq = change["seq"]
            await asyncio.sleep(1 / BATCHES_PER_SECOND)


def _json(body: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, HEADERS, "application/json")


def _event(name: str, body: Any, place: str) -> bytes:
    return b"event: %s\nid: %s\ndata: %s\n\n" % (name.encode(), place.encode(), msgspec.json.encode(body))


@contextmanager
def serve(dashboard: MadeUpDashboard, port: int = 0) -> Iterator[str]:
    """The address of a server in a thread of its own."""
    config = uvicorn.Config(dashboard.app(), port=port, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        dashboard.streams_cut += 1
        server.should_exit = True
        thread.join(10)


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="made_up_dashboard")
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--changes", type=int, default=4, help="nodes that change in a second")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    with serve(MadeUpDashboard(MadeUpCluster(options.nodes), options.changes), options.port) as address:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        Event().wait()


if __name__ == "__main__":
    main()

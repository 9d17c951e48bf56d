"""The network between one replica and the API server: records every write, and loses, delays or refuses requests.

Rule 1: a request is forwarded at most once, and never after the replica has given it up. Rule 2: delays are shorter
than the margin of a lease: no lease protects from a network that delivers later than that.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from msgspec import Struct

from tests.oracles.history.records import Raw, SentWrite
from tests.support.apiserver.apiserver import ADMIN, ApiServer

WRITES = ("POST", "PUT", "PATCH", "DELETE")
HOP_BY_HOP = ("connection", "transfer-encoding", "content-length", "host", "authorization", "keep-alive")


class Weather(Struct, frozen=True):
    """What happens to requests: shares of them, and the longest delay."""

    refused: float = 0.0  # answered with 429, unread
    failed: float = 0.0  # answered with 503, unread
    lost: float = 0.0  # never arrive
    unanswered: float = 0.0  # arrive, and the answer is lost
    misreported: float = 0.0  # arrive, and are answered with 500
    delay_seconds: float = 0.0
    is_silent: bool = False  # nothing arrives and nothing is answered


FAIR = Weather()
FAULTS = ("refused", "failed", "lost", "unanswered", "misreported")


class RecordingProxy:
    """A port for one life of a replica."""

    def __init__(self, server: ApiServer, replica: str, clock: Callable[[], float], dice: Random) -> None:
        self.server, self.replica, self.clock, self.dice = server, replica, clock, dice
        self.writes: list[SentWrite] = []
        self.port = 0
        self._weather = FAIR
        self._changed = asyncio.Event()  # set and replaced when the weather changes
        self._session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def weather(self) -> Weather:
        return self._weather

    @weather.setter
    def weather(self, weather: Weather) -> None:
        self._weather = weather
        self._changed.set()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["RecordingProxy"]:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        trust = ssl.create_default_context(cafile=str(self.server.folder / "ca.crt"))
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        timeout = aiohttp.ClientTimeout(total=None, connect=5.0)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self._session:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            try:
                yield self
            finally:
                await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body, started = await request.read(), self.clock()
        attempt = Attempt(fault=self._fault())
        try:
            return await self._pass_on(request, body, attempt)
        except (aiohttp.ClientError, OSError):
            return _hang_up(request)
        finally:
            if request.method in WRITES:
                self.writes.append(self._written(request, body, started, attempt))

    def _fault(self) -> str:
        if self._weather.is_silent:
            return "silent"
        shares = [getattr(self._weather, name) for name in FAULTS]
        return self.dice.choices([*FAULTS, ""], [*shares, max(1.0 - sum(shares), 0.0)])[0]

    async def _pass_on(self, request: web.Request, body: bytes, attempt: "Attempt") -> web.StreamResponse:
        await asyncio.sleep(self.dice.uniform(0, self._weather.delay_seconds))
        match attempt.fault:
            case "silent":
                await self._changed.wait()
                return _hang_up(request)
            case "refused":
                return _status(429, "TooManyRequests", {"Retry-After": "1"})
            case "failed":
                return _status(503, "ServiceUnavailable", {})
            case "lost":
                return _hang_up(request)
            case _ if request.query.get("watch"):
                return await self._stream(request, attempt)
            case _:
                return await self._exchange(request, body, attempt)

    async def _exchange(self, request: web.Request, body: bytes, attempt: "Attempt") -> web.StreamResponse:
        attempt.is_forwarded = True
        async with self._forwarded(request, body) as answer:
            content = await answer.read()
            attempt.status, attempt.revision = answer.status, _revision(content)
            if attempt.fault == "unanswered":
                return _hang_up(request)
            if attempt.fault == "misreported":
                return _status(500, "InternalError", {})
            return web.Response(body=content, status=answer.status, headers=_kept(answer.headers))

    def _forwarded(self, request: web.Request, body: bytes) -> Any:
        headers = {**_kept(request.headers), "Authorization": f"Bearer {ADMIN}"}
        url = self.server.url + request.raw_path
        return self._session.request(request.method, url, data=body or None, headers=headers)

    async def _stream(self, request: web.Request, attempt: "Attempt") -> web.StreamResponse:
        """A watch; one that is hit by a fault is cut off, as are all when the network falls silent."""
        async with self._forwarded(request, b"") as answer:
            response = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                if attempt.fault or self._fault() not in ("", "refused", "failed"):
                    return _hang_up(request)
                await response.write(chunk)
            return response

    def _written(self, request: web.Request, body: bytes, started: float, attempt: "Attempt") -> SentWrite:
        raw = _decoded(body)
        resource, namespace, name, subresource = parts_of(request.path)
        dry_run = request.query.get("dryRun") or raw.get("deleteOptions", {}).get("dryRun") or raw.get("dryRun")
        return SentWrite(
            self.replica,
            request.method,
            resource,
            namespace,
            name or raw.get("metadata", {}).get("name", ""),
            subresource,
            raw,
            started,
            self.clock(),
            attempt.status,
            attempt.revision,
            bool(dry_run),
            attempt.fault if attempt.fault or attempt.is_forwarded else "abandoned",
        )


class Attempt(Struct):
    """What became of one request."""

    fault: str
    is_forwarded: bool = False
    status: int = 0
    revision: int = 0


def parts_of(path: str) -> tuple[str, str, str, str]:
    """Resource, namespace, name and subresource of a path of the API."""
    words = path.strip("/").split("/")
    words = words[2:] if words[0] == "api" else words[3:]
    namespace = ""
    if words[:1] == ["namespaces"] and len(words) > 2:
        namespace, words = words[1], words[2:]
    resource, name, subresource = (*words, "", "", "")[:3]
    return resource, namespace, name, subresource


def _decoded(body: bytes) -> Raw:
    try:
        raw = msgspec.json.decode(body or b"{}")
    except msgspec.DecodeError:
        return {}
    return raw if isinstance(raw, dict) else {"patch": raw}


def _revision(content: bytes) -> int:
    meta = _decoded(content).get("metadata")
    version = meta.get("resourceVersion", "") if isinstance(meta, dict) else ""
    return int(version) if str(version).isdecimal() else 0


def _kept(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in HOP_BY_HOP}


def _status(code: int, reason: str, headers: dict[str, str]) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return web.Response(
        body=msgspec.json.encode(body), status=code, headers={"Content-Type": "application/json", **headers}
    )


def _hang_up(request: web.Request) -> web.Response:
    """Closes the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()

"""Requests to an API server: pooled connections, patience, and errors without secrets."""

import asyncio
import itertools
import random
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import aiohttp
from msgspec import Struct
from multidict import CIMultiDict
from yarl import URL

from muster.cluster.kubernetes_access import Access, Credentials
from muster.cluster.kubernetes_answers import Unanswered, error_of, pause_seconds, worth_another_try
from muster.cluster.store import ApiError
from muster.errors import InputError

T = TypeVar("T")
JSON: Final = "application/json"
AGENT: Final = "muster"
READS: Final = ("GET", "HEAD")
KEEPALIVE: Final = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}  # seconds; a dead peer shows in 40


class Request(Struct, frozen=True):
    """One request. `repeatable`: carried out twice, it leaves what it leaves when carried out once."""

    method: str
    path: str  # percent-encoded
    query: Mapping[str, str] = {}
    body: bytes | None = None
    media: str = JSON
    repeatable: bool = False
    done_if: int = 0  # the status that says of a second try: the first was carried out

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def may_repeat(self) -> bool:
        """Reads always do."""
        return self.repeatable or self.method in READS


class Limits(Struct, frozen=True):
    """How long, how often, how many."""

    connect_seconds: float = 10.0
    answer_seconds: float = 60.0  # the API server's own limit
    attempts: int = 5
    connections: int = 128  # watches hold one each


class Http:
    """A client of one API server."""

    def __init__(
        self,
        credentials: Credentials,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        pause: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._credentials, self.limits = credentials, limits
        self.pause, self.chance = pause, chance
        self._sessions: list[aiohttp.ClientSession] = []
        self._seen: Access | None = None
        self._stamp: tuple[object, ...] = ()

    def __repr__(self) -> str:
        return f"Http({self._credentials.access.server!r})"

    async def call(self, request: Request) -> bytes:
        """The body of a successful answer; ApiError otherwise, after as many tries as are worth it."""
        tries = itertools.count(1)

        async def attempt() -> bytes:
            nth = next(tries)
            try:
                return await self.once(request)
            except ApiError as error:
                if nth > 1 and error.status == request.done_if:
                    return b""
                raise

        return await self._patiently(attempt, request.may_repeat)

    async def once(self, request: Request) -> bytes:
        """The same without patience."""
        response = await self._answered(request, self.limits.answer_seconds)
        try:
            return await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            raise Unanswered(504, f"{request}: the answer broke off", sent=True) from None
        finally:
            response.release()

    async def open(self, request: Request, silence_seconds: float) -> aiohttp.ClientResponse:
        """An answer that keeps coming; who opens it closes it."""
        response = await self._patiently(lambda: self._answered(request, silence_seconds), request.may_repeat)
        _keep_alive(response)
        return response

    async def _patiently(self, attempt: Callable[[], Awaitable[T]], repeatable: bool) -> T:
        for failures in itertools.count(1):
            try:
                return await attempt()
            except ApiError as error:
                if failures >= self.limits.attempts or not worth_another_try(error, repeatable):
                    raise
                seconds = pause_seconds(failures, error, self.chance())
            await self.pause(seconds)
        raise AssertionError  # it counts without end

    async def close(self) -> None:
        """Let go of every connection."""
        while self._sessions:
            await self._sessions.pop().close()
        self._seen, self._stamp = None, ()

    async def _answered(self, request: Request, silence_seconds: float) -> aiohttp.ClientResponse:
        access = await self._credentials.current()
        response = await self._sent(access, request, silence_seconds)
        if response.status == 401 and (newer := await self._credentials.renewed(access)) is not access:
            response.release()
            response = await self._sent(newer, request, silence_seconds)
        if 200 <= response.status < 300:
            return response
        try:
            body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            body = b""
        finally:
            response.release()
        raise error_of(response.status, body, str(request), response.headers.get("Retry-After", ""))

    async def _sent(self, access: Access, request: Request, silence_seconds: float) -> aiohttp.ClientResponse:
        url = URL(f"{access.server}{request.path}?{urlencode(request.query)}".rstrip("?"), encoded=True)
        headers = CIMultiDict([*access.headers, ("Accept", JSON), ("User-Agent", AGENT)])
        if request.body is not None:
            headers["Content-Type"] = request.media
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.limits.connect_seconds, sock_read=silence_seconds)
        try:
            return await (await self._session(access)).request(
                request.method,
                url,
                data=request.body,
                headers=headers,
                timeout=timeout,
                proxy=access.proxy or None,
                server_hostname=access.server_name or None,
                allow_redirects=False,  # credentials go nowhere else
            )
        except InputError as error:
            raise ApiError(503, "ServiceUnavailable", str(error)) from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _failure(error, request, access.server) from None

    async def _session(self, access: Access) -> aiohttp.ClientSession:
        """One for each reading of certificates; that before the last is closed, as its requests are long over."""
        if access is not self._seen and (stamp := access.stamp()) != self._stamp:
            connector = aiohttp.TCPConnector(ssl=access.tls(), limit=self.limits.connections)
            session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
            session._retry_connection = False  # it would send a deletion twice and not tell
            self._sessions.append(session)
            self._stamp = stamp
        self._seen = access
        while len(self._sessions) > 2:
            await self._sessions.pop(0).close()
        return self._sessions[-1]


def _failure(error: Exception, request: Request, server: str) -> ApiError:
    """What went wrong, in our words: those of the libraries can hold headers."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return Unanswered(503, f"{server}: its certificate is not trusted by the CA given", sent=False)
        case aiohttp.ClientConnectorError():
            return Unanswered(503, f"{server}: cannot be reached: {error.os_error.strerror or 'no answer'}", sent=False)
        case aiohttp.ConnectionTimeoutError():
            return Unanswered(504, f"{server}: cannot be reached in time", sent=False)
        case TimeoutError():
            return Unanswered(504, f"{request}: no answer in time", sent=True)
        case ValueError():
            return ApiError(400, "BadRequest", f"{request}: not a request that can be sent")
        case _:
            return Unanswered(503, f"{request}: the connection was lost", sent=True)


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    """A peer that is gone without a word is noticed: a watch may be silent for minutes."""
    transport = response.connection.transport if response.connection else None
    tcp = transport.get_extra_info("socket") if transport else None
    if tcp is None:
        return
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            tcp.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

"""Requests to an API server: pooled connections, patience, and errors without secrets.

Leases have connections of their own, so that leadership never waits behind writes that are not answered. How many
others there are is bounded by whoever sends, not here: a request that waits for a connection is late without a reason.
"""

import asyncio
import math
import random
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import aiohttp
from msgspec import Struct
from multidict import CIMultiDict
from yarl import URL

from muster.api.resources import LEASES
from muster.errors import InputError
from muster.kube.client.connection_errors import failure
from muster.kube.client.credentials import Access, Credentials
from muster.kube.client.responses import error_of, request_backoff, retry_after_seconds, worth_another_try
from muster.kube.errors import ApiError, Unanswered, is_refused_by_budget, may_have_been_applied

T = TypeVar("T")
JSON: Final = "application/json"
AGENT: Final = "muster"
READS: Final = ("GET", "HEAD")
LEASES_PATH: Final = f"/apis/{LEASES.group}/"
DONE: Final = b'{"kind":"Status"}'  # in place of an answer that was lost
TURNED_AWAY: Final = (401, 403, 429)  # said of a request before its object is looked at
PROXY_STEPS: Final = 3  # a connection, a tunnel, and TLS to the API server
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
        return self.repeatable or self.reads

    @property
    def reads(self) -> bool:
        """It changes nothing."""
        return self.method in READS

    @property
    def burdens(self) -> bool:
        """An API server that has too much to do may be spared it; a lease is worth little, and leadership much."""
        return not self.reads and not self.path.startswith(LEASES_PATH)


class Limits(Struct, frozen=True):
    """How long, how often, how many."""

    connect_seconds: float = 10.0
    answer_seconds: float = 60.0  # the API server's own limit
    attempts: int = 5
    write_pauses_seconds: float = 2.5  # of a write, all in all: its caller must hear a clear no before his own limit


class RequestBackoff:
    """With one request, from try to try."""

    def __init__(self, http: "Http", most_seconds: float) -> None:
        self._http, self._most = http, most_seconds
        self._backoff, self._seconds = request_backoff(http.chance), 0.0

    async def rest(self, error: ApiError) -> None:
        """Wait until the next try; raises the error where that is one too many, or would take too long."""
        doubled, asked = self._backoff.next_seconds(), retry_after_seconds(error, self._http.chance())
        seconds = doubled if asked is None else asked
        self._seconds += seconds
        if self._backoff.failures >= self._http.limits.attempts or self._seconds > self._most:
            self._http.spare(error, seconds)
            raise error
        await self._http.pause(seconds)


class Lines:
    """Connections of one reading of certificates."""

    def __init__(self, access: Access) -> None:
        tls = access.build_tls_context()
        self._leases, self._others = _session(tls), _session(tls)

    def session(self, request: Request) -> aiohttp.ClientSession:
        """Which of them a request takes."""
        return self._leases if request.path.startswith(LEASES_PATH) else self._others

    async def close(self) -> None:
        """Let go of them."""
        await self._leases.close()
        await self._others.close()


class Http:
    """A client of one API server."""

    def __init__(
        self,
        credentials: Credentials,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        pause: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._credentials, self.limits = credentials, limits
        self.pause, self.chance, self._clock = pause, chance, clock
        self._spared_until = -math.inf
        self._lines: list[Lines] = []
        self._seen: Access | None = None
        self._fingerprint: tuple[object, ...] = ()

    def __repr__(self) -> str:
        return f"Http({self._credentials.access.server!r})"

    async def call(self, request: Request) -> bytes:
        """The body of a successful answer; ApiError otherwise, after as many tries as are worth it."""
        lost = False  # an earlier try may have been carried out

        async def attempt() -> bytes:
            nonlocal lost
            try:
                return await self.once(request)
            except ApiError as error:
                if lost and error.status == request.done_if:
                    return DONE
                lost = lost or (not request.reads and may_have_been_applied(error))
                raise

        try:
            return await self._patiently(attempt, request)
        except ApiError as error:
            if lost and error.status in TURNED_AWAY:
                told = f"{request}: nobody knows what became of it: {error.message}"
                raise Unanswered(504, told, sent=True) from None
            raise

    async def once(self, request: Request) -> bytes:
        """The same without patience."""
        response = await self._answered(request, self.limits.answer_seconds)
        try:
            return await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            raise Unanswered(504, f"{request}: the answer broke off", sent=True) from None
        finally:
            response.release()

    def spare(self, error: ApiError, seconds: float) -> None:
        """An API server that asks for more time than one write has is left alone by all of them for as long."""
        if error.status == 429 and not is_refused_by_budget(error) and "retryAfterSeconds" in error.details:
            self._spared_until = max(self._spared_until, self._clock() + seconds)

    async def open(self, request: Request, silence_seconds: float) -> aiohttp.ClientResponse:
        """An answer that keeps coming; who opens it closes it."""
        response = await self._patiently(lambda: self._answered(request, silence_seconds), request)
        _keep_alive(response)
        return response

    def backoff(self, request: Request) -> RequestBackoff:
        """How long and how often to try; a read has as much as it takes. ApiError 429 where it is not the time."""
        if request.burdens and (left := self._spared_until - self._clock()) > 0:
            told = f"{request}: not sent, as the API server has asked for a rest of {math.ceil(left)} s more"
            raise ApiError(429, "TooManyRequests", told)
        return RequestBackoff(self, math.inf if request.reads else self.limits.write_pauses_seconds)

    async def _patiently(self, attempt: Callable[[], Awaitable[T]], request: Request) -> T:
        backoff = self.backoff(request)
        while True:
            try:
                return await attempt()
            except ApiError as error:
                if not worth_another_try(error, request.may_repeat):
                    raise
                await backoff.rest(error)

    async def close(self) -> None:
        """Let go of every connection."""
        while self._lines:
            await self._lines.pop().close()
        self._seen, self._fingerprint = None, ()

    async def _answered(self, request: Request, silence_seconds: float) -> aiohttp.ClientResponse:
        access = await self._credentials.current_access()
        response = await self._sent(access, request, silence_seconds)
        if response.status == 401 and (newer := await self._credentials.renew(access)) is not access:
            response.release()
            response = await self._sent(newer, request, silence_seconds)
        if 200 <= response.status < 300:
            return response
        raise await self._error(request, response)

    async def _error(self, request: Request, response: aiohttp.ClientResponse) -> ApiError:
        try:
            body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            body = b""
        finally:
            response.release()
        error = error_of(response.status, body, str(request), response.headers.get("Retry-After", ""))
        if error.status == 401 and (failure := self._credentials.failure):
            return ApiError(401, error.reason, f"{error.message}; the credentials cannot be read again: {failure}")
        return error

    async def _sent(self, access: Access, request: Request, silence_seconds: float) -> aiohttp.ClientResponse:
        url = URL(f"{access.server}{request.path}?{urlencode(request.query)}".rstrip("?"), encoded=True)
        headers = CIMultiDict([*access.headers, ("Accept", JSON), ("User-Agent", AGENT)])
        if request.body is not None:
            headers["Content-Type"] = request.media
        connect = self.limits.connect_seconds
        timeout = aiohttp.ClientTimeout(
            total=None,
            connect=PROXY_STEPS * connect if access.proxy else None,  # no other limit covers CONNECT
            sock_connect=connect,
            sock_read=silence_seconds,
        )
        try:
            session = (await self._lines_of(access)).session(request)
            return await session.request(
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
            raise Unanswered(503, str(error), sent=False) from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            if access is self._seen:  # else there is a newer one already
                with suppress(InputError):  # what cannot be used leaves what was there
                    self._look_at_files(access)
            if isinstance(error, aiohttp.ClientSSLError):  # the kubeconfig itself may hold another CA by now
                await self._credentials.renew(access)
            raise failure(error, str(request), access) from None

    async def _lines_of(self, access: Access) -> Lines:
        """One for each reading of certificates; that before the last is closed, as its requests are long over."""
        if access is not self._seen:
            self._look_at_files(access)
        self._seen = access
        while len(self._lines) > 2:
            await self._lines.pop(0).close()
        return self._lines[-1]

    def _look_at_files(self, access: Access) -> None:
        """Certificates that were replaced are for the connections to come."""
        if (fingerprint := access.fingerprint()) != self._fingerprint:
            self._lines.append(Lines(access))
            self._fingerprint = fingerprint


def _session(tls: ssl.SSLContext | bool) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
    session._retry_connection = False  # it would send a deletion twice and not tell
    return session


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

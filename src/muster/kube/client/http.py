"""Requests to an API server: pooled connections, retries, and errors without secrets.

Leases have connections of their own, so that leadership never waits behind writes without a response. The callers bound
how many other requests are in flight: a request that waited here for a connection would only be late.
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
from muster.kube.client.connection_errors import to_api_error
from muster.kube.client.credentials import Access, Credentials
from muster.kube.client.responses import is_retryable, parse_error, request_backoff, retry_after_seconds
from muster.kube.errors import ApiError, Unanswered, is_refused_by_budget, may_have_been_applied

T = TypeVar("T")
JSON: Final = "application/json"
AGENT: Final = "muster"
READS: Final = ("GET", "HEAD")
LEASES_PATH: Final = f"/apis/{LEASES.group}/"
APPLIED: Final = b'{"kind":"Status"}'  # in place of a response that was lost
REJECTED_UNREAD: Final = (401, 403, 429)  # the API server did not look at the object
PROXY_STEPS: Final = 3  # a connection, a tunnel, and TLS to the API server
KEEPALIVE: Final = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}  # a dead peer is detected in 40 s


class Request(Struct, frozen=True):
    """One request. `repeatable`: it is idempotent, so that it may be applied twice."""

    method: str
    path: str  # percent-encoded
    query: Mapping[str, str] = {}
    body: bytes | None = None
    media: str = JSON
    repeatable: bool = False
    applied_if: int = 0  # the status of a second attempt that says: the first one was applied

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def may_repeat(self) -> bool:
        """Whether it may be sent again although the first attempt may have been applied; a read always may."""
        return self.repeatable or self.is_read

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.method in READS

    @property
    def can_wait(self) -> bool:
        """Whether it is held back while the API server is overloaded; a lease is not: it costs little."""
        return not self.is_read and not self.path.startswith(LEASES_PATH)


class Limits(Struct, frozen=True):
    """Time limits and the number of attempts."""

    connect_seconds: float = 10.0
    answer_seconds: float = 60.0  # the API server's own limit
    attempts: int = 5
    write_pauses_seconds: float = 2.5  # between all attempts of a write: its caller needs a clear rejection in time


class RequestRetries:
    """The attempts of one request, and the waits between them."""

    def __init__(self, http: "Http", most_seconds: float) -> None:
        self._http, self._most = http, most_seconds
        self._backoff, self._seconds = request_backoff(http.chance), 0.0

    async def wait(self, error: ApiError) -> None:
        """Waits until the next attempt; raises the error where attempts or time are used up."""
        backoff, requested = self._backoff.next_seconds(), retry_after_seconds(error, self._http.chance())
        seconds = backoff if requested is None else requested
        self._seconds += seconds
        if self._backoff.failures >= self._http.limits.attempts or self._seconds > self._most:
            self._http.hold_back(error, seconds)
            raise error
        await self._http.pause(seconds)


class Connections:
    """Connection pools that use one set of certificates."""

    def __init__(self, access: Access) -> None:
        tls = access.build_tls_context()
        self._leases, self._others = _session(tls), _session(tls)

    def session(self, request: Request) -> aiohttp.ClientSession:
        """The pool for a request."""
        return self._leases if request.path.startswith(LEASES_PATH) else self._others

    async def close(self) -> None:
        """Closes both pools."""
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
        self._held_back_until = -math.inf
        self._connections: list[Connections] = []
        self._access: Access | None = None
        self._fingerprint: tuple[object, ...] = ()

    def __repr__(self) -> str:
        return f"Http({self._credentials.access.server!r})"

    async def call(self, request: Request) -> bytes:
        """The body of a successful response; ApiError otherwise, after as many attempts as make sense."""
        may_be_applied = False  # by an earlier attempt

        async def attempt() -> bytes:
            nonlocal may_be_applied
            try:
                return await self.send_once(request)
            except ApiError as error:
                if may_be_applied and error.status == request.applied_if:
                    return APPLIED
                may_be_applied = may_be_applied or (not request.is_read and may_have_been_applied(error))
                raise

        try:
            return await self._retry(attempt, request)
        except ApiError as error:
            if may_be_applied and error.status in REJECTED_UNREAD:
                message = f"{request}: it may have been applied by an earlier attempt: {error.message}"
                raise Unanswered(504, message, sent=True) from None
            raise

    async def send_once(self, request: Request) -> bytes:
        """The same in one attempt."""
        response = await self._respond(request, self.limits.answer_seconds)
        try:
            return await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            raise Unanswered(504, f"{request}: the answer broke off", sent=True) from None
        finally:
            response.release()

    def hold_back(self, error: ApiError, seconds: float) -> None:
        """Holds all writes back for as long as an overloaded API server asks, where one write cannot wait so long."""
        if error.status == 429 and not is_refused_by_budget(error) and "retryAfterSeconds" in error.details:
            self._held_back_until = max(self._held_back_until, self._clock() + seconds)

    async def open(self, request: Request, silence_seconds: float) -> aiohttp.ClientResponse:
        """A response that is streamed; the caller closes it."""
        response = await self._retry(lambda: self._respond(request, silence_seconds), request)
        _keep_alive(response)
        return response

    def retries(self, request: Request) -> RequestRetries:
        """How long and how often to retry; a read may take its time. ApiError 429 while writes are held back."""
        if request.can_wait and (left := self._held_back_until - self._clock()) > 0:
            message = f"{request}: not sent: the API server is overloaded and asked to wait {math.ceil(left)} s more"
            raise ApiError(429, "TooManyRequests", message)
        return RequestRetries(self, math.inf if request.is_read else self.limits.write_pauses_seconds)

    async def _retry(self, attempt: Callable[[], Awaitable[T]], request: Request) -> T:
        retries = self.retries(request)
        while True:
            try:
                return await attempt()
            except ApiError as error:
                if not is_retryable(error, request.may_repeat):
                    raise
                await retries.wait(error)

    async def close(self) -> None:
        """Closes every connection."""
        while self._connections:
            await self._connections.pop().close()
        self._access, self._fingerprint = None, ()

    async def _respond(self, request: Request, silence_seconds: float) -> aiohttp.ClientResponse:
        access = await self._credentials.current_access()
        response = await self._send(access, request, silence_seconds)
        if response.status == 401 and (newer := await self._credentials.renew(access)) is not access:
            response.release()
            response = await self._send(newer, request, silence_seconds)
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
        error = parse_error(response.status, body, str(request), response.headers.get("Retry-After", ""))
        if error.status == 401 and (failure := self._credentials.failure):
            return ApiError(401, error.reason, f"{error.message}; the credentials cannot be read again: {failure}")
        return error

    async def _send(self, access: Access, request: Request, silence_seconds: float) -> aiohttp.ClientResponse:
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
            session = (await self._connections_for(access)).session(request)
            return await session.request(
                request.method,
                url,
                data=request.body,
                headers=headers,
                timeout=timeout,
                proxy=access.proxy or None,
                server_hostname=access.server_name or None,
                allow_redirects=False,  # credentials go to no other host
            )
        except InputError as error:
            raise Unanswered(503, str(error), sent=False) from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            if access is self._access:  # else a newer one is in use already
                with suppress(InputError):  # files that cannot be used leave the connections as they are
                    self._reload_certificates(access)
            if isinstance(error, aiohttp.ClientSSLError):  # the kubeconfig itself may hold another CA by now
                await self._credentials.renew(access)
            raise to_api_error(error, str(request), access) from None

    async def _connections_for(self, access: Access) -> Connections:
        """The newest; the last but one is closed, as its requests are long over."""
        if access is not self._access:
            self._reload_certificates(access)
        self._access = access
        while len(self._connections) > 2:
            await self._connections.pop(0).close()
        return self._connections[-1]

    def _reload_certificates(self, access: Access) -> None:
        """New connections use certificates that were replaced."""
        if (fingerprint := access.fingerprint()) != self._fingerprint:
            self._connections.append(Connections(access))
            self._fingerprint = fingerprint


def _session(tls: ssl.SSLContext | bool) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
    session._retry_connection = False  # it would send a deletion twice, unnoticed
    return session


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    """Detects a peer that is gone: a watch may be silent for minutes."""
    transport = response.connection.transport if response.connection else None
    tcp = transport.get_extra_info("socket") if transport else None
    if tcp is None:
        return
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            tcp.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

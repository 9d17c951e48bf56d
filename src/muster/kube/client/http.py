"""Requests to an API server: pooled connections, retries, and errors without secrets.

Leases have connections of their own, so that leadership never waits behind writes without a response. The callers bound
how many other requests are in flight: a request that waited here for a connection would only be late.
"""

import asyncio
import math
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from muster.api.resources import LEASES
from muster.errors import InputError
from muster.kube.client.connection import ConnectionLost, HttpConnection, HttpResponse
from muster.kube.client.connection_errors import to_api_error
from muster.kube.client.connection_pool import ConnectionPool
from muster.kube.client.connector import ConnectFailed, ConnectTimeout, ProxyRefused, bracketed, proxy_headers
from muster.kube.client.credentials import Access, Credentials
from muster.kube.client.responses import is_retryable, parse_error, request_backoff, retry_after_seconds
from muster.kube.errors import ApiError, Unanswered, is_refused_by_budget, may_have_been_applied

JSON: Final = "application/json"
AGENT: Final = "muster"
READS: Final = ("GET", "HEAD")
LEASES_PATH: Final = f"/apis/{LEASES.group}/"
APPLIED: Final = b'{"kind":"Status"}'  # in place of a response that was lost
REJECTED_UNREAD: Final = (401, 403, 429)  # the API server did not look at the object
MOST_CONNECTIONS: Final = 2  # sets of them: those of the access before are still in use
FAILURES: Final = (ConnectionLost, ConnectFailed, ConnectTimeout, ProxyRefused, TimeoutError, OSError, ValueError)


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
    watch_silence_seconds: float = 75.0  # a watch that brings nothing for so long is reopened
    attempts: int = 5
    write_pauses_seconds: float = 2.5  # between all attempts of a write: its caller needs a clear rejection in time


Observe = Callable[[Request, int, float], None]  # see Http


class RequestRetries:
    """The attempts of one request, and the waits between them."""

    def __init__(self, http: "Http", most_seconds: float, may_repeat: bool) -> None:
        self._http, self._most, self._may_repeat = http, most_seconds, may_repeat
        self._backoff, self._seconds = request_backoff(http.chance), 0.0

    async def wait(self, error: ApiError) -> None:
        """Waits until the next attempt; raises the error where another makes no sense, or attempts or time end."""
        if not is_retryable(error, self._may_repeat):
            raise error
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
        self._leases, self._others = ConnectionPool(tls), ConnectionPool(tls)

    def pool(self, request: Request) -> ConnectionPool:
        """The pool for a request."""
        return self._leases if request.path.startswith(LEASES_PATH) else self._others

    async def close(self) -> None:
        """Closes both pools."""
        await self._leases.close()
        await self._others.close()


class RequestHeads:
    """The first lines of requests; what is the same for all of one access is encoded once."""

    def __init__(self, access: Access) -> None:
        self.access = access
        server, proxy = urlsplit(access.server), urlsplit(access.proxy)
        is_forwarded = bool(access.proxy) and server.scheme == "http"  # a proxy needs the whole address
        self._base = access.server if is_forwarded else server.path
        host = bracketed(server.hostname or "") + (f":{server.port}" if server.port is not None else "")
        headers = [("Host", host), *access.headers, ("Accept", JSON), ("User-Agent", AGENT)]
        headers += proxy_headers(proxy) if is_forwarded else ()
        self._fixed = "".join(_header(*each) for each in headers)

    def encode(self, request: Request) -> bytes:
        """A request as bytes; ValueError where it cannot be one."""
        query = f"?{urlencode(request.query)}" if request.query else ""
        target = f"{self._base}{request.path}{query}"
        if not target.isascii() or not target.isprintable() or " " in target:
            raise ValueError(target)
        body = request.body
        if body is None:
            length = "" if request.is_read or request.method == "DELETE" else "Content-Length: 0\r\n"
        else:
            length = f"Content-Type: {request.media}\r\nContent-Length: {len(body)}\r\n"
        return f"{request.method} {target} HTTP/1.1\r\n{self._fixed}{length}\r\n".encode("latin-1") + (body or b"")


def _header(name: str, value: str) -> str:
    """ValueError where a value would become another header."""
    if not value.isprintable() or any(ord(letter) > 255 for letter in value):
        raise ValueError(name)
    return f"{name}: {value}\r\n"


class Http:
    """A client of one API server."""

    def __init__(
        self,
        credentials: Credentials,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        pause: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        observe: Observe = lambda *_: None,
    ) -> None:
        """`observe` is called with every answer: its status, 0 where there was none, and the seconds until it began."""
        self._credentials, self.limits, self._observe = credentials, limits, observe
        self.pause, self.chance, self._clock = pause, chance, clock
        self._held_back_until = -math.inf
        self._connections: list[Connections] = []
        self._access: Access | None = None
        self._heads: RequestHeads | None = None
        self._fingerprint: tuple[object, ...] = ()

    def __repr__(self) -> str:
        return f"Http({self._credentials.access.server!r})"

    async def call(self, request: Request) -> bytes:
        """The body of a successful response; ApiError otherwise, after as many attempts as make sense."""
        self._check_held_back(request)
        try:
            return await self.send_once(request)
        except ApiError as error:
            failure = error
        return await self._send_again(request, failure)

    async def _send_again(self, request: Request, error: ApiError) -> bytes:
        """After a first attempt that failed."""
        retries, may_be_applied = self._retries(request), False  # by an earlier attempt
        try:
            while True:
                may_be_applied = may_be_applied or (not request.is_read and may_have_been_applied(error))
                await retries.wait(error)
                try:
                    return await self.send_once(request)
                except ApiError as next_error:
                    if may_be_applied and next_error.status == request.applied_if:
                        return APPLIED
                    error = next_error
        except ApiError as last:
            if may_be_applied and last.status in REJECTED_UNREAD:
                message = f"{request}: it may have been applied by an earlier attempt: {last.message}"
                raise Unanswered(504, message, sent=True) from None
            raise

    async def send_once(self, request: Request) -> bytes:
        """The same in one attempt."""
        access = self._credentials.valid_access or await self._credentials.current_access()
        response = await self._send(access, request, self.limits.answer_seconds)
        if response.status == 401 and (newer := await self._credentials.renew(access)) is not access:
            response = await self._send(newer, request, self.limits.answer_seconds)
        if response.is_success:
            return response.body
        raise self._error(request, response)

    def hold_back(self, error: ApiError, seconds: float) -> None:
        """Holds all writes back for as long as an overloaded API server asks, where one write cannot wait so long."""
        if error.status == 429 and not is_refused_by_budget(error) and "retryAfterSeconds" in error.details:
            self._held_back_until = max(self._held_back_until, self._clock() + seconds)

    async def open(self, request: Request, silence_seconds: float) -> HttpConnection:
        """A connection that streams a response; the caller aborts it."""
        retries = self._retries(request)
        while True:
            try:
                return await self._open_once(request, silence_seconds)
            except ApiError as error:
                await retries.wait(error)

    async def _open_once(self, request: Request, silence_seconds: float) -> HttpConnection:
        access = await self._credentials.current_access()
        response, connection = await self._open_stream(access, request, silence_seconds)
        if response.status == 401 and (newer := await self._credentials.renew(access)) is not access:
            connection.abort()
            response, connection = await self._open_stream(newer, request, silence_seconds)
        if response.is_success:
            return connection
        connection.abort()
        raise self._error(request, response)

    def _check_held_back(self, request: Request) -> None:
        """ApiError 429 while writes are held back."""
        if request.can_wait and (left := self._held_back_until - self._clock()) > 0:
            message = f"{request}: not sent: the API server is overloaded and asked to wait {math.ceil(left)} s more"
            raise ApiError(429, "TooManyRequests", message)

    def _retries(self, request: Request) -> RequestRetries:
        """How long and how often to retry; a read may take its time."""
        most_seconds = math.inf if request.is_read else self.limits.write_pauses_seconds
        return RequestRetries(self, most_seconds, request.may_repeat)

    async def open_ahead(self, number: int) -> None:
        """Opens connections for writes to come; as many as can be opened, as each request reports its own failure."""
        with suppress(ApiError, InputError, *FAILURES):
            access = await self._credentials.current_access()
            await self._use(access)
            pool = self._connections[-1].pool(Request("POST", "/"))
            await pool.open_ahead(access, number, self.limits.connect_seconds)

    async def close(self) -> None:
        """Closes every connection."""
        while self._connections:
            await self._connections.pop().close()
        self._access, self._fingerprint = None, ()

    def _error(self, request: Request, response: HttpResponse) -> ApiError:
        error = parse_error(response.status, response.body, str(request), response.retry_after)
        if error.status == 401 and (failure := self._credentials.failure):
            return ApiError(401, error.reason, f"{error.message}; the credentials cannot be read again: {failure}")
        return error

    async def _send(self, access: Access, request: Request, silence_seconds: float) -> HttpResponse:
        began, status = self._clock(), 0
        try:
            if access is not self._access or len(self._connections) > MOST_CONNECTIONS:
                await self._use(access)
            pool, data = self._connections[-1].pool(request), self._encode(access, request)
            response = await pool.exchange(access, data, self.limits.connect_seconds, silence_seconds)
            status = response.status
            return response
        except (InputError, *FAILURES) as error:
            raise await self._failure(error, access, request) from None
        finally:
            self._observe(request, status, self._clock() - began)

    async def _open_stream(
        self, access: Access, request: Request, silence_seconds: float
    ) -> tuple[HttpResponse, HttpConnection]:
        began, status = self._clock(), 0
        try:
            await self._use(access)
            pool, data = self._connections[-1].pool(request), self._encode(access, request)
            response, connection = await pool.open_stream(access, data, self.limits.connect_seconds, silence_seconds)
            status = response.status
            return response, connection
        except (InputError, *FAILURES) as error:
            raise await self._failure(error, access, request) from None
        finally:
            self._observe(request, status, self._clock() - began)

    async def _failure(self, error: Exception, access: Access, request: Request) -> ApiError:
        """The error for the caller; certificates that were replaced are used from now on."""
        if isinstance(error, InputError):
            return Unanswered(503, str(error), sent=False)
        if access is self._access:  # else a newer one is in use already
            with suppress(InputError):  # files that cannot be used leave the connections as they are
                self._reload_certificates(access)
        if isinstance(error, ConnectFailed) and isinstance(error.cause, ssl.SSLError):
            await self._credentials.renew(access)  # the kubeconfig itself may hold another CA by now
        return to_api_error(error, str(request), access)

    def _encode(self, access: Access, request: Request) -> bytes:
        if self._heads is None or self._heads.access is not access:
            self._heads = RequestHeads(access)
        return self._heads.encode(request)

    async def _use(self, access: Access) -> None:
        """From now on; connections of the last but one are closed, as their requests are long over."""
        if access is not self._access:
            self._reload_certificates(access)
            self._access = access
        while len(self._connections) > MOST_CONNECTIONS:
            await self._connections.pop(0).close()

    def _reload_certificates(self, access: Access) -> None:
        """New connections use certificates that were replaced."""
        if (fingerprint := access.fingerprint()) != self._fingerprint:
            self._connections.append(Connections(access))
            self._fingerprint = fingerprint

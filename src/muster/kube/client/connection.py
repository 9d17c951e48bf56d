"""One keep-alive HTTP/1.1 connection: one request at a time, and its response.

Rule 1: whatever ends before the response is complete closes the connection: a caller that gives up, silence, bytes that
are not HTTP. Rule 2: nothing is sent twice here. Decision 0036 has the reasons for not using a library for it.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, cast

import httptools
from msgspec import Struct

KEEPALIVE: Final = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}  # a dead peer is detected in 40 s
MOST_BUFFERED: Final = 4 * 2**20  # bytes of a stream that its reader has not taken; then the peer has to wait
LENGTHS: Final = (b"content-length", b"transfer-encoding")
RETRY_AFTER: Final = b"retry-after"


class ConnectionLost(Exception):
    """The connection ended before the response was complete."""


class HttpResponse(Struct, frozen=True):
    """A response that is complete, or whose body is still to come as a stream."""

    status: int
    body: bytes = b""
    retry_after: str = ""

    @property
    def is_success(self) -> bool:
        """Whether it is a 2xx."""
        return 200 <= self.status < 300


class HttpConnection(asyncio.Protocol):
    """Both the protocol of a transport and the receiver of the parser's callbacks."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None  # for the end of the response, its head, or more of its body
        self._error: BaseException | None = None  # why the connection is of no use any more
        self._received_at = 0.0
        self._silence_seconds = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_active = False  # a request is in flight, or a stream open
        self._paused = False
        self.idle_since = 0.0
        self.on_lost: Callable[[HttpConnection], None] = lambda _: None  # called once the socket is closed
        self._begin()

    def _begin(self, *, is_stream: bool = False) -> None:
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._is_stream, self._has_head, self._is_complete, self._has_length = is_stream, False, False, False
        self._is_kept = False  # by the peer, for another request
        self._status, self._retry_after = 0, ""

    # requests

    @property
    def is_open(self) -> bool:
        """Whether another request may be sent."""
        return self._error is None and self._transport is not None and not self._transport.is_closing()

    async def exchange(self, data: bytes, silence_seconds: float) -> HttpResponse:
        """Sends a request, and waits for the whole response; TimeoutError after a silence, ConnectionLost."""
        self._send(data, silence_seconds, is_stream=False)
        try:
            while not self._is_complete:
                await self._more()
        except BaseException:
            self.abort()
            raise
        return self._finish()

    async def open_stream(self, data: bytes, silence_seconds: float) -> HttpResponse:
        """Sends a request, and waits for the head of a success, whose body `chunks` has; or for a whole failure."""
        self._send(data, silence_seconds, is_stream=True)
        try:
            while not self._has_head:
                await self._more()
            if (head := HttpResponse(self._status)).is_success:
                return head
            while not self._is_complete:
                await self._more()
        except BaseException:
            self.abort()
            raise
        return self._finish()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body of a stream as it comes, until it ends; TimeoutError after a silence, ConnectionLost."""
        while True:
            while not self._chunks and not self._is_complete:
                await self._more()
            data, self._chunks, self._buffered = b"".join(self._chunks), [], 0
            if self._paused and self._transport is not None:
                self._paused = False
                self._transport.resume_reading()
            if data:
                yield data
            elif self._is_complete:
                return

    def abort(self) -> None:
        """Drops the connection: a response that is on its way is of no use."""
        self._stop_timer()
        self._error = self._error or ConnectionLost()
        if self._transport is not None:
            self._transport.abort()  # a TLS connection would wait for the peer to close

    def _send(self, data: bytes, silence_seconds: float, *, is_stream: bool) -> None:
        self._begin(is_stream=is_stream)
        if self._transport is None or not self.is_open:
            raise ConnectionLost
        self._is_active = True
        self._received_at, self._silence_seconds = self._loop.time(), silence_seconds
        self._watch_silence(silence_seconds)
        self._transport.write(data)

    def _more(self) -> asyncio.Future[None]:
        """Done once more was received; raises where nothing will be."""
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        return self._waiter

    def _finish(self) -> HttpResponse:
        """The response; the connection may be used again where both ends keep it."""
        self._is_active = False
        if not self._is_kept:
            self.abort()
        self.idle_since = self._loop.time()
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        return HttpResponse(self._status, body, self._retry_after)

    def _watch_silence(self, seconds: float) -> None:
        """One timer serves many requests: it looks again when it fires."""
        if self._timer is not None and self._timer.when() > self._loop.time() + seconds:
            self._stop_timer()
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._look_for_silence)

    def _look_for_silence(self) -> None:
        self._timer = None
        left = self._received_at + self._silence_seconds - self._loop.time()
        if self._is_active and left > 0:
            self._watch_silence(left)
        elif self._is_active:
            self._fail(TimeoutError())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self.abort()
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(self._error)

    # of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection, or TLS over it, is open."""
        self._transport = cast("asyncio.Transport", transport)
        keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        """Parses; a peer that sends something without a request is not to be trusted with another one."""
        self._received_at = self._loop.time()
        if not self._is_active:
            self._fail(ConnectionLost())
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(ConnectionLost())

    def connection_lost(self, exc: Exception | None) -> None:
        """A response without a length ends with its connection."""
        self._transport = None
        if exc is None and self._has_head and not self._has_length and not self._is_complete:
            self._is_complete = True
            self._error = self._error or ConnectionLost()
            self._wake()
        self._fail(ConnectionLost())
        self.on_lost(self)

    # of the parser

    def on_message_begin(self) -> None:
        """A second response to one request is not parsed into the first."""
        if self._is_complete:
            raise ConnectionLost

    def on_header(self, name: bytes, value: bytes) -> None:
        """Two headers matter."""
        lower = name.lower()
        if lower in LENGTHS:
            self._has_length = True
        elif lower == RETRY_AFTER:
            self._retry_after = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """A stream begins. 1xx are no responses yet; 204 and 304 have no body."""
        self._status = self._parser.get_status_code()
        self._has_length = self._has_length or self._status in (204, 304)
        self._is_kept = self._has_length and self._parser.should_keep_alive()
        if self._status >= 200:
            self._has_head = True
            if self._is_stream:
                self._wake()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._chunks.append(body)
        if self._is_stream:
            self._buffered += len(body)
            if self._buffered > MOST_BUFFERED and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
            self._wake()

    def on_message_complete(self) -> None:
        """The response is complete, unless it was a 1xx."""
        if self._has_head:
            self._is_complete = True
            self._wake()


def keep_alive(tcp: Any) -> None:
    """Detects a peer that is gone: a watch may be silent for minutes. Small requests are sent at once."""
    if not isinstance(tcp, socket.socket) and not hasattr(tcp, "setsockopt"):
        return
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            tcp.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

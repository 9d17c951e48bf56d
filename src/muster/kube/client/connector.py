"""Opens connections to an API server: directly, or through a proxy, with or without TLS."""

import asyncio
import ssl
from base64 import b64encode
from typing import Final, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from muster.kube.client.connection import HttpConnection, keep_alive
from muster.kube.client.credentials import Access
from muster.kube.client.tls_transport import TlsTransport

PORTS: Final = {"http": 80, "https": 443}
PROXY_STEPS: Final = 3  # a connection, a tunnel, and TLS to the API server
LONGEST_REPLY: Final = 16 * 2**10  # bytes of a proxy's head
EYEBALLS_SECONDS: Final = 0.25  # before the next address of a host is tried beside the first
P = TypeVar("P", bound=asyncio.Protocol)


class ConnectFailed(Exception):
    """There is no connection: nothing was sent."""

    def __init__(self, cause: OSError, *, at_proxy: bool) -> None:
        super().__init__(str(cause))
        self.cause, self.at_proxy = cause, at_proxy


class ConnectTimeout(Exception):
    """There is no connection in time: nothing was sent."""


class ProxyRefused(Exception):
    """A proxy does not open a tunnel: nothing was sent."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


async def open_connection(access: Access, tls: ssl.SSLContext | None, seconds: float) -> HttpConnection:
    """A connection for requests; ConnectFailed, ConnectTimeout or ProxyRefused where there is none."""
    try:
        async with asyncio.timeout(seconds * PROXY_STEPS if access.proxy else seconds):
            return await _open(access, tls)
    except TimeoutError:
        raise ConnectTimeout from None


async def _open(access: Access, tls: ssl.SSLContext | None) -> HttpConnection:
    server = urlsplit(access.server)
    name = access.server_name or server.hostname or ""
    if not access.proxy:
        return await _open_directly(server, tls, name, at_proxy=False)
    proxy = urlsplit(access.proxy)
    proxy_tls = ssl.create_default_context() if proxy.scheme == "https" else None
    if tls is None:
        return await _open_directly(proxy, proxy_tls, proxy.hostname or "", at_proxy=True)
    transport, tunnel = await _connect(proxy, Tunnel, proxy_tls, proxy.hostname or "", at_proxy=True)
    try:
        await tunnel.open(transport, server, proxy)
        if proxy_tls is None:
            return await _secure(transport, tls, name, at_proxy=False)
        return await _secure_inside_tls(transport, tls, name)
    except BaseException:
        transport.abort()
        raise


async def _open_directly(url: SplitResult, tls: ssl.SSLContext | None, name: str, *, at_proxy: bool) -> HttpConnection:
    if tls is None:
        _, connection = await _connect(url, HttpConnection, None, "", at_proxy=at_proxy)
        return connection
    transport, _ = await _connect(url, asyncio.Protocol, None, "", at_proxy=at_proxy)
    return await _secure(transport, tls, name, at_proxy=at_proxy)


async def _connect(
    url: SplitResult, factory: type[P], tls: ssl.SSLContext | None, name: str, *, at_proxy: bool
) -> tuple[asyncio.Transport, P]:
    loop = asyncio.get_running_loop()
    host, port = url.hostname or "", url.port or PORTS[url.scheme]
    try:
        return await loop.create_connection(
            factory,
            host,
            port,
            ssl=tls,
            server_hostname=name if tls else None,
            happy_eyeballs_delay=EYEBALLS_SECONDS,
        )
    except OSError as error:
        raise ConnectFailed(error, at_proxy=at_proxy) from None


async def _secure(transport: asyncio.Transport, tls: ssl.SSLContext, name: str, *, at_proxy: bool) -> HttpConnection:
    """TLS on the socket of a transport, which is of no use any more."""
    try:
        secured = _take_over(transport, tls, name)
        await secured.handshake()
    except OSError as error:
        raise ConnectFailed(error, at_proxy=at_proxy) from None
    connection = HttpConnection()
    secured.start(connection)
    return connection


def _take_over(transport: asyncio.Transport, tls: ssl.SSLContext, name: str) -> TlsTransport:
    """OSError where the peer has reset it already, or there are too many open files; no socket is left then."""
    try:
        tcp = transport.get_extra_info("socket").dup()
    finally:
        transport.abort()
    try:
        tcp.getpeername()  # the ssl module forgets a socket that is not connected, without closing it
        return TlsTransport(tcp, tls, name)
    except BaseException:
        tcp.close()
        raise


async def _secure_inside_tls(transport: asyncio.Transport, tls: ssl.SSLContext, name: str) -> HttpConnection:
    """Inside the TLS of a proxy, which has no socket of its own."""
    loop, protocol = asyncio.get_running_loop(), HttpConnection()
    try:
        secured = await loop.start_tls(transport, protocol, tls, server_hostname=name)
    except OSError as error:
        raise ConnectFailed(error, at_proxy=False) from None
    if secured is None:
        raise ConnectFailed(ConnectionResetError(), at_proxy=False)
    protocol.connection_made(secured)
    return protocol


class Tunnel(asyncio.Protocol):
    """Asks a proxy for a connection to the API server."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def open(self, transport: asyncio.Transport, server: SplitResult, proxy: SplitResult) -> None:
        """Returns once the proxy has opened it."""
        target = f"{bracketed(server.hostname or '')}:{server.port or PORTS[server.scheme]}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *map(": ".join, proxy_headers(proxy))]
        transport.write("\r\n".join([*lines, "", ""]).encode())
        try:
            first = (await self._reply).split(b" ", 2)
        except OSError as error:
            raise ConnectFailed(error, at_proxy=True) from None
        status = int(first[1]) if len(first) > 1 and first[1].isdigit() else 0
        if not 200 <= status < 300:
            raise ProxyRefused(status)
        keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        """Until the end of the proxy's head: what follows is TLS, which begins only after this end has spoken."""
        self._head += data
        if b"\r\n\r\n" in self._head and not self._reply.done():
            self._reply.set_result(bytes(self._head.partition(b"\r\n")[0]))
        elif len(self._head) > LONGEST_REPLY:
            self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The proxy hangs up."""
        if not self._reply.done():
            self._reply.set_exception(exc if isinstance(exc, OSError) else ConnectionResetError())


def proxy_headers(proxy: SplitResult) -> tuple[tuple[str, str], ...]:
    """User name and password of a proxy's address as a header."""
    if proxy.username is None:
        return ()
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return (("Proxy-Authorization", f"Basic {b64encode(pair.encode()).decode()}"),)


def bracketed(host: str) -> str:
    """A host as addresses have it; other letters than ASCII in the form of DNS."""
    name = host if host.isascii() else host.encode("idna").decode()
    return f"[{name}]" if ":" in name else name

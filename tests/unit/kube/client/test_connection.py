"""Connections to an API server: what is sent, when a response is complete, and when a connection is used again."""

import asyncio
import errno
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from muster.embedded import tls
from muster.kube.client import connection, connection_pool, connector
from muster.kube.client.connection import ConnectionLost
from muster.kube.client.connection_pool import ConnectionPool
from muster.kube.client.connector import ConnectFailed, ConnectTimeout
from muster.kube.client.credentials import Access, Credentials
from muster.kube.client.http import Http, Request
from muster.kube.errors import ApiError, Unanswered


class Wire(NamedTuple):
    """How the two ends speak to each other."""

    scheme: str
    server: ssl.SSLContext | None = None
    client: ssl.SSLContext | None = None


PLAIN = Wire("http")
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class ScriptedServer:
    """Sends these bytes for each request on a connection, and counts connections."""

    def __init__(self, *replies: bytes, is_closing: bool = False) -> None:
        self.replies, self.is_closing = replies, is_closing
        self.connections = 0
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                for reply in self.replies:
                    writer.write(reply)
                    await writer.drain()
                    await asyncio.sleep(0.01)
                if self.is_closing:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture(scope="module", params=["http", "https"])
def wire(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Wire:
    """What holds of connections holds with and without TLS."""
    if request.param == "http":
        return PLAIN
    generated, folder = tls.generate(["127.0.0.1"], datetime.now(UTC)), tmp_path_factory.mktemp("tls")
    trusting = ssl.create_default_context(cadata=generated.authority.decode())
    return Wire("https", tls.server_context(generated, folder), trusting)


@asynccontextmanager
async def listening(peer: Peer, wire: Wire = PLAIN) -> AsyncIterator[str]:
    """Ends when every connection has."""
    served = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.add(task)
        with suppress(OSError, asyncio.IncompleteReadError):
            await peer(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=wire.server) as server:
        yield f"{wire.scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    if served:
        await asyncio.wait(served, timeout=5)


@asynccontextmanager
async def pooled(wire: Wire, server: ScriptedServer) -> AsyncIterator[tuple[ConnectionPool, Access]]:
    async with listening(server.serve, wire) as address:
        pool = ConnectionPool(wire.client)
        try:
            yield pool, Access(address)
        finally:
            await pool.close()


async def exchanged(wire: Wire, *replies: bytes, is_closing: bool = False) -> tuple[int, bytes]:
    async with pooled(wire, ScriptedServer(*replies, is_closing=is_closing)) as (pool, access):
        response = await pool.exchange(access, GET, 5.0, 5.0)
        return response.status, response.body


# responses ------------------------------------------------------------------------------------------------------------


async def test_a_body_may_come_in_any_pieces(wire: Wire) -> None:
    assert await exchanged(wire, *(OK[i : i + 1] for i in range(len(OK)))) == (200, b"ok")


async def test_a_body_may_be_chunked(wire: Wire) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert await exchanged(wire, head, b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n") == (200, b"abcde")


async def test_a_body_without_a_length_ends_with_its_connection(wire: Wire) -> None:
    assert await exchanged(wire, b"HTTP/1.1 200 OK\r\n\r\n", b"all of it", is_closing=True) == (200, b"all of it")


async def test_a_provisional_response_is_no_response(wire: Wire) -> None:
    assert await exchanged(wire, b"HTTP/1.1 100 Continue\r\n\r\n", OK) == (200, b"ok")


async def test_a_second_response_to_one_request_changes_nothing_and_is_the_last(wire: Wire) -> None:
    """A proxy that gives up an idle connection may say so: 408 right behind the last response."""
    server = ScriptedServer(OK + b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 4\r\n\r\nlate")
    async with pooled(wire, server) as (pool, access):
        for _ in range(2):
            response = await pool.exchange(access, GET, 5.0, 5.0)
            assert (response.status, response.body) == (200, b"ok")
    assert server.connections == 2


async def test_a_response_without_a_body_is_complete(wire: Wire) -> None:
    assert await exchanged(wire, b"HTTP/1.1 204 No Content\r\n\r\n") == (204, b"")


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"",
        b"220 smtp.test ready\r\n",
    ],
)
async def test_half_a_response_is_none(wire: Wire, reply: bytes) -> None:
    with pytest.raises(ConnectionLost):
        await exchanged(wire, reply, is_closing=True)


# connections ----------------------------------------------------------------------------------------------------------


async def test_a_connection_is_used_again(wire: Wire) -> None:
    """A handshake costs as much as ten bindings."""
    server = ScriptedServer(OK)
    async with pooled(wire, server) as (pool, access):
        for _ in range(5):
            await pool.exchange(access, GET, 5.0, 5.0)
    assert (server.connections, len(server.requests)) == (1, 5)


@pytest.mark.parametrize(
    "reply",
    [
        OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"),
        OK.replace(b"HTTP/1.1", b"HTTP/1.0"),
        OK + b"and more",  # of no request
    ],
)
async def test_a_connection_that_the_peer_does_not_keep_is_not_used_again(wire: Wire, reply: bytes) -> None:
    server = ScriptedServer(reply)
    async with pooled(wire, server) as (pool, access):
        for _ in range(2):
            assert (await pool.exchange(access, GET, 5.0, 5.0)).body == b"ok"
            await asyncio.sleep(0.05)
    assert server.connections == 2


async def test_a_connection_that_was_idle_for_long_is_closed(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer would close it just when the next request is on its way."""
    monkeypatch.setattr(connection_pool, "IDLE_SECONDS", 0.05)
    server = ScriptedServer(OK)
    async with pooled(wire, server) as (pool, access):
        await pool.exchange(access, GET, 5.0, 5.0)
        await asyncio.sleep(0.3)
        assert not pool._idle
        assert not pool._open
        await pool.exchange(access, GET, 5.0, 5.0)
    assert server.connections == 2


async def test_connections_that_were_opened_ahead_are_used_first(wire: Wire) -> None:
    """A burst of bindings does not begin with as many handshakes."""
    server = ScriptedServer(OK)
    async with pooled(wire, server) as (pool, access):
        await pool.exchange(access, GET, 5.0, 5.0)
        await pool.open_ahead(access, 40, 5.0)
        await pool.open_ahead(access, 20, 5.0)
        assert len(pool._idle) == 40, "the idle one counts, and nothing is closed"
        await asyncio.gather(*(pool.exchange(access, GET, 5.0, 5.0) for _ in range(40)))
    assert server.connections == 40


async def test_connections_that_cannot_be_opened_ahead_are_not_tried_without_end(wire: Wire) -> None:
    server = ScriptedServer(OK)
    async with pooled(wire, server) as (pool, access):
        pass
    with pytest.raises(ConnectFailed):
        await pool.open_ahead(access, 1_000, 5.0)
    assert not pool._open


async def test_a_request_that_is_given_up_closes_its_connection(wire: Wire) -> None:
    """Its late response must not be taken for that of the next request."""
    server = ScriptedServer()
    async with pooled(wire, server) as (pool, access):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await pool.exchange(access, GET, 5.0, 5.0)
        server.replies = (OK,)
        assert (await pool.exchange(access, GET, 5.0, 5.0)).body == b"ok"
    assert server.connections == 2


async def test_silence_ends_a_request_and_any_byte_is_a_sign_of_life(wire: Wire) -> None:
    slow = ScriptedServer(*(OK[i : i + 1] for i in range(len(OK))))  # about 0.4 s in all
    async with pooled(wire, slow) as (pool, access):
        assert (await pool.exchange(access, GET, 5.0, 0.2)).status == 200
    async with pooled(wire, ScriptedServer()) as (pool, access):
        with pytest.raises(TimeoutError):
            await pool.exchange(access, GET, 5.0, 0.1)


async def test_a_stream_that_is_not_read_makes_the_peer_wait(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, and nothing is lost."""
    monkeypatch.setattr(connection, "MOST_BUFFERED", 10_000)
    size, sent = 20_000_000, 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(b"x" * 10_000)
            await writer.drain()
            sent += 10_000
        writer.close()

    async with listening(flood, wire) as address:
        pool = ConnectionPool(wire.client)
        head, stream = await pool.open_stream(Access(address), GET, 5.0, 5.0)
        assert head.status == 200
        await asyncio.sleep(0.3)
        assert stream._buffered < 2_000_000
        assert sent < size
        assert sum([len(chunk) async for chunk in stream.chunks()]) == size
        await pool.close()


async def test_a_large_request_is_sent_as_the_peer_takes_it(wire: Wire) -> None:
    """A socket takes only a part at once."""
    body, received = b"x" * 20_000_000, 0

    async def read_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.1)
        while received < len(body):
            received += len(await reader.read(1_000_000))
        writer.write(OK)
        await writer.drain()
        writer.close()

    async with listening(read_slowly, wire) as address:
        pool = ConnectionPool(wire.client)
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
        assert (await pool.exchange(Access(address), head + body, 5.0, 5.0)).body == b"ok"
        await pool.close()
    assert received == len(body)


async def test_a_large_response_is_received_whole(wire: Wire) -> None:
    """Many TLS records, of which several are there at once."""
    body = bytes(range(256)) * 20_000
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert await exchanged(wire, head + body) == (200, body)


async def test_a_peer_that_resets_the_connection_has_not_answered(wire: Wire) -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with listening(reset, wire) as address:
        pool = ConnectionPool(wire.client)
        with pytest.raises(ConnectionLost):
            await pool.exchange(Access(address), GET, 5.0, 5.0)
        await asyncio.sleep(0)
        assert not pool._open
        await pool.close()


# TLS ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", ["https"], indirect=True)
async def test_a_body_without_a_length_that_is_cut_off_is_no_body(wire: Wire) -> None:
    """Whoever is in between could cut it anywhere: only TLS says where it ends."""

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf of")
        await asyncio.sleep(0.05)
        writer.transport.abort()

    async with listening(cut, wire) as address:
        pool = ConnectionPool(wire.client)
        with pytest.raises(ConnectionLost):
            await pool.exchange(Access(address), GET, 5.0, 5.0)
        await pool.close()


@pytest.mark.parametrize("wire", ["https"], indirect=True)
async def test_a_peer_that_is_silent_in_the_handshake_times_out_and_leaves_no_socket(wire: Wire) -> None:
    async with listening(lambda *_: asyncio.sleep(1)) as address:
        before = len(list(Path("/proc/self/fd").iterdir()))
        pool = ConnectionPool(wire.client)
        with pytest.raises(ConnectTimeout):
            await pool.exchange(Access(address.replace("http", "https")), GET, 0.1, 5.0)
        await pool.close()
        await asyncio.sleep(0.1)
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1  # the peer's end


@pytest.mark.parametrize("wire", ["https"], indirect=True)
async def test_a_peer_that_resets_the_connection_before_tls_was_sent_nothing(wire: Wire) -> None:
    """Such a request is sent again, whatever it does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tcp, (peer, _) = socket.create_connection(listener.getsockname()), listener.accept()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        assert wire.client is not None
        with tcp, pytest.raises(ConnectFailed):
            await connector._secure(HeldSocket(tcp), wire.client, "127.0.0.1", at_proxy=False)


class HeldSocket(asyncio.Transport):
    """A transport that reads nothing."""

    def __init__(self, tcp: socket.socket) -> None:
        super().__init__({"socket": tcp})

    def abort(self) -> None:
        pass


@pytest.mark.parametrize("wire", ["https"], indirect=True)
async def test_a_connection_that_is_one_file_too_many_was_sent_nothing_and_leaves_no_socket(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dup(_: socket.socket) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    async with listening(ScriptedServer(OK).serve, wire) as address:
        pool = ConnectionPool(wire.client)
        before = len(list(Path("/proc/self/fd").iterdir()))
        monkeypatch.setattr(socket.socket, "dup", dup)
        with pytest.raises(ConnectFailed):
            await pool.exchange(Access(address), GET, 5.0, 5.0)
        await asyncio.sleep(0.1)
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        await pool.close()


@pytest.mark.parametrize("wire", ["https"], indirect=True)
async def test_a_certificate_of_a_stranger_is_refused(wire: Wire) -> None:
    async with listening(ScriptedServer(OK).serve, wire) as address:
        pool = ConnectionPool(ssl.create_default_context())
        with pytest.raises(ConnectFailed) as caught:
            await pool.exchange(Access(address), GET, 5.0, 5.0)
        assert isinstance(caught.value.cause, ssl.SSLCertVerificationError)
        await pool.close()


# requests -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def client(access: Access) -> AsyncIterator[Http]:
    http = Http(Credentials(lambda: access))
    try:
        yield http
    finally:
        await http.close()


async def test_a_request_has_these_lines() -> None:
    server = ScriptedServer(OK)
    async with listening(server.serve) as address:
        access = Access(f"{address}/clusters/c1", (("Authorization", "Bearer t"),))
        async with client(access) as http:
            await http.call(Request("GET", "/api", {"limit": "5", "continue": "a b&c"}))
    host = address.removeprefix("http://")
    assert server.requests[0].decode().split("\r\n") == [
        "GET /clusters/c1/api?limit=5&continue=a+b%26c HTTP/1.1",
        f"Host: {host}",
        "Authorization: Bearer t",
        "Accept: application/json",
        "User-Agent: muster",
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("access", "path"),
    [
        (Access("http://127.0.0.1:1", (("Authorization", "Bearer a\r\nX: b"),)), "/"),
        (Access("http://127.0.0.1:1", (("Impersonate-User", "名"),)), "/"),
        (Access("http://127.0.0.1:1"), "/a b"),
        (Access("http://127.0.0.1:1"), "/a\r\nX: b"),
    ],
)
async def test_what_would_become_another_line_is_not_sent(access: Access, path: str) -> None:
    async with client(access) as http:
        with pytest.raises(ApiError, match="not a request that can be sent") as caught:
            await http.send_once(Request("GET", path))
    assert caught.value.status == 400


# proxies --------------------------------------------------------------------------------------------------------------


class TunnelProxy:
    """Opens tunnels, as proxies do for CONNECT, and remembers what it was asked for."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.mark.parametrize("is_secured", [False, True], ids=["http", "https"])
async def test_requests_reach_the_api_server_through_a_proxy(
    tmp_path: Path, is_secured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a tunnel of its own kind; the API server's certificate is verified by the API server's name."""
    generated = tls.generate(["127.0.0.1", "api.test"], datetime.now(UTC))
    (tmp_path / "ca").write_bytes(generated.authority)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca"))  # what the system trusts, for the proxy
    context = tls.server_context(generated, tmp_path)
    server = ScriptedServer(OK)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context) as api_server:
        proxy = TunnelProxy(api_server.sockets[0].getsockname()[1])
        secured = context if is_secured else None
        async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=secured) as listener:
            address = f"{'https' if is_secured else 'http'}://u%40:p@127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            async with client(Access("https://api.test:6443", ca=str(tmp_path / "ca"), proxy=address)) as http:
                assert [await http.send_once(Request("GET", "/x")) for _ in range(2)] == [b"ok", b"ok"]
    assert len(server.requests) == 2
    (head,) = proxy.heads
    assert head.startswith("CONNECT api.test:6443 HTTP/1.1\r\nHost: api.test:6443\r\n")
    assert "Proxy-Authorization: Basic dUA6cA==\r\n" in head  # u@:p


async def test_a_proxy_for_plain_http_gets_the_whole_address() -> None:
    server = ScriptedServer(OK)
    async with listening(server.serve) as address:
        access = Access("http://api.test:8080/base", proxy=address.replace("//", "//u:p@"))
        async with client(access) as http:
            assert await http.send_once(Request("GET", "/x")) == b"ok"
    lines = server.requests[0].decode().split("\r\n")
    assert lines[0] == "GET http://api.test:8080/base/x HTTP/1.1"
    assert lines[1] == "Host: api.test:8080"
    assert "Proxy-Authorization: Basic dTpw" in lines


async def test_a_host_that_does_not_answer_was_sent_nothing() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with client(Access(f"http://127.0.0.1:{unused.getsockname()[1]}")) as http:
            with pytest.raises(Unanswered, match=r"cannot be reached: Connect") as caught:
                await http.send_once(Request("POST", "/"))
    assert not caught.value.sent

"""A server under peers that are silent, slow or many: real sockets on loopback, small limits."""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from muster.embedded import tls
from muster.observability.serving import acceptor
from muster.observability.serving.acceptor import Acceptor
from muster.observability.serving.connection_table import ConnectionLimits, Phase
from tests.support.served import served

LARGE = 8 * 2**20  # more than all buffers between a server and a peer that does not read
SHORT = ConnectionLimits(
    connections=20,
    per_peer=20,
    handshake_seconds=0.2,
    head_seconds=0.2,
    body_seconds=0.2,
    idle_seconds=60.0,
    write_seconds=0.2,
)
LONG = ConnectionLimits(
    connections=20,
    per_peer=20,
    handshake_seconds=60.0,
    head_seconds=60.0,
    body_seconds=60.0,
    idle_seconds=60.0,
    write_seconds=60.0,
)
HALF_BODY = b"POST /read HTTP/1.1\r\nhost: muster\r\ncontent-length: 9\r\n\r\n1"
HELLO = b"GET /hello HTTP/1.1\r\nhost: muster\r\n\r\n"


class App:
    """`/hello` answers at once, `/slow` once it may, `/large` with more than fits, `/read` reads what it is sent."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        routes = [
            Route("/hello", self.hello),
            Route("/slow", self.slow),
            Route("/large", self.large),
            Route("/read", self.read, methods=["POST"]),
        ]
        self.asgi = Starlette(routes=routes)

    async def hello(self, _: Request) -> Response:
        return PlainTextResponse("hello")

    async def slow(self, _: Request) -> Response:
        self.begun.set()
        await self.go_on.wait()
        return PlainTextResponse("done")

    async def large(self, _: Request) -> Response:
        return PlainTextResponse("x" * LARGE)

    async def read(self, request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "SWEEP_SECONDS", 0.05)


@asynccontextmanager
async def running(
    limits: ConnectionLimits, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[App, Acceptor, int]]:
    app = App()
    async with asyncio.timeout(60), served(app.asgi, limits, context) as (server, port):
        yield app, server.acceptors[0], port


async def connect(port: int, source: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))


async def hello(port: int, source: str = "127.0.0.1") -> bytes:
    """The status line of an answer on a connection of its own."""
    reader, writer = await connect(port, source)
    writer.write(HELLO)
    line = await reader.readline()
    writer.close()
    return line


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether the server closes a connection; waits for it."""
    try:
        while await reader.read(2**16):
            pass
    except ConnectionError:
        pass
    return True


async def eventually(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def server_context(folder: Path) -> ssl.SSLContext:
    return tls.server_context(tls.generate(["127.0.0.1"], datetime.now(UTC)), folder)


def client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


# time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("begun", [b"", b"POST /re", HALF_BODY])
async def test_a_peer_that_does_not_finish_its_request_is_closed(begun: bytes) -> None:
    """Silent, in the middle of the head, or of the body."""
    async with running(SHORT) as (_, held, port):
        reader, writer = await connect(port)
        writer.write(begun)
        assert await is_closed(reader)
        writer.close()
        await eventually(lambda: not held.table)


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("path", [b"GET /hello", b"POST /read"])
async def test_byte_by_byte_gains_no_time(path: bytes) -> None:
    """The time of a head and of a body counts from its beginning."""
    body = b"content-length: 100000\r\n\r\n" if b"POST" in path else b"x: "
    async with running(SHORT) as (_, held, port):
        reader, writer = await connect(port)
        writer.write(path + b" HTTP/1.1\r\nhost: muster\r\n" + body)
        closed = asyncio.create_task(is_closed(reader))
        while not closed.done():
            writer.write(b"x")
            await asyncio.sleep(0.02)
        writer.close()
        await eventually(lambda: not held.table)


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00"])
async def test_a_handshake_that_does_not_end_is_closed(tmp_path: Path, begun: bytes) -> None:
    """Before its first byte, and after."""
    async with running(SHORT, server_context(tmp_path)) as (_, held, port):
        reader, writer = await connect(port)
        writer.write(begun)
        assert await is_closed(reader)
        writer.close()
        await eventually(lambda: not held.table)


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("secure", [False, True])
async def test_a_peer_that_does_not_read_its_answer_is_closed(tmp_path: Path, secure: bool) -> None:
    """What is to be sent is freed with it."""
    async with running(SHORT, server_context(tmp_path) if secure else None) as (_, held, port):
        with socket.create_connection(("127.0.0.1", port)) as plain:
            sock = client_context().wrap_socket(plain, do_handshake_on_connect=False) if secure else plain
            if isinstance(sock, ssl.SSLSocket):
                await asyncio.to_thread(sock.do_handshake)
            sock.sendall(b"GET /large HTTP/1.1\r\nhost: muster\r\n\r\n")
            await eventually(lambda: [one.phase for one in held.table.all()] == [Phase.IDLE])
            await eventually(lambda: not held.table)
            sock.close()


@pytest.mark.usefixtures("_quick")
async def test_a_slow_handler_has_all_the_time_it_needs() -> None:
    """ConnectionLimits are those of peers."""
    async with running(SHORT) as (app, held, port):
        reader, writer = await connect(port)
        writer.write(b"GET /slow HTTP/1.1\r\nhost: muster\r\n\r\n")
        await app.begun.wait()
        await asyncio.sleep(0.6)
        assert [one.phase for one in held.table.all()] == [Phase.ANSWERING]
        app.go_on.set()
        assert b"200" in await reader.readline()
        writer.close()


@pytest.mark.usefixtures("_quick")
async def test_a_connection_between_requests_is_kept() -> None:
    """The API server comes back to it."""
    async with running(SHORT) as (_, _, port):
        reader, writer = await connect(port)
        for _ in range(3):
            writer.write(HELLO)
            assert b"200" in await reader.readuntil(b"\r\n\r\nhello")
            await asyncio.sleep(0.5)
        writer.close()


@pytest.mark.usefixtures("_quick")
async def test_a_head_after_a_first_request_has_its_time_too() -> None:
    """A connection that was good once may be slow later."""
    async with running(SHORT) as (_, _, port):
        reader, writer = await connect(port)
        writer.write(HELLO)
        assert b"200" in await reader.readuntil(b"\r\n\r\nhello")
        writer.write(b"GET /hel")
        assert await is_closed(reader)
        writer.close()


# number ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [b"", b"GET /", HALF_BODY, HELLO])
async def test_others_are_answered_however_many_connections_one_peer_holds(begun: bytes) -> None:
    """Silent, slow or idle: of its own address, and of another. The number of connections stays bounded."""
    async with running(LONG) as (_, held, port):
        flood = []
        for _ in range(3 * LONG.connections):
            flood.append(await connect(port))
            flood[-1][1].write(begun)
        for source in ("127.0.0.1", "127.0.0.2"):
            assert b"200" in await hello(port, source)
        assert len(held.table) <= LONG.connections
        for _, writer in flood:
            writer.close()
        await eventually(lambda: len(held.table) <= 1)


async def test_a_flood_of_one_peer_leaves_idle_connections_of_others() -> None:
    """The API server keeps its connections; those of the flood make room for those of the flood."""
    async with running(LONG) as (_, _, port):
        reader, writer = await connect(port, "127.0.0.2")
        writer.write(HELLO)
        await reader.readuntil(b"\r\n\r\nhello")
        flood = [await connect(port) for _ in range(3 * LONG.connections)]
        assert b"200" in await hello(port)
        writer.write(HELLO)
        assert b"200" in await reader.readuntil(b"\r\n\r\nhello")
        for _, each in [*flood, (reader, writer)]:
            each.close()


async def test_without_a_place_connections_wait_and_none_is_interrupted() -> None:
    """Back-pressure: what is not accepted waits in the kernel, and is answered once there is a place."""
    limits = ConnectionLimits(connections=2, per_peer=2)
    async with running(limits) as (app, held, port):
        busy = [await connect(port) for _ in range(2)]
        for _, writer in busy:
            writer.write(b"GET /slow HTTP/1.1\r\nhost: muster\r\nconnection: close\r\n\r\n")
        await eventually(lambda: [one.phase for one in held.table.all()] == [Phase.ANSWERING] * 2)
        third = asyncio.create_task(hello(port, "127.0.0.2"))
        await asyncio.sleep(0.2)
        assert not third.done()
        app.go_on.set()
        assert b"200" in await third
        for reader, writer in busy:
            assert b"200" in await reader.readline()
            writer.close()


async def test_a_peer_whose_requests_are_all_answered_gets_no_further_connection() -> None:
    """Others do."""
    async with running(ConnectionLimits(connections=10, per_peer=1)) as (app, _, port):
        reader, writer = await connect(port)
        writer.write(b"GET /slow HTTP/1.1\r\nhost: muster\r\n\r\n")
        await app.begun.wait()
        refused, second = await connect(port)
        assert await is_closed(refused)
        assert b"200" in await hello(port, "127.0.0.2")
        app.go_on.set()
        assert b"200" in await reader.readline()
        for each in (writer, second):
            each.close()


async def test_a_server_without_file_descriptors_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It closes a connection that waits, and accepts again after a moment."""
    async with running(LONG) as (_, held, port):
        silent, writer = await connect(port)
        await eventually(lambda: len(held.table) == 1)
        refusals = iter([OSError(errno.EMFILE, os.strerror(errno.EMFILE))])
        accept = held._listener.accept

        class Exhausted:
            def __getattr__(self, name: str) -> object:
                return getattr(held.sockets[0], name)

            def accept(self) -> object:
                for error in refusals:
                    raise error
                return accept()

        monkeypatch.setattr(held, "_listener", Exhausted())
        assert b"200" in await hello(port)
        assert await is_closed(silent)
        writer.close()


async def test_a_silent_connection_costs_no_tls(tmp_path: Path) -> None:
    """Only a socket: it has no transport before its first byte."""
    async with running(LONG, server_context(tmp_path)) as (_, held, port):
        _, writer = await connect(port)
        await eventually(lambda: len(held.table) == 1)
        (connection,) = held.table.all()
        assert (connection.is_parked, connection.transport) == (True, None)
        writer.write(b"\x16")
        await eventually(lambda: connection.transport is not None)
        writer.close()


async def test_aborted_handshakes_leave_nothing_behind(tmp_path: Path) -> None:
    """Neither connections nor file descriptors; other peers have theirs meanwhile."""
    async with running(LONG, server_context(tmp_path)) as (_, held, port):
        before = open_files()
        for garbage in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n") * 20:
            _, writer = await connect(port)
            writer.write(garbage)
            writer.transport.abort()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context())
        writer.write(HELLO)
        assert b"200" in await reader.readline()
        writer.close()
        await eventually(lambda: not held.table)
        await eventually(lambda: open_files() <= before)


async def test_a_stopped_server_closes_silent_connections(tmp_path: Path) -> None:
    """And those in the middle of a handshake: it does not wait for them."""
    folder = server_context(tmp_path)
    async with running(LONG, folder) as (_, held, port):
        peers = [await connect(port) for _ in range(3)]
        peers[0][1].write(b"\x16")
        await eventually(lambda: len(held.table) == 3)
    for reader, writer in peers:
        assert await is_closed(reader)
        writer.close()


@pytest.mark.parametrize(
    "odd",
    [
        b"\0" * 100,
        b"POST /read HTTP/1.1\r\nhost: muster\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1000,
        b"POST /read HTTP/1.1\r\nhost: muster\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000,
    ],
    ids=["rubbish", "chunks", "endless", "many headers"],
)
async def test_odd_requests_are_refused_and_closed(odd: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """At the first look: a byte in a chunk of its own would cost as much as a request. No error is logged."""
    async with running(LONG) as (_, held, port):
        reader, writer = await connect(port)
        writer.write(odd)
        assert b" 400 " in await reader.readline()
        assert await is_closed(reader)
        writer.close()
        await eventually(lambda: not held.table)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_what_is_no_tls_gets_none(tmp_path: Path) -> None:
    """It is closed before anything is built for it."""
    async with running(LONG, server_context(tmp_path)) as (_, held, port):
        reader, writer = await connect(port)
        await eventually(lambda: len(held.table) == 1)
        (connection,) = held.table.all()
        writer.write(HELLO)
        assert await is_closed(reader)
        assert connection.transport is None
        writer.close()


@pytest.mark.usefixtures("_quick")
async def test_memory_goes_back_after_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, when nearly all of it has gone, however short it was."""
    released: list[None] = []
    monkeypatch.setattr(acceptor, "FLOOD", 8)
    monkeypatch.setattr(acceptor, "release_freed_memory", lambda: released.append(None))
    async with running(LONG) as (_, held, port):
        flood = [await connect(port) for _ in range(10)]
        await eventually(lambda: len(held.table) == 10)
        await asyncio.sleep(0.2)
        assert not released
        for _, writer in flood:
            writer.close()
        await eventually(lambda: bool(released))
        await asyncio.sleep(0.2)
        assert len(released) == 1

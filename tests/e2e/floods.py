"""Floods of connections on loopback: peers that are silent, slow, or leave in the middle of a handshake.

Rule: whatever floods a server, others are answered throughout, memory stays bounded, and afterwards everything is as
before. The nightly profile opens 10,000 connections each time.
"""

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import pytest

from tests.e2e.local_run import open_files, rss_mb, untrusting

IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE", "") == "nightly"
CONNECTIONS = 10_000 if IS_NIGHTLY else 1_200  # more than a server holds
HANDSHAKES = 3_000 if IS_NIGHTLY else 120  # those that cost the client CPU
MOST_MB, KEPT_MB = 400.0, 40.0
KEPT_FILES = 40  # muster's own connections come and go while this process is busy
SETTLE_SECONDS = 90.0
FLOODER = "127.0.0.1"
OTHER = "127.0.0.3"  # a peer that does not flood
BEGUN_HANDSHAKE = b"\x16\x03\x01\x02\x00\x01"
ABORTED_HANDSHAKES = (b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x28")
Answers = list[tuple[str, int]]  # what was asked, and the status


@contextmanager
def many_files() -> Iterator[None]:
    """This process may open as many connections as a flood has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < CONNECTIONS + 500:
        pytest.skip(f"{CONNECTIONS} connections need more than {hard} open files")
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Flood:
    """Connections of one peer; those that the server closes are replaced by nothing."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.sockets: list[socket.socket] = []

    async def open(self, number: int, first: bytes = b"") -> None:
        """Opens connections, and sends a few bytes on each."""
        for i in range(number):
            sock = await asyncio.to_thread(self._connect) if i % 50 == 0 else self._connect()
            self.send(sock, first)
            self.sockets.append(sock)

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20, source_address=(FLOODER, 0))

    async def open_secure(self, number: int, first: bytes) -> None:
        """The same after a handshake."""
        for _ in range(number):
            sock = await asyncio.to_thread(self._connect_secure)
            if sock is not None:
                self.send(sock, first)
                self.sockets.append(sock)

    def _connect_secure(self) -> ssl.SSLSocket | None:
        plain = self._connect()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            return untrusting().wrap_socket(plain)
        except OSError:
            plain.close()
            return None

    def send(self, sock: socket.socket, data: bytes) -> None:
        try:
            if data:
                sock.sendall(data)
        except OSError:
            pass  # the server has closed it

    def send_all(self, data: bytes) -> None:
        for sock in self.sockets:
            self.send(sock, data)

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()
        self.sockets.clear()


@asynccontextmanager
async def flooded(port: int, pids: Sequence[int], ask: Callable[[], Awaitable[Answers]]) -> AsyncIterator[Flood]:
    """Others are answered meanwhile; afterwards everything is as before."""
    await ask()
    rss_before, files_before = [rss_mb(pid) for pid in pids], [open_files(pid) for pid in pids]
    flood, highest = Flood(port), [0.0 for _ in pids]
    answers: Answers = []
    rounds = 0

    async def keep_asking() -> None:
        nonlocal rounds
        while True:
            answers.extend(await ask())
            rounds += 1
            highest[:] = [max(rss_mb(pid), before) for pid, before in zip(pids, highest, strict=True)]

    asking = asyncio.create_task(keep_asking())
    try:
        yield flood
        answered = rounds
        await until(lambda: asking.done() or rounds >= answered + 2)
    finally:
        asking.cancel()
        (ended,) = await asyncio.gather(asking, return_exceptions=True)
        flood.close()
    assert isinstance(ended, asyncio.CancelledError), ended
    refused = [answer for answer in answers if answer[1] != 200]
    assert not refused, f"{len(refused)} of {len(answers)}: {refused[:5]}"
    assert max(highest) < MOST_MB
    await until(lambda: all(open_files(pid) <= was + KEPT_FILES for pid, was in zip(pids, files_before, strict=True)))
    await until(lambda: all(rss_mb(pid) < was + KEPT_MB for pid, was in zip(pids, rss_before, strict=True)))


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(SETTLE_SECONDS):
        while not holds():
            await asyncio.sleep(0.05)


async def abort_handshakes(flood: Flood) -> None:
    """Peers that go, some with a reset, some that never spoke TLS."""
    for begun in ABORTED_HANDSHAKES:
        await flood.open(CONNECTIONS // 3, begun)
        for sock in flood.sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        flood.close()


async def send_slowly(flood: Flood, head: bytes) -> None:
    """Heads and bodies byte by byte, after a handshake."""
    for begun in (head, head + b"content-length: 2000000\r\n\r\n"):
        await flood.open_secure(HANDSHAKES // 2, begun)
    for _ in range(5):
        flood.send_all(b"x")
        await asyncio.sleep(0.2)

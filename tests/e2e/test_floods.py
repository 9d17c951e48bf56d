"""`muster run` under floods on loopback: peers that are silent, slow, or leave in the middle of a handshake.

Others are answered throughout, by the webhook and by the probes; memory stays bounded and comes back, and so do file
descriptors. The nightly profile opens 10,000 connections each time.
"""

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.local_run import LocalRun, local_run, open_files, rss_mb, untrusting

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE", "") == "nightly"
CONNECTIONS = 10_000 if IS_NIGHTLY else 1_200  # more than a server holds
HANDSHAKES = 3_000 if IS_NIGHTLY else 120  # those that cost the client CPU
MOST_MB, KEPT_MB = 400.0, 40.0
KEPT_FILES = 40  # muster's own connections come and go while this process is busy
HEAD = b"POST /validate HTTP/1.1\r\nhost: muster\r\n"
FLOODER = "127.0.0.1"
ROUND = 3  # servers and probes, in turn


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
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
async def flooded(run: LocalRun, port: int) -> AsyncIterator[Flood]:
    """Others are answered meanwhile; afterwards everything is as before."""
    pids = run.process.pid, run.webhook_pid
    await run.review()
    rss_before, files_before = [rss_mb(pid) for pid in pids], [open_files(pid) for pid in pids]
    flood, highest = Flood(port), [0.0, 0.0]
    statuses: list[tuple[str, int]] = []

    async def keep_asking() -> None:
        while True:
            statuses.append(("webhook", await run.review()))
            statuses.extend([(path, (await run.probe(path))[0]) for path in ("/livez", "/readyz")])
            highest[:] = [max(rss_mb(pid), before) for pid, before in zip(pids, highest, strict=True)]

    asking = asyncio.create_task(keep_asking())
    try:
        yield flood
        answered = len(statuses)
        await run.until(lambda: len(statuses) >= answered + 2 * ROUND)
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        flood.close()
    refused = [status for status in statuses if status[1] != 200]
    assert not refused, f"{len(refused)} of {len(statuses)}: {refused[:5]}"
    assert max(highest) < MOST_MB
    await run.until(
        lambda: all(open_files(pid) <= was + KEPT_FILES for pid, was in zip(pids, files_before, strict=True))
    )
    await run.until(lambda: all(rss_mb(pid) < was + KEPT_MB for pid, was in zip(pids, rss_before, strict=True)))
    assert run.process.poll() is None
    assert run.webhook_pid == pids[1], "the same process as before"


async def test_floods_change_nothing_for_others(tmp_path: Path) -> None:
    """One process through all of them: what one leaves behind would show in the next."""
    async with local_run(tmp_path) as run:
        for port in (run.webhook_port, run.probe_port):
            await silent(run, port)
        await half_open_handshakes(run)
        await aborted_handshakes(run)
        await slow_senders(run)
        await slow_readers(run)


async def silent(run: LocalRun, port: int) -> None:
    """Connections without a byte."""
    async with flooded(run, port) as flood:
        await flood.open(CONNECTIONS)


async def half_open_handshakes(run: LocalRun) -> None:
    """The first bytes of a handshake, and no more."""
    async with flooded(run, run.webhook_port) as flood:
        await flood.open(CONNECTIONS, b"\x16\x03\x01\x02\x00\x01")


async def aborted_handshakes(run: LocalRun) -> None:
    """Peers that go, some with a reset, some that never spoke TLS."""
    async with flooded(run, run.webhook_port) as flood:
        for begun in (b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x28"):
            await flood.open(CONNECTIONS // 3, begun)
            for sock in flood.sockets:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            flood.close()


async def slow_senders(run: LocalRun) -> None:
    """Heads and bodies byte by byte, after a handshake."""
    async with flooded(run, run.webhook_port) as flood:
        for begun in (HEAD, HEAD + b"content-length: 4000000\r\n\r\n"):
            await flood.open_secure(HANDSHAKES // 2, begun)
        for _ in range(5):
            flood.send_all(b"x")
            await asyncio.sleep(0.2)


async def slow_readers(run: LocalRun) -> None:
    """Requests one after the other without a look at the answers, by the probes' server: its metrics are large."""
    async with flooded(run, run.probe_port) as flood:
        await flood.open(HANDSHAKES, b"GET /metrics HTTP/1.1\r\nhost: muster\r\n\r\n" * 20)

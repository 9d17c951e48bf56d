"""`muster run` under floods on loopback: peers that are silent, slow, or leave in the middle of a handshake.

Others are answered throughout, by the webhook and by the probes; memory stays bounded and comes back, and so do file
descriptors. The nightly profile opens 10,000 connections each time.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e import floods
from tests.e2e.floods import CONNECTIONS, HANDSHAKES, Answers, Flood, many_files
from tests.e2e.local_run import LocalRun, local_run

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
HEAD = b"POST /validate HTTP/1.1\r\nhost: muster\r\n"


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    with many_files():
        yield


@asynccontextmanager
async def flooded(run: LocalRun, port: int) -> AsyncIterator[Flood]:
    """The webhook and the probes answer meanwhile; both processes are the same afterwards."""
    webhook = run.webhook_pid

    async def ask() -> Answers:
        probes = [(path, (await run.probe(path))[0]) for path in ("/livez", "/readyz")]
        return [("webhook", await run.review()), *probes]

    async with floods.flooded(port, (run.process.pid, webhook), ask) as flood:
        yield flood
    assert run.process.poll() is None
    assert run.webhook_pid == webhook, "the same process as before"


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
        await flood.open(CONNECTIONS, floods.BEGUN_HANDSHAKE)


async def aborted_handshakes(run: LocalRun) -> None:
    """Peers that go, some with a reset, some that never spoke TLS."""
    async with flooded(run, run.webhook_port) as flood:
        await floods.abort_handshakes(flood)


async def slow_senders(run: LocalRun) -> None:
    """Heads and bodies byte by byte, after a handshake."""
    async with flooded(run, run.webhook_port) as flood:
        await floods.send_slowly(flood, HEAD)


async def slow_readers(run: LocalRun) -> None:
    """Requests one after the other without a look at the answers, by the probes' server: its metrics are large."""
    async with flooded(run, run.probe_port) as flood:
        await flood.open(HANDSHAKES, b"GET /metrics HTTP/1.1\r\nhost: muster\r\n\r\n" * 20)

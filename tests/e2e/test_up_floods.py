"""The API server of `muster up` under floods on loopback, as `test_floods.py` has them for `muster run`.

Others read and write throughout, a watch goes on through all of them, and memory stays bounded and comes back.
"""

import asyncio
import http.client
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from muster.kube.cluster import Raw
from tests.e2e import floods
from tests.e2e.floods import CONNECTIONS, HANDSHAKES, OTHER, Answers, Flood, many_files
from tests.e2e.local_run import ANSWER_SECONDS, untrusting
from tests.support.soak import up

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
NODES = 64
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
KIB = 2**10
LARGE_OBJECTS = 64  # of 64 KiB
WRITES = 100  # of a large object, while others watch it and read nothing


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    with many_files():
        yield


class UpServer:
    """The API server of one `muster up`, as a client with its kubeconfig meets it."""

    def __init__(self, kubeconfig: Path, pid: int) -> None:
        settings = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        self.pid = pid
        self.port = urlsplit(settings["clusters"][0]["cluster"]["server"]).port or 0
        self.token: str = settings["users"][0]["user"]["token"]

    def head(self, path: str, method: str = "GET") -> bytes:
        """Of a request, without its last line."""
        return f"{method} {path} HTTP/1.1\r\nhost: muster\r\nauthorization: Bearer {self.token}\r\n".encode()

    async def ask(self, path: str, method: str = "GET", raw: Raw | None = None) -> int:
        """The status of an answer, on a new connection; 0: no answer."""
        return await asyncio.to_thread(self._ask, path, method, raw)

    def _ask(self, path: str, method: str, raw: Raw | None) -> int:
        with closing(self.connection()) as connection, suppress(OSError, http.client.HTTPException):
            self.send(connection, path, method, raw)
            response = connection.getresponse()
            response.read()
            return response.status
        return 0

    def connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=ANSWER_SECONDS, context=untrusting(), source_address=(OTHER, 0)
        )

    def send(
        self, connection: http.client.HTTPSConnection, path: str, method: str = "GET", raw: Raw | None = None
    ) -> None:
        body = None if raw is None else msgspec.json.encode(raw)
        connection.request(method, path, body, {"authorization": f"Bearer {self.token}"})

    async def answers(self) -> Answers:
        """A probe, a read and a write."""
        patched = await self.ask(f"{CONFIG_MAPS}/written", "PUT", config_map("written"))
        return [("write", patched), *[(path, await self.ask(path)) for path in ("/livez", "/api/v1/nodes")]]

    @asynccontextmanager
    async def flooded(self) -> AsyncIterator[Flood]:
        async with floods.flooded(self.port, (self.pid,), self.answers) as flood:
            yield flood


def config_map(name: str, text: str = "") -> Raw:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"text": text}}


async def test_floods_change_nothing_for_others(tmp_path: Path) -> None:
    """One process through all of them: what one leaves behind would show in the next; a watch lasts as long."""
    with up(tmp_path, NODES) as (kubeconfig, process):
        server = UpServer(kubeconfig, process.pid)
        for name in ("written", "watched", "large"):
            assert await server.ask(CONFIG_MAPS, "POST", config_map(name)) == 201
        with closing(server.connection()) as connection:
            server.send(connection, f"{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name%3Dwatched")
            events = await asyncio.to_thread(connection.getresponse)
            await asyncio.to_thread(events.readline)  # what is there already
            await silent(server)
            await aborted_handshakes(server)
            await slow_senders(server)
            await slow_readers(server)
            await slow_watchers(server)
            await slow_readers_of_large_answers(server)
            assert await server.ask(f"{CONFIG_MAPS}/watched", "PUT", config_map("watched", "changed")) == 200
            event = msgspec.json.decode(await asyncio.to_thread(events.readline))
            assert (event["type"], event["object"]["data"]) == ("MODIFIED", {"text": "changed"})
        assert process.poll() is None


async def silent(server: UpServer) -> None:
    """Connections without a byte, and with the first bytes of a handshake."""
    for begun in (b"", floods.BEGUN_HANDSHAKE):
        async with server.flooded() as flood:
            await flood.open(CONNECTIONS, begun)


async def aborted_handshakes(server: UpServer) -> None:
    """Peers that go, some with a reset, some that never spoke TLS."""
    async with server.flooded() as flood:
        await floods.abort_handshakes(flood)


async def slow_senders(server: UpServer) -> None:
    """Heads and bodies byte by byte, after a handshake."""
    async with server.flooded() as flood:
        await floods.send_slowly(flood, server.head(CONFIG_MAPS, "POST"))


async def slow_readers(server: UpServer) -> None:
    """Large answers, one request after the other, of which nothing is read."""
    async with server.flooded() as flood:
        await flood.open_secure(HANDSHAKES, (server.head("/api/v1/nodes") + b"\r\n") * 20)


async def slow_watchers(server: UpServer) -> None:
    """Watches of which nothing is read while a large object changes: many times what memory may hold, for all."""
    async with server.flooded() as flood:
        await flood.open_secure(HANDSHAKES, server.head(f"{CONFIG_MAPS}?watch=true") + b"\r\n")
        for i in range(WRITES):
            text = f"{i:04}" * (16 * KIB)
            assert await server.ask(f"{CONFIG_MAPS}/large", "PUT", config_map("large", text)) == 200


async def slow_readers_of_large_answers(server: UpServer) -> None:
    """Answers of megabytes: all of them together, twice, would be many times what memory may hold."""
    for i in range(LARGE_OBJECTS):
        large = config_map(f"large-{i}", "0123" * (16 * KIB))
        assert await server.ask(CONFIG_MAPS, "POST", large) == 201
    async with server.flooded() as flood:
        await flood.open_secure(HANDSHAKES, (server.head(CONFIG_MAPS) + b"\r\n") * 20)

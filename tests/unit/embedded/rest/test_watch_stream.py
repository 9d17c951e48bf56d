"""Watch responses and clients that read slowly: what is pending stays in the store until it can be sent."""

import asyncio
from typing import Any

import msgspec
from starlette.types import Message

from muster.api.resources import CONFIG_MAPS
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.rest.watch_stream import PART_BYTES, OpenWatches, WatchStream
from muster.kube.cluster import Change, Raw
from tests.contract.given import config_map

OBJECTS, LARGE = 50, PART_BYTES // 4


class Reader:
    """A client of a watch: takes parts while it has credit, and then none."""

    def __init__(self, credit: int) -> None:
        self.parts: list[bytes] = []
        self._credit = asyncio.Semaphore(credit)

    async def send(self, message: Message) -> None:
        body: bytes = message.get("body", b"")
        if self._credit.locked():
            await self._credit.acquire()
        if body:
            await self._credit.acquire()
            self.parts.append(body)

    def read_on(self, parts: int) -> None:
        for _ in range(parts):
            self._credit.release()

    @property
    def names(self) -> list[str]:
        lines = b"".join(self.parts).splitlines()
        return [msgspec.json.decode(line)["object"]["metadata"]["name"] for line in lines]


def filled() -> ClusterStore:
    store = ClusterStore()
    for i in range(OBJECTS):
        store.create(CONFIG_MAPS, config_map("default", f"c{i:02}", text="x" * LARGE))
    return store


async def never() -> Any:
    await asyncio.Event().wait()


async def test_a_client_that_reads_nothing_costs_no_further_part() -> None:
    """No event becomes bytes before its client has taken those before it; then all come, each once, in order."""
    formatted: list[str] = []

    def format_event(change: Change) -> Raw:
        formatted.append(change.object["metadata"]["name"])
        return change.object

    store, reader = filled(), Reader(credit=1)
    with store.watch(CONFIG_MAPS, "0") as watch:
        stream = asyncio.create_task(WatchStream(watch, OpenWatches(), format_event, 60.0)({}, never, reader.send))
        await asyncio.sleep(0.05)
        assert len(reader.parts) == 1
        assert PART_BYTES <= len(reader.parts[0]) < PART_BYTES + 2 * LARGE
        assert formatted == reader.names
        reader.read_on(OBJECTS)
        while len(reader.names) < OBJECTS:
            await asyncio.sleep(0)
        stream.cancel()
    assert reader.names == [f"c{i:02}" for i in range(OBJECTS)]


def test_changes_that_are_not_consumed_stay_pending() -> None:
    store = ClusterStore()
    with store.watch(CONFIG_MAPS, store.version) as watch:
        for name in ("a", "b", "c"):
            store.create(CONFIG_MAPS, config_map("default", name))
        assert next(watch.read()).object["metadata"]["name"] == "a"
        assert watch.pending
        assert [change.object["metadata"]["name"] for change in watch.take()] == ["b", "c"]
        assert not watch.pending

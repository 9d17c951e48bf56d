"""Records every stored change of what is judged, from etcd itself: complete across restarts of the API server.

etcd gives changes of all kinds in one order, and keeps them until they are compacted; the recorder resumes after the
last one that it has, so nothing is missed while etcd restarts. Objects are JSON there (`FLAGS`).
"""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from tests.oracles.history.records import Raw, RunHistory, StoredChange

FLAGS = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")  # of kube-apiserver
KINDS = (
    "/registry/leases/muster-system/",
    "/registry/minions/",
    "/registry/pods/",
    "/registry/priorityclasses/",
    "/registry/kai.scheduler/topologies/",
    "/registry/scheduling.run.ai/podgroups/",
    "/registry/scheduling.run.ai/queues/",
)
RETRY_SECONDS = 0.1
CAUGHT_UP_SECONDS = 60.0


class EtcdRecorder:
    """What happened so far; `recording` keeps it up to date."""

    def __init__(self, url: str, clock: Callable[[], float]) -> None:
        self.url, self.clock = url, clock
        self.changes: list[StoredChange] = []
        self.revision = 0  # the last one that was seen
        self._current: dict[str, StoredChange] = {}  # by key
        self._session: aiohttp.ClientSession

    @asynccontextmanager
    async def recording(self) -> AsyncIterator["EtcdRecorder"]:
        """From what is there now, until it is left."""
        timeout = aiohttp.ClientTimeout(total=None, connect=5.0)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as self._session:
            await self._list()
            task = asyncio.create_task(self._watch())
            try:
                yield self
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def current(self) -> RunHistory:
        """Only what is stored now, as a history."""
        changes = sorted(self._current.values(), key=lambda change: change.revision)
        return RunHistory(tuple(changes), ended=self.clock())

    async def catch_up(self) -> None:
        """Until all that is stored now was seen; someone must go on writing, as a leader does to its lease."""
        ends = time.monotonic() + CAUGHT_UP_SECONDS
        wanted = int((await self._post("/v3/kv/range", {"key": _encoded(KINDS[0])}))["header"]["revision"])
        while self.revision < wanted:
            assert time.monotonic() < ends, f"revision {wanted} is not seen, the last one is {self.revision}"
            await asyncio.sleep(RETRY_SECONDS)

    async def compact(self) -> None:
        """Forget all revisions but the last one that was seen: watches cannot resume before it."""
        await self._post("/v3/kv/compaction", {"revision": str(self.revision), "physical": True})

    async def _list(self) -> None:
        listed: list[Raw] = []
        for kind in KINDS:
            answer = await self._post("/v3/kv/range", _range(kind))
            self.revision = max(self.revision, int(answer["header"]["revision"]))
            listed += answer.get("kvs") or []
        for raw in sorted(listed, key=lambda raw: int(raw["mod_revision"])):
            self._keep(raw, raw["value"], is_deleted=False)

    async def _watch(self) -> None:
        """Resumes after the last revision whenever the stream ends: etcd restarts."""
        while True:
            try:
                await self._stream()
            except (aiohttp.ClientError, OSError):
                await asyncio.sleep(RETRY_SECONDS)

    async def _stream(self) -> None:
        wanted = {**_range("/registry/"), "start_revision": str(self.revision + 1), "prev_kv": True}
        rest = b""
        async with self._session.post(f"{self.url}/v3/watch", json={"create_request": wanted}) as answer:
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._see(msgspec.json.decode(line))

    def _see(self, line: Raw) -> None:
        result = line.get("result")
        assert result is not None, f"the watch of etcd failed, and with it the history is not whole: {line}"
        assert not result.get("canceled"), f"etcd has ended the watch: {result}"
        for event in result.get("events") or ():
            is_deleted = event.get("type") == "DELETE"
            changed = event["kv"]
            self.revision = max(self.revision, int(changed["mod_revision"]))
            if base64.b64decode(changed["key"]).decode().startswith(KINDS):
                self._keep(changed, event["prev_kv"]["value"] if is_deleted else changed["value"], is_deleted)

    def _keep(self, changed: Raw, value: str, is_deleted: bool) -> None:
        stored: Raw = msgspec.json.decode(base64.b64decode(value))
        stored["metadata"].pop("managedFields", None)
        change = StoredChange(int(changed["mod_revision"]), self.clock(), stored, is_deleted)
        self.changes.append(change)
        if is_deleted:
            self._current.pop(changed["key"], None)
        else:
            self._current[changed["key"]] = change

    async def _post(self, path: str, body: Raw) -> Raw:
        async with self._session.post(self.url + path, json=body) as answer:
            assert answer.status == 200, await answer.text()
            decoded: Raw = await answer.json()
            return decoded


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _range(prefix: str) -> Raw:
    """Every key that begins with it."""
    return {"key": _encoded(prefix), "range_end": _encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1))}

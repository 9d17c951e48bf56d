"""Watches: lines that keep coming, taken up where they broke off."""

import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, cast, get_args

import aiohttp
import msgspec
from msgspec import Struct

from muster.kube.client.http import Http, Request
from muster.kube.client.responses import NOT_JSON, error_in_watch, is_object, request_backoff
from muster.kube.cluster import Change, Raw
from muster.kube.errors import ApiError

TURN_SECONDS: Final = (240, 300)  # after which the API server ends a watch; spread, so that not all come back at once
GRACE_SECONDS: Final = 30
LONGEST_LINE: Final = 64 * 2**20
SOON_SECONDS: Final = 1.0  # a stream that ends sooner than this, and without a word, counts as a failure
MOST_FRUITLESS: Final = 3  # of them in a row, before whoever watches is told
TYPES: Final = get_args(Change.__annotations__["type"])


class _Event(Struct, frozen=True):
    type: str
    object: Raw


_decode = msgspec.json.Decoder(_Event).decode


@asynccontextmanager
async def watching(http: Http, path: str, query: Mapping[str, str], since: str) -> AsyncIterator[AsyncIterator[Change]]:
    """Events after a resource version, over as many streams as it takes; ApiError where the server ends it for good."""
    watch = ClientWatch(http, path, query, since)
    await watch.open()
    try:
        async with aclosing(watch.changes()) as changes:
            yield changes
    finally:
        watch.close()


class ClientWatch:
    """One watch, and how far it has come."""

    def __init__(self, http: Http, path: str, query: Mapping[str, str], since: str) -> None:
        self._http, self._path, self._query = http, path, query
        self.since = since
        self._stream: aiohttp.ClientResponse | None = None
        self._opened_at = 0.0

    async def open(self) -> None:
        """Begin a stream where the last one ended."""
        turn = random.randint(*TURN_SECONDS)
        query = {
            **self._query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.since,
            "timeoutSeconds": str(turn),
        }
        self._stream = await self._http.open(Request("GET", self._path, query), turn + GRACE_SECONDS)
        self._opened_at = time.monotonic()

    def close(self) -> None:
        """Drop the connection: what is still under way on it is of no use."""
        if self._stream is not None:
            connection = self._stream.connection
            if connection is not None and connection.transport is not None:
                connection.transport.abort()  # TLS would wait for the peer to say goodbye
            self._stream.close()
            self._stream = None

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Every change, without end; an end of the stream is none.

        API servers send no bookmarks for kinds that nobody writes, so each new stream is told as one that is `opened`:
        a sign of life, by which nothing is told yet. What happened before it may still be on its way.
        """
        backoff = request_backoff(self._http.chance)
        while True:
            before = self.since
            async with aclosing(self._lines()) as lines:
                async for line in lines:
                    yield self._change(line)
            self.close()
            fruitless = self.since == before and time.monotonic() - self._opened_at < SOON_SECONDS
            if fruitless:
                seconds = backoff.next_seconds()
                if backoff.failures > MOST_FRUITLESS:
                    raise ApiError(503, "ServiceUnavailable", f"watch {self._path}: it ends as soon as it has begun")
                await self._http.pause(seconds)
                await self.open()
                continue  # no sign of life yet
            backoff.reset()
            await self.open()
            yield Change("BOOKMARK", {"metadata": {"resourceVersion": self.since}}, opened=True)

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        """Whole lines; one that is cut off comes again with the next stream."""
        rest = b""
        assert self._stream is not None
        try:
            async for chunk in self._stream.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line
                if len(rest) > LONGEST_LINE:
                    raise ApiError(
                        500, "InternalError", f"watch {self._path}: a line of more than {LONGEST_LINE} bytes"
                    )
        except (aiohttp.ClientError, TimeoutError, OSError):
            return

    def _change(self, line: bytes) -> Change:
        try:
            event = _decode(line)
        except NOT_JSON:
            raise self._nonsense() from None
        if event.type not in TYPES:
            raise error_in_watch(event.object, f"watch {self._path}")
        change = Change(cast("Any", event.type), event.object)
        if not _has_version(event.object) or (change.type != "BOOKMARK" and not is_object(event.object)):
            raise self._nonsense()
        self.since = change.resource_version
        return change

    def _nonsense(self) -> ApiError:
        return ApiError(500, "InternalError", f"watch {self._path}: a line that is not an event")


def _has_version(raw: Raw) -> bool:
    meta = raw.get("metadata")
    return isinstance(meta, dict) and isinstance(version := meta.get("resourceVersion"), str) and version != ""

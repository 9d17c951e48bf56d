"""Watches: streams of events, one line each, resumed where they ended."""

import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, cast, get_args

import msgspec
from msgspec import Struct

from muster.api.meta import Wire
from muster.kube.client.connection import ConnectionLost, HttpConnection
from muster.kube.client.http import Http, Request
from muster.kube.client.responses import NOT_JSON, parse_watch_error, request_backoff
from muster.kube.cluster import Change
from muster.kube.errors import ApiError
from muster.kube.stored_object import ObjectHead, Raw, StoredObject, encode_object

STREAM_SHARE: Final = (0.6, 0.8)  # of the longest silence: how long a stream lasts; spread, so that not all end at once
LONGEST_LINE: Final = 64 * 2**20
SHORT_STREAM_SECONDS: Final = 1.0  # a stream that ends sooner, and without an event, counts as a failure
MOST_EMPTY_STREAMS: Final = 3  # such failures in a row, before the watch itself fails
TYPES: Final = get_args(Change.__annotations__["type"])


class _Event(Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _BookmarkMeta(Struct, frozen=True, rename="camel"):
    resource_version: str


class _Bookmark(Struct, frozen=True):
    metadata: _BookmarkMeta


_decode = msgspec.json.Decoder(_Event).decode


def _decode_bookmark(data: msgspec.Raw) -> Raw:
    """Nothing but a version."""
    return {"metadata": {"resourceVersion": msgspec.json.decode(data, type=_Bookmark).metadata.resource_version}}


@asynccontextmanager
async def open_watch(
    http: Http, path: str, query: Mapping[str, str], since: str, struct: type[Wire] = ObjectHead
) -> AsyncIterator[AsyncIterator[Change]]:
    """Events after a resourceVersion, over as many streams as it takes; ApiError where it cannot be resumed."""
    watch = ClientWatch(http, path, query, since, struct)
    await watch.open()
    try:
        async with aclosing(watch.changes()) as changes:
            yield changes
    finally:
        watch.close()


class ClientWatch:
    """One watch, and the resourceVersion it has reached."""

    def __init__(
        self, http: Http, path: str, query: Mapping[str, str], since: str, struct: type[Wire] = ObjectHead
    ) -> None:
        self._http, self._path, self._query, self._struct = http, path, query, struct
        self.since = since
        self._stream: HttpConnection | None = None
        self._opened_at = 0.0

    async def open(self) -> None:
        """Opens a stream where the last one ended. The API server ends it; where it does not, silence does."""
        silence = self._http.limits.watch_silence_seconds
        seconds = max(round(silence * random.uniform(*STREAM_SHARE)), 1)
        query = {
            **self._query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.since,
            "timeoutSeconds": str(seconds),
        }
        self._stream = await self._http.open(Request("GET", self._path, query), silence)
        self._opened_at = time.monotonic()

    def close(self) -> None:
        """Drops the connection: what is still in flight on it is of no use."""
        if self._stream is not None:
            self._stream.abort()
            self._stream = None

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Every change, without end: the end of a stream is not the end of the watch.

        API servers send no bookmarks for kinds that are never written, so each new stream yields a bookmark that
        `is_reopened`: a sign of life, through which nothing was received yet.
        """
        backoff = request_backoff(self._http.chance)
        while True:
            before = self.since
            async with aclosing(self._lines()) as lines:
                async for line in lines:
                    yield self._change(line)
            self.close()
            is_empty = self.since == before and time.monotonic() - self._opened_at < SHORT_STREAM_SECONDS
            if is_empty:
                seconds = backoff.next_seconds()
                if backoff.failures > MOST_EMPTY_STREAMS:
                    raise ApiError(503, "ServiceUnavailable", f"watch {self._path}: it ends as soon as it has begun")
                await self._http.pause(seconds)
                await self.open()
                continue  # no sign of life yet
            backoff.reset()
            await self.open()
            yield Change("BOOKMARK", {"metadata": {"resourceVersion": self.since}}, is_reopened=True)

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        """Whole lines; one that is cut off comes again with the next stream."""
        buffer = b""
        assert self._stream is not None
        try:
            async for chunk in self._stream.chunks():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    yield line
                if len(buffer) > LONGEST_LINE:
                    raise ApiError(
                        500, "InternalError", f"watch {self._path}: a line of more than {LONGEST_LINE} bytes"
                    )
        except (ConnectionLost, TimeoutError, OSError):
            return

    def _change(self, line: bytes) -> Change:
        try:
            event = _decode(line)
            if event.type not in TYPES:
                raise parse_watch_error(msgspec.json.decode(event.object), f"watch {self._path}")
            stored = self._decode(event)
        except NOT_JSON:
            raise self._not_an_event() from None
        change = Change(cast("Any", event.type), stored)
        if not change.resource_version:
            raise self._not_an_event()
        self.since = change.resource_version
        return change

    def _decode(self, event: _Event) -> StoredObject:
        if event.type == "BOOKMARK":
            return _decode_bookmark(event.object)
        return encode_object(event.object, struct=self._struct)

    def _not_an_event(self) -> ApiError:
        return ApiError(500, "InternalError", f"watch {self._path}: a line that is not an event")

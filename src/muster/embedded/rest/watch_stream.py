"""Watch responses: a line of JSON for each event, until the client disconnects, time is up or the server stops.

Rule 1: a watch ends by closing its StoreWatch; the stream then ends in order, so that the connection can be reused.
Rule 2: a client that reads slowly costs one part of its events, however many are pending.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from muster.embedded.cluster_store import ClusterStore
from muster.embedded.rest.list_options import ListOptions
from muster.embedded.rest.negotiation import ResponseFormat, negotiate_format
from muster.embedded.rest.request_target import Target
from muster.embedded.rest.responses import JSON, failure_status, status_error
from muster.embedded.rest.table.tables import Include, parse_include, partial_metadata, to_table
from muster.embedded.store.watch import StoreWatch
from muster.kube.cluster import Change, Raw
from muster.kube.errors import ApiError

EventFormat = Callable[[Change], Raw]  # the object of an event
MAX_TIMEOUT_SECONDS = 3600.0
BOOKMARK_SECONDS = 60.0
PART_BYTES = 32 * 2**10  # of events that are sent at once, if the first is not larger


class OpenWatches:
    """The open watches of a server. After `close_all`, new ones are closed at once."""

    def __init__(self) -> None:
        self._open: set[StoreWatch] = set()
        self._is_closed = False

    def add(self, store_watch: StoreWatch) -> None:
        """Register a watch."""
        self._open.add(store_watch)
        if self._is_closed:
            store_watch.close()

    def discard(self, store_watch: StoreWatch) -> None:
        """Forget a watch that has ended."""
        self._open.discard(store_watch)

    def close_all(self) -> None:
        """Close all watches, also those that are opened later."""
        self._is_closed = True
        for store_watch in tuple(self._open):
            store_watch.close()

    def __len__(self) -> int:
        return len(self._open)


def watch_objects(
    store: ClusterStore,
    watches: OpenWatches,
    target: Target,
    request: Request,
    options: ListOptions,
    clock: Callable[[], datetime],
) -> Response:
    """The watch response of a collection; a version that is too old is an ERROR event."""
    response_format = negotiate_format(request.headers.get("accept", ""))
    if response_format.media != JSON:
        raise status_error(406, f"a watch is only served as {JSON}")
    include_object = parse_include(request.query_params.get("includeObject", ""))
    format_event = _event_format(target, response_format, include_object, clock)
    try:
        store_watch = store.watch(
            target.resource,
            options.version,
            target.namespace,
            labels=options.labels,
            fields=options.fields,
            initial=options.initial,
        )
    except ApiError as error:
        if error.status != 410:
            raise
        return Response(_line({"type": "ERROR", "object": failure_status(error)}), media_type=JSON)
    seconds = min(options.timeout_seconds or MAX_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS)
    return WatchStream(store_watch, watches, format_event, seconds, bookmarks=options.bookmarks)


class WatchStream(Response):
    """A watch as an ASGI response."""

    def __init__(
        self,
        store_watch: StoreWatch,
        watches: OpenWatches,
        format_event: EventFormat,
        seconds: float,
        *,
        bookmarks: bool = False,
    ) -> None:
        super().__init__(media_type=JSON)
        del self.headers["content-length"]
        self._watch, self._watches, self._format_event = store_watch, watches, format_event
        self._seconds, self._bookmarks = seconds, bookmarks
        self._woken = asyncio.Event()

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the watch is closed: by the client, the timeout or the server."""
        loop = asyncio.get_running_loop()
        self._watch.wake = self._woken.set
        self._watches.add(self._watch)
        timer = loop.call_later(self._seconds, self._watch.close)
        disconnect = loop.create_task(self._close_on_disconnect(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._send_events(send)
            await send(_body_part(b"", more=False))
        except OSError:
            pass  # the client has disconnected
        finally:
            timer.cancel()
            disconnect.cancel()
            self._watch.close()
            self._watches.discard(self._watch)

    async def _close_on_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._watch.close()

    async def _send_events(self, send: Send) -> None:
        try:
            while not self._watch.closed:
                self._woken.clear()
                await send(_body_part(b""))  # waits while the client reads nothing: only then events become bytes
                await self._send(self._watch.read(), send)
                if self._watch.pending:
                    await asyncio.sleep(0)  # let other tasks run
                else:
                    await self._wait(send)
        except ApiError as error:
            await send(_body_part(_line({"type": "ERROR", "object": failure_status(error)})))

    async def _wait(self, send: Send) -> None:
        """Wait for a change; send a bookmark after an idle period."""
        try:
            async with asyncio.timeout(BOOKMARK_SECONDS):
                await self._woken.wait()
        except TimeoutError:
            await self._send([self._watch.bookmark()], send)

    async def _send(self, changes: Iterable[Change], send: Send) -> None:
        """Send a part of these changes, or all; bookmarks only where the client allows them, also the first one."""
        part = bytearray()
        for change in changes:
            if self._bookmarks or change.type != "BOOKMARK":
                part += _line({"type": change.type, "object": self._format_event(change)})
            if len(part) >= PART_BYTES:
                break
        if part:
            await send(_body_part(bytes(part)))


def _event_format(
    target: Target, response_format: ResponseFormat, include_object: Include, clock: Callable[[], datetime]
) -> EventFormat:
    """How events show their objects: the first row of a table has the column definitions."""
    with_definitions = True

    def row(change: Change) -> Raw:
        nonlocal with_definitions
        rows = [] if change.type == "BOOKMARK" else [change.object]
        metadata = {"resourceVersion": change.resource_version}
        result = to_table(
            target.columns,
            rows,
            clock(),
            include_object=include_object,
            version=response_format.version,
            metadata=metadata,
            with_definitions=with_definitions,
        )
        with_definitions = False
        return result

    def metadata_only(change: Change) -> Raw:
        return partial_metadata(change.object, response_format.version)

    def whole_object(change: Change) -> Raw:
        return change.object

    return {"Table": row, "PartialObjectMetadata": metadata_only, "Object": whole_object}[response_format.view]


def _line(event: Any) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def _body_part(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}

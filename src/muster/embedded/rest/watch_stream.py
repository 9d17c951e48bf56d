"""Watches as answers that go on: a line of JSON for each event, until the client leaves, time is up, or we stop.

Rule: whoever ends a watch closes it; the stream sees that and ends as it should, so the connection can be used again.
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
from muster.embedded.rest.negotiation import Wanted, wanted
from muster.embedded.rest.request_target import Target
from muster.embedded.rest.responses import JSON, refusal, status
from muster.embedded.rest.table.tables import Include, include, partial, table
from muster.embedded.store.watch import StoreWatch
from muster.kube.cluster import Change, Raw
from muster.kube.errors import ApiError

Show = Callable[[Change], Raw]
LONGEST_SECONDS = 3600.0
BOOKMARK_SECONDS = 60.0


class Watches:
    """Those that are open. Once they are ended, no new one stays open either."""

    def __init__(self) -> None:
        self._open: set[StoreWatch] = set()
        self._ended = False

    def add(self, opened: StoreWatch) -> None:
        """From now on it is ended with the others."""
        self._open.add(opened)
        if self._ended:
            opened.close()

    def discard(self, opened: StoreWatch) -> None:
        """It has ended by itself."""
        self._open.discard(opened)

    def end(self) -> None:
        """All of them."""
        self._ended = True
        for opened in tuple(self._open):
            opened.close()

    def __len__(self) -> int:
        return len(self._open)


def watch(
    store: ClusterStore,
    watches: Watches,
    found: Target,
    request: Request,
    options: ListOptions,
    clock: Callable[[], datetime],
) -> Response:
    """The events of a collection; a version that is too old is told as the first event."""
    form = wanted(request.headers.get("accept", ""))
    if form.media != JSON:
        raise refusal(406, f"a watch is only told as {JSON}")
    show = _show(found, form, include(request.query_params.get("includeObject", "")), clock)
    try:
        opened = store.watch(
            found.resource,
            options.version,
            found.namespace,
            labels=options.labels,
            fields=options.fields,
            initial=options.initial,
        )
    except ApiError as error:
        if error.status != 410:
            raise
        return Response(_line({"type": "ERROR", "object": status(error)}), media_type=JSON)
    seconds = min(options.seconds or LONGEST_SECONDS, LONGEST_SECONDS)
    return Stream(opened, watches, show, seconds, bookmarks=options.bookmarks)


class Stream(Response):
    """A watch as an ASGI answer."""

    def __init__(
        self, opened: StoreWatch, watches: Watches, show: Show, seconds: float, *, bookmarks: bool = False
    ) -> None:
        super().__init__(media_type=JSON)
        del self.headers["content-length"]
        self._watch, self._watches, self._show = opened, watches, show
        self._seconds, self._bookmarks = seconds, bookmarks
        self._woken = asyncio.Event()

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Until the watch is closed: by the client, by time, or by us."""
        loop = asyncio.get_running_loop()
        self._watch.wake = self._woken.set
        self._watches.add(self._watch)
        timer = loop.call_later(self._seconds, self._watch.close)
        left = loop.create_task(self._until_left(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._events(send)
            await send(_piece(b"", more=False))
        except OSError:
            pass  # nobody is there any more
        finally:
            timer.cancel()
            left.cancel()
            self._watch.close()
            self._watches.discard(self._watch)

    async def _until_left(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._watch.close()

    async def _events(self, send: Send) -> None:
        try:
            while not self._watch.closed:
                self._woken.clear()
                await self._tell(self._watch.take(), send)
                if self._watch.pending:
                    await asyncio.sleep(0)  # others want their turn
                else:
                    await self._quiet(send)
        except ApiError as error:
            await send(_piece(_line({"type": "ERROR", "object": status(error)})))

    async def _quiet(self, send: Send) -> None:
        """Nothing to tell until something changes; now and then a bookmark."""
        try:
            async with asyncio.timeout(BOOKMARK_SECONDS):
                await self._woken.wait()
        except TimeoutError:
            await self._tell([self._watch.bookmark()], send)

    async def _tell(self, changes: Iterable[Change], send: Send) -> None:
        """Bookmarks are for those who asked for them, also the one after the initial events."""
        told = [change for change in changes if self._bookmarks or change.type != "BOOKMARK"]
        if told:
            lines = (_line({"type": change.type, "object": self._show(change)}) for change in told)
            await send(_piece(b"".join(lines)))


def _show(found: Target, form: Wanted, carry: Include, clock: Callable[[], datetime]) -> Show:
    """How each event shows its object. The first row of a table comes with the heads."""
    heads = True

    def row(change: Change) -> Raw:
        nonlocal heads
        shown = [] if change.type == "BOOKMARK" else [change.object]
        metadata = {"resourceVersion": change.resource_version}
        made = table(found.columns, shown, clock(), carry=carry, version=form.version, metadata=metadata, heads=heads)
        heads = False
        return made

    def short(change: Change) -> Raw:
        return partial(change.object, form.version)

    def whole_object(change: Change) -> Raw:
        return change.object

    return {"Table": row, "PartialObjectMetadata": short, "Object": whole_object}[form.view]


def _line(event: Any) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def _piece(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}

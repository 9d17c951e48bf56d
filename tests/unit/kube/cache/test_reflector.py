"""Reflecting one kind of object from a cluster whose every response is written down."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from muster.api.resources import NAMESPACES, PODS, Resource
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.backoff import no_jitter
from muster.kube.cache.reflector import (
    LONGEST_SECONDS,
    MOST_WATCH_FAILURES,
    STEADY_SECONDS,
    ListCompleted,
    ObjectDeleted,
    ObjectUpdated,
    Reflector,
    ReflectorEvent,
    ReflectorHealth,
)
from muster.kube.cluster import Change, Cluster, Listing, Raw
from muster.kube.errors import ApiError
from tests.support.factories import stored_pod

EXPIRED = ApiError(410, "Expired", "too old")
DOWN = ApiError(503, "ServiceUnavailable", "down")
FORBIDDEN = ApiError(403, "Forbidden", "no")


def change(kind: Any, name: str, version: int) -> Change:
    return Change(kind, stored_pod(name, version))


Stream = list[Change | ApiError]
Events = list[ReflectorEvent]


class Hangs:
    """A list that is never answered."""


class Scripted:
    """A cluster that answers lists and watches in order; a watch stays open after the last event of its script."""

    def __init__(self, lists: Iterable[Listing | ApiError | Hangs], watches: Iterable[Stream | ApiError]) -> None:
        self.lists, self.watches = [*lists], [*watches]
        self.requests: list[str] = []
        self.clock = 0.0
        self.open_watches = 0

    async def list(self, _: Resource, *, limit: int, after: str, **__: str) -> Listing:
        self.requests.append(f"list {limit} {after}".strip())
        answer = self.lists.pop(0)
        if isinstance(answer, Hangs):
            await asyncio.Event().wait()
        if isinstance(answer, ApiError):
            raise answer
        assert isinstance(answer, Listing)
        return answer

    @asynccontextmanager
    async def watch(self, _: Resource, since: str, **__: str) -> AsyncIterator[AsyncIterator[Change]]:
        self.requests.append(f"watch {since}")
        answer = self.watches.pop(0) if self.watches else []
        if isinstance(answer, ApiError):
            raise answer
        self.open_watches += 1
        try:
            yield self._stream(answer)
        finally:
            self.open_watches -= 1

    async def _stream(self, items: Stream) -> AsyncIterator[Change]:
        for item in items:
            if isinstance(item, ApiError):
                raise item
            yield item
        await asyncio.Event().wait()

    async def pause(self, seconds: float) -> None:
        self.requests.append(f"pause {seconds:g}")
        self.clock += seconds
        await asyncio.sleep(0)

    def reflector(self, health: ReflectorHealth | None = None, pause: Any = None) -> Reflector:
        return Reflector(cast("Cluster", self), PODS, health=health, pause=pause or self.pause, chance=no_jitter)

    async def events(self, count: int, health: ReflectorHealth | None = None) -> Events:
        received: Events = []
        events = self.reflector(health).events()
        async with asyncio.timeout(10):  # too few events would wait for ever
            async for event in events:
                received.append(event)
                if len(received) == count:
                    break
        await events.aclose()
        return received


class Consumer:
    """Receives events in a task of its own."""

    def __init__(self, reflector: Reflector) -> None:
        self.received: list[ReflectorEvent] = []
        self._task = asyncio.create_task(self._receive(reflector))

    async def _receive(self, reflector: Reflector) -> None:
        async for event in reflector.events():
            self.received.append(event)

    async def until(self, count: int) -> list[str]:
        async with asyncio.timeout(10):
            while len(self.received) < count:
                await asyncio.sleep(0)
        return names(self.received)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


def names(events: Iterable[ReflectorEvent]) -> list[str]:
    """`+a2`: a is there at version 2; `-a`: it is gone; `=9`: the list is complete up to version 9."""
    return [_name(event) for event in events]


def _name(event: ReflectorEvent) -> str:
    match event:
        case ObjectUpdated(object=raw):
            return f"+{raw['metadata']['name']}{raw['metadata']['resourceVersion']}"
        case ObjectDeleted(object=raw):
            return f"-{raw['metadata']['name']}"
        case ListCompleted(version):
            return f"={version}"


def listing(version: int, *pods: Raw, more: str = "") -> Listing:
    return Listing(pods, str(version), more)


async def test_a_list_comes_before_the_events_of_the_watch() -> None:
    cluster = Scripted(
        [listing(5, stored_pod("a", 1), more="m"), listing(5, stored_pod("b", 2))],
        [[change("MODIFIED", "a", 6), change("BOOKMARK", "-", 7), change("DELETED", "b", 8), change("ADDED", "c", 9)]],
    )
    assert names(await cluster.events(6)) == ["+a1", "+b2", "=5", "+a6", "-b", "+c9"]
    assert cluster.requests == ["list 500", "list 500 m", "watch 5"]


async def test_a_watch_that_breaks_resumes_where_it_was() -> None:
    """Bookmarks count: no relist, and no event comes twice."""
    first: Stream = [change("ADDED", "a", 6), change("BOOKMARK", "-", 9), DOWN]
    cluster = Scripted([listing(5)], [first, [change("ADDED", "b", 10)]])
    assert names(await cluster.events(3)) == ["=5", "+a6", "+b10"]
    assert cluster.requests == ["list 500", "watch 5", "pause 0.2", "watch 9"]


async def test_an_expired_watch_relists_and_brings_only_differences() -> None:
    cluster = Scripted(
        [
            listing(5, stored_pod("a", 1), stored_pod("b", 2), stored_pod("c", 3)),
            listing(20, stored_pod("a", 1), stored_pod("c", 12), stored_pod("d", 13)),
        ],
        [EXPIRED],
    )
    assert names(await cluster.events(8)) == ["+a1", "+b2", "+c3", "=5", "+c12", "+d13", "-b", "=20"]


async def test_a_pod_that_was_replaced_unseen_is_deleted_before_the_new_one_comes() -> None:
    cluster = Scripted([listing(5, stored_pod("a", 1)), listing(9, stored_pod("a", 8, uid="another"))], [EXPIRED])
    events = await cluster.events(5)
    assert names(events) == ["+a1", "=5", "-a", "+a8", "=9"]
    assert isinstance(events[2], ObjectDeleted)
    assert events[2].object["metadata"]["uid"] == "uid-a"


async def test_an_event_that_comes_twice_is_passed_on_once() -> None:
    cluster = Scripted([listing(5)], [[change("ADDED", "a", 6), change("ADDED", "a", 6), change("ADDED", "b", 7)]])
    assert names(await cluster.events(3)) == ["=5", "+a6", "+b7"]


async def test_pages_that_expire_are_read_in_one_piece() -> None:
    cluster = Scripted(
        [listing(5, stored_pod("a", 1), more="m"), EXPIRED, listing(9, stored_pod("a", 1), stored_pod("b", 2))], []
    )
    assert names(await cluster.events(3)) == ["+a1", "+b2", "=9"]
    assert cluster.requests == ["list 500", "list 500 m", "list 0"]


async def test_the_next_page_is_requested_before_the_consumer_has_this_one() -> None:
    """The API server prepares it meanwhile: half of what a start among many pods takes."""
    cluster = Scripted([listing(5, stored_pod("a", 1), more="m"), listing(5, stored_pod("b", 2))], [])
    requests: dict[str, list[str]] = {}
    async with asyncio.timeout(10), aclosing(cluster.reflector().events()) as events:
        async for event in events:
            requests[_name(event)] = [*cluster.requests]
            if len(requests) == 3:
                break
    assert requests == {name: ["list 500", "list 500 m"] for name in ("+a1", "+b2", "=5")}


async def test_a_consumer_that_stops_within_a_list_leaves_no_request_behind() -> None:
    cluster = Scripted([listing(5, stored_pod("a", 1), more="m"), Hangs()], [])
    before = asyncio.all_tasks()
    assert names(await cluster.events(1)) == ["+a1"]
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    assert cluster.requests == ["list 500", "list 500 m"]


async def test_pauses_grow_while_nothing_works_and_are_bounded() -> None:
    cluster = Scripted([DOWN] * 12 + [listing(5)], [])
    await cluster.events(1)
    pauses = [float(request.split()[1]) for request in cluster.requests if request.startswith("pause")]
    assert pauses[:4] == [0.2, 0.4, 0.8, 1.6]
    assert pauses[-1] == LONGEST_SECONDS


async def test_a_list_that_works_does_not_reset_the_backoff_of_watches_that_do_not() -> None:
    """Else a server whose watches expire at once would be listed without a pause."""
    cluster = Scripted([listing(nth) for nth in range(1, 5)], [EXPIRED, EXPIRED, EXPIRED])
    await cluster.events(4)
    pauses = [request for request in cluster.requests if request.startswith("pause")]
    assert pauses == ["pause 0.2", "pause 0.4", "pause 0.8"]


async def test_a_watch_that_keeps_failing_relists_in_the_end() -> None:
    """The server may have lost its history: a resourceVersion from its future never comes."""
    cluster = Scripted([listing(50), listing(3)], [DOWN] * (MOST_WATCH_FAILURES + 1))
    assert names(await cluster.events(2)) == ["=50", "=3"]


async def test_a_consumer_that_stops_closes_the_watch() -> None:
    cluster = Scripted([listing(5)], [[change("ADDED", "a", 6)]])
    await cluster.events(2)
    assert cluster.open_watches == 0


# relist -------------------------------------------------------------------------------------------------------------


async def test_a_relist_interrupts_an_open_watch() -> None:
    """It may be silently dead; and the consumer receives only what differs."""
    cluster = Scripted([listing(5, stored_pod("a", 1)), listing(9, stored_pod("a", 1), stored_pod("b", 8))], [[], []])
    reflector = cluster.reflector()
    consumer = Consumer(reflector)
    assert await consumer.until(2) == ["+a1", "=5"]
    while not cluster.open_watches:
        await asyncio.sleep(0)
    reflector.relist()
    assert await consumer.until(4) == ["+a1", "=5", "+b8", "=9"]
    while len(cluster.requests) < 4:
        await asyncio.sleep(0)
    assert cluster.requests == ["list 500", "watch 5", "list 500", "watch 9"]
    assert cluster.open_watches == 1
    await consumer.stop()


async def test_a_relist_that_it_asked_for_is_no_error_and_no_restart_of_the_watch() -> None:
    restarts: list[str] = []
    cluster = Scripted([listing(5), listing(9)], [[], []])
    health = ReflectorHealth(lambda: 0.0, lambda: restarts.append("restart"))
    reflector = cluster.reflector(health)
    consumer = Consumer(reflector)
    await consumer.until(1)
    while not cluster.open_watches:
        await asyncio.sleep(0)
    reflector.relist()
    await consumer.until(2)
    assert (health.is_ready, health.lists, health.listed, restarts) == (True, 2, 2, [])
    await consumer.stop()


async def test_a_relist_interrupts_a_list_that_hangs() -> None:
    """What that list would bring may be older than the request."""
    cluster = Scripted([listing(5, stored_pod("a", 1), more="m"), Hangs(), listing(9, stored_pod("a", 1))], [])
    reflector = cluster.reflector()
    consumer = Consumer(reflector)
    while len(cluster.requests) < 2:
        await asyncio.sleep(0)
    reflector.relist()
    assert await consumer.until(2) == ["+a1", "=9"]
    assert cluster.requests[:3] == ["list 500", "list 500 m", "list 500"]
    await consumer.stop()


async def test_a_relist_interrupts_the_wait_after_a_failure() -> None:
    cluster = Scripted([DOWN, listing(5)], [])
    waiting = asyncio.Event()

    async def wait_for_ever(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    reflector = cluster.reflector(pause=wait_for_ever)
    consumer = Consumer(reflector)
    await waiting.wait()
    reflector.relist()
    assert await consumer.until(1) == ["=5"]
    await consumer.stop()


async def test_a_relist_does_not_interrupt_the_consumer() -> None:
    """The consumer runs in the same task as the reflector, and may be in the middle of a change to the cache."""
    cluster = Scripted([listing(5), listing(9)], [])
    reflector = cluster.reflector()
    received: list[str] = []
    async with asyncio.timeout(10):
        async for event in reflector.events():
            if not received:
                reflector.relist()
                await asyncio.sleep(0.001)  # a request that came here would be cancelled
            received += names([event])
            if len(received) == 2:
                break
    assert received == ["=5", "=9"]
    assert cluster.requests == ["list 500", "list 500"], "no watch in between"


async def test_relists_that_are_requested_at_once_are_one_list() -> None:
    cluster = Scripted([listing(5), listing(9)], [[], []])
    reflector = cluster.reflector()
    consumer = Consumer(reflector)
    await consumer.until(1)
    while not cluster.open_watches:
        await asyncio.sleep(0)
    for _ in range(3):
        reflector.relist()
    await consumer.until(2)
    while len(cluster.requests) < 4:
        await asyncio.sleep(0)
    assert cluster.requests == ["list 500", "watch 5", "list 500", "watch 9"]
    await consumer.stop()


async def test_a_consumer_can_be_cancelled_while_a_relist_is_requested() -> None:
    cluster = Scripted([listing(5)], [[]])
    reflector = cluster.reflector()
    consumer = Consumer(reflector)
    while not cluster.open_watches:
        await asyncio.sleep(0)
    reflector.relist()
    await consumer.stop()
    assert (cluster.requests, cluster.open_watches) == (["list 500", "watch 5"], 0)


# health -------------------------------------------------------------------------------------------------------------


async def test_health_says_what_is_wrong_and_when_the_last_response_came() -> None:
    cluster = Scripted([FORBIDDEN, listing(5)], [[change("ADDED", "a", 6)], DOWN])
    health = ReflectorHealth(lambda: cluster.clock)
    assert (health.is_ready, health.lag_seconds()) == (False, -1.0)
    unauthorised: list[bool] = []

    async def observe(seconds: float) -> None:
        unauthorised.append(health.is_unauthorised)
        cluster.clock += seconds

    events = cluster.reflector(health, observe).events()
    await anext(events)
    assert unauthorised == [True]
    assert (health.is_ready, health.is_unauthorised, health.lag_seconds()) == (True, False, 0.0)
    await anext(events)
    cluster.clock += 90.0
    assert (health.is_ready, health.lag_seconds()) == (True, 90.0)
    await events.aclose()


async def observed(cluster: Scripted, health: ReflectorHealth) -> list[str]:
    """The error after each watch that breaks, until one stays open; then the error a moment later."""
    errors: list[str] = []

    def note() -> None:
        errors.append(health.error.message if health.error else "")

    async def observe(seconds: float) -> None:
        note()
        cluster.clock += seconds
        await asyncio.sleep(0)

    consumer = Consumer(cluster.reflector(health, observe))
    while cluster.watches:
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    note()
    cluster.clock += STEADY_SECONDS
    note()
    await consumer.stop()
    return errors


async def test_a_watch_that_opens_and_breaks_at_once_does_not_look_healthy() -> None:
    """Only a response ends an error, or a watch that stays open: a kind may be quiet for minutes."""
    cluster = Scripted([listing(5)], [DOWN, [DOWN], [DOWN], []])
    health = ReflectorHealth(lambda: cluster.clock)
    assert await observed(cluster, health) == ["down", "down", "down", "down", ""]
    assert health.received_at == 0.0, "nothing was received since the list"


async def test_an_event_or_a_bookmark_ends_an_error_at_once() -> None:
    cluster = Scripted([listing(5)], [[DOWN], [change("BOOKMARK", "-", 9)]])
    assert await observed(cluster, ReflectorHealth(lambda: cluster.clock)) == ["down", "", ""]


async def test_an_expired_version_is_no_error() -> None:
    """The next list mends it."""
    cluster = Scripted([listing(5), listing(9)], [EXPIRED, []])
    assert await observed(cluster, ReflectorHealth(lambda: cluster.clock)) == ["", "", ""]


def test_a_watch_that_ends_at_once_and_without_an_event_is_an_error() -> None:
    now, restarts = [0.0], []
    health = ReflectorHealth(lambda: now[0], lambda: restarts.append(now[0]))
    health.received()
    for stays, is_error in ((0.0, True), (STEADY_SECONDS, False), (0.1, True)):
        health.opened()
        now[0] += stays
        health.ended()
        assert (health.error is not None) is is_error
    health.opened()
    health.received()
    health.ended()
    assert health.error is None
    assert len(restarts) == 4


def test_a_callback_is_called_when_an_error_begins_changes_and_ends() -> None:
    """Once each, however often requests fail."""
    changes: list[str] = []
    health = ReflectorHealth(lambda: 0.0, on_change=lambda error: changes.append(error.reason if error else ""))
    for error in (DOWN, DOWN, FORBIDDEN, EXPIRED):
        health.failed(error)
    health.received()
    health.received()
    assert changes == ["ServiceUnavailable", "Forbidden", ""]


async def test_a_stream_that_was_reopened_has_brought_nothing_yet() -> None:
    """The watch counts as alive, but whether the cache is up to date is open."""
    health = ReflectorHealth(lambda: cluster.clock)
    cluster = Scripted([listing(5)], [[Change("BOOKMARK", stored_pod("", 5), is_reopened=True)]])
    events = cluster.reflector(health).events()
    assert isinstance(await anext(events), ListCompleted)
    cluster.clock = 50.0
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0.01)
    assert (health.received_at, health.opened_at, health.lag_seconds()) == (0.0, 50.0, 0.0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await events.aclose()


async def test_the_embedded_cluster_can_be_reflected() -> None:
    cluster = MemoryCluster()
    created = await cluster.create(NAMESPACES, {"metadata": {"name": "team"}})
    events = Reflector(cluster, NAMESPACES, fields="metadata.name=team").events()
    assert names([await anext(events), await anext(events)])[0] == f"+team{created['metadata']['resourceVersion']}"
    patched = await cluster.patch(NAMESPACES, "", "team", {"metadata": {"labels": {"a": "b"}}})
    assert names([await anext(events)]) == [f"+team{patched['metadata']['resourceVersion']}"]
    await events.aclose()
    await cluster.close()

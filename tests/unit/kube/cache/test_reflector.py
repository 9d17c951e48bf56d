"""Following a kind of objects on a cluster whose every word is written down."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

from muster.api.resources import NAMESPACES, PODS, Resource
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.backoff import no_jitter
from muster.kube.cache.reflector import (
    LONGEST_SECONDS,
    MOST_WATCH_FAILURES,
    STEADY_SECONDS,
    Changed,
    Gone,
    Health,
    News,
    Reflector,
    Synced,
)
from muster.kube.cluster import Change, Cluster, Listing, Raw
from muster.kube.errors import ApiError

EXPIRED = ApiError(410, "Expired", "too old")
DOWN = ApiError(503, "ServiceUnavailable", "down")
FORBIDDEN = ApiError(403, "Forbidden", "no")


def pod(name: str, version: int, uid: str = "") -> Raw:
    meta = {"namespace": "team", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


def change(kind: Any, name: str, version: int) -> Change:
    return Change(kind, pod(name, version))


Words = list[Change | ApiError]
Told = list[News]


class Scripted:
    """A cluster that answers lists and watches in turn; a watch without more to say stays open."""

    def __init__(self, lists: Iterable[Listing | ApiError], watches: Iterable[Words | ApiError]) -> None:
        self.lists, self.watches = [*lists], [*watches]
        self.asked: Any = []
        self.clock = 0.0
        self.open = 0

    async def list(self, _: Resource, *, limit: int, after: str, **__: str) -> Listing:
        self.asked.append(f"list {limit} {after}".strip())
        answer = self.lists.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    @asynccontextmanager
    async def watch(self, _: Resource, since: str, **__: str) -> AsyncIterator[AsyncIterator[Change]]:
        self.asked.append(f"watch {since}")
        answer = self.watches.pop(0) if self.watches else []
        if isinstance(answer, ApiError):
            raise answer
        self.open += 1
        try:
            yield self._words(answer)
        finally:
            self.open -= 1

    async def _words(self, words: Words) -> AsyncIterator[Change]:
        for word in words:
            if isinstance(word, ApiError):
                raise word
            yield word
        await asyncio.Event().wait()

    async def pause(self, seconds: float) -> None:
        self.asked.append(f"rest {seconds:g}")
        self.clock += seconds
        await asyncio.sleep(0)

    async def news(self, count: int, health: Health | None = None) -> Told:
        found: Told = []
        told = Reflector(cast("Cluster", self), PODS, health=health, pause=self.pause, chance=no_jitter).news()
        async with asyncio.timeout(10):  # who is told too little would wait for ever
            async for each in told:
                found.append(each)
                if len(found) == count:
                    break
        await told.aclose()
        return found


def names(news: Iterable[News]) -> list[str]:
    """`+a2`: a is there at version 2; `-a`: it is gone; `=9`: all is told up to version 9."""
    return [_name(each) for each in news]


def _name(news: News) -> str:
    match news:
        case Changed(raw):
            return f"+{raw['metadata']['name']}{raw['metadata']['resourceVersion']}"
        case Gone(raw):
            return f"-{raw['metadata']['name']}"
        case Synced(version):
            return f"={version}"


def listing(version: int, *pods: Raw, more: str = "") -> Listing:
    return Listing(pods, str(version), more)


async def test_everything_there_is_then_what_happens() -> None:
    cluster = Scripted(
        [listing(5, pod("a", 1), more="m"), listing(5, pod("b", 2))],
        [[change("MODIFIED", "a", 6), change("BOOKMARK", "-", 7), change("DELETED", "b", 8), change("ADDED", "c", 9)]],
    )
    assert names(await cluster.news(6)) == ["+a1", "+b2", "=5", "+a6", "-b", "+c9"]
    assert cluster.asked == ["list 500", "list 500 m", "watch 5"]


async def test_a_watch_that_breaks_goes_on_where_it_was() -> None:
    """Bookmarks count: nothing is listed again, nothing is told twice."""
    first: Words = [change("ADDED", "a", 6), change("BOOKMARK", "-", 9), DOWN]
    cluster = Scripted([listing(5)], [first, [change("ADDED", "b", 10)]])
    assert names(await cluster.news(3)) == ["=5", "+a6", "+b10"]
    assert cluster.asked == ["list 500", "watch 5", "rest 0.2", "watch 9"]


async def test_an_expired_watch_is_listed_again_and_only_differences_are_told() -> None:
    cluster = Scripted(
        [listing(5, pod("a", 1), pod("b", 2), pod("c", 3)), listing(20, pod("a", 1), pod("c", 12), pod("d", 13))],
        [EXPIRED],
    )
    assert names(await cluster.news(8)) == ["+a1", "+b2", "+c3", "=5", "+c12", "+d13", "-b", "=20"]


async def test_a_pod_that_was_replaced_unseen_is_gone_before_the_new_one_comes() -> None:
    cluster = Scripted([listing(5, pod("a", 1)), listing(9, pod("a", 8, "another"))], [EXPIRED])
    news = await cluster.news(5)
    assert names(news) == ["+a1", "=5", "-a", "+a8", "=9"]
    assert isinstance(news[2], Gone)
    assert news[2].object["metadata"]["uid"] == "uid-a"


async def test_an_event_that_comes_twice_is_told_once() -> None:
    cluster = Scripted([listing(5)], [[change("ADDED", "a", 6), change("ADDED", "a", 6), change("ADDED", "b", 7)]])
    assert names(await cluster.news(3)) == ["=5", "+a6", "+b7"]


async def test_pages_that_grow_too_old_are_read_in_one_piece() -> None:
    cluster = Scripted([listing(5, pod("a", 1), more="m"), EXPIRED, listing(9, pod("a", 1), pod("b", 2))], [])
    assert names(await cluster.news(3)) == ["+a1", "+b2", "=9"]
    assert cluster.asked == ["list 500", "list 500 m", "list 0"]


async def test_pauses_grow_while_nothing_works_and_are_bounded() -> None:
    cluster = Scripted([DOWN] * 12 + [listing(5)], [])
    await cluster.news(1)
    rests = [float(asked.split()[1]) for asked in cluster.asked if asked.startswith("rest")]
    assert rests[:4] == [0.2, 0.4, 0.8, 1.6]
    assert rests[-1] == LONGEST_SECONDS


async def test_a_list_that_works_does_not_end_the_patience_with_watches_that_do_not() -> None:
    """Else a server that forgets at once would be listed without a pause."""
    cluster = Scripted([listing(nth) for nth in range(1, 5)], [EXPIRED, EXPIRED, EXPIRED])
    await cluster.news(4)
    assert [asked for asked in cluster.asked if asked.startswith("rest")] == ["rest 0.2", "rest 0.4", "rest 0.8"]


async def test_a_watch_that_keeps_failing_is_listed_again_in_the_end() -> None:
    """The server may have lost its memory: a resource version from its future never comes."""
    cluster = Scripted([listing(50), listing(3)], [DOWN] * (MOST_WATCH_FAILURES + 1))
    assert names(await cluster.news(2)) == ["=50", "=3"]


async def test_leaving_closes_the_watch() -> None:
    cluster = Scripted([listing(5)], [[change("ADDED", "a", 6)]])
    await cluster.news(2)
    assert cluster.open == 0


async def test_health_says_what_is_wrong_and_when_it_was_last_heard() -> None:
    cluster = Scripted([FORBIDDEN, listing(5)], [[change("ADDED", "a", 6)], DOWN])
    health = Health(lambda: cluster.clock)
    assert (health.ready, health.lag_seconds()) == (False, -1.0)
    seen: list[bool] = []

    async def look(seconds: float) -> None:
        seen.append(health.unauthorised)
        cluster.clock += seconds

    told = Reflector(cast("Cluster", cluster), PODS, health=health, pause=look, chance=no_jitter).news()
    await anext(told)
    assert seen == [True]
    assert (health.ready, health.unauthorised, health.lag_seconds()) == (True, False, 0.0)
    await anext(told)
    cluster.clock += 90.0
    assert (health.ready, health.lag_seconds()) == (True, 90.0)
    await told.aclose()


async def observed(cluster: Scripted, health: Health) -> list[str]:
    """What health says each time after a watch has broken, until one stays open."""
    seen: list[str] = []

    async def look(seconds: float) -> None:
        seen.append(health.trouble.message if health.trouble else "")
        cluster.clock += seconds
        await asyncio.sleep(0)

    told = Reflector(cast("Cluster", cluster), PODS, health=health, pause=look, chance=no_jitter).news()
    task = asyncio.create_task(_drained(told))
    while cluster.watches:
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    seen.append(health.trouble.message if health.trouble else "")
    cluster.clock += STEADY_SECONDS
    seen.append(health.trouble.message if health.trouble else "")
    task.cancel()
    await asyncio.wait([task])
    return seen


async def _drained(told: AsyncIterator[News]) -> None:
    async for _ in told:
        pass


async def test_a_watch_that_opens_and_breaks_at_once_does_not_look_healthy() -> None:
    """Only the cluster's own words end a trouble, or a watch that stays: a kind may be quiet for minutes."""
    cluster = Scripted([listing(5)], [DOWN, [DOWN], [DOWN], []])
    health = Health(lambda: cluster.clock)
    assert await observed(cluster, health) == ["down", "down", "down", "down", ""]
    assert health.received_at == 0.0, "nothing was heard since the list"


async def test_an_event_or_a_bookmark_ends_a_trouble_at_once() -> None:
    cluster = Scripted([listing(5)], [[DOWN], [change("BOOKMARK", "-", 9)]])
    assert await observed(cluster, Health(lambda: cluster.clock)) == ["down", "", ""]


async def test_a_version_that_is_too_old_is_no_trouble() -> None:
    """The next list mends it."""
    cluster = Scripted([listing(5), listing(9)], [EXPIRED, []])
    assert await observed(cluster, Health(lambda: cluster.clock)) == ["", "", ""]


def test_a_watch_that_ends_without_a_word_as_soon_as_it_has_begun_is_in_trouble() -> None:
    now, restarts = [0.0], []
    health = Health(lambda: now[0], lambda: restarts.append(now[0]))
    health.received()
    for stays, trouble in ((0.0, True), (STEADY_SECONDS, False), (0.1, True)):
        health.opened()
        now[0] += stays
        health.ended()
        assert (health.trouble is not None) is trouble
    health.opened()
    health.received()
    health.ended()
    assert health.trouble is None
    assert len(restarts) == 4


async def test_the_embedded_cluster_can_be_followed() -> None:
    cluster = MemoryCluster()
    made = await cluster.create(NAMESPACES, {"metadata": {"name": "team"}})
    told = Reflector(cluster, NAMESPACES, fields="metadata.name=team").news()
    assert names([await anext(told), await anext(told)])[0] == f"+team{made['metadata']['resourceVersion']}"
    changed = await cluster.patch(NAMESPACES, "", "team", {"metadata": {"labels": {"a": "b"}}})
    assert names([await anext(told)]) == [f"+team{changed['metadata']['resourceVersion']}"]
    await told.aclose()
    await cluster.close()


def test_whoever_asks_is_told_when_trouble_begins_changes_and_ends() -> None:
    """Once each, however often it fails."""
    told: list[str] = []
    health = Health(lambda: 0.0, changed=lambda error: told.append(error.reason if error else ""))
    for error in (DOWN, DOWN, FORBIDDEN, EXPIRED):
        health.failed(error)
    health.received()
    health.received()
    assert told == ["ServiceUnavailable", "Forbidden", ""]


async def test_a_stream_that_was_opened_again_has_said_nothing_yet() -> None:
    """It counts as alive, but nobody has told that what was known is still true."""
    health = Health(lambda: cluster.clock)
    cluster = Scripted([listing(5)], [[Change("BOOKMARK", pod("", 5), opened=True)]])
    told = Reflector(cast("Cluster", cluster), PODS, health=health).news()
    assert isinstance(await anext(told), Synced)
    cluster.clock = 50.0
    waiting = asyncio.ensure_future(anext(told))
    await asyncio.sleep(0.01)
    assert (health.received_at, health.opened_at, health.lag_seconds()) == (0.0, 50.0, 0.0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await told.aclose()

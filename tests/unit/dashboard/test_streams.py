"""Streams: a cursor each, limits, and rights that are reviewed while they are open."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.dashboard import streams as streams_module
from muster.dashboard.rights import ViewerRights
from muster.dashboard.streams import DashboardStreams
from tests.support.drawing import draw
from tests.support.factories import pod, podgroup
from tests.support.shown_cluster import ShownCluster, apply_event, decoded_event

GPU = "nvidia.com/gpu"
ONE_GPU: dict[str, Any] = {GPU: 1}
ALL = ViewerRights("")


class Ticking:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def stay() -> ViewerRights | None:
    return ALL


async def shown_streams(most: int = 4) -> tuple[ShownCluster, DashboardStreams, Ticking]:
    shown, clock = ShownCluster(*draw("z1/r1 a:2 b:2"), podgroup(minMember=1)), Ticking()
    await shown.cycle()
    return shown, DashboardStreams(shown.model, shown.messages, most, clock), clock


async def next_event(events: AsyncIterator[bytes]) -> bytes:
    async with asyncio.timeout(5):
        return await anext(events)


async def test_viewers_are_limited_in_all_and_for_each_peer() -> None:
    shown, streams, _ = await shown_streams(4)
    opened = []
    for peer in ("x", "x", "y", "z"):
        assert streams.problem(peer) == ""
        events = streams.events(peer, ALL, None, stay)
        await next_event(events)
        opened.append(events)
        if peer == "y":
            assert streams.problem("x") == "2 viewers of yours are connected already"
    assert streams.problem("new") == "4 viewers are connected already"
    assert shown.model.viewers == 4
    for events in opened:
        await events.aclose()  # type: ignore[attr-defined]
    assert (streams.problem("x"), shown.model.viewers) == ("", 0)


async def test_a_viewer_that_does_not_read_has_nothing_queued() -> None:
    """Fifty changes later it gets one, and then has the state."""
    shown, streams, _ = await shown_streams()
    events = streams.events("x", ALL, None, stay)
    state = apply_event({}, await next_event(events))
    for number in range(50):
        shown.put(pod("p", gang="", on="ab"[number % 2], **ONE_GPU))
        await shown.cycle()
    late = await next_event(events)
    assert decoded_event(late)[0] == "change"
    assert apply_event(state, late) == shown.state()
    await events.aclose()  # type: ignore[attr-defined]


async def test_a_quiet_stream_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "BEAT_SECONDS", 0.01)
    shown, streams, _ = await shown_streams()
    events = streams.events("x", ALL, shown.messages.cursor(None), stay)
    assert decoded_event(await next_event(events))[0] == "beat", "at once: it has everything"
    assert decoded_event(await next_event(events))[0] == "beat"
    await events.aclose()  # type: ignore[attr-defined]


async def test_rights_are_reviewed_while_a_stream_is_open() -> None:
    """First fewer namespaces, which begins with a new state; then none, which ends it."""
    shown, streams, clock = await shown_streams()
    rights = [ViewerRights("u", frozenset({"team"})), None]

    async def review() -> ViewerRights | None:
        return rights.pop(0)

    events = streams.events("u", ViewerRights("u"), None, review)
    first = decoded_event(await next_event(events))
    clock.seconds += 61
    shown.put(pod("one", on="a", **ONE_GPU))
    await shown.model.update()
    second = decoded_event(await next_event(events))
    assert (first[0], second[0]) == ("state", "state")
    assert first[2]["boot"] != second[2]["boot"]
    clock.seconds += 61
    shown.put(pod("one", on="b", **ONE_GPU))
    await shown.model.update()
    with pytest.raises(StopAsyncIteration):
        await next_event(events)
    assert shown.model.viewers == 0


async def test_streams_end_with_the_model() -> None:
    shown, streams, _ = await shown_streams()
    running = asyncio.create_task(shown.model.run())
    events = streams.events("x", ALL, None, stay)
    await next_event(events)
    await asyncio.sleep(0)
    reading = asyncio.create_task(read_all(events))
    await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    async with asyncio.timeout(5):
        await reading


async def read_all(events: AsyncIterator[bytes]) -> None:
    async for _ in events:
        pass

"""A share of the loop: floods leave most of it to the scheduler, and those of one viewer hold up no other."""

import asyncio
import time
from typing import Any

import pytest

from muster.dashboard import pages
from muster.dashboard.slices import LoopShare
from muster.reporting.dashboard.gangs import gang_page
from muster.reporting.dashboard.rows import GangPage
from tests.support.factories import node, podgroup
from tests.support.shown_app import build_app, fetch
from tests.support.shown_cluster import ShownCluster


def work() -> float:
    """Two hundredths of a second, and when they are over."""
    time.sleep(0.02)
    return time.monotonic()


async def test_a_flood_leaves_most_of_the_time_to_others() -> None:
    share, began = LoopShare(), time.monotonic()
    ended = await asyncio.gather(*(share.run("one", work) for _ in range(5)))
    assert ended == sorted(ended)
    assert max(ended) - began >= 5 * 0.02 + 4 * 4 * 0.02


async def test_the_first_waits_for_nothing() -> None:
    began = time.monotonic()
    assert await LoopShare().run("one", work) - began < 0.06


async def test_a_viewer_waits_for_one_request_of_another() -> None:
    share = LoopShare()
    flood = [asyncio.create_task(share.run("one", work)) for _ in range(20)]
    await asyncio.sleep(0)
    await share.run("other", work)
    assert sum(task.done() for task in flood) <= 2
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    assert await share.run("one", work), "those that gave up hold nothing up"


async def test_pages_of_gangs_take_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a gang of 5,000 pods takes a fifth of a second."""
    shown, make = ShownCluster(node("n1"), podgroup(minMember=1)), gang_page
    await shown.cycle()

    def slow_page(*arguments: Any) -> GangPage:
        time.sleep(0.02)
        return make(*arguments)

    monkeypatch.setattr(pages, "gang_page", slow_page)
    app, began = build_app(shown), time.monotonic()
    answers = await asyncio.gather(*(fetch(app, "/api/gangs/team/gang") for _ in range(4)))
    assert {each.status for each in answers} == {200}
    assert time.monotonic() - began >= 3 * 5 * 0.02


async def test_states_take_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = ShownCluster(node("n1"))
    await shown.cycle()
    app, state = build_app(shown), shown.messages.state

    def slow_state(*arguments: Any) -> bytes:
        time.sleep(0.02)
        return state(*arguments)

    monkeypatch.setattr(shown.messages, "state", slow_state)
    began = time.monotonic()
    answers = await asyncio.gather(*(fetch(app, "/api/state?cycle=1") for _ in range(4)))
    assert {each.status for each in answers} == {200}
    assert time.monotonic() - began >= 3 * 5 * 0.02

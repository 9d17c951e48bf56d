"""States and changes as bytes: shared among equal rights, resumed from a cursor, and whole where the way is lost."""

from typing import Any

import pytest

from muster.dashboard.history import CycleGone
from muster.dashboard.messages import MOST_SHARED, Cursor, parse_cursor
from tests.support.drawing import draw
from tests.support.factories import pod, podgroup
from tests.support.shown_cluster import ShownCluster, decoded_event

GPU = "nvidia.com/gpu"
ONE_GPU: dict[str, Any] = {GPU: 1}
PICTURE = "z1/r1 a:2 b:2"
SOME = frozenset({"team"})


async def shown_cluster(cycles: int = 1, history_bytes: int = 2**20) -> ShownCluster:
    shown = ShownCluster(*draw(PICTURE), podgroup(minMember=1), history_bytes=history_bytes)
    for number in range(cycles):
        shown.put(pod("p", on="ab"[number % 2], **ONE_GPU))
        await shown.cycle()
    return shown


@pytest.mark.parametrize("text", ["", "x", "boot:", ":5", "boot:-1", "boot:1.5", "boot:²", "boot:" + "9" * 16, "a:b:1"])
def test_what_is_no_cursor_is_none(text: str) -> None:
    assert parse_cursor(text) is None


async def test_a_reader_that_has_all_gets_nothing() -> None:
    shown = await shown_cluster()
    assert shown.messages.event(None, shown.messages.cursor(None)) == b""


async def test_viewers_of_equal_rights_share_the_bytes() -> None:
    shown = await shown_cluster(3)
    after = Cursor(shown.model.boot, shown.model.seq - 1)
    first, second = shown.messages.event(None, after), shown.messages.event(None, after)
    assert first is second
    assert decoded_event(first)[0] == "change"
    assert shown.messages.event(None, None) is shown.messages.event(None, Cursor("other", 1))


@pytest.mark.parametrize("lost", ["another boot", "the future", "too old"])
async def test_a_reader_without_a_way_here_gets_the_state(lost: str) -> None:
    shown = await shown_cluster(30, history_bytes=10_000)
    cursors = {"another boot": Cursor("x", 1), "the future": Cursor(shown.model.boot, 10**9)}
    event = shown.messages.event(None, cursors.get(lost, Cursor(shown.model.boot, 1)))
    name, cursor, data = decoded_event(event)
    assert (name, cursor) == ("state", f"{shown.model.boot}:{shown.model.seq}")
    assert (data["boot"], data["seq"]) == (shown.model.boot, shown.model.seq)


async def test_a_cursor_of_other_rights_leads_nowhere() -> None:
    """Rights that were taken away or given must not be mixed with what a page has from before."""
    shown = await shown_cluster(3)
    whole, some = shown.messages.cursor(None), shown.messages.cursor(SOME)
    assert whole.boot != some.boot
    shown.put(pod("p", on="a", **ONE_GPU))
    await shown.cycle()
    assert decoded_event(shown.messages.event(SOME, whole))[0] == "state"
    assert decoded_event(shown.messages.event(SOME, some))[0] == "change"
    assert shown.state("team")["boot"] == some.boot


async def test_a_cycle_that_is_not_kept_says_which_are() -> None:
    shown = await shown_cluster(3)
    with pytest.raises(CycleGone) as error:
        shown.messages.state(None, 99)
    assert error.value.message == "cycle 99 is not kept: cycles 1 to 3 are"
    assert "has run no cycle" in CycleGone(1, None, 0).message


async def test_readers_with_cursors_of_their_own_fill_no_memory() -> None:
    """Nothing changes any more, and each stream that is opened names another change."""
    shown = await shown_cluster(40)
    for seq in range(1, shown.model.seq):
        assert shown.messages.event(None, Cursor(shown.model.boot, seq))
    assert len(shown.messages._encoded) <= MOST_SHARED

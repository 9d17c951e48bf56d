"""Events are counted up, and what is remembered of them is bounded."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.api.meta import ObjectMeta
from muster.api.resources import EVENTS, NAMESPACES, POD_GROUPS
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube import event_recorder
from muster.kube.cluster import Raw
from muster.kube.event_recorder import EventRecorder, event

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def about(number: int, message: str = "waits", seconds: int = 0) -> Raw:
    meta = ObjectMeta(name=f"gang-{number}", namespace="default", uid=f"uid-{number}")
    return event(POD_GROUPS, meta, "NotEnoughPods", message, NOW + timedelta(seconds=seconds))


async def test_the_same_again_is_counted_up() -> None:
    memory = MemoryCluster()
    assert memory.store.get(NAMESPACES, "", "default")
    recorder = EventRecorder(memory, lambda: 0.0)
    await recorder.record(about(1))
    await recorder.record(about(1, "waits for 2 pods", seconds=5))
    (stored,) = memory.store.list(EVENTS).items
    assert (stored["count"], stored["message"]) == (2, "waits for 2 pods")
    assert recorder.is_repeated(about(1, "waits for 2 pods"), 10.0)
    assert not recorder.is_repeated(about(1, "waits for 3 pods"), 10.0)


async def test_gangs_that_come_and_go_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour of thousands of gangs: the counts of the latest are known, and no sentence is."""
    monkeypatch.setattr(event_recorder, "MOST_RECORDED", 20)
    recorder = EventRecorder(MemoryCluster(), lambda: 0.0)
    for i in range(200):
        await recorder.record(about(i, "a long sentence " * 50))
    assert len(recorder) == 20
    assert recorder.is_repeated(about(199, ("a long sentence " * 50)), 10.0)
    assert not recorder.is_repeated(about(100, ("a long sentence " * 50)), 10.0)

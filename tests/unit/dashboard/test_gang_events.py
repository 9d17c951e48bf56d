"""Events of a gang: listed when its page is opened, shared for a moment, and absent where they cannot be read."""

from typing import Any

from muster.api.resources import EVENTS, NAMESPACES
from muster.dashboard.gang_events import GangEvents
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cluster import Listing
from muster.kube.errors import ApiError

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}


def event(name: str, about: str, at: str, kind: str = "PodGroup") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "team"},
        "involvedObject": {"kind": kind, "name": about, "namespace": "team"},
        "type": "Normal",
        "reason": "Scheduled",
        "message": name,
        "lastTimestamp": at,
    }


class CountingCluster(MemoryCluster):
    lists = 0
    is_broken = False

    async def list(self, *words: Any, **more: Any) -> Listing:
        self.lists += 1
        if self.is_broken:
            raise ApiError(403, "Forbidden", "events is forbidden")
        return await super().list(*words, **more)


async def test_the_events_about_a_gang_are_listed_newest_first_and_shared_for_a_moment() -> None:
    cluster = CountingCluster()
    await cluster.create(NAMESPACES, NAMESPACE)
    for raw in (
        event("first", "gang", "2026-01-01T00:00:00Z"),
        event("second", "gang", "2026-01-02T00:00:00Z"),
        event("another", "other", "2026-01-03T00:00:00Z"),
        event("a-pod", "gang", "2026-01-03T00:00:00Z", kind="Pod"),
    ):
        await cluster.create(EVENTS, raw)
    events = GangEvents(cluster, lambda: 0.0)
    assert [each.message for each in await events.of("team", "gang")] == ["second", "first"]
    await events.of("team", "gang")
    assert cluster.lists == 1


async def test_events_of_one_second_are_in_order() -> None:
    """As texts, `00Z` comes after `00.9Z`."""
    cluster = CountingCluster()
    await cluster.create(NAMESPACES, NAMESPACE)
    for name, at in (("whole", "2026-01-01T00:00:00Z"), ("later", "2026-01-01T00:00:00.900000Z"), ("never", "then")):
        await cluster.create(EVENTS, {**event(name, "gang", ""), "lastTimestamp": None, "eventTime": at})
    events = await GangEvents(cluster, lambda: 0.0).of("team", "gang")
    assert [each.message for each in events] == ["later", "whole", "never"]


async def test_events_that_cannot_be_read_are_left_out() -> None:
    cluster = CountingCluster()
    cluster.is_broken = True
    assert await GangEvents(cluster, lambda: 0.0).of("team", "gang") == ()

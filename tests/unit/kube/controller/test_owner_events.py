"""Events of controllers: once a change, by the leader only, and never in the way of anything."""

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS, EVENTS, POD_CLIQUE_SETS
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cluster import Cluster, Raw
from muster.kube.controller import owner_events
from muster.kube.controller.owner_events import MOST_EVENTS, OwnerEvents
from muster.kube.errors import ApiError
from muster.kube.leadership import AlwaysLeading
from muster.workloads.types import OwnerEvent

OWNER: Raw = {"metadata": {"name": "w", "namespace": "default", "uid": "1"}}
BEGUN = OwnerEvent("UpdateStarted", "to template a", is_normal=True)
TERM = AlwaysLeading().term


class Refusing(MemoryCluster):
    async def create(self, *_: Any) -> Raw:
        raise ApiError(403, "Forbidden", "no")


def writing(cluster: Cluster) -> OwnerEvents:
    return OwnerEvents(cluster, AlwaysLeading(), lambda: datetime(2026, 1, 1, tzinfo=UTC))


def stored(cluster: MemoryCluster) -> list[tuple[str, str, int]]:
    events = cluster.store.list(EVENTS).items
    return sorted((raw["reason"], raw["message"], raw["count"]) for raw in events)


async def test_a_change_that_a_controller_sees_late_is_said_once() -> None:
    cluster = MemoryCluster()
    events = writing(cluster)
    for _ in range(5):
        await events.record_changes(POD_CLIQUE_SETS, OWNER, (BEGUN,), TERM)
    assert stored(cluster) == [("UpdateStarted", "to template a", 1)]
    assert cluster.store.list(EVENTS).items[0]["type"] == "Normal"


async def test_the_next_change_for_the_same_reason_is_counted() -> None:
    cluster = MemoryCluster()
    events = writing(cluster)
    for message in ("to template a", "to template b", "to template b"):
        await events.record_changes(POD_CLIQUE_SETS, OWNER, (OwnerEvent("UpdateStarted", message),), TERM)
    assert stored(cluster) == [("UpdateStarted", "to template b", 2)]


async def test_a_change_that_comes_again_later_is_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_events, "AGAIN_SECONDS", 0.0)
    cluster = MemoryCluster()
    events = writing(cluster)
    for _ in range(2):
        await events.record_changes(POD_CLIQUE_SETS, OWNER, (BEGUN,), TERM)
    assert stored(cluster) == [("UpdateStarted", "to template a", 2)]


async def test_failures_count_every_attempt() -> None:
    cluster = MemoryCluster()
    events = writing(cluster)
    for _ in range(3):
        await events.record_failure(POD_CLIQUE_SETS, OWNER, "FailedCreate", "no", TERM)
    assert stored(cluster) == [("FailedCreate", "no", 3)]


async def test_events_about_objects_in_no_namespace_are_in_default() -> None:
    cluster = MemoryCluster()
    owner = {"metadata": {"name": "t", "uid": "1"}}
    await writing(cluster).record_changes(CLUSTER_TOPOLOGY_BINDINGS, owner, (BEGUN,), TERM)
    assert [raw["metadata"]["namespace"] for raw in cluster.store.list(EVENTS).items] == ["default"]


async def test_another_leader_says_it() -> None:
    cluster = MemoryCluster()
    await writing(cluster).record_changes(POD_CLIQUE_SETS, OWNER, (BEGUN,), TERM + 1)
    assert stored(cluster) == []


async def test_a_controller_that_says_too_much_is_cut_short() -> None:
    cluster = MemoryCluster()
    many = (OwnerEvent(f"Reason{number}", "x" * 5_000) for number in range(10_000))
    await writing(cluster).record_changes(POD_CLIQUE_SETS, OWNER, many, TERM)
    assert len(stored(cluster)) == MOST_EVENTS
    assert all(len(message) <= 1024 for _, message, _ in stored(cluster))


async def test_events_that_are_refused_stop_nothing() -> None:
    await writing(Refusing()).record_changes(POD_CLIQUE_SETS, OWNER, (BEGUN,), TERM)

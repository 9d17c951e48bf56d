"""What gangs request, counted in one process and read in another: the same as counted at once."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.decoding import decode
from muster.kube.cache.cache import Cache
from muster.kube.cache.reflector import ObjectDeleted, ObjectUpdated
from muster.validation.context import PodDemands
from muster.webhook.process import gang_demands
from muster.webhook.process.gang_demands import DemandFeed, ReceivedDemands, encode_demands
from muster.webhook.process.messages import GangsChanged
from tests.support.factories import pod


def raw_pod(name: str, gang: str = "gang", leaf: str = "", gpus: str = "1", **status: Any) -> dict[str, Any]:
    labels = {"kai.scheduler/subgroup-name": leaf} if leaf else {}
    raw = pod(name, namespace="team", limits={"nvidia.com/gpu": gpus, "cpu": "2"})
    meta = {**raw["metadata"], "annotations": {"pod-group-name": gang}, "labels": labels}
    return {**raw, "metadata": meta, "status": {"phase": "Pending", **status}}


def decoded(raw: dict[str, Any]) -> Pod:
    return decode(raw, Pod)[0]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_demands, "PAUSE_SECONDS", 0.0)


class Pair:
    """A cache, and what the other process receives of it."""

    def __init__(self) -> None:
        self.cache, self.received = Cache(), ReceivedDemands()
        self.feed = DemandFeed(self.cache.pods_of)
        self.cache.pod_listeners.append(self.feed.pod_changed)

    def put(self, raw: dict[str, Any]) -> None:
        self.cache.handle(Pod, ObjectUpdated(raw))

    def drop(self, raw: dict[str, Any]) -> None:
        self.cache.handle(Pod, ObjectDeleted({"metadata": {"namespace": "team", "name": raw["metadata"]["name"]}}))

    async def pass_on(self) -> list[str]:
        """Everything that is to be sent; the gangs in it."""
        sent: list[str] = []
        while self.feed._woken.is_set():
            message = await self.feed.next_message()
            sent += message.demands
            self.received.receive(message)
        return sent

    def holds(self) -> None:
        """What was received equals the definition."""
        definition = PodDemands(self.cache.pods_of)
        assert set(self.received.gangs) == set(self.cache.gangs)
        assert {gang: self.received.of(gang) for gang in self.cache.gangs} == {
            gang: definition.of(gang) for gang in self.cache.gangs
        }


async def test_the_other_process_knows_what_pods_request() -> None:
    """Created, changed, moved to another gang, finished, terminating and deleted ones."""
    pair = Pair()
    steps = [
        raw_pod("a", leaf="x"),
        raw_pod("b", leaf="x"),
        raw_pod("c", leaf="y", gpus="8"),
        raw_pod("d", gang="other"),
        raw_pod("b", leaf="y", gpus="4"),
        raw_pod("d", gang="gang"),
        raw_pod("a", leaf="x", phase="Succeeded"),
    ]
    for raw in steps:
        pair.put(raw)
        await pair.pass_on()
        pair.holds()
    terminating = raw_pod("c", leaf="y", gpus="8")
    terminating["metadata"] = {**terminating["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    pair.put(terminating)
    assert await pair.pass_on() == ["team/gang"]
    pair.holds()
    for name in "abcd":
        pair.drop(raw_pod(name))
    await pair.pass_on()
    pair.holds()
    assert not pair.received.gangs


async def test_what_changes_no_request_is_not_sent() -> None:
    """A pod has a handful of events after its creation: bound, started, ready."""
    pair = Pair()
    pair.put(raw_pod("a"))
    await pair.pass_on()
    bound = raw_pod("a")
    pair.put({**bound, "spec": {**bound["spec"], "nodeName": "n1"}})
    pair.put({**bound, "spec": {**bound["spec"], "nodeName": "n1"}, "status": {"phase": "Running"}})
    assert await pair.pass_on() == []


async def test_many_gangs_come_in_small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning goes on between them; each gang is sent once."""
    monkeypatch.setattr(gang_demands, "GANGS_AT_ONCE", 2)
    pair = Pair()
    for i in range(5):
        pair.put(raw_pod(f"a{i}", gang=f"g{i}"))
        pair.put(raw_pod(f"b{i}", gang=f"g{i}"))
    assert len((await pair.feed.next_message()).demands) == 2
    assert len(await pair.pass_on()) == 3


async def test_a_new_process_gets_every_gang() -> None:
    """Also those that have not changed for long."""
    pair = Pair()
    for i in range(3):
        pair.put(raw_pod(f"a{i}", gang=f"g{i}"))
    await pair.pass_on()
    pair.received = ReceivedDemands()
    pair.feed.resend(pair.cache.gangs)
    await pair.pass_on()
    pair.holds()


async def test_without_pods_there_is_nothing_to_send() -> None:
    """The feed waits."""
    pair = Pair()
    pair.feed.resend([])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await pair.feed.next_message()


def test_amounts_beyond_a_frame_are_cut() -> None:
    """A pod may request any number; no node has as much, cut or not."""
    one = decoded(raw_pod("a", gpus="9223372036854775807000"))
    demands = PodDemands(lambda _: [one, replace(one)]).of("team/gang")
    received = ReceivedDemands()
    received.receive(GangsChanged({"team/gang": encode_demands(demands)}))
    amounts = {"nvidia.com/gpu": gang_demands.LARGEST_AMOUNT, "cpu": 2000}
    assert received.of("team/gang") == {"": Counter({frozenset(amounts.items()): 2})}


def test_equal_gangs_are_stored_once() -> None:
    """100,000 pods of their own PodGroups take little memory."""
    received = ReceivedDemands()
    for i in range(3):
        table = encode_demands(PodDemands(lambda _: [decoded(raw_pod("a"))]).of(""))
        received.receive(GangsChanged({f"team/{i}": table}))
    assert len({id(table) for table in received._gangs.values()}) == 1

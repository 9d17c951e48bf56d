"""`muster run` as a whole, on the embedded cluster: who may compete for the lease, and when it is given back."""

import asyncio

import pytest

from muster.cli import run
from muster.cluster.kinds import LEASES, NAMESPACES, PODS
from muster.cluster.store import ApiError, Raw, Resource
from muster.config import Config
from tests.live import GROUPS, Call, Fault, Faulty, World, group, node, pod


class Slow(Faulty):
    """Bindings take their time; when the lease is given back, it is noted who was bound by then."""

    def __init__(self, world: World) -> None:
        super().__init__(world.memory)
        self.world, self.begun = world, asyncio.Event()
        self.bound_by_then: list[str] | None = None

    async def bind(self, namespace: str, pod: str, uid: str, node: str) -> None:
        self.begun.set()
        await asyncio.sleep(0.3)
        await super().bind(namespace, pod, uid, node)

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        if resource == LEASES and not raw["spec"]["holderIdentity"]:
            self.bound_by_then = sorted(self.world.seats())
        return await super().replace(resource, raw, subresource)


def world() -> World:
    found = World([node("a")])
    found.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
    return found


async def test_who_fails_gives_the_lease_back_only_when_its_bindings_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I9: the next leader would meet them on their way."""
    there = world()
    cluster = Slow(there)

    async def fails() -> None:
        await cluster.begun.wait()
        raise OSError("no port")

    monkeypatch.setattr(run, "_servers", lambda *_: [asyncio.create_task(fails())])
    there.create(GROUPS, group("g", minMember=1))
    there.create(PODS, pod("g-0", "g"))
    async with asyncio.timeout(20):
        with pytest.raises(OSError, match="no port"):
            await run._run(Config(), cluster)
    assert cluster.bound_by_then == ["g-0"]


async def test_who_does_not_know_the_cluster_does_not_compete(monkeypatch: pytest.MonkeyPatch) -> None:
    there = world()

    def script(call: Call) -> Fault | None:
        return "broken" if call.verb == "list" and call.what == "pods" else None

    monkeypatch.setattr(run, "_servers", lambda *_: [])
    task = asyncio.create_task(run._run(Config(), Faulty(there.memory, script)))
    await asyncio.sleep(0.5)
    with pytest.raises(ApiError, match="not found"):
        await there.memory.get(LEASES, "muster-system", "muster")
    task.cancel()
    await asyncio.wait([task])

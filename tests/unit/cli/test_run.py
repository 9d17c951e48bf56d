"""`muster run` as a whole, on the embedded cluster: who may compete for the lease, and when it is given back."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from muster.api.resources import LEASES, NAMESPACES, POD_GROUPS, PODS, Resource
from muster.cli.assemble import control_plane, servers
from muster.cli.assemble.clients import ClusterAccess
from muster.config.settings import Config, Scheduling, ShardSettings
from muster.kube.cache import reflector
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.kube.pod_mark import PodMark
from muster.observability.metrics import Metrics
from muster.scheduler.leader_election import Leader, LeaseSettings
from muster.scheduler.leader_health import LeaderHealth
from tests.support.live.faults import Call, Fault, Faulty
from tests.support.live.objects import gpu_node, gpu_pod, group
from tests.support.live.world import World


class Slow(Faulty):
    """Bindings are slow; records which pods were bound when the leader resigns."""

    def __init__(self, world: World) -> None:
        super().__init__(world.memory)
        self.world, self.begun = world, asyncio.Event()
        self.bound_by_then: list[str] | None = None

    async def bind(self, namespace: str, pod: str, uid: str, node: str, *, mark: PodMark | None = None) -> None:
        self.begun.set()
        await asyncio.sleep(0.3)
        await super().bind(namespace, pod, uid, node, mark=mark)

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        if resource == LEASES and not raw["spec"]["holderIdentity"]:
            self.bound_by_then = sorted(self.world.seats())
        return await super().replace(resource, raw, subresource)


def world() -> World:
    created = World([gpu_node("a")])
    created.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
    return created


async def test_a_failed_leader_resigns_only_when_its_bindings_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I9: the next leader would race with them."""
    there = world()
    cluster = Slow(there)

    async def fails() -> None:
        await cluster.begun.wait()
        raise OSError("no port")

    monkeypatch.setattr(control_plane, "build_servers", lambda *_: {"server": fails})
    there.create(POD_GROUPS, group("g", minMember=1))
    there.create(PODS, gpu_pod("g-0", "g"))
    async with asyncio.timeout(20):
        with pytest.raises(OSError, match="no port"):
            await control_plane.run(Config(), cluster)
    assert cluster.bound_by_then == ["g-0"]


async def test_a_replica_without_a_synced_cache_does_not_compete(monkeypatch: pytest.MonkeyPatch) -> None:
    there = world()

    def script(call: Call) -> Fault | None:
        return "broken" if call.verb == "list" and call.what == "pods" else None

    monkeypatch.setattr(control_plane, "build_servers", lambda *_: {})
    task = asyncio.create_task(control_plane.run(Config(), Faulty(there.memory, script)))
    await asyncio.sleep(0.5)
    with pytest.raises(ApiError, match="not found"):
        await there.memory.get(LEASES, "muster-system", "muster")
    task.cancel()
    await asyncio.wait([task])


async def test_a_leader_with_an_unconfirmed_binding_keeps_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """I9: the API server may still apply it, so the lease expires instead of being released."""
    there, sent = world(), asyncio.Event()

    def script(call: Call) -> Fault | None:
        if call.verb != "bind":
            return None
        sent.set()
        return "lost"

    async def fails() -> None:
        await sent.wait()
        raise OSError("no port")

    monkeypatch.setattr(control_plane, "build_servers", lambda *_: {"server": fails})
    there.create(POD_GROUPS, group("g", minMember=1))
    there.create(PODS, gpu_pod("g-0", "g"))
    settings = replace(Config(), scheduling=replace(Config().scheduling, bind_timeout_seconds=1))
    async with asyncio.timeout(20):
        with pytest.raises(OSError, match="no port"):
            await control_plane.run(settings, Faulty(there.memory, script))
    lease = await there.memory.get(LEASES, "muster-system", "muster")
    assert lease["spec"]["holderIdentity"] != ""


class Candidate(Leader):
    """Records whether it may compete, and does not."""

    able: Callable[[], bool]

    async def run(self, _: object = None, able: Callable[[], bool] = lambda: True, *_more: object) -> None:
        self.able = able


async def test_a_replica_whose_watch_has_died_does_not_compete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cache was synced once, and is stale now."""
    monkeypatch.setattr(reflector, "FIRST_SECONDS", 0.002)
    there, dead = world(), False

    def script(call: Call) -> Fault | None:
        if not dead or call.what.split()[0] != "pods":
            return None
        return "reset" if call.verb == "event" else "broken" if call.verb in ("watch", "list") else None

    cluster = Faulty(there.memory, script)
    candidate = Candidate(cluster, "me", LeaseSettings(), lambda: there.seconds, there.time.now)
    async with there.running(cluster, leadership=candidate) as live:
        await control_plane.compete(
            candidate, live.scheduler, LeaderHealth(live.scheduler, 60, 100, live.scheduler.clock)
        )
        await live.until(lambda: candidate.able())
        dead = True
        await live.until(lambda: not candidate.able())


@pytest.mark.parametrize(("shard", "serves"), [({}, True), ({"enabled": True}, True), ({"value": "a"}, False)])
async def test_what_is_done_once_for_the_cluster_is_the_default_shards(
    shard: Raw, serves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The webhook and PodCliqueSets; every shard has a scheduler, a grouper and a lease of its own."""
    pool = ShardSettings(enabled=bool(shard), partition_label_value=shard.get("value", ""))
    settings = Config(scheduling=Scheduling(shard=pool))
    monkeypatch.setattr(servers, "open_sockets", lambda *sections: [None for _ in sections])  # nothing is served
    plane = control_plane.build_control_plane(settings, world().memory, "me", Metrics(), ClusterAccess())
    assert {"scheduler", "observability"} < plane.loops.keys()
    assert all((name in plane.loops) is serves for name in ("webhook", "grove operator"))
    assert settings.lease_name == ("muster" if serves else "muster-a")

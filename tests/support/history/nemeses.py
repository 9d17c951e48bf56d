"""What goes wrong in a run, by seed. Each nemesis begins, waits and heals what it did, all within seconds."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Protocol

from muster.api.resources import LEASES, NODES, PODS
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from tests.support.apiserver.apiserver import ApiServer
from tests.support.history.etcd_recorder import EtcdRecorder
from tests.support.history.load import NAMESPACE, RACKS, gpu_node
from tests.support.history.recording_proxy import FAIR, Weather
from tests.support.history.replica import DEADLINE_SECONDS, LEASE_SECONDS, MusterReplica

BEYOND_LEASE_SECONDS = LEASE_SECONDS + 2.5  # the standby has led for a moment when the other one wakes up
MOST_DELAY_SECONDS = 0.7 * (LEASE_SECONDS - DEADLINE_SECONDS)
HOUR_SECONDS = 3600.0


class Stage(Protocol):
    """What nemeses have in their hands."""

    server: ApiServer
    cluster: Cluster
    recorder: EtcdRecorder
    dice: Random
    replicas: list[MusterReplica]

    async def replace(self, dead: MusterReplica) -> None:
        """A new life in the place of one that ended."""


Nemesis = Callable[[Stage], Awaitable[None]]


async def leader(stage: Stage) -> MusterReplica:
    """The replica that the lease names, or any."""
    with suppress(ApiError):
        lease = await stage.cluster.get(LEASES, "muster-system", "muster")
        holder = str(lease["spec"].get("holderIdentity", ""))
        for replica in stage.replicas:
            if holder.startswith(f"{replica.name}_") and not replica.is_paused:
                return replica
    return stage.dice.choice(stage.replicas)


# replicas -------------------------------------------------------------------------------------------------------------


async def pause_leader(stage: Stage) -> None:
    """Two leaders: the old one wakes up after its lease, in the middle of what it was doing."""
    paused = await leader(stage)
    paused.pause()
    await asyncio.sleep(BEYOND_LEASE_SECONDS)
    paused.resume()


async def kill_leader(stage: Stage) -> None:
    killed = await leader(stage)
    killed.kill()
    await asyncio.sleep(stage.dice.uniform(0, 2))
    await stage.replace(killed)


async def jump_clock(stage: Stage) -> None:
    """An hour ahead or back, and right again."""
    for replica in stage.replicas:
        replica.jump(stage.dice.choice((-HOUR_SECONDS, HOUR_SECONDS)))
    await asyncio.sleep(stage.dice.uniform(1, 4))
    for replica in stage.replicas:
        replica.jump(0)


# the network ----------------------------------------------------------------------------------------------------------


async def cut_off_leader(stage: Stage) -> None:
    """A partition: it runs, and nothing that it sends arrives."""
    lonely = await leader(stage)
    lonely.proxy.weather = Weather(is_silent=True)
    await asyncio.sleep(BEYOND_LEASE_SECONDS)
    lonely.proxy.weather = FAIR


async def _weather(stage: Stage, weather: Weather) -> None:
    for replica in stage.replicas:
        replica.proxy.weather = weather
    await asyncio.sleep(stage.dice.uniform(3, 6))
    for replica in stage.replicas:
        replica.proxy.weather = FAIR


async def storm_of_refusals(stage: Stage) -> None:
    """429 and 503."""
    await _weather(stage, Weather(refused=0.5, failed=0.2))


async def lose_messages(stage: Stage) -> None:
    """Requests and answers: of some writes it cannot be known whether they were applied."""
    await _weather(stage, Weather(lost=0.15, unanswered=0.2, misreported=0.1))


async def delay_messages(stage: Stage) -> None:
    await _weather(stage, Weather(delay_seconds=MOST_DELAY_SECONDS, unanswered=0.05))


# the API server and etcd ----------------------------------------------------------------------------------------------


async def restart_api_server(stage: Stage) -> None:
    stage.server.restart("kube-apiserver")
    await asyncio.to_thread(stage.server.wait_until_ready)


async def restart_etcd(stage: Stage) -> None:
    stage.server.restart("etcd")
    await asyncio.to_thread(stage.server.wait_until_ready)


async def compact_and_restart(stage: Stage) -> None:
    """Watches cannot resume: 410, and everything is listed again."""
    await stage.recorder.compact()
    await restart_api_server(stage)


# nodes and pods -------------------------------------------------------------------------------------------------------


async def delete_node(stage: Stage) -> None:
    """Perhaps while pods are being bound to it; it returns."""
    name = stage.dice.choice(sorted(RACKS))
    with suppress(ApiError):
        await stage.cluster.delete(NODES, "", name)
    await asyncio.sleep(stage.dice.uniform(1, 3))
    await restore_nodes(stage)


async def cordon_node(stage: Stage) -> None:
    name = stage.dice.choice(sorted(RACKS))
    with suppress(ApiError):
        await stage.cluster.patch(NODES, "", name, {"spec": {"unschedulable": True}})
    await asyncio.sleep(stage.dice.uniform(1, 4))
    with suppress(ApiError):
        await stage.cluster.patch(NODES, "", name, {"spec": {"unschedulable": None}})


async def delete_pods(stage: Stage) -> None:
    """Some of all, bound or not, a few times."""
    for _ in range(4):
        with suppress(ApiError):
            pods = [raw for raw in (await stage.cluster.list(PODS, NAMESPACE)).items if _scheduler(raw) != "other"]
            for raw in stage.dice.sample(pods, min(2, len(pods))):
                await stage.cluster.delete(PODS, NAMESPACE, raw["metadata"]["name"])
        await asyncio.sleep(stage.dice.uniform(0.2, 0.8))


def _scheduler(raw: dict[str, dict[str, str]]) -> str:
    return raw["spec"].get("schedulerName", "")


async def restore_nodes(stage: Stage) -> None:
    """Every node is there and open."""
    for name in RACKS:
        with suppress(ApiError):
            await stage.cluster.create(NODES, gpu_node(name))
        await stage.cluster.patch(NODES, "", name, {"spec": {"unschedulable": None}})


NEMESES: dict[str, Nemesis] = {
    "pause": pause_leader,
    "kill": kill_leader,
    "clock": jump_clock,
    "partition": cut_off_leader,
    "storm": storm_of_refusals,
    "loss": lose_messages,
    "delay": delay_messages,
    "api server": restart_api_server,
    "etcd": restart_etcd,
    "compaction": compact_and_restart,
    "node": delete_node,
    "cordon": cordon_node,
    "pods": delete_pods,
}
FEWEST, MOST, WITHIN_SECONDS = 2, 4, 7.0


def schedule(seed: int) -> list[tuple[float, str]]:
    """Which nemeses begin when; at most one that restarts a server."""
    dice = Random(f"nemeses/{seed}")
    first = list(NEMESES)[seed % len(NEMESES)]  # every one comes in turn
    others = dice.sample([name for name in NEMESES if name != first], dice.randint(FEWEST, MOST) - 1)
    servers = [name for name in (first, *others) if name in ("api server", "etcd", "compaction")]
    chosen = [name for name in (first, *others) if name not in servers[1:]]
    return sorted((dice.uniform(0, WITHIN_SECONDS), name) for name in chosen)

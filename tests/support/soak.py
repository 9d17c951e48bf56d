"""`python -m tests.support.soak [--on up|apiserver] [--seconds N]`: muster under load, watched from outside.

It is `muster up`, or `muster run` on a real API server with etcd (`make envtest`) and simulated kubelets.

Mixed gangs come and go (20 to 60 alive, 1 to 8 GPUs, 40 % with levels, three priorities) on 64 nodes; nodes are lost
and return. What is judged: gangs keep being bound while some could be, no promise is broken at any change of a pod, and
SIGTERM ends the process within seconds. What is measured: memory, threads, file descriptors, and how long a pod that
always fits waits; over minutes none of them grows.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

import muster
from muster.api.resources import NAMESPACES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, TOPOLOGIES, Resource
from muster.embedded.kubelet.kubelet import Kubelets
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.placement.budget import OutOfSteps
from muster.simulator import datacenter
from tests.e2e.installed import free_port
from tests.support.apiserver import envtest
from tests.support.apiserver.apiserver import started
from tests.support.live.judge import Judge
from tests.support.live.objects import gang_of, leaf_of, placed
from tests.support.soak_figures import Figures
from tests.support.soak_workload import NAMESPACE, PRIORITIES, Gang, Gangs, probe, queues, replacement

HOSTS = 64
FEWEST, MOST = 20, 60  # gangs alive
MOST_AT_ONCE = 5  # that come in one tick
TICK_SECONDS = 0.5
PROBE_SECONDS, LOSS_SECONDS = 3.0, 15.0
STALL_SECONDS = 30.0  # without a binding, while something could be bound
STOP_SECONDS = 5.0  # from SIGTERM to the end
START_SECONDS = 60.0
LEVELS, GPUS = "zone=2,block=4,rack=8", 8  # as `muster up` has them
QUIET = "webhook: {{enabled: false}}\nobservability: {{host: 127.0.0.1, port: {port}}}\nlog: {{level: warning}}\n"
COLLECTED = (NODES, PODS, POD_GROUPS, QUEUES, TOPOLOGIES, PRIORITY_CLASSES)


class Soak:
    """Drives a cluster and watches it."""

    def __init__(self, cluster: Cluster, pid: int, seed: int) -> None:
        self.cluster, self.pid = cluster, pid
        self.rng = random.Random(seed)
        self.gangs = Gangs(self.rng)
        self.alive: dict[str, Gang] = {}
        self.nodes: dict[str, Raw] = {}
        self.groups: dict[str, Raw] = {}
        self.down: list[str] = []
        self.figures = Figures()
        self.judge = Judge(self.nodes.values, self.groups.values, queues)
        self.probes: dict[str, float] = {}
        self.last_bound = time.monotonic()
        self._seen: set[str] = set()  # uids that were bound
        self._number = 0
        self._work: set[asyncio.Task[None]] = set()

    async def run(self, seconds: float) -> Figures:
        """Until the time is over or something is broken."""
        await self._prepare()
        since = (await self.cluster.list(PODS, NAMESPACE)).resource_version
        watch = asyncio.create_task(self._watch(since))
        began = time.monotonic()
        self.last_bound = began
        try:
            while time.monotonic() - began < seconds and not self.figures.broken and not watch.done():
                await self._tick(time.monotonic() - began)
                await asyncio.sleep(TICK_SECONDS)
        finally:
            for task in (watch, *self._work):
                task.cancel()
            await asyncio.gather(watch, *self._work, return_exceptions=True)
        self.figures.seconds = time.monotonic() - began
        self.figures.broken += [*self.judge.broken, *self.figures.uneven()]
        return self.figures

    async def _prepare(self) -> None:
        await self._create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for name, value in PRIORITIES.items():
            await self._create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        for raw in queues():
            await self._create(QUEUES, raw)
        self.nodes |= {raw["metadata"]["name"]: raw for raw in (await self.cluster.list(NODES)).items}

    async def _create(self, resource: Resource, raw: Raw) -> Raw:
        return await self.cluster.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **raw})

    # what happens ---------------------------------------------------------------------------------------------------

    async def _tick(self, at: float) -> None:
        self.figures.measure(self.pid)
        await self._come_and_go()
        if at % PROBE_SECONDS < TICK_SECONDS:
            await self._probe()
        if at > LOSS_SECONDS and at % LOSS_SECONDS < TICK_SECONDS:
            await self._lose_or_heal()
        await self._judge_progress()

    async def _come_and_go(self) -> None:
        now = time.monotonic()
        for gang in [one for one in self.alive.values() if one.ends and one.ends < now][:3]:
            await self._end(gang)
        for _ in range(min(self.rng.randint(FEWEST, MOST) - len(self.alive), MOST_AT_ONCE)):
            gang = self.gangs.next()
            self.alive[gang.name] = gang
            self.groups[gang.name] = gang.group
            await self._create(POD_GROUPS, gang.group)
            for pod in gang.pods():
                await self._create(PODS, pod)

    async def _end(self, gang: Gang) -> None:
        """Its controller deletes the pods, and then the PodGroup: without one they would be of no queue.

        From now on it is not judged: a binding that was decided before may come after the first deletion.
        """
        del self.alive[gang.name]
        self.groups.pop(gang.name)
        self.figures.ended += 1
        for (_, name), pod in list(self.judge.pods.items()):
            if gang_of(pod) == gang.name:
                with suppress(ApiError):
                    await self.cluster.delete(PODS, NAMESPACE, name, grace_seconds=0)
        with suppress(ApiError):
            await self.cluster.delete(POD_GROUPS, NAMESPACE, gang.name)

    async def _probe(self) -> None:
        """A pod that fits wherever there is a node, and is ahead of all others."""
        self._number += 1
        group, pod = probe(self._number)
        self.groups[group["metadata"]["name"]] = group
        await self._create(POD_GROUPS, group)
        self.probes[pod["metadata"]["name"]] = time.monotonic()
        await self._create(PODS, pod)

    async def _lose_or_heal(self) -> None:
        if self.down:
            name, fails = self.down.pop(), None
        else:
            name, fails = self.rng.choice(sorted(self.nodes)), "true"
            self.down.append(name)
            self.figures.lost_nodes += 1
        await self.cluster.patch(NODES, "", name, {"metadata": {"annotations": {"muster.dev/fail": fails}}})

    # what is seen ---------------------------------------------------------------------------------------------------

    async def _watch(self, since: str) -> None:
        """An API server ends every watch after a while; it is resumed where it ended."""
        while True:
            async with self.cluster.watch(PODS, since, NAMESPACE) as changes:
                async for change in changes:
                    since = change.object["metadata"]["resourceVersion"]
                    if change.type != "BOOKMARK":
                        self.judge.look(change)
                        self._saw(change.object, change.type == "DELETED")

    def _saw(self, pod: Raw, is_gone: bool) -> None:
        meta, gang = pod["metadata"], self.alive.get(gang_of(pod))
        if placed(pod) and meta["uid"] not in self._seen:
            self._seen.add(meta["uid"])
            self.figures.bound += 1
            self.last_bound = time.monotonic()
            if meta["name"] in self.probes:
                self.figures.latencies.append(self.last_bound - self.probes.pop(meta["name"]))
                self._begin(self._forget_probe(pod))
            elif gang is not None and not gang.ends:
                gang.ends = self.last_bound + self.rng.uniform(5, 40)
                self.figures.started += 1
        if is_gone and gang is not None:
            self._number += 1
            self._begin(self._replace(pod, self._number))
        elif not is_gone and pod.get("status", {}).get("phase") == "Failed" and not meta.get("deletionTimestamp"):
            self._begin(self.cluster.delete(PODS, NAMESPACE, meta["name"], grace_seconds=0))

    async def _replace(self, pod: Raw, number: int) -> None:
        """What a workload controller does: a new pod for one that is gone, under a new name."""
        if gang_of(pod) in self.alive:
            await self._create(PODS, replacement(pod, number, leaf_of(pod)))

    async def _forget_probe(self, pod: Raw) -> None:
        name = gang_of(pod)
        await self.cluster.delete(PODS, NAMESPACE, pod["metadata"]["name"], grace_seconds=0)
        await self.cluster.delete(POD_GROUPS, NAMESPACE, name)
        self.groups.pop(name, None)

    def _begin(self, work: Awaitable[Any]) -> None:
        async def done() -> None:
            with suppress(ApiError):
                await work

        task = asyncio.create_task(done())
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _judge_progress(self) -> None:
        pause = time.monotonic() - self.last_bound
        self.figures.longest_pause = max(self.figures.longest_pause, pause)
        late = [name for name, since in self.probes.items() if time.monotonic() - since > STALL_SECONDS]
        if late:
            self.figures.broken.append(f"{late[0]} fits anywhere, and waits for {STALL_SECONDS:.0f} s")
        elif pause > STALL_SECONDS and (names := await self._could_be_bound()):
            self.figures.broken.append(f"no binding for {pause:.0f} s, though these fit: {names[:3]}")

    async def _could_be_bound(self) -> list[str]:
        """Pods that a plan of ours, on what is stored, would bind at once."""
        raws = []
        for resource in COLLECTED:
            listed = (await self.cluster.list(resource)).items
            raws += [{"apiVersion": resource.api_version, "kind": resource.kind, **raw} for raw in listed]
        try:
            plan = await asyncio.to_thread(muster.plan, muster.objects(raws), muster.Policy(steps=5_000))
        except OutOfSteps:
            return []
        return [one.key for one in plan.bindings]


# the process --------------------------------------------------------------------------------------------------------


@contextmanager
def running(words: list[str], folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """A `muster` with these words; killed when left, if it is still there."""
    command = [sys.executable, "-m", "muster.cli.main", *words]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@contextmanager
def up(folder: Path, nodes: int) -> Iterator[tuple[Path, "subprocess.Popen[bytes]"]]:
    """A running `muster up`."""
    path = folder / "kubeconfig"
    with running(["up", "--nodes", str(nodes), "--kubeconfig", str(path)], folder) as process:
        end = time.monotonic() + START_SECONDS
        while not path.exists():
            assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")
            assert time.monotonic() < end, "`muster up` does not come up"
            time.sleep(0.05)
        yield path, process


@contextmanager
def on_api_server(folder: Path, nodes: int) -> Iterator[tuple[Path, "subprocess.Popen[bytes]"]]:
    """A running `muster run` on an API server with nodes."""
    programs = envtest.find_programs()
    if programs is None:
        sys.exit(envtest.HOW_TO_GET_THEM)
    server = started(programs)
    try:
        levels = datacenter.parse_levels(LEVELS)
        raws = [datacenter.topology(levels), *datacenter.nodes(nodes, GPUS, levels)]
        server.request("/api/v1/namespaces", msgspec.json.encode({"metadata": {"name": "muster-system"}}), "POST")
        for raw in raws:
            path = "/api/v1/nodes" if raw["kind"] == "Node" else f"/apis/{raw['apiVersion']}/topologies"
            server.request(path, msgspec.json.encode(raw), "POST")
        (folder / "config.yaml").write_text(QUIET.format(port=free_port()), encoding="utf-8")
        words = ["run", "--config", str(folder / "config.yaml"), "--kubeconfig", str(server.kubeconfig)]
        with running(words, folder) as process:
            yield server.kubeconfig, process
    finally:
        server.stop()
        server.clean(keep_logs=False)


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Cluster]:
    cluster = connect(kubeconfig)
    try:
        yield cluster
    finally:
        await cluster.close()


async def _soaked(kubeconfig: Path, pid: int, seconds: float, seed: int, with_kubelets: bool) -> Figures:
    async with connected(kubeconfig) as cluster, AsyncExitStack() as stack:
        if with_kubelets:
            await stack.enter_async_context(Kubelets(cluster).running())
        return await Soak(cluster, pid, seed).run(seconds)


def soak(seconds: float, seed: int = 1, nodes: int = HOSTS, on: str = "up") -> Figures:
    """The whole of it: start, load, SIGTERM in the middle of it."""
    with tempfile.TemporaryDirectory() as name, PLACES[on](Path(name), nodes) as (kubeconfig, process):
        figures = asyncio.run(_soaked(kubeconfig, process.pid, seconds, seed, with_kubelets=on == "apiserver"))
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            figures.broken.append(f"SIGTERM did not end it within {STOP_SECONDS:.0f} s")
        figures.stopped = time.monotonic() - began
        log = (Path(name) / "log").read_text(encoding="utf-8")
        if "Traceback" in log or process.poll() not in (None, 0):
            figures.broken.append(f"muster ended with {process.poll()}: {log[-500:]}")
    return figures


PLACES = {"up": up, "apiserver": on_api_server}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default: ten minutes)")
    parser.add_argument("--on", choices=list(PLACES), default="up", help="what runs (default: `muster up`)")
    parser.add_argument("--seed", type=int, default=1, help="of gangs and losses (default: 1)")
    given = parser.parse_args()
    figures = soak(given.seconds, given.seed, on=given.on)
    sys.stdout.write("\n".join(figures.lines()) + "\n")
    sys.exit(1 if figures.broken else 0)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()

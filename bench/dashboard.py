"""`python -m bench.dashboard [SECONDS]`: what viewers of the dashboard cost, on 5,000 nodes with 50,000 pods.

One process keeps a cache up to date from 200 changes of pods a second and plans four times a second, as a scheduler
does: gangs end, come again, are bound and run. It does so without a dashboard, with one that none views, with one
viewer and with ten; what differs in CPU time is the dashboard. Viewers are processes of their own, and read over HTTP.

Then 4,000 pods in gangs come to an embedded cluster, with no viewer and with ten: how fast are they bound?
"""

import argparse
import asyncio
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from muster.api.codec import Document
from muster.api.core import Node, Pod
from muster.api.meta import Wire
from muster.api.podgroup import PodGroup
from muster.api.resources import NODES, TOPOLOGIES
from muster.api.topology import Topology
from muster.cli.assemble.embedded_cluster import ServedAt, open_embedded_cluster
from muster.config.settings import Config
from muster.dashboard.access import allow_all
from muster.dashboard.gang_events import GangEvents
from muster.dashboard.messages import Messages
from muster.dashboard.model import DashboardModel
from muster.dashboard.pages import Pages
from muster.dashboard.server import DashboardParts, DashboardServer
from muster.dashboard.streams import DashboardStreams
from muster.dashboard.what_if_answers import WhatIfAnswers
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cache.cache import Cache
from muster.kube.cache.reflector import ObjectDeleted, ObjectUpdated
from muster.observability.serving.asgi_server import AsgiServer, listen
from muster.planning.cycle import plan as make_plan
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.policy import Policy
from muster.scheduler.apply.apply_result import ApplyResult
from muster.scheduler.cycle_runner import FinishedCycle
from muster.simulator.initial_objects import create_cluster

Raw = dict[str, Any]
NODE_COUNT, POD_COUNT, GANG = 5_000, 50_000, 8
CHANGES_A_SECOND, CYCLE_SECONDS = 200, 0.25
RACK, BLOCK, ZONE = 16, 64, 1_024  # nodes in each
WARM_UP_SECONDS = 10.0
FIRST_BYTES = 2 * 2**20  # of a state, which comes first
BACKLOG_NODES, BACKLOG_PODS = 500, 4_000
LEVELS = ("topology/zone", "topology/block", "topology/rack")


class ViewedRun(Struct, frozen=True):
    """One run: what it cost, and what viewers received."""

    viewers: int  # -1: without a dashboard
    seconds: float  # of changes; a machine that others use may have taken longer
    cpu_seconds: float
    bytes: int  # that one viewer received
    mebibytes: tuple[int, ...]  # resident, at times of equal distance

    @property
    def share(self) -> float:
        """Of a core."""
        return self.cpu_seconds / self.seconds


# the cluster ----------------------------------------------------------------------------------------------------------


def make_node(number: int) -> Raw:
    labels = dict(zip(LEVELS, (f"z{number // ZONE}", f"b{number // BLOCK}", f"r{number // RACK}"), strict=True))
    amounts = {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
    return {"metadata": {"name": f"node-{number:05}", "labels": labels}, "status": {"allocatable": amounts}}


def make_pod(gang: int, number: int, node: str = "", uid: int = 0) -> Raw:
    requests = {"cpu": "4", "memory": "16Gi"} | ({"nvidia.com/gpu": "1"} if gang % 2 else {})
    return {
        "metadata": {
            "name": f"g{gang:05}-{number}",
            "namespace": f"team-{gang % 20}",
            "uid": f"{gang}-{number}-{uid}",
            "annotations": {"pod-group-name": f"g{gang:05}"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "schedulerName": "muster",
            "nodeName": node,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def make_group(gang: int) -> Raw:
    meta = {"name": f"g{gang:05}", "namespace": f"team-{gang % 20}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    level = {"topology": "datacenter", "requiredTopologyLevel": "topology/block"}
    return {"metadata": meta, "spec": {"minMember": GANG - 2, "queue": "default", "topologyConstraint": level}}


class ChangingCluster:
    """A cache that receives changes, and a planner that binds what is pending."""

    def __init__(self) -> None:
        self.cache, self.memory, self.policy = Cache(), AnswerCache(), Policy()
        self.gangs = POD_COUNT // GANG
        self.listeners: list[Any] = []
        self._due: deque[tuple[type[Wire], ObjectUpdated | ObjectDeleted]] = deque()
        self._next, self._uid, self.cycles = 0, 0, 0

    def fill(self) -> None:
        levels = [{"nodeLabel": label} for label in LEVELS]
        self._apply(Topology, ObjectUpdated({"metadata": {"name": "datacenter"}, "spec": {"levels": levels}}))
        for number in range(NODE_COUNT):
            self._apply(Node, ObjectUpdated(make_node(number)))
        for gang in range(self.gangs):
            self._apply(PodGroup, ObjectUpdated(make_group(gang)))
            for number in range(GANG):
                block = (gang * GANG // (POD_COUNT // NODE_COUNT)) // BLOCK * BLOCK
                node = f"node-{min(block + (gang * GANG + number) % BLOCK, NODE_COUNT - 1):05}"
                self._apply(Pod, ObjectUpdated(make_pod(gang, number, node)))

    def _apply(self, struct: type[Wire], event: ObjectUpdated | ObjectDeleted) -> None:
        self.cache.handle(struct, event)
        resource = {Node: NODES, Topology: TOPOLOGIES}.get(struct)
        for listener in self.listeners if resource else ():
            listener(resource, event)

    def change(self, number: int) -> None:
        """So many changes of pods: of a whole gang, and of one pod each of eight gangs."""
        for _ in range(number):
            if not self._due:
                self._replace([(self._choose(), 0) for _ in range(GANG)])
                gang = self._choose()
                self._replace([(gang, number) for number in range(GANG)])
            self._apply(*self._due.popleft())

    def _choose(self) -> int:
        self._next = (self._next + 7919) % self.gangs
        return self._next

    def _replace(self, pods: list[tuple[int, int]]) -> None:
        """These pods end, and come again."""
        self._uid += 1
        for gang, number in pods:
            before = self.cache.pod(f"team-{gang % 20}/g{gang:05}-{number}")
            ending = make_pod(gang, number, before.spec.node_name if before else "", self._uid - 1)
            ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._due.append((Pod, ObjectUpdated(ending)))
        self._due += [(Pod, ObjectDeleted(make_pod(*pod))) for pod in pods]
        self._due += [(Pod, ObjectUpdated(make_pod(*pod, "", self._uid))) for pod in pods]

    def cycle(self) -> FinishedCycle:
        """A plan of what is known; its bindings are changes, too."""
        began, now = time.monotonic(), datetime.now(UTC)
        snapshot = self.cache.snapshot(now)
        plan = make_plan(snapshot, self.policy, memory=self.memory)
        self.cycles += 1
        for binding in plan.bindings:
            gang, _, number = binding.pod.removeprefix("g").partition("-")
            self._apply(Pod, ObjectUpdated(make_pod(int(gang), int(number), binding.node, self._uid)))
        return FinishedCycle(self.cycles, now, time.monotonic() - began, snapshot, plan, ApplyResult())


# one run --------------------------------------------------------------------------------------------------------------


def build_server(cluster: ChangingCluster) -> tuple[DashboardModel, AsgiServer]:
    model = DashboardModel(cluster.cache, cluster.policy, 64 * 2**20)
    cluster.cache.pod_listeners.append(model.pod_changed)
    cluster.listeners.append(model.object_changed)
    messages = Messages(model)
    parts = DashboardParts(
        model=model,
        messages=messages,
        streams=DashboardStreams(model, messages, 40, time.monotonic),
        pages=Pages(model, messages, GangEvents(MemoryCluster(), time.monotonic)),
        what_if=WhatIfAnswers(lambda: cluster.cache.objects, cluster.policy, lambda: datetime.now(UTC)),
    )
    return model, AsgiServer(DashboardServer(parts, "loopback", allow_all).app(None))


@contextmanager
def watching(viewers: int, port: int, folder: Path) -> Iterator[list[Path]]:
    """Processes that read streams; each file holds how many bytes one of them received."""
    counts = [folder / f"viewer-{number}" for number in range(viewers)]
    command = [sys.executable, "-m", "bench.dashboard", "--view", str(port)]
    started = [subprocess.Popen([*command, str(path)]) for path in counts]
    try:
        yield counts
    finally:
        for process in started:
            process.kill()
            process.wait()


async def view(port: int, path: Path) -> None:
    """Read one stream, and write down how many bytes came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    writer.write(f"GET /api/stream HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode())
    total = 0
    while data := await reader.read(2**20):
        total += len(data)
        path.write_text(str(total), encoding="ascii")


def received(counts: list[Path]) -> int:
    return int(counts[0].read_text(encoding="ascii") or 0) if counts and counts[0].exists() else 0


def resident_mebibytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


async def run(viewers: int, seconds: float) -> ViewedRun:
    """The changing cluster for a while; `viewers` -1: without a dashboard."""
    cluster, tasks = ChangingCluster(), list[asyncio.Task[None]]()
    listener = listen("127.0.0.1", 0, "")
    model: DashboardModel | None = None
    if viewers >= 0:
        model, server = build_server(cluster)
        tasks = [asyncio.create_task(model.run()), asyncio.create_task(server.serve([listener]))]
    cluster.fill()
    gc.collect()
    gc.freeze()
    with (
        tempfile.TemporaryDirectory() as folder,
        watching(max(viewers, 0), listener.getsockname()[1], Path(folder)) as counts,
    ):
        await drive(cluster, model, WARM_UP_SECONDS)
        while model is not None and (len(model.gangs) < cluster.gangs or len(model.nodes) < NODE_COUNT):
            await drive(cluster, model, 1.0)
        while viewers > 0 and received(counts) < FIRST_BYTES:
            await drive(cluster, model, 1.0)
        await drive(cluster, model, 2.0)
        cpu, bytes_ = own_cpu(), received(counts)
        memory = [resident_mebibytes()]
        for _ in range(4):
            await drive(cluster, model, seconds / 4)
            memory.append(resident_mebibytes())
        result = ViewedRun(viewers, seconds, own_cpu() - cpu, received(counts) - bytes_, tuple(memory))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return result


def own_cpu() -> float:
    return time.process_time()


async def drive(cluster: ChangingCluster, model: DashboardModel | None, seconds: float) -> None:
    """Changes and cycles at their rate; where the machine is too slow for it, as fast as it goes."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for tick in range(int(seconds / CYCLE_SECONDS)):
        per_slice = round(CHANGES_A_SECOND * CYCLE_SECONDS / 5)
        for part in range(5):
            cluster.change(per_slice)
            await asyncio.sleep(max(began + (tick + part / 5) * CYCLE_SECONDS - loop.time(), 0))
        done = cluster.cycle()
        if model is not None:
            model.cycle_finished(done)


# bindings -------------------------------------------------------------------------------------------------------------


class BoundBacklog(Struct, frozen=True):
    """How a backlog was bound in an embedded cluster."""

    viewers: int
    seconds: float
    cpu_seconds: float  # of API server, scheduler, simulated kubelets and dashboard: one process


async def bind_backlog(viewers: int) -> BoundBacklog:
    """Gangs come while the viewers watch; until all of their pods are bound."""
    nodes = [Document(str(i), {"apiVersion": "v1", "kind": "Node", **make_node(i)}) for i in range(BACKLOG_NODES)]
    with tempfile.TemporaryDirectory() as folder:
        served_at = ServedAt("127.0.0.1", 0, Path(folder) / "kubeconfig")
        async with open_embedded_cluster(create_cluster(nodes).store, served_at, Config(), (), 0) as cluster:
            bound: set[str] = set()
            cluster.scheduler.watched.cache.pod_listeners.append(lambda _, pod: note_bound(bound, pod))
            with watching(viewers, int(cluster.dashboard.rpartition(":")[2]), Path(folder)) as counts:
                while not all(path.exists() for path in counts):
                    await asyncio.sleep(0.05)
                began, cpu = time.monotonic(), time.process_time()
                for raw in backlog():
                    await cluster.submit(raw)
                while len(bound) < BACKLOG_PODS:
                    await asyncio.sleep(0.01)
                return BoundBacklog(viewers, time.monotonic() - began, time.process_time() - cpu)


def note_bound(bound: set[str], pod: Pod | None) -> None:
    if pod is not None and pod.spec.node_name:
        bound.add(pod.metadata.name)


def backlog() -> Iterator[Raw]:
    for team in range(20):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{team}"}}
    for gang in range(BACKLOG_PODS // GANG):
        group = make_group(gang)
        del group["spec"]["topologyConstraint"]
        yield {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", **group}
        for number in range(GANG):
            pod = make_pod(gang, number)
            del pod["metadata"]["uid"], pod["spec"]["nodeName"]
            pod["spec"]["containers"][0]["image"] = "x"
            yield {"apiVersion": "v1", "kind": "Pod", **pod}


def bind_apart(viewers: int) -> BoundBacklog:
    command = [sys.executable, "-m", "bench.dashboard", "--bind", str(viewers)]
    return msgspec.json.decode(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, type=BoundBacklog)


# all of them ----------------------------------------------------------------------------------------------------------


def run_apart(viewers: int, seconds: float) -> ViewedRun:
    """A run in a process of its own."""
    command = [sys.executable, "-m", "bench.dashboard", "--run", str(viewers), str(seconds)]
    return msgspec.json.decode(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, type=ViewedRun)


def row(measured: ViewedRun, bare: ViewedRun, unviewed: ViewedRun) -> str:
    who = {-1: "no dashboard", 0: "no viewer"}.get(measured.viewers, f"{measured.viewers} viewers")
    added, viewing = 100 * (measured.share - bare.share), 100 * (measured.share - unviewed.share)
    rate = measured.bytes / measured.seconds / 1024
    memory = " → ".join(map(str, measured.mebibytes))
    return (
        f"| {who} | {100 * measured.share:.1f} % | {added:+.1f} % | {viewing:+.1f} % | {rate:,.0f} KiB | {memory} MiB |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.dashboard")
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument("--run", nargs=2, metavar=("VIEWERS", "SECONDS"))
    parser.add_argument("--bind", type=int, metavar="VIEWERS")
    parser.add_argument("--rounds", type=int, default=5, help="of bindings, with 0 and 10 viewers each")
    parser.add_argument("--view", nargs=2, metavar=("PORT", "FILE"))
    options = parser.parse_args()
    if options.view:
        asyncio.run(view(int(options.view[0]), Path(options.view[1])))
    elif options.bind is not None:
        print(msgspec.json.encode(asyncio.run(bind_backlog(options.bind))).decode())
    elif options.run:
        measured = asyncio.run(run(int(options.run[0]), float(options.run[1])))
        print(msgspec.json.encode(measured).decode())
    else:
        print("| viewers | CPU of one core | beside none | beside no viewer | to each viewer, a second | memory |")
        print("|---|---:|---:|---:|---:|---|", flush=True)
        runs = {viewers: run_apart(viewers, options.seconds) for viewers in (-1, 0, 1, 10)}
        for measured in runs.values():
            print(row(measured, runs[-1], runs[0]), flush=True)
        print_bindings(options.rounds)


def print_bindings(rounds: int) -> None:
    """With no viewer and with ten, one after the other; medians."""
    measured = [bind_apart(viewers) for _ in range(rounds) for viewers in (0, 10)]
    print("\n| viewers | bindings a second | CPU for 1,000 bindings |\n|---|---:|---:|")
    for viewers in (0, 10):
        runs = [each for each in measured if each.viewers == viewers]
        rate = statistics.median(BACKLOG_PODS / each.seconds for each in runs)
        cpu = statistics.median(each.cpu_seconds for each in runs) / BACKLOG_PODS * 1_000
        print(f"| {viewers} | {rate:,.0f} | {cpu:.2f} s |", flush=True)


if __name__ == "__main__":
    main()

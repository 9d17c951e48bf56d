"""A changing cluster of 5,000 nodes and 50,000 pods, the dashboard over it, and viewers that read it over HTTP."""

import asyncio
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from muster.api.core import Node, Pod
from muster.api.meta import Wire
from muster.api.podgroup import PodGroup
from muster.api.resources import NODES, TOPOLOGIES
from muster.api.topology import Topology
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
from muster.observability.serving.asgi_server import AsgiServer
from muster.planning.cycle import plan as make_plan
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.policy import Policy
from muster.scheduler.apply.apply_result import ApplyResult
from muster.scheduler.cycle_runner import FinishedCycle

Raw = dict[str, Any]
NODE_COUNT, POD_COUNT, GANG = 5_000, 50_000, 8
CHANGES_A_SECOND, CYCLE_SECONDS = 200, 0.25
HISTORY_BYTES = 64 * 2**20
RACK, BLOCK, ZONE = 16, 64, 1_024  # nodes in each
LEVELS = ("topology/zone", "topology/block", "topology/rack")


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
        self.plan_seconds = 0.0  # of CPU

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
        began, cpu, now = time.monotonic(), time.process_time(), datetime.now(UTC)
        snapshot = self.cache.snapshot(now)
        plan = make_plan(snapshot, self.policy, memory=self.memory)
        self.plan_seconds += time.process_time() - cpu
        self.cycles += 1
        for binding in plan.bindings:
            gang, _, number = binding.pod.removeprefix("g").partition("-")
            self._apply(Pod, ObjectUpdated(make_pod(int(gang), int(number), binding.node, self._uid)))
        return FinishedCycle(self.cycles, now, time.monotonic() - began, snapshot, plan, ApplyResult())


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


async def fill_history(cluster: ChangingCluster, model: DashboardModel) -> None:
    """Cycles without a pause, each with a state of its own, until the first ones are dropped."""
    while model.history.oldest_cycle in (None, 1):
        cluster.change(round(CHANGES_A_SECOND * CYCLE_SECONDS))
        model.cycle_finished(cluster.cycle())
        await model.update()


# the dashboard --------------------------------------------------------------------------------------------------------


def build_server(cluster: ChangingCluster) -> tuple[DashboardModel, AsgiServer]:
    model = DashboardModel(cluster.cache, cluster.policy, HISTORY_BYTES)
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
    command = [sys.executable, "-m", "bench.dashboard_load", str(port)]
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


if __name__ == "__main__":
    asyncio.run(view(int(sys.argv[1]), Path(sys.argv[2])))

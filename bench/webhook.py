"""`python -m bench.webhook`: how long the webhook takes to answer, over TLS, in the process that `muster run` gives it.

One connection that is kept, as the API server's; one request after the other. *Bare* is a request for nothing (404) on
the same server in the same run: what HTTP and TLS cost, so that figures of different machines compare. The webhook
knows a cluster of 5,000 nodes, from an API server in another process, and 20,000 pods, from the process that started
it; 800 of them of the very gang that is asked about. *While planning*: a thread of that process makes one plan after
the other without a pause.

Times leave out what webhook and client waited for a core while other processes had it (`/proc/PID/schedstat`): a busy
machine changes them little, and waiting for another thread of the same process stays in. *By the clock* leaves out
nothing: on a machine whose cores are all taken it measures the machine.
"""

import asyncio
import contextlib
import http.client
import multiprocessing
import os
import socket
import ssl
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

import muster
from bench import cluster as backlog
from muster.api import resources
from muster.api.core import Node, Pod
from muster.api.decoding import decode
from muster.api.objects import Objects
from muster.api.resources import NAMESPACES, TOPOLOGIES
from muster.api.topology import Topology
from muster.cli.assemble.process import tune
from muster.cli.assemble.servers import WEBHOOK_COMMAND
from muster.config.settings import Config, Webhook
from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.server import serve
from muster.observability.metrics import Metrics
from muster.observability.serving.asgi_server import listen
from muster.validation.context import ValidationContext
from muster.validation.pods.membership import gang_of
from muster.webhook import admission, handlers
from muster.webhook import admission_review as reviews
from muster.webhook.cluster_context import ClusterContext
from muster.webhook.process.gang_demands import GANGS_AT_ONCE, PAUSE_SECONDS, DemandFeed
from muster.webhook.process.messages import WebhookStart
from muster.webhook.process.supervisor import WebhookProcess

Raw = dict[str, Any]
SETTINGS = Webhook(convert_older_dialects=True)
REQUESTS, WARM_REQUESTS = 2_000, 50
PROMISED_SECONDS = 0.01
START_SECONDS = 180.0
NODES, PODS, PODS_OF_GANG = 5_000, 20_000, 800


class Figure(Struct, frozen=True):
    """Seconds for one answer."""

    name: str
    size: int  # bytes of the request
    p50: float
    p99: float
    p99_on_clock: float  # with what was waited for a core
    judging: float  # CPU time of the answer alone, without HTTP and TLS: a busy machine changes it little


def podgroup(leaves: int, **spec: Any) -> Raw:
    """Leaves of eight in branches of ten, with topology constraints, as Dynamo's."""
    branches = [{"name": f"branch-{i}", "minSubGroup": 1} for i in range(max(leaves // 10, 1))]
    constraint = {"topology": "datacenter", "requiredTopologyLevel": "rack"}
    below = [
        {"name": f"leaf-{i}", "parent": f"branch-{i % len(branches)}", "minMember": 8, "topologyConstraint": constraint}
        for i in range(leaves)
    ]
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "team"},
        "spec": {"minSubGroup": 1, "subGroups": branches + below, "preemptibility": "semi-preemptible"} | spec,
    }


def numbered_node(i: int) -> Raw:
    labels = {"topology/zone": f"z{i % 10}", "topology/rack": f"r{i % 500}"}
    allocatable = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}
    return {"metadata": {"name": f"n{i}", "labels": labels}, "status": {"allocatable": allocatable}}


def numbered_pod(i: int) -> Raw:
    gang = "gang" if i < PODS_OF_GANG else f"gang-{i // 100}"
    labels, annotations = {"kai.scheduler/subgroup-name": f"leaf-{i % 100}"}, {"pod-group-name": gang}
    meta = {"name": f"p{i}", "namespace": "team", "labels": labels, "annotations": annotations}
    admission_request = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
    return {"metadata": meta, "spec": {"nodeName": f"n{i % NODES}", "containers": [admission_request]}}


def datacenter() -> Raw:
    levels = [{"nodeLabel": "topology/zone"}, {"nodeLabel": "topology/rack"}]
    return {
        "apiVersion": TOPOLOGIES.api_version,
        "kind": TOPOLOGIES.kind,
        "metadata": {"name": "datacenter"},
        "spec": {"levels": levels},
    }


@cache
def cluster() -> Objects:
    """What `muster run` would know."""
    topology, _ = decode(datacenter(), Topology)
    nodes = tuple(decode(numbered_node(i), Node)[0] for i in range(NODES))
    pods = tuple(decode(numbered_pod(i), Pod)[0] for i in range(PODS))
    return Objects(topologies=(topology,), nodes=nodes, pods=pods)


@cache
def gangs() -> dict[str, list[Pod]]:
    """Pods by gang, as the cache of `muster run` keeps them."""
    pods_of: dict[str, list[Pod]] = {}
    for one in cluster().pods:
        pods_of.setdefault(gang_of(one) or "", []).append(one)
    return pods_of


def around() -> ValidationContext:
    """As `muster run` makes it for every request."""
    return ValidationContext(cluster(), lambda gang: gangs().get(gang, ()), whole=True)


def review(raw: Raw, old: Raw | None = None) -> bytes:
    group, version = raw["apiVersion"].split("/")
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": group, "version": version, "kind": raw["kind"]},
        "operation": "UPDATE" if old else "CREATE",
        "object": raw,
        "oldObject": old,
    }
    return msgspec.json.encode({"apiVersion": reviews.API_VERSION, "kind": "AdmissionReview", "request": request})


QUEUE = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}}
OLDER = podgroup(0) | {"spec": {"minMember": 2, "subgroups": [{"name": f"g{i}", "minMember": 9} for i in range(10)]}}
CASES: tuple[tuple[str, str, bytes], ...] = (
    ("bare: nothing at this path", "/nothing", b"{}"),
    ("validate: a Queue", "/validate", review(QUEUE | {"spec": {"resources": {"gpu": {"quota": 8}}}})),
    ("validate: a PodGroup, 11 SubGroups", "/validate", review(podgroup(10))),
    ("validate: its update", "/validate", review(podgroup(10), podgroup(10))),
    ("validate: refused, 2 problems, one of type", "/validate", review(podgroup(10, minSubGroup=0, queue=7))),
    ("mutate: 10 SubGroups of an older dialect", "/mutate", review(OLDER)),
    ("mutate: 110 SubGroups, nothing to convert", "/mutate", review(podgroup(100))),
    ("mutate: its update, another queue", "/mutate", review(podgroup(100, queue="q"), podgroup(100))),
    ("validate: 110 SubGroups", "/validate", review(podgroup(100))),
    ("validate: its update", "/validate", review(podgroup(100), podgroup(100))),
    ("validate: 550 SubGroups", "/validate", review(podgroup(500))),
    ("mutate: 550 SubGroups, nothing to convert", "/mutate", review(podgroup(500))),
    ("validate: 1,100 SubGroups", "/validate", review(podgroup(1_000))),
)


def planning() -> None:
    """One plan after the other, of a thousand gangs that fit."""
    kinds = {"nodes": ("v1", "Node"), "groups": ("scheduling.run.ai/v2alpha2", "PodGroup"), "pods": ("v1", "Pod")}
    gangs = [backlog.gang(i) for i in range(1_000)]
    parts = {
        "nodes": [backlog.numbered_node(i, 20) for i in range(1_000)],
        "groups": [gang[0] for gang in gangs],
        "pods": [pod for gang in gangs for pod in gang[1:]],
    }
    named = [
        raw | {"apiVersion": version, "kind": kind} for part, (version, kind) in kinds.items() for raw in parts[part]
    ]
    objects = muster.objects(named)
    while True:
        muster.plan(objects)


def serve_cluster(kubeconfig: Path) -> None:
    """The API server, until it is ended."""

    async def serve_for_ever() -> None:
        memory = MemoryCluster()
        memory.store.create(NAMESPACES, {"metadata": {"name": SETTINGS.certificates.namespace}})
        memory.store.create(TOPOLOGIES, datacenter())
        for i in range(NODES):
            memory.store.create(resources.NODES, numbered_node(i))
        async with serve(memory, kubeconfig_path=kubeconfig):
            await asyncio.Event().wait()

    tune()
    asyncio.run(serve_for_ever())


def supervise(port: int, kubeconfig: Path, busy: bool, pid: "Synchronized[int]") -> None:
    """The process that plans, and that starts the one of the webhook; until it is ended."""

    async def supervise_for_ever() -> None:
        start = WebhookStart(Config(webhook=replace(SETTINGS, host="127.0.0.1", port=port)), str(kubeconfig))
        feed = DemandFeed(lambda gang: gangs().get(gang, ()))
        listener = listen("127.0.0.1", port, "")
        process = WebhookProcess(WEBHOOK_COMMAND, listener, start, feed, gangs, Metrics())
        running = asyncio.create_task(process.run())
        while any(check.problem() for check in process.checks):
            await asyncio.sleep(0.1)
        await asyncio.sleep(len(gangs()) / GANGS_AT_ONCE * PAUSE_SECONDS)
        if busy:
            threading.Thread(target=planning, daemon=True).start()
        pid.value = process.pid or 0
        await running

    tune()
    asyncio.run(supervise_for_ever())


@contextlib.contextmanager
def served(busy: bool) -> Iterator[tuple[http.client.HTTPSConnection, int]]:
    """A connection to a webhook in another process, and that process."""
    spawn = multiprocessing.get_context("spawn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig, pid = Path(folder) / "kubeconfig", spawn.Value("i", 0)
        processes = [spawn.Process(target=serve_cluster, args=(kubeconfig,), daemon=True)]
        processes[0].start()
        try:
            _wait(kubeconfig.exists)
            processes.append(spawn.Process(target=supervise, args=(port, kubeconfig, busy, pid), daemon=True))
            processes[1].start()
            _wait(lambda: pid.value > 0)
            with contextlib.closing(_connected(port)) as connection:
                yield connection, pid.value
        finally:
            for process in reversed(processes):
                process.terminate()
                process.join()


def _wait(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + START_SECONDS
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError("the webhook did not start")
        time.sleep(0.1)


def _connected(port: int) -> http.client.HTTPSConnection:
    """Whoever it is: the certificate is not what is measured."""
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port)
    plain = socket.create_connection(("127.0.0.1", port), timeout=30)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sock = trust.wrap_socket(plain)
    return connection


class CoreWaits:
    """How long threads of some processes wait for a core, from now on; 0 where the kernel does not count."""

    def __init__(self, *pids: int) -> None:
        self._before = {pid: _waits(pid) for pid in pids}

    def seconds(self) -> float:
        """Of each process its longest wait: threads that wait at the same time delay an answer once."""
        return sum(self._longest(pid) for pid in self._before) / 1e9

    def _longest(self, pid: int) -> int:
        before = self._before[pid]
        return max((after - before.get(thread, 0) for thread, after in _waits(pid).items()), default=0)


def _waits(pid: int) -> dict[str, int]:
    """Nanoseconds by thread."""
    paths = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return {path.parent.name: int(path.read_text(encoding="ascii").split()[1]) for path in paths}


def measure(
    connection: http.client.HTTPSConnection, pid: int, name: str, path: str, body: bytes, requests: int
) -> Figure:
    """After a few to get warm."""
    taken, on_clock = [], []
    for i in range(requests + WARM_REQUESTS):
        began, waits = time.perf_counter(), CoreWaits(pid, os.getpid())
        connection.request("POST", path, body)
        connection.getresponse().read()
        elapsed = time.perf_counter() - began
        if i >= WARM_REQUESTS:
            on_clock.append(elapsed)
            taken.append(elapsed - waits.seconds())
    cuts = statistics.quantiles(taken, n=100)
    return Figure(name, len(body), cuts[49], cuts[98], statistics.quantiles(on_clock, n=100)[98], judging(path, body))


def judging(path: str, body: bytes, runs: int = 50) -> float:
    """The median of a few."""
    context = ClusterContext(around)
    judges: dict[str, reviews.Admit] = {
        "/validate": lambda admission_request: admission.validate(admission_request, context()),
        "/mutate": admission.mutate,
    }
    judge = judges.get(path)
    if judge is None:
        return 0.0
    taken = []
    for _ in range(runs):
        began = time.process_time()
        handlers.respond(judge, body)
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def table(busy: bool, cases: Iterable[tuple[str, str, bytes]]) -> None:
    """One row a case."""
    columns = "request | p50 | p99 | p99 by the clock | ÷ bare | handler alone (CPU) | p99 under 10 ms"
    print(f"| webhook{', while planning' * busy} | {columns} |")
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    with served(busy) as (connection, pid):
        bare = 0.0
        for name, path, body in cases:
            figures = measure(connection, pid, name, path, body, REQUESTS if len(body) < 50_000 else REQUESTS // 10)
            bare = bare or figures.p50
            is_kept = "yes" if figures.p99 < PROMISED_SECONDS else "no"
            print(
                f"| {name} | {figures.size:,} B | {figures.p50 * 1e3:.2f} ms | {figures.p99 * 1e3:.2f} ms "
                f"| {figures.p99_on_clock * 1e3:.2f} ms | {figures.p50 / bare:.1f} "
                f"| {figures.judging * 1e3:.2f} ms | {is_kept} |",
                flush=True,
            )


def main() -> None:
    table(False, CASES)
    print()
    table(True, CASES)


if __name__ == "__main__":
    main()

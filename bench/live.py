"""`python -m bench.live [PODS] [NODES] [ROUNDS]`: `muster run` on a backlog, beside a client that only posts bindings.

As users run it: `muster run` is a process of its own on a real kube-apiserver with etcd (`make envtest`), and gangs of
eight wait when it starts. As many pods like theirs are bound by a bare client (`bench.bare_client`), another process,
with as many requests at once. All share the cores of this machine, so beside the rates stand the CPU seconds of each
program for 1,000 bound pods, from the start of `muster run` until its statuses and events are written, and the requests
that the API server counted. Each round has an API server of its own, and the two take turns at being first.

Last, on the full cluster, gangs come one by one: how long from their last pod to their last binding.
"""

import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import yaml
from msgspec import Struct
from tests.e2e.installed import free_port
from tests.support.apiserver.apiserver import ApiServer

from bench.cluster import AT_ONCE, FOREIGN, GANG, REST_SECONDS, each, make_gangs, numbered_node, say, serving
from muster.api.resources import NAMESPACES, NODES
from muster.kube.cluster import Cluster

LEASES = "muster-system"
LONGEST_SECONDS = 900.0
LOOK_SECONDS = 0.25
QUIET_SECONDS = 3.0  # without a request that writes: statuses and events are done
ONE_BY_ONE = 50  # gangs
BOUND = re.compile(rb"^muster_bindings_total\S* (\S+)$", re.MULTILINE)
COUNTED = re.compile(r"^apiserver_request_total\{(?P<labels>.*)\} (?P<count>\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
WRITES = ("POST", "PUT", "PATCH", "DELETE")


class ProgramCpu(Struct, frozen=True):
    """CPU seconds of the programs that take part."""

    client: float  # muster, or the bare client
    api_server: float
    etcd: float


class BacklogRun(Struct, frozen=True):
    """How one client bound the backlog."""

    pods: int
    seconds: float  # from the first binding to the last
    cpu: ProgramCpu  # until the last binding
    requests: Mapping[str, int] = {}  # by verb and resource, until the last binding
    later_cpu: ProgramCpu | None = None  # from then on, until statuses and events are written
    later_requests: Mapping[str, int] = {}
    start_seconds: float = 0.0  # from the start of the process to the first binding
    peak_bytes: int = 0

    @property
    def rate(self) -> float:
        """Pods a second."""
        return self.pods / self.seconds


# what processes cost --------------------------------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, with children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def peak_bytes(pid: int) -> int:
    """The most memory a process has had."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    return int(match[1]) * 1024 if match else 0


def requests_of(server: ApiServer) -> Counter[str]:
    """Requests so far, by verb and resource, as the API server counts them."""
    counted: Counter[str] = Counter()
    for match in COUNTED.finditer(server.request("/metrics").decode()):
        labels = dict(LABEL.findall(match["labels"]))
        parts = (labels["resource"], labels["subresource"])
        counted[f"{labels['verb']} {'/'.join(part for part in parts if part)}".strip()] += int(float(match["count"]))
    return counted


def number_of_writes(requests: Mapping[str, int]) -> int:
    return sum(number for what, number in requests.items() if what.split()[0] in WRITES and "leases" not in what)


class ServerCpu:
    """What API server and etcd have used since the last look."""

    def __init__(self, server: ApiServer) -> None:
        self._pids, self._before = server.pids, dict[str, float]()
        self.spent()

    def spent(self) -> tuple[float, float]:
        now = {name: cpu_seconds(pid) for name, pid in self._pids.items()}
        before, self._before = self._before or now, now
        return now["kube-apiserver"] - before["kube-apiserver"], now["etcd"] - before["etcd"]


# muster ---------------------------------------------------------------------------------------------------------------


def settings(port: int, scheduling: Mapping[str, object]) -> str:
    """As by default, but for the ports and the webhook, which no API server calls here."""
    return yaml.safe_dump(
        {
            "scheduling": dict(scheduling),
            "webhook": {"enabled": False},
            "observability": {"host": "127.0.0.1", "port": port},
            "log": {"level": "warning"},
        }
    )


class MusterProcess:
    """`muster run` as a process, and what its metrics say."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.process, self._port = process, port

    def bound(self) -> int:
        """How many pods it has bound."""
        url = f"http://127.0.0.1:{self._port}/metrics?name[]=muster_bindings_total"
        with suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:
            return sum(int(float(number)) for number in BOUND.findall(answer.read()))
        return 0


@contextmanager
def muster_run(server: ApiServer, **scheduling: object) -> Iterator[MusterProcess]:
    """`muster run` with these settings of `scheduling`, until the block ends."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(settings(port, scheduling), encoding="utf-8")
        files = ["--config", str(config), "--kubeconfig", str(server.kubeconfig)]
        command = [sys.executable, *os.environ.get("MUSTER_PYTHON", "").split(), "-m", "muster.cli.main", "run", *files]
        process = subprocess.Popen(command)
        try:
            yield MusterProcess(process, port)
        finally:
            process.terminate()
            process.wait(60)


async def run_muster(server: ApiServer, pods: int) -> BacklogRun:
    """From the start of the process until nothing more is written."""
    before, servers, began = requests_of(server), ServerCpu(server), time.monotonic()
    with muster_run(server) as muster:
        first = await until_bound(muster, 1)
        last = await until_bound(muster, pods)
        client = cpu_seconds(muster.process.pid)
        cpu, requests = ProgramCpu(client, *servers.spent()), requests_of(server) - before
        await until_quiet(server)
        later = ProgramCpu(cpu_seconds(muster.process.pid) - client, *servers.spent())
        peak = peak_bytes(muster.process.pid)
        later_requests = requests_of(server) - before - requests
    return BacklogRun(pods, last - first, cpu, requests, later, later_requests, first - began, peak)


async def until_bound(muster: MusterProcess, pods: int, look_seconds: float = LOOK_SECONDS) -> float:
    """When so many pods are bound."""
    async with asyncio.timeout(LONGEST_SECONDS):
        while await asyncio.to_thread(muster.bound) < pods:
            assert muster.process.poll() is None, "muster has ended"
            await asyncio.sleep(look_seconds)
    return time.monotonic()


async def until_quiet(server: ApiServer) -> None:
    """Nothing is written for a while."""
    async with asyncio.timeout(LONGEST_SECONDS):
        before = -1
        while (now := number_of_writes(await asyncio.to_thread(requests_of, server))) != before:
            before = now
            await asyncio.sleep(QUIET_SECONDS)


async def run_bare(server: ApiServer, pods: int, scheduler: str = FOREIGN) -> BacklogRun:
    """The bare client on waiting pods of this scheduler, from its first request to the last answer."""
    command = [sys.executable, "-m", "bench.bare_client", str(server.kubeconfig), scheduler, str(AT_ONCE)]
    client = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert client.stdin is not None
    assert client.stdout is not None
    assert await client.stdout.readline() == b"ready\n"
    await asyncio.sleep(REST_SECONDS)
    before, servers = requests_of(server), ServerCpu(server)
    client.stdin.write(b"go\n")
    seconds, cpu = msgspec.json.decode(await client.stdout.readline(), type=tuple[float, float])
    requests = requests_of(server) - before
    await client.wait()
    return BacklogRun(pods, seconds, ProgramCpu(cpu, *servers.spent()), requests)


# measuring ------------------------------------------------------------------------------------------------------------


async def measure(pods: int, nodes: int, muster_first: bool) -> tuple[BacklogRun, BacklogRun, list[float]]:
    """muster and the bare client on one API server, and how long gangs that come one by one wait (seconds)."""
    gangs = pods // GANG
    async with serving() as (server, cluster):
        await cluster.create(NAMESPACES, {"metadata": {"name": LEASES}})
        await each(lambda i: cluster.create(NODES, numbered_node(i, -(-4 * pods // nodes))), range(nodes), AT_ONCE)
        for scheduler in ("muster", FOREIGN):
            await make_gangs(cluster, range(gangs), scheduler)
        await asyncio.sleep(REST_SECONDS)
        bare = None if muster_first else await run_bare(server, gangs * GANG)
        run = await run_muster(server, gangs * GANG)
        bare = bare or await run_bare(server, gangs * GANG)
        return run, bare, await one_by_one(server, cluster, gangs)


async def one_by_one(server: ApiServer, cluster: Cluster, first: int) -> list[float]:
    seconds = []
    with muster_run(server) as muster:
        for number in range(ONE_BY_ONE + 1):
            await make_gangs(cluster, range(first + number, first + number + 1))
            there = time.monotonic()
            seconds.append(await until_bound(muster, (number + 1) * GANG) - there)
    return seconds[1:]  # the first one waits for the process


# showing --------------------------------------------------------------------------------------------------------------


def row(nodes: int, run: BacklogRun, bare: BacklogRun) -> str:
    """One round as a line of docs/performance.md."""
    writes, later = (number_of_writes(each) / run.pods for each in (run.requests, run.later_requests))
    return (
        f"| {nodes:,} | {run.pods:,} | {run.rate:,.0f} | {bare.rate:,.0f} | {run.rate / bare.rate:.0%} "
        f"| {writes:.2f}, {later:.2f} | {_cpu(run.cpu, run.pods)}, {_cpu(run.later_cpu, run.pods)} "
        f"| {_cpu(bare.cpu, bare.pods)} "
        f"| {run.start_seconds:.1f} s | {run.peak_bytes / 2**20:,.0f} MiB |"
    )


def _cpu(cpu: ProgramCpu | None, pods: int) -> str:
    """For 1,000 pods."""
    return " / ".join(f"{1000 * each / pods:.2f}" for each in (cpu.client, cpu.api_server, cpu.etcd)) if cpu else ""


async def main(pods: int, nodes: int, rounds: int) -> None:
    head = "nodes | pods | pods/s | bare client | share | writes a pod until the last binding, later"
    cpu = "CPU s per 1,000 pods until then, later: muster / API server / etcd | the same with the bare client"
    print(f"| {head} | {cpu} | to the first binding | RSS |\n|" + "---:|" * 10)
    for number in range(rounds):
        run, bare, waits = await measure(pods, nodes, muster_first=number % 2 == 0)
        print(row(nodes, run, bare), flush=True)
        say(", ".join(f"{what} {count:,}" for what, count in Counter(run.requests).most_common(12)))
        say("later: " + ", ".join(f"{what} {count:,}" for what, count in Counter(run.later_requests).most_common(8)))
        cuts = statistics.quantiles(waits, n=100)
        say(f"one by one: bound after {cuts[49] * 1000:.0f} ms (p50), {cuts[98] * 1000:.0f} ms (p99)")


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:]]
    asyncio.run(main(*arguments, *(8_000, 1_000, 2)[len(arguments) :]))

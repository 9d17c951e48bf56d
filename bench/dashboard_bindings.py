"""`python -m bench.dashboard_bindings [ROUNDS]`: whether viewers of the dashboard slow bindings.

4,000 pods in gangs come to an embedded cluster, alternately with no viewer and with ten, each in a process of its own.
CPU seconds for 1,000 bindings say what other load on the machine hides: API server, scheduler, simulated kubelets and
dashboard share one process and its event loop, so that what viewers cost in CPU is what bindings wait for. *Loop delay*
is how much later than requested the event loop goes on.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.dashboard_load import GANG, Raw, make_group, make_node, make_pod, watching
from muster.api.codec import Document
from muster.api.core import Pod
from muster.cli.assemble.embedded_cluster import ServedAt, open_embedded_cluster
from muster.cli.assemble.process import tune
from muster.config.settings import Config
from muster.simulator.initial_objects import create_cluster

BACKLOG_NODES, BACKLOG_PODS = 500, 4_000
VIEWERS = (0, 10)
PROBE_SECONDS = 0.005


class BoundBacklog(Struct, frozen=True):
    """How a backlog was bound in an embedded cluster."""

    viewers: int
    seconds: float
    cpu_seconds: float  # of API server, scheduler, simulated kubelets and dashboard: one process
    delays: tuple[float, ...]  # seconds that the event loop came late, sorted


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
                delays = list[float]()
                watch = asyncio.create_task(note_delays(delays))
                began, cpu = time.monotonic(), time.process_time()
                for raw in backlog():
                    await cluster.submit(raw)
                while len(bound) < BACKLOG_PODS:
                    await asyncio.sleep(0.01)
                seconds, cpu_seconds = time.monotonic() - began, time.process_time() - cpu
                watch.cancel()
                return BoundBacklog(viewers, seconds, cpu_seconds, tuple(sorted(delays)))


async def note_delays(delays: list[float]) -> None:
    """How much later than requested the event loop goes on, without end."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + PROBE_SECONDS
        await asyncio.sleep(PROBE_SECONDS)
        delays.append(max(loop.time() - due, 0.0))


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


# alternately ----------------------------------------------------------------------------------------------------------


def bind_apart(viewers: int) -> BoundBacklog:
    command = [sys.executable, "-m", "bench.dashboard_bindings", "--bind", str(viewers)]
    return msgspec.json.decode(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, type=BoundBacklog)


def print_bindings(rounds: int) -> None:
    """With no viewer and with ten, alternately; medians, and the median of what each pair of runs differs by."""
    orders = [VIEWERS if number % 2 == 0 else VIEWERS[::-1] for number in range(rounds)]
    measured = [{viewers: bind_apart(viewers) for viewers in order} for order in orders]
    print("| viewers | bindings a second | CPU for 1,000 bindings | loop delay p50 | p99 |")
    print("|---|---:|---:|---:|---:|")
    for viewers in VIEWERS:
        print(row([pair[viewers] for pair in measured]), flush=True)
    for name, figure in (("CPU", cpu_of_1000), ("time", seconds_of_1000)):
        ratios = [figure(pair[VIEWERS[1]]) / figure(pair[VIEWERS[0]]) - 1 for pair in measured]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{name} of a binding beside none: {middle:+.1%} (half of {rounds} pairs: {low:+.1%} to {high:+.1%})")


def row(runs: Sequence[BoundBacklog]) -> str:
    rate = statistics.median(1_000 / seconds_of_1000(each) for each in runs)
    cpu = statistics.median(map(cpu_of_1000, runs))
    half, most = (1_000 * statistics.median(delay(each, share) for each in runs) for share in (0.5, 0.99))
    return f"| {runs[0].viewers} | {rate:,.0f} | {cpu:.3f} s | {half:.1f} ms | {most:.1f} ms |"


def cpu_of_1000(run: BoundBacklog) -> float:
    return run.cpu_seconds / BACKLOG_PODS * 1_000


def seconds_of_1000(run: BoundBacklog) -> float:
    return run.seconds / BACKLOG_PODS * 1_000


def delay(run: BoundBacklog, share: float) -> float:
    return run.delays[int(share * (len(run.delays) - 1))]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.dashboard_bindings")
    parser.add_argument("rounds", nargs="?", type=int, default=8)
    parser.add_argument("--bind", type=int, metavar="VIEWERS")
    options = parser.parse_args()
    if options.bind is None:
        print_bindings(options.rounds)
    else:
        tune()
        print(msgspec.json.encode(asyncio.run(bind_backlog(options.bind))).decode())


if __name__ == "__main__":
    main()

"""Many teams on a full cluster: what a cycle costs that reclaims, that evicts thousands, and that changes nothing."""

from collections.abc import Callable, Iterator

from msgspec import Struct

import muster
from bench.model import Raw, seconds
from bench.placement import gang, nodes, one_pass
from muster.model.snapshot import take
from muster.planning.cycle import plan


class QueueCase(Struct, frozen=True):
    """A full cluster, gangs that wait, and what to reach on it."""

    name: str
    objects: Callable[[], Iterator[Raw]]
    goal: str


class Figure(Struct, frozen=True):
    """What one cycle took and did."""

    nodes: int
    pods: int  # that run or wait
    nominated: int
    evicted: int
    taken: float  # seconds
    reference: float  # seconds, of one pass over the nodes


def queue(name: str, gpus: int) -> Raw:
    """A queue with a quota of GPUs, and of the rest as much as it likes."""
    resources = {"gpu": {"quota": gpus}, "cpu": {"quota": -1}, "memory": {"quota": -1}}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": resources},
    }


def jobs(prefix: str, number: int, owner: str, hosts: int = 0, gpus: int = 1, pods: int = 1) -> Iterator[Raw]:
    """Gangs of a queue; with hosts, they run there, spread evenly."""
    at = 0
    for i in range(number):
        for raw in gang(f"{prefix}-{i:05}", pods, gpus, queue=owner):
            if hosts and raw["kind"] == "Pod":
                raw["spec"]["nodeName"] = f"node-{at % hosts:06}"
                raw["status"] = {"phase": "Running"}
                at += 1
            yield raw


def reclaim(hosts: int) -> Iterator[Raw]:
    """One job of n/10 pods × 8 GPUs, n nodes full of one-GPU pods of another queue."""
    yield from nodes(1, 1, hosts // 10, 10)
    yield from (queue("team-a", 4 * hosts), queue("team-b", 4 * hosts))
    yield from jobs("small", 8 * hosts, "team-a", hosts)
    yield from jobs("big", 1, "team-b", gpus=8, pods=hosts // 10)


def full(hosts: int = 500) -> Iterator[Raw]:
    """As many one-GPU jobs wait in one queue as run in the other."""
    yield from nodes(1, 1, hosts // 10, 10)
    yield from (queue("team-a", 4 * hosts), queue("team-b", 4 * hosts))
    yield from jobs("old", 8 * hosts, "team-a", hosts)
    yield from jobs("new", 8 * hosts, "team-b")


def hopeless(hosts: int = 5_000, waiting: int = 1_000, classes: int = 50) -> Iterator[Raw]:
    """A full cluster of one queue, and gangs of many pod classes that wait in it behind those that run."""
    yield from nodes(1, 1, hosts // 10, 10)
    yield queue("team-a", 8 * hosts)
    yield from jobs("runs", hosts, "team-a", hosts, pods=8)
    for i in range(waiting):
        yield from jobs(f"waits-{i:04}", 1, "team-a", gpus=1 + i % classes % 8, pods=1 + i % classes)


def reclaiming(hosts: int, limit: str) -> QueueCase:
    """The same at one size."""
    name = f"reclaim for {hosts // 10} pods × 8 GPUs, {8 * hosts:,} one-GPU jobs run"
    return QueueCase(name, lambda: reclaim(hosts), f"≤ {limit}")


CASES = (
    reclaiming(200, "0.1 s"),
    reclaiming(500, "0.25 s"),
    reclaiming(1000, "0.5 s"),
    reclaiming(5000, "3 s"),
    QueueCase("4,000 one-GPU jobs run, 4,000 wait in another queue", full, "≤ 2 s"),
    QueueCase("40,000 pods run, 1,000 hopeless gangs of 50 kinds wait", hopeless, "≤ 0.5 s"),
)


def figure(case: QueueCase) -> Figure:
    """One cycle measured: the best of two runs."""
    snapshot = take(muster.objects(case.objects()))
    decided = plan(snapshot)
    return Figure(
        nodes=len(snapshot.nodes),
        pods=len(snapshot.class_of),
        nominated=len(decided.nominations),
        evicted=len(decided.evictions),
        taken=seconds(lambda: plan(snapshot), runs=2),
        reference=seconds(lambda: one_pass(snapshot)),
    )

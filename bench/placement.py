"""Placement at size: what a plan costs on a snapshot, beside one pass over the same nodes measured in the same run."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct

import muster
from bench.model import Raw, seconds
from muster.model.snapshot import Snapshot, take
from muster.placement.capacity import Capacity, PodClasses
from muster.planning.cycle import plan

ALLOCATABLE = {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
LEVELS = ("zone", "block", "rack")


class BenchCase(Struct, frozen=True):
    """A cluster with gangs that wait, and what to reach on it."""

    name: str
    objects: Callable[[], Iterator[Raw]]
    goal: str


class Figure(Struct, frozen=True):
    """What one case took."""

    nodes: int
    pods: int
    taken: float  # seconds, of a plan
    snapshot: float  # seconds, of `take`
    supposed: float  # seconds, of a copy of the ledger: what a hypothesis costs
    reference: float  # seconds, of one pass


def nodes(zones: int, blocks: int, racks: int, each: int, gpus: int = 8) -> Iterator[Raw]:
    levels = [{"nodeLabel": label} for label in LEVELS]
    yield {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "t"},
        "spec": {"levels": levels},
    }
    allocatable = ALLOCATABLE | {"nvidia.com/gpu": str(gpus)}
    for i in range(zones * blocks * racks * each):
        rack, block = i // each, i // each // racks
        labels = dict(zip(LEVELS, (f"z{block // blocks}", f"b{block % blocks}", f"r{rack % racks}"), strict=True))
        meta = {"name": f"node-{i:06}", "labels": labels}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": allocatable}}


def gang(name: str, pods: int, gpus: int = 1, leaves: int = 1, **spec: Any) -> Iterator[Raw]:
    """A PodGroup of one or more leaves with all their pods."""
    if leaves == 1:
        spec["minMember"] = pods
    else:
        level = {"requiredTopologyLevel": "rack"}
        parts = [{"name": f"part-{i}", "minMember": pods, "topologyConstraint": level} for i in range(leaves)]
        spec["subGroups"] = parts
    yield {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    requests = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": str(gpus)}
    for leaf in range(leaves):
        labels = {"kai.scheduler/subgroup-name": f"part-{leaf}"} if leaves > 1 else {}
        for i in range(pods):
            meta = {"name": f"{name}-{leaf}-{i}", "labels": labels, "annotations": {"pod-group-name": name}}
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": meta,
                "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
            }


def many(count: int, pods: int, level: str, each: int = 100) -> Iterator[Raw]:
    yield from nodes(1, 1, 50, each)
    for i in range(count):
        yield from gang(f"gang-{i:05}", pods, topologyConstraint={"requiredTopologyLevel": level})


def preferring() -> Iterator[Raw]:
    yield from nodes(4, 8, 8, 2)
    yield from gang("gang", 512, topologyConstraint={"preferredTopologyLevel": "rack"})


def hopeless() -> Iterator[Raw]:
    yield from nodes(1, 1, 10, 50, gpus=7)
    yield from gang("gang", 10, gpus=8)


def nested(thousands: int) -> Iterator[Raw]:
    yield from nodes(thousands, 10, 10, 10)
    yield from gang("gang", 16, leaves=4, topologyConstraint={"requiredTopologyLevel": "zone"})


def chain(depth: int) -> Iterator[Raw]:
    """One SubGroup inside the other, and four pods at the end."""
    yield from nodes(1, 1, 1, 1)
    pods = [*gang("gang", 4)]
    parts = [{"name": f"level-{i}"} | ({"parent": f"level-{i - 1}"} if i else {}) for i in range(depth)]
    parts[-1]["minMember"] = 4  # type: ignore[assignment]
    yield pods[0] | {"spec": {"subGroups": parts}}
    for pod in pods[1:]:
        pod["metadata"]["labels"] = {"kai.scheduler/subgroup-name": f"level-{depth - 1}"}
        yield pod


def running(hosts: int, pods: int) -> Iterator[Raw]:
    """A busy cluster: pods of many services on every node, each with the labels that services give them."""
    yield from nodes(1, 1, 50, hosts // 50)
    asks = {"cpu": "100m", "memory": "200Mi"}
    for i in range(pods):
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{i}", "namespace": f"ns-{i % 50}", "labels": {"app": f"app-{i % 500}"}},
            "spec": {
                "nodeName": f"node-{i % hosts:06}",
                "containers": [{"name": "main", "resources": {"requests": asks}}],
            },
            "status": {"phase": "Running"},
        }


def jobs(count: int, most: int, racks: int, each: int) -> Iterator[Raw]:
    """Plain jobs of one to `most` pods without levels; `most` below zero: of just so many."""
    yield from nodes(1, 1, racks, each)
    for i in range(count):
        yield from gang(f"job-{i:05}", 1 + i * 7 % most if most > 0 else -most, gpus=1 + i % 2 if most > 0 else 1)


def settled(pods: int) -> Iterator[Raw]:
    """Gangs of eight that run and want nothing, and one that waits."""
    yield from nodes(1, 1, 50, 40)
    for i in range(pods // 8):
        group, *members = gang(f"runs-{i:05}", 8, gpus=0)
        yield group
        for pod in members:
            pod["spec"] |= {"nodeName": f"node-{i % 2_000:06}"}
            pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "100m"}
            yield pod | {"status": {"phase": "Running"}}
    yield from gang("waits", 8)


def keep_apart(pod: Raw, key: str, label: str) -> Raw:
    """A pod that shares no place with others of its label."""
    pod["metadata"]["labels"] |= {"app": label}
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": label}}}
    pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod


def apart(leaves: int, pods: int) -> Iterator[Raw]:
    """One gang whose pods share no rack with others of their leaf."""
    yield from nodes(1, 1, 250, 8)
    group, *members = gang("gang", pods, leaves=leaves)
    for part in group["spec"].get("subGroups", []):
        del part["topologyConstraint"]
    yield group
    for i, pod in enumerate(members):
        yield keep_apart(pod, "rack", f"leaf-{i // pods}")


def ruled(gangs: int, runs: int) -> Iterator[Raw]:
    """Gangs of two pods, one to a node, each with a label of its own; and pods that run with rules of their own."""
    yield from nodes(1, 1, 50, 100)
    for i in range(gangs):
        group, *members = gang(f"gang-{i:05}", 2, gpus=0)
        yield group
        for pod in members:
            yield keep_apart(pod, "kubernetes.io/hostname", f"app-{i}")
    _, *pods = gang("runs", runs, gpus=0)
    for i, pod in enumerate(pods):
        pod["metadata"]["annotations"] = {}
        pod["spec"]["nodeName"] = f"node-{i % 5_000:06}"
        yield keep_apart(pod, "kubernetes.io/hostname", f"run-{i // 4}") | {"status": {"phase": "Running"}}


CASES = (
    BenchCase("500 jobs of 1 to 8 pods", lambda: jobs(500, 8, 10, 10), "≤ 14 ms"),
    BenchCase("1,000 gangs × 8 pods", lambda: jobs(1_000, -8, 50, 200), "≤ 35 ms"),
    BenchCase("8 pods wait, 100,000 run", lambda: settled(100_000), "≤ 15 to 60 ms"),
    BenchCase("2,250 gangs × 4 pods, required rack, 50 racks", lambda: many(2250, 4, "rack"), "≥ 10,000 pods/s"),
    BenchCase("9 gangs × 1,000 pods", lambda: many(9, 1000, "zone"), "≥ 50,000 pods/s"),
    BenchCase("512 pods, preferred rack, 4 × 8 × 8 racks", preferring, "≤ 20 ms"),
    BenchCase("proof that 10 pods × 8 GPUs do not fit", hopeless, "≤ 20 ms"),
    BenchCase("900 gangs × 4 pods, required rack", lambda: many(900, 4, "rack", 40), "near linear"),
    BenchCase("90 gangs × 4 pods, required rack", lambda: many(90, 4, "rack", 40), "near linear"),
    BenchCase("1 gang × 10,000 pods", lambda: many(1, 10_000, "zone"), "near linear"),
    BenchCase("1 gang × 1,000 pods", lambda: many(1, 1_000, "zone"), "near linear"),
    BenchCase("64 pods, 3 levels, on 1,000 nodes", lambda: nested(1), "near linear"),
    BenchCase("64 pods, 3 levels, on 10,000 nodes", lambda: nested(10), "near linear"),
    BenchCase("64 pods, 3 levels, on 100,000 nodes", lambda: nested(100), "≤ 20 ms"),
    BenchCase("250 pods, one to a rack", lambda: apart(1, 250), "≤ 50 ms"),
    BenchCase("100 × 20 pods, of a leaf one to a rack", lambda: apart(100, 20), "≤ 500 ms"),
    BenchCase("2,000 gangs with a rule each, 5,000 run with rules", lambda: ruled(2_000, 5_000), "`take` ≤ 1 s"),
    BenchCase("140,000 running pods, nothing waits", lambda: running(4_000, 140_000), "`take` ≤ 1.5 s"),
)


def figure(case: BenchCase) -> Figure:
    """One case measured: the best of a few runs."""
    objects = muster.objects(case.objects())
    snapshot = take(objects)
    pods = len(plan(snapshot).bindings)
    return Figure(
        nodes=len(snapshot.nodes),
        pods=pods,
        taken=seconds(lambda: plan(snapshot)),
        snapshot=seconds(lambda: take(objects), runs=2),
        supposed=seconds(Capacity(PodClasses(snapshot), snapshot.free).copy),
        reference=seconds(lambda: one_pass(snapshot)),
    )


def one_pass(snapshot: Snapshot) -> Any:
    """Copying the free capacity and reading every node once."""
    free = snapshot.free.copy()
    return np.min(free, axis=1).sum()

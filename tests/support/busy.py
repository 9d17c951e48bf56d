"""Busy clusters by seed: nearly full racks, running gangs of several queues and priorities, and gangs that wait."""

import random
from collections.abc import Iterator
from typing import Any

from tests.support.factories import Raw, node, pod

GPU = "nvidia.com/gpu"
GPUS_OF_A_NODE = 8
PRIORITIES = (20, 50, 80)
QUEUES = ("red", "green", "blue")


def busy_cluster(seed: int, nodes: int = 100, running: int = 500, waiting: int = 25, rack: int = 8) -> list[Raw]:
    """Objects of a cluster whose nodes are about nine tenths full; half of the gangs that wait require one rack."""
    rng = random.Random(seed)
    free = {f"n{i:04}": GPUS_OF_A_NODE for i in range(nodes)}
    objects = [_object("kai.scheduler/v1alpha1", "Topology", "t", spec={"levels": [{"nodeLabel": "topology/rack"}]})]
    objects += [_object("scheduling.k8s.io/v1", "PriorityClass", f"p{value}", value=value) for value in PRIORITIES]
    objects += [_queue(name, nodes * GPUS_OF_A_NODE // len(QUEUES)) for name in QUEUES]
    objects += [_gpu_node(name, f"r{i // rack:03}") for i, name in enumerate(free)]
    left, number = running, 0
    while left > 0:
        pods = min(rng.randint(1, 8), left)
        objects += _running_gang(rng, f"old-{number:04}", pods, free)
        left, number = left - pods, number + 1
    for i in range(waiting):
        objects += _waiting_gang(rng, f"new-{i:03}")
    return objects


def _running_gang(rng: random.Random, name: str, pods: int, free: dict[str, int]) -> Iterator[Raw]:
    """A gang on random nodes; what finds no node does not exist."""
    gpus = rng.choice((1, 1, 1, 1, 1, 2, 3))
    hosts = []
    for _ in range(pods):
        able = [node for node, left in free.items() if left >= gpus]
        if able:
            hosts.append(rng.choice(able))
            free[hosts[-1]] -= gpus
    if hosts:
        need = max(len(hosts) - rng.choice((0, 0, 1, 2)), 1)
        yield _gang(rng, name, need, created=f"2026-01-01T{rng.randrange(24):02}:{rng.randrange(60):02}:00Z")
        yield from (_gang_pod(name, i, gpus, host) for i, host in enumerate(hosts))


def _waiting_gang(rng: random.Random, name: str) -> Iterator[Raw]:
    gpus, pods = rng.choice((1, 2, 2, 4, 8)), rng.randint(2, 20)
    level = {"topologyConstraint": {"requiredTopologyLevel": "rack"}} if rng.random() < 0.5 else {}
    need = max(pods - rng.choice((0, 0, 2)), 1)
    yield _gang(rng, name, need, created=f"2026-01-02T00:{rng.randrange(60):02}:00Z", **level)
    yield from (_gang_pod(name, i, gpus) for i in range(pods))


def _gang(rng: random.Random, name: str, need: int, created: str, **spec: Any) -> Raw:
    spec |= {"queue": rng.choice(QUEUES), "priorityClassName": f"p{rng.choice(PRIORITIES)}", "minMember": need}
    raw = _object("scheduling.run.ai/v2alpha2", "PodGroup", name, spec=spec)
    raw["metadata"] |= {"namespace": "team", "creationTimestamp": created}
    return raw


def _gang_pod(gang: str, number: int, gpus: int, node: str = "") -> Raw:
    requests: Raw = {GPU: str(gpus), "cpu": str(2 * gpus)}
    phase = "Running" if node else "Pending"
    return pod(f"{gang}-{number}", gang=gang, on=node, phase=phase, scheduler="muster", **requests)


def _gpu_node(name: str, rack: str) -> Raw:
    return node(name, allocatable={GPU: str(GPUS_OF_A_NODE), "cpu": "64", "pods": "110"}, rack=rack)


def _queue(name: str, gpus: int) -> Raw:
    resources = {"gpu": {"quota": gpus, "limit": -1}, "cpu": {"quota": -1}, "memory": {"quota": -1}}
    return _object("scheduling.run.ai/v2", "Queue", name, spec={"resources": resources})


def _object(version: str, kind: str, name: str, **more: Any) -> Raw:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}

"""Gangs for a soak: mixed sizes, levels, priorities and queues, as plain manifests."""

import random
from collections.abc import Iterator

from msgspec import Struct

from tests.support.factories import Raw, pod

GPU = "nvidia.com/gpu"
NAMESPACE = "soak"
PROBE = "probe"
PRIORITIES = {"low": 30, "normal": 60, "high": 90}
LIMITS = {"red": 200, "green": 300, "blue": -1, PROBE: -1}  # GPUs, of 512


def queues() -> list[Raw]:
    """Three queues that share the GPUs, two of them with a limit; and one for probes."""
    unlimited = {"cpu": {"quota": -1}, "memory": {"quota": -1}}
    return [
        {
            "metadata": {"name": name},
            "spec": {"resources": {"gpu": {"quota": 0 if name == PROBE else 160, "limit": limit}, **unlimited}},
        }
        for name, limit in LIMITS.items()
    ]


class Gang(Struct):
    """A PodGroup with its pods, and when it ends."""

    name: str
    group: Raw
    leaves: dict[str, tuple[int, int]]  # pods, and GPUs of each
    ends: float = 0.0  # 0: it has not started

    def pods(self) -> Iterator[Raw]:
        """Its first pods."""
        for leaf, (number, gpus) in self.leaves.items():
            for i in range(number):
                yield short_lived_pod(f"{self.name}-{leaf or 'pod'}-{i}", self.name, leaf, gpus)


def short_lived_pod(name: str, gang: str, leaf: str, gpus: int) -> Raw:
    """One pod that stops within a second or two."""
    limits = {GPU: str(gpus)}
    requests: Raw = {"cpu": "100m", **limits}
    raw = pod(
        name,
        leaf,
        gang=gang,
        namespace=NAMESPACE,
        scheduler="muster",
        image="none:1",
        labels={"app": gang},
        limits=limits,
        **requests,
    )
    raw["spec"]["terminationGracePeriodSeconds"] = 2
    return raw


def replacement(old: Raw, number: int, leaf: str) -> Raw:
    """The same pod under a new name."""
    gang = old["metadata"]["annotations"]["pod-group-name"]
    gpus = int(old["spec"]["containers"][0]["resources"]["requests"][GPU])
    return short_lived_pod(f"{gang}-{leaf or 'pod'}-r{number}", gang, leaf, gpus)


def probe(number: int) -> tuple[Raw, Raw]:
    """A gang of one pod that asks for next to nothing."""
    name = f"{PROBE}-{number}"
    spec = {"minMember": 1, "queue": PROBE, "priorityClassName": "high", "preemptibility": "preemptible"}
    group = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
    return group, short_lived_pod(f"{name}-pod", name, "", 0)


class Gangs:
    """One gang after the other."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.number = rng, 0

    def next(self) -> Gang:
        """A flat one, or k of n replicas."""
        rng = self.rng
        self.number += 1
        name = f"g{self.number:05}"
        spec: Raw = {"queue": rng.choice(("red", "green", "blue")), "priorityClassName": rng.choice(tuple(PRIORITIES))}
        spec["preemptibility"] = rng.choice(("preemptible",) * 3 + ("semi-preemptible",))
        if rng.random() < 0.4:
            kind = rng.choice(("requiredTopologyLevel", "preferredTopologyLevel"))
            spec["topologyConstraint"] = {kind: rng.choice(("rack", "block"))}
        leaves: dict[str, tuple[int, int]]
        if rng.random() < 0.3:
            replicas, pods, gpus = rng.randint(2, 3), rng.randint(1, 4), rng.choice((1, 2, 4))
            spec["minSubGroup"] = rng.randint(1, replicas)
            spec["subGroups"] = [{"name": f"r{i}", "minMember": pods} for i in range(replicas)]
            leaves = {f"r{i}": (pods, gpus) for i in range(replicas)}
        else:
            pods = rng.choice((1, 1, 2, 4, 8, 16))
            spec["minMember"] = rng.choice((pods, max(pods // 2, 1)))
            leaves = {"": (pods, rng.choice((1, 1, 2, 4, 8)))}
        return Gang(name, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}, leaves)

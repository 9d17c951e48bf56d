"""Busy clusters from a seed: nodes of several kinds in racks, blocks and zones, ten queues, gangs that run and arrive.

Rule 1: the same seed and size give the same cluster and the same arrivals. Rule 2: gangs that run at the start are put
inside one rack each, by first fit, so that every level holds and no scheduler has to be asked.
"""

import random
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from tests.support.virtual import LeafTemplate, VirtualCluster, Workload

Raw = dict[str, Any]
GPU = "nvidia.com/gpu"
NAMESPACE = "busy"
LEVELS = ("topology/zone", "topology/block", "topology/rack")
RACK_NODES, BLOCK_RACKS, ZONE_BLOCKS = 16, 4, 8
QUEUES = tuple(f"team-{i}" for i in range(10))
PRIORITIES = {"low": 30, "normal": 60, "high": 90}
KINDS: dict[str, tuple[int, dict[str, str]]] = {  # how many of 20 nodes, and what each has
    "gpu": (15, {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}),
    "cpu": (3, {"cpu": "128", "memory": "512Gi", "pods": "110"}),
    "memory": (2, {"cpu": "64", "memory": "4Ti", "pods": "110"}),
}
GPU_NODES_ONLY = {"gpu": (20, KINDS["gpu"][1])}
CUTS = ((2, 2, 1, 1, 1), (2, 2, 2, 1, 1), (4, 1, 1, 1, 1), (3, 1, 1, 1, 1), (2, 1, 1, 1, 1))  # 8 GPUs for five pods
SIZES = (1, 1, 2, 2, 3, 4, 4, 8, 8, 16, 24, 64)  # pods of a gang that waits in the single plan


class Spot(Struct):
    """What is left on a node while the first gangs are put."""

    node: str
    rack: str
    gpus: int
    cpus: int
    gibibytes: int


def made(version: str, kind: str, name: str, namespace: str = "", **more: Any) -> Raw:
    """An object by its name."""
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}


def surroundings(nodes: int, gpus: int, limits: bool = True) -> Iterator[Raw]:
    """Topology, priorities, and ten queues in two departments that promise what there is."""
    levels = [{"nodeLabel": label} for label in LEVELS]
    yield made("kai.scheduler/v1alpha1", "Topology", "datacenter", spec={"levels": levels})
    for name, value in PRIORITIES.items():
        yield made("scheduling.k8s.io/v1", "PriorityClass", name, value=value)
    unlimited = {"cpu": {"quota": -1}, "memory": {"quota": -1}}
    for i, name in enumerate(("research", "product")):
        quota = {"gpu": {"quota": gpus // 2 + (gpus % 2) * i}, **unlimited}
        yield made("scheduling.run.ai/v2", "Queue", name, spec={"resources": quota})
    for i, name in enumerate(QUEUES):
        share: Raw = {"quota": gpus // len(QUEUES), "overQuotaWeight": 1 + i % 3}
        share |= {"limit": max(gpus // 4, 8)} if limits and i % 3 == 0 else {}
        spec = {"parentQueue": ("research", "product")[i % 2], "resources": {"gpu": share, **unlimited}}
        yield made("scheduling.run.ai/v2", "Queue", name, spec=spec)
    assert nodes > 0


def hosts(count: int, kinds: dict[str, tuple[int, dict[str, str]]]) -> Iterator[Raw]:
    """Nodes, kind after kind mixed within each rack."""
    pattern = [kind for kind, (share, _) in kinds.items() for _ in range(share)]
    order = [pattern[i * 7 % len(pattern)] for i in range(len(pattern))]  # 7 and 20 share no factor
    for i in range(count):
        rack = i // RACK_NODES
        block = rack // BLOCK_RACKS
        labels = dict(zip(LEVELS, (f"z{block // ZONE_BLOCKS}", f"b{block}", f"r{rack}"), strict=True))
        node = made("v1", "Node", f"node-{i:05}", status={"allocatable": kinds[order[i % len(order)]][1]})
        node["metadata"]["labels"] = labels
        yield node


class Arrivals:
    """Gangs of every kind, one after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.number = 0

    def next(self) -> tuple[Workload, list[Raw]]:
        """A workload, and what else comes with it: budgets."""
        rng = self.rng
        self.number += 1
        name = f"g{self.number:06}"
        spec: Raw = {"queue": rng.choice(QUEUES), "priorityClassName": rng.choice(tuple(PRIORITIES))}
        spec["preemptibility"] = rng.choice(("preemptible",) * 3 + ("semi-preemptible", "non-preemptible"))
        leaves = self._nested(spec) if rng.random() < 0.35 else self._flat(spec)
        group = made("scheduling.run.ai/v2alpha2", "PodGroup", name, NAMESPACE, spec=spec)
        budgets = []
        if rng.random() < 0.1:
            stated = {"selector": {"matchLabels": {"app": name}}, "maxUnavailable": rng.choice((0, 1, "50%"))}
            budgets.append(made("policy/v1", "PodDisruptionBudget", name, NAMESPACE, spec=stated))
        return Workload(group, leaves, is_eager=rng.random() < 0.5), budgets

    def _flat(self, spec: Raw) -> dict[str, LeafTemplate]:
        rng = self.rng
        pods = rng.choice((1, 1, 1, 2, 2, 4, 4, 8, 16))
        spec["minMember"] = rng.choice((pods, pods, max(pods // 2, 1)))
        self._level(spec, ("rack", "rack", "block"), 0.35)
        return {"": LeafTemplate(pods, self._requests())}

    def _nested(self, spec: Raw) -> dict[str, LeafTemplate]:
        """k of n replicas, each of two roles, as inference is served."""
        rng = self.rng
        replicas = rng.choice((2, 3, 4))
        spec["minSubGroup"] = rng.randint(1, replicas)
        self._level(spec, ("block", "zone"), 0.3)
        parts: list[Raw] = []
        leaves: dict[str, LeafTemplate] = {}
        leader, worker = self._requests(), self._requests()
        pods = rng.choice((1, 2, 4))
        for i in range(replicas):
            replica: Raw = {"name": f"r{i}"}
            self._level(replica, ("rack",), 0.4)
            parts += [replica, {"name": f"r{i}-l", "parent": f"r{i}", "minMember": 1}]
            parts.append({"name": f"r{i}-w", "parent": f"r{i}", "minMember": max(pods - 1, 1)})
            leaves |= {f"r{i}-l": LeafTemplate(1, leader), f"r{i}-w": LeafTemplate(pods, worker)}
        spec["subGroups"] = parts
        return leaves

    def _level(self, group: Raw, levels: tuple[str, ...], share: float) -> None:
        if self.rng.random() < share:
            kind = self.rng.choice(("requiredTopologyLevel", "preferredTopologyLevel"))
            group["topologyConstraint"] = {kind: self.rng.choice(levels)}

    def _requests(self) -> dict[str, str]:
        match self.rng.choice(("gpu",) * 7 + ("cpu", "cpu", "memory")):
            case "gpu":
                gpus = self.rng.choice((1, 1, 1, 2, 2, 4, 8))
                return {GPU: str(gpus), "cpu": str(4 * gpus), "memory": f"{32 * gpus}Gi"}
            case "cpu":
                return {"cpu": self.rng.choice(("8", "16", "32")), "memory": "16Gi"}
            case _:
                return {"cpu": "4", "memory": self.rng.choice(("256Gi", "512Gi"))}


def busy(nodes: int, seed: int, load: float) -> tuple[VirtualCluster, Arrivals]:
    """A cluster with so much of its GPUs in use, and the gangs to come."""
    objects = [*hosts(nodes, KINDS)]
    gpus = sum(int(node["status"]["allocatable"].get(GPU, 0)) for node in objects)
    cluster, arrivals = VirtualCluster([*surroundings(nodes, gpus), *objects]), Arrivals(seed)
    racks: dict[str, list[Spot]] = {}
    for node in objects:
        allocatable, rack = node["status"]["allocatable"], node["metadata"]["labels"][LEVELS[-1]]
        spot = Spot(
            node["metadata"]["name"],
            rack,
            int(allocatable.get(GPU, 0)),
            int(allocatable["cpu"]),
            gibibytes(allocatable["memory"]),
        )
        racks.setdefault(rack, []).append(spot)
    used, misses = 0, 0
    while used < load * gpus and misses < 50 + nodes:
        workload, budgets = arrivals.next()
        where = [racks[rack] for rack in arrivals.rng.sample(sorted(racks), min(3, len(racks)))]
        taken = next((fitted for rack in where if (fitted := _fitted(workload, rack)) is not None), None)
        if taken is None:
            misses += 1
            continue
        start(cluster, workload, taken, budgets)
        used += sum(int(template.requests.get(GPU, 0)) * template.pods for template in workload.leaves.values())
    return cluster, arrivals


def gibibytes(text: str) -> int:
    """`512Gi` and `4Ti`."""
    return int(text[:-2]) * (1024 if text.endswith("Ti") else 1)


def _fitted(workload: Workload, rack: list[Spot]) -> dict[str, list[str]] | None:
    """Nodes of a rack for every pod, first fit; None, and nothing taken, where one does not fit."""
    trial = [Spot(one.node, one.rack, one.gpus, one.cpus, one.gibibytes) for one in rack]
    nodes_of: dict[str, list[str]] = {}
    for leaf, template in workload.leaves.items():
        requests = template.requests
        gpus, cpus, memory = int(requests.get(GPU, 0)), int(requests["cpu"]), gibibytes(requests["memory"])
        for _ in range(template.pods):
            spot = next((s for s in trial if s.gpus >= gpus and s.cpus >= cpus and s.gibibytes >= memory), None)
            if spot is None:
                return None
            spot.gpus, spot.cpus, spot.gibibytes = spot.gpus - gpus, spot.cpus - cpus, spot.gibibytes - memory
            nodes_of.setdefault(leaf, []).append(spot.node)
    rack[:] = trial
    return nodes_of


def start(cluster: VirtualCluster, workload: Workload, nodes: dict[str, list[str]], others: list[Raw]) -> None:
    """A workload that runs already."""
    for raw in others:
        cluster.put(raw)
    cluster.submit(workload)
    left = {leaf: list(some) for leaf, some in nodes.items()}
    for pod in tuple(cluster.pods(workload.key)):
        leaf = pod["metadata"]["labels"].get("kai.scheduler/subgroup-name", "")
        spec = {**pod["spec"], "nodeName": left[leaf].pop(0)}
        cluster.put(pod | {"spec": spec, "status": {"phase": "Running", "startTime": cluster.stamp()}})


def single(nodes: int, seed: int) -> VirtualCluster:
    """For one plan: five running pods a node, about 90 % of the GPUs, and for every four nodes a gang that waits.

    These have 1 to 64 pods of 1 to 8 GPUs, half of them bound to racks, in ten queues.
    """
    rng = random.Random(seed)
    objects = [*hosts(nodes, GPU_NODES_ONLY)]
    cluster = VirtualCluster([*surroundings(nodes, 8 * nodes, limits=False), *objects])
    places = [(node["metadata"]["name"], gpus) for node in objects for gpus in rng.choice(CUTS)]
    number = 0
    for gpus in sorted({gpus for _, gpus in places}):
        mine = [node for node, size in places if size == gpus]
        while mine:
            pods = min(rng.choice((1, 2, 2, 4, 4, 8)), len(mine))
            at, mine = mine[:pods], mine[pods:]
            number += 1
            start(cluster, _plain(rng, f"runs-{number:05}", pods, gpus, False), {"": at}, [])
    for i in range(nodes // 4):
        workload = _plain(rng, f"waits-{i:05}", rng.choice(SIZES), rng.choice((1, 1, 2, 2, 4, 8)), i % 2 == 0)
        cluster.submit(workload)
    return cluster


def _plain(rng: random.Random, name: str, pods: int, gpus: int, in_rack: bool) -> Workload:
    spec: Raw = {"queue": rng.choice(QUEUES), "minMember": pods, "priorityClassName": rng.choice(tuple(PRIORITIES))}
    spec |= {"topologyConstraint": {"requiredTopologyLevel": "rack"}} if in_rack else {}
    group = made("scheduling.run.ai/v2alpha2", "PodGroup", name, NAMESPACE, spec=spec)
    return Workload(group, {"": LeafTemplate(pods, {GPU: str(gpus), "cpu": str(4 * gpus), "memory": f"{32 * gpus}Gi"})})

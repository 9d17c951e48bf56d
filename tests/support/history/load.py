"""What a run is about: six nodes in three racks, two queues with limits, and gangs that come by seed.

Like a workload controller, `reconcile` creates what is missing and removes what has failed, whatever happened before.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random

from msgspec import Struct

from muster.api.resources import (
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    TOPOLOGIES,
    Resource,
)
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from tests.support.factories import node, pod, podgroup, priority_class, queue, topology
from tests.support.live.objects import gang_of, leaf_of

GPU = "nvidia.com/gpu"
NAMESPACE, LEASES = "history", "muster-system"
RACKS = {"n0": "r1", "n1": "r1", "n2": "r2", "n3": "r2", "n4": "r3", "n5": "r3"}
GPUS = 4  # of a node
PRIORITIES = {"low": 20, "normal": 50, "high": 90}
GANGS, ARRIVAL_SECONDS = 8, 8.0
CLEANED = (PODS, POD_GROUPS, NODES, QUEUES, TOPOLOGIES, PRIORITY_CLASSES)


class PlannedGang(Struct, frozen=True):
    """A PodGroup, how many pods of how many GPUs each leaf has, and from when to when."""

    group: Raw
    leaves: dict[str, int]
    gpus: int
    arrives: float  # seconds from the start of the run
    leaves_at: float | None = None

    @property
    def name(self) -> str:
        return str(self.group["metadata"]["name"])

    def is_wanted(self, at: float) -> bool:
        return self.arrives <= at and (self.leaves_at is None or at < self.leaves_at)


def gpu_node(name: str) -> Raw:
    allocatable = {GPU: str(GPUS), "cpu": "64", "memory": "512Gi", "pods": "110"}
    return node(name, allocatable=allocatable, zone="z1", rack=RACKS[name])


def surroundings() -> Iterator[tuple[Resource, Raw]]:
    """All that is there before the first gang; two GPUs belong to pods of another scheduler."""
    for name in (NAMESPACE, LEASES):
        yield NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for name, value in PRIORITIES.items():
        yield PRIORITY_CLASSES, priority_class(name, value)
    plenty: Raw = {"quota": -1, "limit": -1}
    for name, parent, quota, limit in (("org", "", 21, 21), ("red", "org", 12, 14), ("blue", "org", 10, 12)):
        yield QUEUES, queue(name, parent, gpu={"quota": quota, "limit": limit}, cpu=plenty, memory=plenty)
    yield TOPOLOGIES, topology("topology/zone", "topology/rack")
    for name in RACKS:
        yield NODES, gpu_node(name)
    for name in ("n0", "n2"):
        limits = {GPU: "1"}
        yield (
            PODS,
            pod(
                f"other-{name}", gang="", namespace=NAMESPACE, on=name, scheduler="other", image="none:1", limits=limits
            ),
        )


def gangs(seed: int) -> list[PlannedGang]:
    """Flat ones with extras, ones bound to racks, and k of n replicas; some go again."""
    dice = Random(f"gangs/{seed}")
    return [_gang(dice, f"g{i}") for i in range(GANGS)]


def _gang(dice: Random, name: str) -> PlannedGang:
    spec: Raw = {
        "queue": dice.choice(("red", "blue")),
        "priorityClassName": dice.choice(tuple(PRIORITIES)),
        "preemptibility": dice.choice(("preemptible", "preemptible", "semi-preemptible")),
        "stalenessGracePeriod": "4s",
    }
    kind = dice.choice(("flat", "rack", "replicas"))
    need, gpus = dice.randint(1, 4), dice.choice((1, 1, 2))
    if kind == "replicas":
        spec["minSubGroup"] = 1
        spec["subGroups"] = [{"name": f"r{i}", "minMember": need} for i in range(2)]
        leaves = {"r0": need, "r1": need}
    else:
        spec |= {"minMember": need}
        spec |= {"topologyConstraint": {"requiredTopologyLevel": "topology/rack"}} if kind == "rack" else {}
        leaves = {"": need + dice.randint(0, 2)}
    arrives = dice.uniform(0, ARRIVAL_SECONDS)
    leaves_at = arrives + dice.uniform(4, 10) if dice.random() < 0.25 else None
    return PlannedGang(podgroup(name=name, namespace=NAMESPACE, **spec), leaves, gpus, arrives, leaves_at)


class Load:
    """The gangs of one run, on a cluster."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster, self.gangs = cluster, gangs(seed)
        self._number = 0

    async def prepare(self) -> None:
        for resource, raw in surroundings():
            await self._create(resource, raw)

    async def reconcile(self, at: float) -> None:
        """Every gang that should be there is, with all its pods; failed pods go."""
        for gang in self.gangs:
            with suppress(ApiError):
                await self._reconcile(gang, gang.is_wanted(at))

    async def _reconcile(self, gang: PlannedGang, is_wanted: bool) -> None:
        pods = [raw for raw in (await self.cluster.list(PODS, NAMESPACE)).items if gang_of(raw) == gang.name]
        if not is_wanted:
            for raw in pods:
                await self._delete(PODS, raw)
            if gang.leaves_at is not None and not pods:
                await self._delete(POD_GROUPS, gang.group)
            return
        await self._create(POD_GROUPS, gang.group)
        for raw in [raw for raw in pods if raw["status"].get("phase") == "Failed"]:
            await self._delete(PODS, raw, grace_seconds=0)
        alive = Counter(leaf_of(raw) for raw in pods if not raw["metadata"].get("deletionTimestamp"))
        for leaf, count in gang.leaves.items():
            for _ in range(count - alive[leaf]):
                self._number += 1
                await self._create(PODS, self._pod(gang, leaf, self._number))

    def _pod(self, gang: PlannedGang, leaf: str, number: int) -> Raw:
        limits = {GPU: str(gang.gpus)}
        name = "-".join(part for part in (gang.name, leaf, str(number)) if part)
        raw = pod(name, leaf, gang=gang.name, namespace=NAMESPACE, scheduler="muster", image="none:1", limits=limits)
        return raw | {"spec": {**raw["spec"], "terminationGracePeriodSeconds": 1}}

    async def _create(self, resource: Resource, raw: Raw) -> None:
        try:
            await self.cluster.create(resource, raw)
        except ApiError as error:
            if error.status != 409:  # it is there
                raise

    async def _delete(self, resource: Resource, raw: Raw, grace_seconds: int | None = None) -> None:
        meta = raw["metadata"]
        if meta.get("deletionTimestamp") and grace_seconds is None:
            return
        with suppress(ApiError):
            await self.cluster.delete(resource, NAMESPACE, meta["name"], grace_seconds=grace_seconds)

    async def clean(self) -> None:
        """Nothing of a run is left, for the next one."""
        for resource in CLEANED:
            for raw in (await self.cluster.list(resource)).items:
                with suppress(ApiError):
                    space = raw["metadata"].get("namespace", "")
                    await self.cluster.delete(resource, space, raw["metadata"]["name"], grace_seconds=0)

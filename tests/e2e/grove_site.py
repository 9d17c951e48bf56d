"""A namespace of its own where PodCliqueSets become pods, on any cluster; operator, scheduler and kubelets run.

Rule: tests create sets, bindings and nodes, and cordon, scale, change and delete as people do; they never make pods,
cliques or gangs. Every pod takes one node (80 of its 150 MiB), as in Grove's own scenarios.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from os import getpid
from typing import Any

from msgspec.structs import replace

from muster.api import names
from muster.api.resources import (
    CLUSTER_TOPOLOGY_BINDINGS,
    EVENTS,
    NAMESPACES,
    NODES,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    QUEUES,
    SERVICES,
    TOPOLOGIES,
    Resource,
)
from muster.cli.assemble.grove_operator import attach_operator
from muster.cli.assemble.pod_grouper import build_grouper, reports_orphan
from muster.config.settings import Config
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.scheduler.loop import Scheduler
from tests.e2e.site import HABITS, SETTINGS, ended, is_ready, said
from tests.e2e.workload_site import DEFAULT_QUEUE, present
from tests.support.factories import NONE, node

LONGEST_SECONDS = 60.0
SETTLE_SECONDS = 0.6  # nothing more happens in this time, where nothing should
ZONE, BLOCK, RACK = "test/zone", "test/block", "test/rack"
_numbers = count()


def clique(name: str, replicas: int, minimum: int | None = None, **more: Any) -> Raw:
    """A clique whose pods take a node each."""
    container = {"name": name, "image": "none:1", "resources": {"requests": {"memory": "80Mi"}}}
    pod_spec = {"schedulerName": "muster", "terminationGracePeriodSeconds": 1, "containers": [container]}
    own = {"roleName": f"role-{name}", "replicas": replicas, "podSpec": pod_spec, **more.pop("spec", {})}
    own |= {} if minimum is None else {"minAvailable": minimum}
    return {"name": name, "spec": own, **more}


def pod_clique_set(
    name: str, cliques: Sequence[Raw], groups: Sequence[Raw] = (), replicas: int = 1, **more: Any
) -> Raw:
    template = {"cliques": list(cliques), "podCliqueScalingGroups": list(groups), **more.pop("template", {})}
    spec = {"replicas": replicas, "template": template, **more}
    kind = {"apiVersion": POD_CLIQUE_SETS.api_version, "kind": POD_CLIQUE_SETS.kind}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def group(name: str, cliques: Sequence[str], replicas: int, minimum: int = 1, **more: Any) -> Raw:
    return {"name": name, "cliqueNames": list(cliques), "replicas": replicas, "minAvailable": minimum, **more}


def strict(name: str = "w", **more: Any) -> Raw:
    """Ten pods that start together: two of `a`, and two replicas of a group of one `b` and three `c`."""
    cliques = [clique("a", 2, 2), clique("b", 1, 1), clique("c", 3, 3)]
    return pod_clique_set(name, cliques, [group("sg", ["b", "c"], 2, 2)], **more)


def flexible(name: str = "w", **more: Any) -> Raw:
    """Ten pods of which three are the base: one of each clique; the second replica of the group needs two more."""
    cliques = [clique("a", 2, 1), clique("b", 1, 1), clique("c", 3, 1)]
    return pod_clique_set(name, cliques, [group("sg", ["b", "c"], 2, 1)], **more)


class GroveSeen:
    """What is there at one moment."""

    def __init__(self, objects: Mapping[Resource, Sequence[Raw]]) -> None:
        self._objects = objects
        self.pods = [raw for raw in objects[PODS] if not raw["metadata"].get("deletionTimestamp")]

    def __getitem__(self, resource: Resource) -> dict[str, Raw]:
        return {raw["metadata"]["name"]: raw for raw in self._objects[resource]}

    @property
    def counts(self) -> tuple[int, int]:
        """How many pods run, and how many wait."""
        running = sum(raw["status"].get("phase") == "Running" for raw in self.pods)
        return running, len(self.pods) - running

    @property
    def gated(self) -> int:
        """Pods behind a scheduling gate."""
        return sum(bool(raw["spec"].get("schedulingGates")) for raw in self.pods)

    @property
    def ready(self) -> int:
        return sum(map(is_ready, self.pods))

    @property
    def bound(self) -> dict[str, int]:
        """Pods with a node, by clique."""
        placed = (raw for raw in self.pods if raw["spec"].get("nodeName"))
        return dict(Counter(raw["metadata"]["labels"][names.POD_CLIQUE] for raw in placed))

    @property
    def cliques(self) -> dict[str, int]:
        """All pods, by clique."""
        return dict(Counter(raw["metadata"]["labels"][names.POD_CLIQUE] for raw in self.pods))

    def gang_condition(self, gang: str, kind: str = "Scheduled") -> Raw:
        return said(self[POD_GANGS][gang], kind)

    def nodes(self, clique: str = "") -> set[str]:
        """The nodes of the pods of a clique, or of all."""
        return {
            raw["spec"]["nodeName"]
            for raw in self.pods
            if raw["spec"].get("nodeName") and clique in ("", raw["metadata"]["labels"][names.POD_CLIQUE])
        }

    @property
    def uids(self) -> set[str]:
        return {raw["metadata"]["uid"] for raw in self.pods}

    def __str__(self) -> str:
        pods = [
            f"{raw['metadata']['name']} {raw['status'].get('phase')} {raw['spec'].get('nodeName', '-')} "
            f"{[gate['name'] for gate in raw['spec'].get('schedulingGates') or ()]} {said(raw, 'PodScheduled')}"
            for raw in self.pods[:30]
        ]
        gangs = [f"{name}: {raw.get('status')}" for name, raw in self[POD_GANGS].items()]
        groups = [
            f"{name}: {raw['spec']} {raw.get('status', {}).get('conditions')}" for name, raw in self[POD_GROUPS].items()
        ]
        others = [
            f"{resource.kind} {name}: {raw.get('status')}"
            for resource in (POD_CLIQUE_SETS, POD_CLIQUE_SCALING_GROUPS, POD_CLIQUES)
            for name, raw in self[resource].items()
        ]
        events = [
            f"{raw['involvedObject']['kind']} {raw['involvedObject']['name']}: {raw['reason']} {raw['message']}"
            for raw in self._objects[EVENTS][-25:]
        ]
        return "\n".join(["", *pods, *gangs[:20], *groups[:20], *others[:30], *events])


KINDS = (PODS, POD_GROUPS, POD_GANGS, POD_CLIQUES, POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, SERVICES, EVENTS)


class GroveSite:
    """See above."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.config = Config(scheduling=replace(SETTINGS, scheduler_names=(name,)))
        self.nodes: list[str] = []
        self._bindings: list[str] = []

    @asynccontextmanager
    async def open(self, timings: KubeletTimings = HABITS) -> AsyncIterator["GroveSite"]:
        """With operator, scheduler and kubelets at work."""
        await self.cluster.create(NAMESPACES, {"metadata": {"name": self.name}})
        async with present(self.cluster, QUEUES, DEFAULT_QUEUE):
            tasks = [asyncio.create_task(loop) for loop in self._loops(timings)]
            try:
                yield self
                for task in tasks:
                    assert not task.done(), task
            finally:
                try:
                    await self._clean()
                finally:
                    await ended(tasks)

    def _loops(self, timings: KubeletTimings) -> Iterator[Any]:
        settings = self.config.scheduling
        scheduler = Scheduler(self.cluster, settings, policy=self.config.policy, reports_orphan=reports_orphan)
        grouper = build_grouper(self.config, self.cluster, scheduler)
        operator = attach_operator(self.config.grove, self.cluster, scheduler)
        assert operator is not None
        self.operator, self.scheduler = operator, scheduler
        yield from (Kubelets(self.cluster, timings=timings).run(), grouper.run(), operator.run(), scheduler.run())

    async def _clean(self) -> None:
        for raw in (await self.cluster.list(POD_CLIQUE_SETS, self.name)).items:
            with suppress(ApiError):
                await self.cluster.delete(POD_CLIQUE_SETS, self.name, raw["metadata"]["name"])
        await self.until(lambda seen: not any(seen[kind] for kind in KINDS if kind != EVENTS))
        await self.cluster.delete(NAMESPACES, "", self.name)
        for name in self.nodes:
            await self.cluster.delete(NODES, "", name)
        for name in self._bindings:
            for resource in (CLUSTER_TOPOLOGY_BINDINGS, TOPOLOGIES):
                with suppress(ApiError):
                    await self.cluster.delete(resource, "", name)

    # what people do

    async def add_nodes(self, number: int, labels: Mapping[str, str] = NONE) -> list[str]:
        """Nodes for one pod each."""
        allocatable = {"cpu": "8", "memory": "150Mi", "pods": "20"}
        added = [f"{self.name}-n{next(_numbers)}" for _ in range(number)]
        for name in added:
            own = {**labels, names.HOSTNAME: name, "test/site": self.name}
            await self.cluster.create(NODES, node(name, labels=own, allocatable=allocatable))
        self.nodes += added
        return added

    async def cordon(self, nodes: Sequence[str], is_cordoned: bool = True) -> None:
        for name in nodes:
            await self.cluster.patch(NODES, "", name, {"spec": {"unschedulable": is_cordoned}})

    async def uncordon(self, nodes: Sequence[str]) -> None:
        await self.cordon(nodes, is_cordoned=False)

    async def submit(self, pcs: Raw) -> Raw:
        """In this namespace, for this scheduler and its nodes."""
        own = self._own(pcs)
        own["metadata"]["namespace"] = self.name
        return await self.cluster.create(POD_CLIQUE_SETS, own)

    def _own(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._own(item) for item in value]
        if not isinstance(value, dict):
            return value
        own = {name: self._own(field) for name, field in value.items()}
        if "schedulerName" in own:
            selector = {**own.get("nodeSelector", {}), "test/site": self.name}
            own |= {"schedulerName": self.name, "nodeSelector": selector}
        return own

    async def change(self, pcs: str, patch: Raw) -> Raw:
        return await self.cluster.patch(POD_CLIQUE_SETS, self.name, pcs, self._own(patch))

    async def change_image(self, pcs: str, clique: str, image: str) -> Raw:
        """A new image for one clique."""
        raw = await self.cluster.get(POD_CLIQUE_SETS, self.name, pcs)
        for template in raw["spec"]["template"]["cliques"]:
            if template["name"] == clique:
                template["spec"]["podSpec"]["containers"][0]["image"] = image
        return await self.cluster.patch(POD_CLIQUE_SETS, self.name, pcs, {"spec": raw["spec"]})

    async def scale(self, resource: Resource, name: str, replicas: int) -> None:
        """As `kubectl scale` does."""
        await self.cluster.patch(resource, self.name, name, {"spec": {"replicas": replicas}}, subresource="scale")

    async def bind_topology(self, name: str, host: bool = False) -> None:
        """Zones, blocks and racks, and maybe hosts."""
        keys = {"zone": ZONE, "block": BLOCK, "rack": RACK, **({"host": names.HOSTNAME} if host else {})}
        levels = [{"domain": word, "key": key} for word, key in keys.items()]
        own = {"apiVersion": CLUSTER_TOPOLOGY_BINDINGS.api_version, "kind": CLUSTER_TOPOLOGY_BINDINGS.kind}
        self._bindings.append(name)
        await self.cluster.create(
            CLUSTER_TOPOLOGY_BINDINGS, {**own, "metadata": {"name": name}, "spec": {"levels": levels}}
        )

    async def delete(self, resource: Resource, name: str) -> None:
        await self.cluster.delete(resource, self.name, name)

    # what is there

    async def seen(self) -> GroveSeen:
        return GroveSeen({kind: (await self.cluster.list(kind, self.name)).items for kind in KINDS})

    async def until(self, test: Callable[[GroveSeen], bool], seconds: float = LONGEST_SECONDS) -> GroveSeen:
        """What is seen when it holds; with all that is known where it does not."""
        seen = await self.seen()
        try:
            async with asyncio.timeout(seconds):
                while not _holds(test, seen):
                    await asyncio.sleep(0.03)
                    seen = await self.seen()
        except TimeoutError:
            raise AssertionError(f"waited in vain{seen}") from None
        return seen

    async def until_counts(self, running: int, waiting: int) -> GroveSeen:
        """So many pods run and so many wait, and it stays so."""
        await self.until(lambda seen: seen.counts == (running, waiting))
        return await self.stays(lambda seen: seen.counts == (running, waiting))

    async def stays(self, test: Callable[[GroveSeen], bool], seconds: float = SETTLE_SECONDS) -> GroveSeen:
        """It holds all the time."""
        end = asyncio.get_running_loop().time() + seconds
        while True:
            seen = await self.seen()
            assert _holds(test, seen), f"it did not stay so{seen}"
            if asyncio.get_running_loop().time() > end:
                return seen
            await asyncio.sleep(0.05)


def _holds(test: Callable[[GroveSeen], bool], seen: GroveSeen) -> bool:
    try:
        return test(seen)
    except KeyError:  # something is not there yet
        return False


def fresh(cluster: Cluster) -> GroveSite:
    """A site with a name that no other has."""
    return GroveSite(cluster, f"grove{getpid()}-{next(_numbers)}")

"""A namespace of its own on a real API server where workloads get their pods from real controllers, and muster runs.

kube-controller-manager makes the pods of Kubernetes' own kinds and collects garbage; muster's controllers stand in for
the operators of other kinds; simulated kubelets run what is bound. Rule: tests create workloads and nodes, never pods
or PodGroups.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from os import getpid
from typing import Any

from msgspec.structs import replace

from muster.api import names, resources
from muster.api.resources import EVENTS, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES, Resource
from muster.cli.assemble.pod_grouper import build_grouper, reports_orphan
from muster.config.settings import Config
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.kube.cluster import Cluster, Raw
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.kube.errors import ApiError
from muster.scheduler.loop import Scheduler
from muster.workloads.types import Controller
from tests.e2e.site import HABITS, LONGEST_SECONDS, SETTINGS, Seen, ended, is_ready, until
from tests.support.factories import NONE, node
from tests.support.live.objects import placed

DEFAULT_QUEUE: Raw = {
    "metadata": {"name": "default"},
    "spec": {"resources": {name: {"quota": -1} for name in ("gpu", "cpu", "memory")}},
}
KINDS = {
    each.kind: each for each in vars(resources).values() if isinstance(each, Resource) and each != resources.EVENTS
}
_numbers = count()


class WorkloadSite:
    """See above."""

    def __init__(self, cluster: Cluster, name: str, scheduler_name: str) -> None:
        self.cluster, self.name, self.scheduler_name = cluster, name, scheduler_name
        self.config = Config(scheduling=replace(SETTINGS, scheduler_names=(scheduler_name,)))
        self._submitted: list[Raw] = []

    @asynccontextmanager
    async def open(
        self, operators: Sequence[Controller] = (), *, is_scheduling: bool = True, timings: KubeletTimings = HABITS
    ) -> AsyncIterator["WorkloadSite"]:
        """With kubelets at work, controllers for these kinds, and a scheduler with its pod grouper unless one runs."""
        await self.cluster.create(NAMESPACES, {"metadata": {"name": self.name}})
        async with present(self.cluster, QUEUES, DEFAULT_QUEUE):  # it must exist where others have left queues
            tasks = [asyncio.create_task(loop) for loop in self._loops(operators, timings, is_scheduling)]
            try:
                yield self
            finally:
                try:
                    await self._clean()
                finally:
                    await ended(tasks)

    def _loops(self, operators: Sequence[Controller], timings: KubeletTimings, is_scheduling: bool) -> Iterator[Any]:
        yield Kubelets(self.cluster, timings=timings).run()
        if operators:
            yield ControllerRuntime(self.cluster, {each.resource: each for each in operators}).run()
        if is_scheduling:
            settings, policy = self.config.scheduling, self.config.policy
            scheduler = Scheduler(self.cluster, settings, policy=policy, reports_orphan=reports_orphan)
            yield build_grouper(self.config, self.cluster, scheduler).run()
            yield scheduler.run()

    async def _clean(self) -> None:
        """Workloads go first, with kubelets at work, so that the namespace can end by itself."""
        for owner in self._submitted:
            with suppress(ApiError):
                await self.remove(owner)
        await self.until_empty()
        with suppress(ApiError):  # a test may have deleted it
            await self.cluster.delete(NAMESPACES, "", self.name)
        for raw in (await self.cluster.list(NODES)).items:
            if raw["metadata"]["name"].startswith(f"{self.name}-"):
                await self.cluster.delete(NODES, "", raw["metadata"]["name"])

    # what a test does

    async def add_nodes(self, number: int, gpus: int = 8, labels: Mapping[str, str] = NONE) -> None:
        """More nodes, with these labels."""
        allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", names.GPU: str(gpus)}
        for _ in range(number):
            name = f"{self.name}-n{next(_numbers)}"
            own = {**labels, names.HOSTNAME: name}
            await self.cluster.create(NODES, node(name, labels=own, allocatable=allocatable))

    async def submit(self, manifest: Raw) -> Raw:
        """A workload as a user submits it, but in this namespace and for this scheduler."""
        own: Raw = self._own(manifest)
        own["metadata"]["namespace"] = self.name
        self._submitted.append(own)
        return await self.cluster.create(KINDS[own["kind"]], own)

    def _own(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._own(item) for item in value]
        if not isinstance(value, dict):
            return value
        own = {name: self._own(field) for name, field in value.items()}
        return {**own, "schedulerName": self.scheduler_name} if "schedulerName" in own else own

    async def change(self, owner: Raw, patch: Raw, **how: Any) -> Raw:
        """A user's change of a workload, for this scheduler."""
        own = self._own(patch)
        return await self.cluster.patch(KINDS[owner["kind"]], self.name, owner["metadata"]["name"], own, **how)

    async def read(self, owner: Raw) -> Raw:
        return await self.cluster.get(KINDS[owner["kind"]], self.name, owner["metadata"]["name"])

    async def remove(self, owner: Raw) -> None:
        await self.cluster.delete(KINDS[owner["kind"]], self.name, owner["metadata"]["name"])

    # what is there

    async def seen(self) -> Seen:
        pods, groups, events = [(await self.cluster.list(kind, self.name)).items for kind in (PODS, POD_GROUPS, EVENTS)]
        return Seen(pods, {raw["metadata"]["name"]: raw for raw in groups}, events)

    async def until(self, test: Callable[[Seen], bool], seconds: float = LONGEST_SECONDS) -> Seen:
        """What is seen when it holds; with all that is known where it does not."""
        seen = await self.seen()

        async def holds() -> bool:
            nonlocal seen
            seen = await self.seen()
            return test(seen)

        await self._within(holds, seconds, lambda: seen)
        return seen

    async def until_owner(self, owner: Raw, test: Callable[[Raw], bool], seconds: float = LONGEST_SECONDS) -> Raw:
        """The workload when it says so."""
        raw = owner

        async def holds() -> bool:
            nonlocal raw
            raw = await self.read(owner)
            return test(raw)

        last = await self.seen()
        await self._within(holds, seconds, lambda: last)
        return raw

    async def _within(self, holds: Callable[[], Awaitable[bool]], seconds: float, seen: Callable[[], Seen]) -> None:
        try:
            await until(holds, seconds)
        except AssertionError:
            raise AssertionError(described(seen())) from None

    async def until_empty(self) -> None:
        """Until no pod and no PodGroup is left."""
        await self.until(lambda seen: not seen.pods and not seen.groups)


@asynccontextmanager
async def present(cluster: Cluster, resource: Resource, raw: Raw) -> AsyncIterator[None]:
    """An object in no namespace that exists while the block runs, and afterwards if it did before."""
    try:
        await cluster.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **raw})
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        yield
        return
    try:
        yield
    finally:
        await cluster.delete(resource, "", raw["metadata"]["name"])


def fresh(cluster: Cluster, scheduler_name: str = "") -> WorkloadSite:
    """A site with a name that no other has, and a scheduler of that name unless another is named."""
    name = f"work{getpid()}-{next(_numbers)}"
    return WorkloadSite(cluster, name, scheduler_name or name)


def group_of(pod: Raw) -> str:
    """The PodGroup that a pod has joined; empty: none."""
    return str((pod["metadata"].get("annotations") or {}).get(names.POD_GROUP, ""))


def leaf_of(pod: Raw) -> str:
    return str((pod["metadata"].get("labels") or {}).get(names.SUBGROUP, ""))


def leaves(seen: Seen) -> dict[str, int]:
    """How many Ready pods each leaf has, of all PodGroups."""
    counts: dict[str, int] = {}
    for pod in filter(is_ready, seen.pods):
        counts[leaf_of(pod)] = counts.get(leaf_of(pod), 0) + 1
    return counts


def all_ready(seen: Seen, number: int) -> bool:
    """Whether there are so many pods, all Ready, each in a PodGroup that exists."""
    return len(seen.pods) == number and all(is_ready(pod) and group_of(pod) in seen.groups for pod in seen.pods)


def members(seen: Seen) -> dict[str, int]:
    """How many pods have joined each PodGroup."""
    joined = [group_of(pod) for pod in seen.pods if group_of(pod) in seen.groups]
    return {name: joined.count(name) for name in joined}


def lacks_capacity(seen: Seen, group: str) -> bool:
    """Whether all pods of a gang are there, none is placed, and muster says that they do not fit."""
    own = [pod for pod in seen.pods if group_of(pod) == group]
    return seen.condition(group).get("reason") == "NoRoom" and not any(map(placed, own))


def has_condition(raw: Raw, kind: str) -> bool:
    """Whether a workload says this of itself."""
    conditions = raw.get("status", {}).get("conditions") or ()
    return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)


def described(seen: Seen) -> str:
    """What there is, for a test that waited in vain."""
    pods = [
        f"{pod['metadata']['name']}: {pod['status'].get('phase')} on {pod['spec'].get('nodeName')} in {group_of(pod)}"
        for pod in seen.pods[:20]
    ]
    groups = [f"{name}: {raw['spec']} {seen.condition(name).get('message')}" for name, raw in seen.groups.items()]
    events = [f"{raw['involvedObject']['name']}: {raw['reason']} {raw['message']}" for raw in seen.events[-15:]]
    return "\n".join(["waited in vain", *pods, *groups[:20], *events])

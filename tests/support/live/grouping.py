"""An embedded cluster with a pod grouper at work in it, and nothing else: pods and owners are the test's."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import count
from typing import Any

from muster.api import names
from muster.api.objects import WATCHED_KINDS
from muster.api.resources import EVENTS, POD_GROUPS, PODS, PRIORITY_CLASSES, Resource
from muster.config.settings import PodGrouping, ShardSettings
from muster.controllers.grouper.grouper import Grouper
from muster.controllers.grouper.grouping_observer import GroupingObserver
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cache.cache import Cache
from muster.kube.cache.reflector import Reflector
from muster.kube.cluster import Cluster, Raw
from muster.kube.leadership import Leadership
from muster.workloads.operators.crds import operator_crds
from tests.support.live.faults import Crash, Faulty

FED = (PRIORITY_CLASSES, POD_GROUPS, PODS)


class GroupingWorld:
    """A store and the objects in it; `grouping` runs a grouper on it."""

    def __init__(self, **settings: Any) -> None:
        numbers = count(1)
        self.store = ClusterStore(new_uid=lambda: f"uid-{next(numbers)}", custom=operator_crds())
        self.memory = MemoryCluster(self.store, bookmark_seconds=0.05)
        self.settings = PodGrouping(**settings)

    def create(self, resource: Resource, name: str, spec: Raw | None = None, **meta: Any) -> Raw:
        """An object in namespace `default`."""
        raw = {"metadata": {"name": name, **meta}, "spec": spec or {}}
        typed = {"apiVersion": resource.api_version, "kind": resource.kind, **raw}
        return self.store.create(resource, typed, namespace="default" if resource.namespaced else "")

    def pod(self, name: str, owner: Raw | None = None, scheduler: str = "muster", **meta: Any) -> Raw:
        """A pod, controlled by its owner."""
        references = {"ownerReferences": [reference(owner)]} if owner else {}
        spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "x"}]}
        return self.create(PODS, name, spec, **references, **meta)

    def update(self, resource: Resource, name: str, patch: Raw, **how: Any) -> Raw:
        """Merge a patch, as a user's kubectl does."""
        return self.store.patch(resource, "default", name, patch, field_manager="kubectl-edit", **how)

    def finish(self, name: str, phase: str = "Succeeded") -> None:
        """A pod ends."""
        self.store.patch(PODS, "default", name, {"status": {"phase": phase}}, subresource="status")

    def groups(self) -> dict[str, Raw]:
        """PodGroups by name."""
        return {raw["metadata"]["name"]: raw for raw in self.store.list(POD_GROUPS).items}

    def group_of(self, pod: str) -> Raw:
        """The PodGroup that a pod has joined."""
        name = self.get_pod(pod)["metadata"]["annotations"][names.POD_GROUP]
        return self.store.get(POD_GROUPS, "default", name)

    def get_pod(self, name: str) -> Raw:
        return self.store.get(PODS, "default", name)

    def membership(self) -> dict[str, tuple[str, str]]:
        """The PodGroup and the leaf of every pod."""
        return {raw["metadata"]["name"]: _membership(raw["metadata"]) for raw in self.store.list(PODS).items}

    def events(self, pod: str) -> dict[str, str]:
        """What is said on a pod: messages by reason."""
        items = self.store.list(EVENTS).items
        return {raw["reason"]: raw["message"] for raw in items if raw["involvedObject"]["name"] == pod}

    @asynccontextmanager
    async def grouping(
        self,
        cluster: Cluster | None = None,
        leadership: Leadership | None = None,
        observer: GroupingObserver | None = None,
        shard: ShardSettings | None = None,
    ) -> AsyncIterator["LiveGrouper"]:
        """A grouper at work, until the block ends; a Crash of it is no failure of the test."""
        live = LiveGrouper(self, cluster or self.memory, leadership, observer, shard)
        others = asyncio.all_tasks()
        task = asyncio.create_task(live.run())
        try:
            yield live
        finally:
            while tasks := asyncio.all_tasks() - others - {asyncio.current_task()}:
                for running in tasks:
                    running.cancel()
                await asyncio.wait(tasks, timeout=0.1)
            with suppress(asyncio.CancelledError, *([BaseExceptionGroup, Crash] if live.crashed else [])):
                await task


class LiveGrouper:
    """A grouper with the watches that a scheduler would give it."""

    def __init__(
        self,
        world: GroupingWorld,
        cluster: Cluster,
        leadership: Leadership | None = None,
        observer: GroupingObserver | None = None,
        shard: ShardSettings | None = None,
    ) -> None:
        self.world, self.cluster, self.cache = world, cluster, Cache()
        self.grouper = Grouper(
            cluster, world.settings, ("muster",), self.cache.pod_group, leadership, observer=observer, shard=shard
        )

    @property
    def crashed(self) -> bool:
        return isinstance(self.cluster, Faulty) and self.cluster.dead

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for resource in FED:
                tasks.create_task(self._feed(resource))
            tasks.create_task(self.grouper.run())

    async def _feed(self, resource: Resource) -> None:
        async with aclosing(Reflector(self.cluster, resource).events()) as events:
            async for event in events:
                self.cache.handle(WATCHED_KINDS[resource], event)
                self.grouper.handle(resource, event)

    async def until(self, test: Callable[[], Any], seconds: float = 10.0) -> None:
        end = time.monotonic() + seconds
        while not _holds(test) and not self.crashed:
            assert time.monotonic() < end, f"it does not happen: {str(self.world.membership())[:2000]}"
            await asyncio.sleep(0.002)

    async def settle(self, seconds: float = 20.0) -> bool:
        """Until nothing changes any more for a while; whether the grouper is still alive."""
        end, quiet, before = time.monotonic() + seconds, 0, ""
        while quiet < 8 and not self.crashed:
            assert time.monotonic() < end, "it does not come to rest"
            await asyncio.sleep(0.005)
            version = self.world.store.version
            is_quiet = version == before and self.grouper.is_idle and not len(self.grouper.reports)
            quiet, before = (quiet + 1 if is_quiet else 0), version
        return not self.crashed


def _holds(test: Callable[[], Any]) -> bool:
    try:
        return bool(test())
    except (KeyError, LookupError):
        return False
    except Exception as error:
        if getattr(error, "status", 0) == 404:
            return False
        raise


def reference(owner: Raw, controller: bool = True) -> Raw:
    """An owner reference to an object."""
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": controller,
    }


def _membership(meta: Raw) -> tuple[str, str]:
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    return notes.get(names.POD_GROUP, ""), labels.get(names.SUBGROUP, "")

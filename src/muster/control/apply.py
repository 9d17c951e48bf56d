"""A plan carried out: evictions, nominations, then bindings, gang by gang, concurrent and bounded (G5, I1, I9).

Rule 1: every write names the pod's uid and asks the fence first. Rule 2: whatever fails is left to the next turn: the
plan is made anew from what is there then, so nothing has to be replayed or undone here.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from muster.api.core import Pod
from muster.cluster.mirror import resource_of
from muster.cluster.store import ApiError, Cluster
from muster.control.inflight import Inflight
from muster.planning.decision import Binding, Eviction, Plan


class Fence(Protocol):
    """Who says whether we may still act."""

    @property
    def leading(self) -> bool:
        """Whether we may act right now."""


class Done(Struct, frozen=True):
    """What came of a plan."""

    bound: int = 0
    evicted: int = 0
    nominated: int = 0
    failures: tuple[str, ...] = ()  # in sentences


class _Tally:
    def __init__(self) -> None:
        self.bound = self.evicted = self.nominated = 0
        self.failures: list[str] = []


class Applier:
    """Writes to one cluster."""

    def __init__(
        self, cluster: Cluster, inflight: Inflight, fence: Fence, clock: Callable[[], float], at_once: int = 64
    ) -> None:
        self.cluster, self.inflight, self.fence, self.clock = cluster, inflight, fence, clock
        self._slots = asyncio.Semaphore(at_once)

    async def carry_out(self, plan: Plan, uids: Mapping[str, str]) -> Done:
        """Everything the plan says, as far as it can be done; `uids` are those that it was made from."""
        tally = _Tally()
        await self._each(self._evict(one, uids, tally) for one in plan.evictions)
        await self._each(self._nominate(one, uids, tally) for one in plan.nominations)
        gangs: dict[tuple[str, str], list[Binding]] = defaultdict(list)
        for binding in plan.bindings:
            gangs[binding.namespace, binding.pod_group].append(binding)
        await self._each(self._gang(bindings, uids, tally) for bindings in gangs.values())
        return Done(tally.bound, tally.evicted, tally.nominated, tuple(sorted(tally.failures)))

    async def _each(self, work: Iterable[Awaitable[None]]) -> None:
        await asyncio.gather(*work)

    async def _gang(self, bindings: list[Binding], uids: Mapping[str, str], tally: _Tally) -> None:
        """The core first: extras are not worth having without it."""
        core = [one for one in bindings if one.role == "core"]
        good = await asyncio.gather(*(self._bind(one, uids, tally) for one in core))
        if all(good):
            await asyncio.gather(*(self._bind(one, uids, tally) for one in bindings if one.role != "core"))

    async def _bind(self, one: Binding, uids: Mapping[str, str], tally: _Tally) -> bool:
        key = f"{one.namespace}/{one.pod}"
        uid = uids.get(key, "")
        async with self._slots:
            if not self.fence.leading:
                tally.failures.append(f"{key}: not bound: another leader may be acting")
                return False
            self.inflight.bound(key, uid, one.node, self.clock())
            try:
                await self.cluster.bind(one.namespace, one.pod, uid, one.node)
            except ApiError as error:
                self._failed(key, error)
                tally.failures.append(f"{key}: not bound to {one.node}: {error.message}")
                return False
        tally.bound += 1
        return True

    async def _evict(self, one: Eviction, uids: Mapping[str, str], tally: _Tally) -> None:
        key = f"{one.namespace}/{one.pod}"
        uid = uids.get(key, "")
        async with self._slots:
            if not self.fence.leading:
                tally.failures.append(f"{key}: not evicted: another leader may be acting")
                return
            self.inflight.evicted(key, uid, self.clock())
            try:
                await self.cluster.evict(one.namespace, one.pod, uid)
            except ApiError as error:
                self._failed(key, error)
                if error.status != 404:
                    tally.failures.append(f"{key}: not evicted: {error.message}")
                return
        tally.evicted += 1

    async def _nominate(self, one: Binding, uids: Mapping[str, str], tally: _Tally) -> None:
        uid = uids.get(f"{one.namespace}/{one.pod}", "")
        patch = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": one.node}}
        async with self._slots:
            if not self.fence.leading:
                return
            try:
                await self.cluster.patch(resource_of(Pod), one.namespace, one.pod, patch, subresource="status")
            except ApiError as error:
                tally.failures.append(f"{one.namespace}/{one.pod}: no place noted: {error.message}")
                return
        tally.nominated += 1

    def _failed(self, key: str, error: ApiError) -> None:
        """A clear no did not happen; after a timeout or a server's failure nobody knows, so it still counts as sent."""
        if 400 <= error.status < 500 and error.status != 408:
            self.inflight.failed(key)

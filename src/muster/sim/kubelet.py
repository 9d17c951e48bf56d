"""Simulated kubelets: one loop for all nodes of a Cluster. Bound pods run, deleted ones go, and anything can be failed.

Rule 1: a kubelet only knows what it sees in the cluster; told twice, or told late, it does the same.
Rule 2: what is written, and when, is decided in `lives`.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from zlib import crc32

from muster.cluster.follow import Changed, Gone, follow
from muster.cluster.kinds import NODES, PODS
from muster.cluster.store import ApiError, Cluster, PatchType, Raw
from muster.sim.clock import Clock, RealClock
from muster.sim.lives import Habits, Step, ended, is_ready, next_step, readiness, started, taints

STRATEGIC: PatchType = "application/strategic-merge-patch+json"
AGAIN = timedelta(seconds=1)  # after a failure that is not an answer
Key = tuple[str, str]  # namespace and name; without a namespace: a node


class Kubelets:
    """Every node's kubelet. `run` until cancelled, or use it as `async with kubelets.running():`."""

    def __init__(self, cluster: Cluster, clock: Clock | None = None, habits: Habits = Habits()) -> None:  # noqa: B008
        self._cluster, self._clock, self._habits = cluster, clock or RealClock(), habits
        self._pods: dict[Key, Raw] = {}
        self._seen: dict[Key, tuple[str, datetime]] = {}  # in which state, and since when
        self._down: set[str] = set()
        self._due: list[tuple[datetime, int, Key]] = []
        self._numbers, self._woken = count(), asyncio.Event()

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as tasks:
            for loop in (self._follow_pods, self._follow_nodes, self._act):
                tasks.create_task(loop())

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Kubelets"]:
        """Running in the background, until it is left."""
        task = asyncio.create_task(self.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # what can be told

    async def fail_pod(self, namespace: str, name: str, message: str = "told to fail") -> None:
        """A pod's containers end with an error."""
        pod = await self._cluster.get(PODS, namespace, name)
        await self._report(pod, ended(pod, self._now(), "Failed", "Error", message))

    async def fail_node(self, name: str) -> None:
        """A node is NotReady and tainted, and its pods are lost with it. It stays so until `heal_node`."""
        self._down.add(name)
        await self._post(name, ready=False)
        for pod in (await self._cluster.list(PODS, fields=f"spec.nodeName={name}")).items:
            if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                await self._report(pod, ended(pod, self._now(), "Failed", "NodeLost", f"node {name} is lost"))

    async def heal_node(self, name: str) -> None:
        """A node is Ready again."""
        self._down.discard(name)
        await self._post(name, ready=True)
        for key, pod in self._pods.items():
            if pod["spec"].get("nodeName") == name:
                self._plan(key)

    # what is seen

    async def _follow_pods(self) -> None:
        async with aclosing(follow(self._cluster, PODS)) as news:
            async for one in news:
                match one:
                    case Changed(object=pod):
                        self._saw(pod)
                    case Gone(object=pod):
                        self._pods.pop(_key(pod), None)
                        self._seen.pop(_key(pod), None)
                    case _:
                        pass

    def _saw(self, pod: Raw) -> None:
        if not pod["spec"].get("nodeName"):
            return
        key, state = _key(pod), _state(pod)
        self._pods[key] = pod
        if self._seen.get(key, ("",))[0] != state:
            self._seen[key] = state, self._clock.now()
            self._plan(key)

    def _step(self, key: Key) -> Step | None:
        pod = self._pods.get(key)
        if pod is None or pod["spec"]["nodeName"] in self._down:
            return None
        return next_step(pod, self._seen[key][1], self._habits)

    def _plan(self, key: Key) -> None:
        step = self._step(key)
        if step is not None:
            self._push(step.due, key)

    def _push(self, due: datetime, key: Key) -> None:
        heapq.heappush(self._due, (due, next(self._numbers), key))
        self._woken.set()

    async def _follow_nodes(self) -> None:
        async with aclosing(follow(self._cluster, NODES)) as news:
            async for one in news:
                match one:
                    case Changed(object=node) if not is_ready(node) and node["metadata"]["name"] not in self._down:
                        self._push(self._clock.now(), ("", node["metadata"]["name"]))
                    case Gone(object=node):
                        self._down.discard(node["metadata"]["name"])
                    case _:
                        pass

    # what is done

    async def _act(self) -> None:
        while True:
            while self._due and self._due[0][0] <= self._clock.now():
                _, _, key = heapq.heappop(self._due)
                try:
                    await self._do(key)
                except ApiError:
                    self._push(self._clock.now() + AGAIN, key)
            self._woken.clear()
            await self._clock.wait(self._woken, self._due[0][0] if self._due else None)

    async def _do(self, key: Key) -> None:
        """The step that is due, if it still is. Without a namespace it is a node's, and that is to be Ready."""
        if not key[0]:
            await self._post(key[1], ready=key[1] not in self._down)
            return
        step = self._step(key)
        if step is None or step.due > self._clock.now():
            return
        pod = self._pods[key]
        match step.deed:
            case "start":
                await self._report(pod, started(pod, self._now(), _address(pod)))
            case "succeed":
                await self._report(pod, ended(pod, self._now(), "Succeeded"))
            case "vanish":
                await self._vanish(pod)

    async def _report(self, pod: Raw, status: Raw) -> None:
        """Write a pod's status, if it is still this pod."""
        namespace, name = _key(pod)
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        with _missing_is_fine():
            await self._cluster.patch(PODS, namespace, name, patch, STRATEGIC, "status", field_manager="kubelet")

    async def _vanish(self, pod: Raw) -> None:
        namespace, name = _key(pod)
        with _missing_is_fine():
            await self._cluster.delete(PODS, namespace, name, uid=pod["metadata"]["uid"], grace_seconds=0)

    async def _post(self, name: str, *, ready: bool) -> None:
        with _missing_is_fine():
            node = await self._cluster.get(NODES, "", name)
            wanted = taints(node, ready)
            if wanted != (node.get("spec", {}).get("taints") or []):
                await self._cluster.patch(
                    NODES, "", name, {"spec": {"taints": wanted or None}}, field_manager="kubelet"
                )
            status = {"status": {"conditions": [readiness(ready, self._now())]}}
            await self._cluster.patch(NODES, "", name, status, STRATEGIC, "status", field_manager="kubelet")

    def _now(self) -> str:
        return self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _missing_is_fine:  # noqa: N801 - reads as what it is
    """Somebody else was faster: the object is gone, or is another one."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        return isinstance(error, ApiError) and error.status in (404, 409)


def _key(raw: Raw) -> Key:
    return raw["metadata"].get("namespace", ""), raw["metadata"]["name"]


def _state(pod: Raw) -> str:
    """What the next step of a pod depends on."""
    metadata, status = pod["metadata"], pod.get("status", {})
    return f"{metadata['uid']} {metadata.get('deletionTimestamp')} {status.get('phase')} {status.get('startTime')}"


def _address(pod: Raw) -> str:
    """An address that stays with the pod; nothing listens there."""
    number = crc32(pod["metadata"]["uid"].encode())
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"

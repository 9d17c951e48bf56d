"""Simulated kubelets: one loop for all nodes of a Cluster. Bound pods run, deleted ones go, and anything can be failed.

Rule 1: a kubelet only knows what it sees in the cluster; told twice, or told late, it does the same.
Rule 2: what is written, and when, is decided in `lives`.
Rule 3: a node that says it is not Ready has no kubelet, and pods of a node that is gone go, too: in Kubernetes, its
garbage collector of pods sees to that.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Literal
from zlib import crc32

from muster.api.resources import NODES, PODS
from muster.embedded.kubelet.clock import Clock, RealClock
from muster.embedded.kubelet.pod_lifecycle import (
    KubeletTimings,
    Step,
    ended,
    failure,
    is_lost,
    is_ready,
    next_step,
    orphaned,
    readiness,
    started,
    taints,
    told_to_fail,
)
from muster.kube.cache.reflector import ListCompleted, ObjectDeleted, ObjectUpdated, Reflector
from muster.kube.cluster import Cluster, PatchType, Raw
from muster.kube.errors import ApiError

STRATEGIC: PatchType = "application/strategic-merge-patch+json"
AGAIN = timedelta(seconds=1)  # after a failure that is not an answer
DOUBT = timedelta(seconds=1)  # that the node of a pod does not exist: it may be heard of later than its pod
OVER = ("Succeeded", "Failed")
# by `fail_node`, by the annotation, by its own condition, or not for long: the annotation is gone
Cause = Literal["told", "annotated", "found", "healing"]
Key = tuple[str, str]  # namespace and name; without a namespace: a node


class Kubelets:
    """Every node's kubelet. `run` until cancelled, or use it as `async with kubelets.running():`."""

    def __init__(self, cluster: Cluster, clock: Clock | None = None, habits: KubeletTimings = KubeletTimings()) -> None:  # noqa: B008
        self._cluster, self._clock, self._habits = cluster, clock or RealClock(), habits
        self._pods: dict[Key, Raw] = {}
        self._seen: dict[Key, tuple[str, datetime]] = {}  # in which state, and since when
        self._nodes: set[str] = set()  # that exist
        self._all_nodes = False  # every one of them has been heard of
        self._down: dict[str, Cause] = {}  # nodes without a kubelet
        self._due: list[tuple[datetime, int, Key]] = []
        self._numbers, self._woken = count(), asyncio.Event()

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as tasks:
            for loop in (self._watch_pods, self._watch_nodes, self._act):
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
        self._down[name] = "told"
        await self._lose(name)

    async def heal_node(self, name: str) -> None:
        """A node is Ready again."""
        self._down.pop(name, None)
        await self._post(name, ready=True)
        self._look_again(name)

    # what is seen

    async def _watch_pods(self) -> None:
        async with aclosing(Reflector(self._cluster, PODS).events()) as news:
            async for one in news:
                match one:
                    case ObjectUpdated(object=pod):
                        self._saw(pod)
                    case ObjectDeleted(object=pod):
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
        if pod["spec"]["nodeName"] not in self._nodes:
            return Step(self._seen[key][1] + DOUBT, "collect") if self._all_nodes else None
        return next_step(pod, self._seen[key][1], self._habits)

    def _plan(self, key: Key) -> None:
        step = self._step(key)
        if step is not None:
            self._push(step.due, key)

    def _push(self, due: datetime, key: Key) -> None:
        heapq.heappush(self._due, (due, next(self._numbers), key))
        self._woken.set()

    async def _watch_nodes(self) -> None:
        async with aclosing(Reflector(self._cluster, NODES).events()) as news:
            async for one in news:
                match one:
                    case ObjectUpdated(object=node):
                        self._saw_node(node, node["metadata"]["name"])
                    case ObjectDeleted(object=node):
                        self._nodes.discard(node["metadata"]["name"])
                        self._down.pop(node["metadata"]["name"], None)
                        self._look_again(node["metadata"]["name"])
                    case ListCompleted():
                        self._is_synced()

    def _is_synced(self) -> None:
        """From now on, a node that was not heard of is not there."""
        if not self._all_nodes:
            self._all_nodes = True
            for key in self._pods:
                self._plan(key)

    def _saw_node(self, node: Raw, name: str) -> None:
        new = name not in self._nodes
        self._nodes.add(name)
        before = self._down.get(name)
        now = self._turned(node, before)
        if now is None:
            self._down.pop(name, None)
        else:
            self._down[name] = now
        if (now != before and now in ("annotated", "healing")) or (now is None and not is_ready(node)):
            self._push(self._clock.now(), ("", name))
        if now is None and (new or before is not None):
            self._look_again(name)

    def _turned(self, node: Raw, before: Cause | None) -> Cause | None:
        """Why a node is down now; None: it is not, or is new and about to come up."""
        if told_to_fail(node):
            return "annotated"
        match before:
            case "annotated":
                return "healing"
            case "told":
                return "told"
            case "healing":
                return None if is_ready(node) else "healing"
            case _:
                return "found" if is_lost(node) else None

    def _look_again(self, node: str) -> None:
        """Everything is different for the pods of a node."""
        if self._all_nodes:
            for key, pod in self._pods.items():
                if pod["spec"].get("nodeName") == node:
                    self._plan(key)

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
        """The step that is due, if it still is. Without a namespace it is a node's: it comes up, or is lost."""
        if not key[0]:
            await self._turn(key[1])
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
            case "fail":
                await self._report(pod, ended(pod, self._now(), "Failed", "Error", failure(pod)))
            case "vanish":
                await self._vanish(pod)
            case "collect":
                await self._collect(pod)

    async def _turn(self, node: str) -> None:
        match self._down.get(node):
            case None | "healing":
                await self._post(node, ready=True)
            case "annotated":
                await self._lose(node)
            case "told" | "found":
                pass

    async def _lose(self, node: str) -> None:
        await self._post(node, ready=False)
        for pod in (await self._cluster.list(PODS, fields=f"spec.nodeName={node}")).items:
            if pod.get("status", {}).get("phase") not in OVER:
                await self._report(pod, ended(pod, self._now(), "Failed", "NodeLost", f"node {node} is lost"))

    async def _collect(self, pod: Raw) -> None:
        """A pod whose node is gone; a node that is there will be heard of, and the pod looked at again."""
        try:
            await self._cluster.get(NODES, "", pod["spec"]["nodeName"])
        except ApiError as error:
            if error.status != 404:
                raise
            if pod.get("status", {}).get("phase") not in OVER:
                await self._report(pod, orphaned(pod, self._now()))
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
    told = (metadata["uid"], metadata.get("deletionTimestamp"), told_to_fail(pod))
    return " ".join(map(str, (*told, status.get("phase"), status.get("startTime"))))


def _address(pod: Raw) -> str:
    """An address that stays with the pod; nothing listens there."""
    number = crc32(pod["metadata"]["uid"].encode())
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"

"""Simulated kubelets: one loop for all nodes of a Cluster. Runs bound pods, removes deleted ones, and injects failures.

Rule 1: kubelets only know what they watch; a repeated or late event changes nothing.
Rule 2: what is written, and when, is decided in `pod_lifecycle`.
Rule 3: a node that is not Ready has no kubelet. Pods of a deleted node are removed, as PodGC does in Kubernetes.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Literal
from zlib import crc32

from muster.api.resources import NODES, PODS
from muster.embedded.kubelet.clock import Clock, RealClock
from muster.embedded.kubelet.pod_lifecycle import (
    DEFAULT_FAILURE,
    KubeletTimings,
    Step,
    failure_message,
    initializing_status,
    is_node_lost,
    is_node_ready,
    next_step,
    node_taints,
    orphaned_status,
    ready_condition,
    running_status,
    should_fail,
    terminal_status,
)
from muster.grove.startup import is_waiting
from muster.kube.cache.reflector import ListCompleted, ObjectDeleted, ObjectUpdated, Reflector
from muster.kube.cluster import Cluster, PatchType, Raw
from muster.kube.errors import ApiError, is_another_object

STRATEGIC: PatchType = "application/strategic-merge-patch+json"
AT_ONCE = 32  # pods and nodes
RETRY_DELAY = timedelta(seconds=1)
ORPHAN_DELAY = timedelta(seconds=1)  # before a pod is orphaned: its node may be watched later than the pod
TERMINAL_PHASES = ("Succeeded", "Failed")
# requested: by `fail_node`; annotated: by the annotation; observed: by its own Ready condition; recovering: the
# annotation was removed, and the node is not Ready yet
DownReason = Literal["requested", "annotated", "observed", "recovering"]
Key = tuple[str, str]  # namespace and name; an empty namespace: a node


class Kubelets:
    """The kubelets of all nodes. `run` until cancelled, or use `async with kubelets.running():`."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock | None = None,
        timings: KubeletTimings = KubeletTimings(),  # noqa: B008
    ) -> None:
        self._cluster, self._clock, self._timings = cluster, clock or RealClock(), timings
        self._pods: dict[Key, Raw] = {}
        self._states: dict[Key, tuple[str, datetime]] = {}  # the state of each pod, and since when
        self._nodes: set[str] = set()
        self._nodes_synced = False
        self._down: dict[str, DownReason] = {}  # nodes without a kubelet
        self._due: list[tuple[datetime, int, Key]] = []
        self._sequence, self._woken = count(), asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for loop in (self._watch_pods, self._watch_nodes, self._process_due):
                tasks.create_task(loop())

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Kubelets"]:
        """Run in the background while the context is open."""
        task = asyncio.create_task(self.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # failures on request

    async def fail_pod(self, namespace: str, name: str, message: str = DEFAULT_FAILURE) -> None:
        """Fail a pod: its containers end with an error."""
        pod = await self._cluster.get(PODS, namespace, name)
        await self._write_status(pod, terminal_status(pod, self._timestamp(), "Failed", "Error", message))

    async def fail_node(self, name: str) -> None:
        """Make a node NotReady and tainted, and fail its pods, until `heal_node`."""
        self._down[name] = "requested"
        await self._lose_node(name)

    async def heal_node(self, name: str) -> None:
        """Make a node Ready again."""
        self._down.pop(name, None)
        await self._write_readiness(name, ready=True)
        self._reschedule_pods(name)

    # watches

    async def _watch_pods(self) -> None:
        async with aclosing(Reflector(self._cluster, PODS).events()) as events:
            async for event in events:
                match event:
                    case ObjectUpdated(object=pod):
                        self._on_pod(pod)
                    case ObjectDeleted(object=pod):
                        self._pods.pop(_key(pod), None)
                        self._states.pop(_key(pod), None)
                    case _:
                        pass

    def _on_pod(self, pod: Raw) -> None:
        if not pod["spec"].get("nodeName"):
            return
        key, state = _key(pod), _state(pod)
        self._pods[key] = pod
        if self._states.get(key, ("",))[0] != state:
            self._states[key] = state, self._clock.now()
            self._schedule_step(key)

    def _next_step(self, key: Key) -> Step | None:
        pod = self._pods.get(key)
        if pod is None or pod["spec"]["nodeName"] in self._down:
            return None
        since = self._states[key][1]
        if pod["spec"]["nodeName"] not in self._nodes:
            return Step(since + ORPHAN_DELAY, "collect") if self._nodes_synced else None
        return next_step(pod, since, self._timings)

    def _schedule_step(self, key: Key) -> None:
        step = self._next_step(key)
        if step is not None:
            self._push(step.due, key)

    def _push(self, due: datetime, key: Key) -> None:
        heapq.heappush(self._due, (due, next(self._sequence), key))
        self._woken.set()

    async def _watch_nodes(self) -> None:
        async with aclosing(Reflector(self._cluster, NODES).events()) as events:
            async for event in events:
                match event:
                    case ObjectUpdated(object=node):
                        self._on_node(node, node["metadata"]["name"])
                    case ObjectDeleted(object=node):
                        self._nodes.discard(node["metadata"]["name"])
                        self._down.pop(node["metadata"]["name"], None)
                        self._reschedule_pods(node["metadata"]["name"])
                    case ListCompleted():
                        self._on_nodes_synced()

    def _on_nodes_synced(self) -> None:
        """From now on, a node that was not listed does not exist."""
        if not self._nodes_synced:
            self._nodes_synced = True
            for key in self._pods:
                self._schedule_step(key)

    def _on_node(self, node: Raw, name: str) -> None:
        is_new = name not in self._nodes
        self._nodes.add(name)
        before = self._down.get(name)
        reason = self._down_reason(node, before)
        if reason is None:
            self._down.pop(name, None)
        else:
            self._down[name] = reason
        is_due = reason != before and reason in ("annotated", "recovering")
        if is_due or (reason is None and not is_node_ready(node)):
            self._push(self._clock.now(), ("", name))
        if reason is None and (is_new or before is not None):
            self._reschedule_pods(name)

    def _down_reason(self, node: Raw, before: DownReason | None) -> DownReason | None:
        """Why a node is down; None: it is up, or new and about to become Ready."""
        if should_fail(node):
            return "annotated"
        match before:
            case "annotated":
                return "recovering"
            case "requested":
                return "requested"
            case "recovering":
                return None if is_node_ready(node) else "recovering"
            case _:
                return "observed" if is_node_lost(node) else None

    def _reschedule_pods(self, node: str) -> None:
        """Schedule the next steps of a node's pods again."""
        if self._nodes_synced:
            for key, pod in self._pods.items():
                if pod["spec"].get("nodeName") == node:
                    self._schedule_step(key)

    # actions

    async def _process_due(self) -> None:
        while True:
            while keys := self._pop_due():
                await asyncio.gather(*map(self._attempt, keys))
            self._woken.clear()
            await self._clock.wait(self._woken, self._due[0][0] if self._due else None)

    def _pop_due(self) -> list[Key]:
        """What is due now, as many as are processed at once: nodes have a kubelet each."""
        keys: dict[Key, None] = {}
        while self._due and self._due[0][0] <= self._clock.now() and len(keys) < AT_ONCE:
            keys[heapq.heappop(self._due)[2]] = None
        return list(keys)

    async def _attempt(self, key: Key) -> None:
        try:
            await self._process(key)
        except ApiError:
            self._push(self._clock.now() + RETRY_DELAY, key)

    async def _process(self, key: Key) -> None:
        """Run the step of a pod, if it is still due; with an empty namespace, write the readiness of a node."""
        if not key[0]:
            await self._process_node(key[1])
            return
        step = self._next_step(key)
        if step is None or step.due > self._clock.now():
            return
        pod, now = self._pods[key], self._timestamp()
        match step.action:
            case "initialize":
                await self._write_status(pod, initializing_status(pod, now, _address(pod)))
            case "start":
                await self._write_status(pod, running_status(pod, now, _address(pod)))
            case "succeed":
                await self._write_status(pod, terminal_status(pod, now, "Succeeded"))
            case "fail":
                await self._write_status(pod, terminal_status(pod, now, "Failed", "Error", failure_message(pod)))
            case "remove":
                await self._remove_pod(pod)
            case "collect":
                await self._collect_orphan(pod)

    async def _process_node(self, node: str) -> None:
        match self._down.get(node):
            case None | "recovering":
                await self._write_readiness(node, ready=True)
            case "annotated":
                await self._lose_node(node)
            case "requested" | "observed":
                pass

    async def _lose_node(self, node: str) -> None:
        await self._write_readiness(node, ready=False)
        for pod in (await self._cluster.list(PODS, fields=f"spec.nodeName={node}")).items:
            if pod.get("status", {}).get("phase") not in TERMINAL_PHASES:
                message = f"node {node} is lost"
                status = terminal_status(pod, self._timestamp(), "Failed", "NodeLost", message)
                await self._write_status(pod, status)

    async def _collect_orphan(self, pod: Raw) -> None:
        """Remove a pod whose node does not exist; if the node does, its event will reschedule the pod."""
        try:
            await self._cluster.get(NODES, "", pod["spec"]["nodeName"])
        except ApiError as error:
            if error.status != 404:
                raise
            if pod.get("status", {}).get("phase") not in TERMINAL_PHASES:
                await self._write_status(pod, orphaned_status(pod, self._timestamp()))
            await self._remove_pod(pod)

    async def _write_status(self, pod: Raw, status: Raw) -> None:
        """Patch the status of a pod; its uid is a precondition."""
        namespace, name = _key(pod)
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        with _ignore_missing():
            await self._cluster.patch(PODS, namespace, name, patch, STRATEGIC, "status", field_manager="kubelet")

    async def _remove_pod(self, pod: Raw) -> None:
        namespace, name = _key(pod)
        with _ignore_missing():
            await self._cluster.delete(PODS, namespace, name, uid=pod["metadata"]["uid"], grace_seconds=0)

    async def _write_readiness(self, name: str, *, ready: bool) -> None:
        with _ignore_missing():
            node = await self._cluster.get(NODES, "", name)
            taints = node_taints(node, ready)
            if taints != (node.get("spec", {}).get("taints") or []):
                patch = {"spec": {"taints": taints or None}}
                await self._cluster.patch(NODES, "", name, patch, field_manager="kubelet")
            status = {"status": {"conditions": [ready_condition(ready, self._timestamp())]}}
            await self._cluster.patch(NODES, "", name, status, STRATEGIC, "status", field_manager="kubelet")

    def _timestamp(self) -> str:
        return self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def _ignore_missing() -> Iterator[None]:
    """Ignore writes to an object that is gone or was replaced by another one; 409: its deletion found another uid."""
    try:
        yield
    except ApiError as error:
        if error.status != 409 and not is_another_object(error):
            raise


def _key(raw: Raw) -> Key:
    return raw["metadata"].get("namespace", ""), raw["metadata"]["name"]


def _state(pod: Raw) -> str:
    """What the next step of a pod depends on."""
    metadata, status = pod["metadata"], pod.get("status", {})
    parts = (metadata["uid"], metadata.get("deletionTimestamp"), should_fail(pod), is_waiting(pod))
    return " ".join(map(str, (*parts, status.get("phase"), status.get("startTime"))))


def _address(pod: Raw) -> str:
    """A stable pod IP; nothing listens there."""
    number = crc32(pod["metadata"]["uid"].encode())
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"

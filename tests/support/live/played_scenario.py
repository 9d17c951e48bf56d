"""A scenario of the simulator on the embedded cluster: the same arrivals and failures, with everything else live.

API server, reflectors, cache, scheduler, binder, evictor, status writer and kubelets are the real ones, in virtual
time. What is played here is what belongs to workloads: gangs are submitted, pods that are gone are replaced, and a gang
is deleted when its core has run for its duration. Shares no code with the engine of the simulator.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from muster.api.decoding import encode
from muster.api.resources import NAMESPACES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, TOPOLOGIES, Resource
from muster.config.settings import Scheduling
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.kubelet.kubelet import Kubelets
from muster.embedded.kubelet.pod_lifecycle import KubeletTimings
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cache.reflector import ObjectDeleted, ObjectUpdated, Reflector
from muster.kube.cluster import Raw
from muster.planning.decision import CyclePlan
from muster.scheduler.loop import Scheduler
from muster.scheduler.observer import NoObserver
from muster.simulator.scenario.arrivals import plan_arrivals
from muster.simulator.scenario.cluster_objects import build_objects
from muster.simulator.scenario.durations import to_ms
from muster.simulator.scenario.gang_template import NAMESPACE, GangArrival
from muster.simulator.scenario.scheduler_policy import policy_of, times_of
from muster.simulator.scenario.types import Scenario
from tests.support.live.objects import enough, gang_of, leaf_of, placed
from tests.support.live.virtual_loop import LoopClock

PROMPT = Scheduling(debounce_milliseconds=0, longest_debounce_milliseconds=0, idle_cycle_seconds=5)
STORED_FIRST = {
    "priority_classes": PRIORITY_CLASSES,
    "queues": QUEUES,
    "topologies": TOPOLOGIES,
    "nodes": NODES,
}


class Decided(Struct, frozen=True):
    """What one cycle decided."""

    at_seconds: float
    bound: tuple[tuple[str, str], ...]  # pod and node
    evicted: tuple[tuple[str, str, str], ...]  # pod, reason, and where its replacement goes


def decided(at_seconds: float, plan: CyclePlan) -> Decided | None:
    """The decisions of a plan; None: it has none."""
    if not plan.bindings and not plan.evictions:
        return None
    bound = tuple(sorted((one.key, one.node) for one in plan.bindings))
    return Decided(at_seconds, bound, tuple(sorted((one.key, one.reason, one.move_to) for one in plan.evictions)))


class PlayedGang(Struct):
    """A gang of the scenario on the live cluster."""

    arrival: GangArrival
    spec: Raw
    wait_seconds: float | None = None  # until its minimums were bound for the first time
    finish: asyncio.TimerHandle | None = None  # set while it works
    finished_seconds: float | None = None


class _PlanRecorder(NoObserver):
    def __init__(self) -> None:
        self.plans: list[tuple[float, CyclePlan]] = []
        self._loop = asyncio.get_running_loop()

    def cycle(self, plan: CyclePlan, seconds: float) -> None:  # noqa: ARG002
        self.plans.append((self._loop.time(), plan))


class PlayedScenario:
    """One scenario while it is played."""

    def __init__(self, scenario: Scenario, folder: Path = Path()) -> None:
        self._scenario, self._clock, self._times = scenario, LoopClock(), times_of(scenario)
        self._loop = asyncio.get_running_loop()
        uids = count(1)
        store = ClusterStore(clock=self._clock.now, new_uid=lambda: f"00000000-0000-4000-8000-{next(uids):012d}")
        self.memory = MemoryCluster(store)
        self._observer = _PlanRecorder()
        self._objects = build_objects(scenario, folder)
        self._arrivals = list(plan_arrivals(scenario, folder, self._objects))
        self._create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for field, resource in STORED_FIRST.items():
            for item in getattr(self._objects, field):
                self._create(resource, encode(item))
        timings = KubeletTimings(self._times.start_ms / 1000, self._times.stop_ms / 1000)
        self._kubelets = Kubelets(self.memory, self._clock, timings)
        self._replacements = count(1)
        self._pods: dict[str, Raw] = {}
        self.gangs: dict[str, PlayedGang] = {}

    def _create(self, resource: Resource, raw: Raw) -> None:
        self.memory.store.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **raw})

    @property
    def decisions(self) -> list[Decided]:
        """Of every cycle that decided something."""
        return [one for at, plan in self._observer.plans if (one := decided(round(at, 3), plan)) is not None]

    async def play(self) -> None:
        """Until the horizon."""
        policy = policy_of(self._scenario)
        scheduler = Scheduler(
            self.memory, PROMPT, None, self._loop.time, self._clock.now, self._observer, policy=policy
        )
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(work) for work in (scheduler.run(), self._kubelets.run(), self._watch_pods())]
            while not scheduler.ready:
                await asyncio.sleep(0)
            self._schedule()
            assert self._times.horizon_ms is not None
            await asyncio.sleep(self._times.horizon_ms / 1000)
            scheduler.stop()
            for task in running:
                task.cancel()

    def _schedule(self) -> None:
        """All arrivals, failures and drains as timers."""
        begin = self._loop.time()
        for arrival in self._arrivals:
            self._loop.call_at(begin + arrival.at_ms / 1000, self._submit, arrival)
        for at_seconds, change, node in self._node_changes():
            self._loop.call_at(begin + at_seconds, self._change_node, change, node)

    def _node_changes(self) -> Iterator[tuple[float, str, str]]:
        kinds = ((self._scenario.failures, ("fail", "heal")), (self._scenario.drains, ("drain", "undrain")))
        for changes, (begin, end) in kinds:
            for change in changes:
                for node in change.nodes:
                    yield to_ms(change.at) / 1000, begin, node
                    if change.lasts is not None:
                        yield (to_ms(change.at) + to_ms(change.lasts)) / 1000, end, node

    def _change_node(self, change: str, node: str) -> None:
        work: Any = {
            "fail": self._kubelets.fail_node,
            "heal": self._kubelets.heal_node,
            "drain": self._drain,
            "undrain": self._undrain,
        }[change](node)
        self._loop.create_task(work)

    async def _drain(self, node: str) -> None:
        await self.memory.patch(NODES, "", node, {"spec": {"unschedulable": True}})
        for pod in self.memory.store.list(PODS, fields=f"spec.nodeName={node}").items:
            await self.memory.delete(PODS, NAMESPACE, pod["metadata"]["name"])

    async def _undrain(self, node: str) -> None:
        await self.memory.patch(NODES, "", node, {"spec": {"unschedulable": None}})

    # workloads ------------------------------------------------------------------------------------------------------

    def _submit(self, arrival: GangArrival) -> None:
        group = encode(arrival.template.pod_group(arrival.name, self._clock.now()))
        self.gangs[arrival.name] = PlayedGang(arrival, group["spec"])
        self._create(POD_GROUPS, {"metadata": _named(group), "spec": group["spec"]})
        for pod in arrival.template.make_pods(arrival.name, self._clock.now()):
            raw = encode(replace(pod, spec=pod.spec))
            self._create(PODS, {"metadata": _named(raw), "spec": _with_image(raw["spec"])})

    async def _watch_pods(self) -> None:
        async for event in Reflector(self.memory, PODS).events():
            match event:
                case ObjectUpdated(object=pod):
                    self._pods[pod["metadata"]["name"]] = pod
                    if pod.get("status", {}).get("phase") == "Failed":
                        await self.memory.delete(PODS, NAMESPACE, pod["metadata"]["name"], grace_seconds=0)
                    self._settle(gang_of(pod))
                case ObjectDeleted(object=pod):
                    del self._pods[pod["metadata"]["name"]]
                    self._replace(pod)
                    self._settle(gang_of(pod))
                case _:
                    pass

    def _replace(self, old: Raw) -> None:
        if self.gangs[gang_of(old)].finished_seconds is not None:
            return
        meta = old["metadata"]
        base = meta["name"].partition("-r-")[0]
        new = {"name": f"{base}-r-{next(self._replacements)}", **{name: meta[name] for name in _KEPT if name in meta}}
        self._create(PODS, {"metadata": new, "spec": {k: v for k, v in old["spec"].items() if k != "nodeName"}})

    def _settle(self, name: str) -> None:
        """Whether a gang is bound for the first time, begins to work, or is interrupted."""
        gang = self.gangs[name]
        if gang.finished_seconds is not None:
            return
        pods = [pod for pod in self._pods.values() if gang_of(pod) == name and placed(pod)]
        if gang.wait_seconds is None and enough(gang.spec, Counter(map(leaf_of, pods))):
            gang.wait_seconds = round(self._loop.time() - gang.arrival.at_ms / 1000, 3)
        running = Counter(leaf_of(pod) for pod in pods if pod.get("status", {}).get("phase") == "Running")
        works = enough(gang.spec, running)
        if works and gang.finish is None and gang.arrival.duration_ms is not None:
            gang.finish = self._loop.call_later(gang.arrival.duration_ms / 1000, self._finish, gang)
        if not works and gang.finish is not None:
            gang.finish.cancel()
            gang.finish = None

    def _finish(self, gang: PlayedGang) -> None:
        gang.finished_seconds, name = round(self._loop.time(), 3), gang.arrival.name
        self.memory.store.delete(POD_GROUPS, NAMESPACE, name)
        for pod in [pod for pod in self._pods.values() if gang_of(pod) == name]:
            self.memory.store.delete(PODS, NAMESPACE, pod["metadata"]["name"], grace_seconds=0)


_KEPT = ("namespace", "labels", "annotations")


def _named(raw: Raw) -> Raw:
    """Metadata of an object to create."""
    return {name: raw["metadata"][name] for name in ("name", *_KEPT) if name in raw["metadata"]}


def _with_image(spec: Raw) -> Raw:
    return spec | {"containers": [container | {"image": "x:1"} for container in spec["containers"]]}

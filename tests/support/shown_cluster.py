"""A dashboard's model on clusters of manifests: what a scheduler would report to it, cycle by cycle."""

from collections.abc import Iterable
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import msgspec

from muster.api.objects import WATCHED_KINDS
from muster.api.resources import Resource
from muster.dashboard.messages import Messages
from muster.dashboard.model import DashboardModel
from muster.kube.cache.cache import Cache
from muster.kube.cache.reflector import ObjectDeleted, ObjectUpdated
from muster.model.snapshot import Snapshot
from muster.planning.cycle import plan as make_plan
from muster.planning.decision import CyclePlan
from muster.planning.policy import Policy
from muster.scheduler.apply.apply_result import ApplyResult
from muster.scheduler.cycle_runner import FinishedCycle
from tests.support.factories import Raw
from tests.support.random_cluster import RandomCluster

RESOURCES = {resource.kind: resource for resource in WATCHED_KINDS}
Identity = tuple[str, str, str]
NAMESPACES = ("amber", "birch", "cedar")
MIB = 2**20


class ShownCluster:
    """A cache, a model that listens to it, and a planner."""

    def __init__(self, *raws: Raw, history_bytes: int = 64 * MIB) -> None:
        self.cache, self.policy, self.is_leading = Cache(), Policy(), True
        self.moment = datetime(2026, 6, 1, 12, tzinfo=UTC)
        self.model = DashboardModel(self.cache, self.policy, history_bytes, lambda: self.is_leading, self.now)
        self.messages = Messages(self.model)
        self.cache.pod_listeners.append(self.model.pod_changed)
        self.raws: dict[Identity, Raw] = {}
        self.snapshot: Snapshot | None = None
        self.plan = CyclePlan()
        self.cycles = 0
        self.set(raws)

    def now(self) -> datetime:
        return self.moment

    def set(self, raws: Iterable[Raw]) -> None:
        """These objects, and no others."""
        after = {identity_of(raw): deepcopy(raw) for raw in raws if raw["kind"] in RESOURCES}
        for key in self.raws.keys() - after.keys():
            self._report(key[0], ObjectDeleted(self.raws[key]))
        for key, raw in after.items():
            if self.raws.get(key) != raw:
                self._report(key[0], ObjectUpdated(raw))
        self.raws = after

    def put(self, *raws: Raw) -> None:
        self.set([*{**self.raws, **{identity_of(raw): raw for raw in raws}}.values()])

    def _report(self, kind: str, event: ObjectUpdated | ObjectDeleted) -> None:
        resource: Resource = RESOURCES[kind]
        self.cache.handle(WATCHED_KINDS[resource], event)
        self.model.object_changed(resource, event)

    async def cycle(self) -> CyclePlan:
        """A plan is made, reported and shown; nothing is bound."""
        plan = self.finish_cycle()
        await self.model.update()
        return plan

    def finish_cycle(self) -> CyclePlan:
        """A plan is made and reported; nothing is bound."""
        self.snapshot = self.cache.snapshot(self.moment)
        self.plan = make_plan(self.snapshot, self.policy)
        self.model.cycle_finished(self.finished())
        return self.plan

    def finished(self) -> FinishedCycle:
        """The last plan, as that of another cycle."""
        assert self.snapshot is not None
        self.cycles += 1
        return FinishedCycle(self.cycles, self.moment, 0.01, self.snapshot, self.plan, ApplyResult())

    def state(self, *namespaces: str, cycle: int | None = None) -> Any:
        visible = frozenset(namespaces) if namespaces else None
        return msgspec.json.decode(self.messages.state(visible, cycle))


class RandomShown(ShownCluster):
    """A random cluster, with gangs in several namespaces."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = RandomCluster(seed)

    async def cycle(self) -> CyclePlan:
        cycle = self.random.cycle()
        self.moment = cycle.now
        self.set(map(spread, deepcopy(cycle.manifests)))
        return await super().cycle()


def identity_of(raw: Raw) -> Identity:
    return raw["kind"], raw["metadata"].get("namespace", ""), raw["metadata"]["name"]


def spread(raw: Raw) -> Raw:
    """The object in the namespace of its gang."""
    meta = raw["metadata"]
    if "namespace" in meta:
        gang = meta.get("annotations", {}).get("pod-group-name", meta["name"])
        meta["namespace"] = NAMESPACES[sum(map(ord, gang)) % len(NAMESPACES)]
    return raw


def decoded_event(event: bytes) -> tuple[str, str, Any]:
    """Name, id and data of one event of a stream."""
    fields = dict(line.split(b": ", 1) for line in event.rstrip(b"\n").split(b"\n"))
    return fields[b"event"].decode(), fields.get(b"id", b"").decode(), msgspec.json.decode(fields[b"data"])


def apply_event(state: Any, event: bytes) -> Any:
    """What a page has after an event."""
    name, _, data = decoded_event(event)
    if name == "state":
        return data
    if name == "beat":
        return state
    after = {**state, **{key: data[key] for key in ("seq", "cycle", "at", "leads")}}
    for table in ("nodes", "gangs"):
        rows = {**state[table], **data[table]}
        after[table] = {key: row for key, row in rows.items() if row is not None}
    for section in ("resources", "topologies", "queues", "waiting"):
        after[section] = data.get(section, state[section])
    after["cycles"] = [*state["cycles"], *data["cycles"]][-100:]
    return after

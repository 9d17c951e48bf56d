"""PodGangs with their cliques, pods and nodes in memory, and their controller run on events alone.

Rule 1: only gangs that a change concerns are reconciled, as `related` and owners say: there is no polling. Rule 2: what
happens in between, the binding of a pod or its end, is one method each.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from muster.api import names
from muster.api.resources import (
    NODES,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    TOPOLOGIES,
    Resource,
)
from muster.grove.gangs.gang_controller import CONTROLLER
from muster.workloads.conditions import find_condition, timestamp
from muster.workloads.merge_patch import merged
from muster.workloads.types import Action, Controller, Create, Key, Raw, Reconciliation, Remove, Update, related_keys

START = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
NAMESPACE = "team"
MOST_STEPS = 20_000
RACK, ZONE = "example.com/rack", "example.com/zone"


class GangScene:
    """See above."""

    def __init__(self, controller: Controller = CONTROLLER) -> None:
        self.controller, self.now = controller, START
        self.objects: dict[Key, Raw] = {}
        self.performed: list[Action] = []
        self.reconciled: list[str] = []  # names of gangs, in order
        self.observer: list[Any] = []  # called after every action
        self.writes_statuses = True  # no: as if all of them were late
        self._children: dict[tuple[str, Resource], dict[Key, None]] = {}
        self._keys: dict[str, Key] = {}  # by uid
        self._queue: deque[Key] = deque()
        self._again: dict[Key, datetime] = {}
        self._uids = count(1)

    # Children

    def of(self, owner: Raw, resource: Resource) -> Sequence[Raw]:
        return [self.objects[key] for key in self._children.get((owner["metadata"]["uid"], resource), ())]

    def get(self, resource: Resource, namespace: str, name: str) -> Raw | None:
        return self.objects.get((resource, namespace, name))

    def orphans(self, resource: Resource) -> list[Raw]:
        return [raw for raw in self.all_of(resource) if (uid := _controller(raw)) and uid not in self._keys]

    def every(self, resource: Resource) -> list[Raw]:
        return self.all_of(resource)

    # objects

    def put(self, resource: Resource, raw: Raw) -> Raw:
        """Stores an object, and remembers which gangs that concerns."""
        namespace = NAMESPACE if resource.namespaced else ""
        key = (resource, namespace, raw["metadata"]["name"])
        old = self.objects.get(key, {"metadata": {"uid": f"uid-{next(self._uids)}", "generation": 0}})
        generation = old["metadata"]["generation"] + (old.get("spec") != raw.get("spec"))
        created = old["metadata"].get("creationTimestamp", timestamp(self.now))
        metadata = {"uid": old["metadata"]["uid"], "creationTimestamp": created, **raw["metadata"]}
        metadata |= {"namespace": namespace, "generation": generation}
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        self.objects[key] = new = kind | raw | {"metadata": metadata}
        self._keys[metadata["uid"]] = key
        if uid := _controller(new):
            self._children.setdefault((uid, resource), {})[key] = None
        self._enqueue(key, new)
        return new

    def remove(self, resource: Resource, name: str) -> None:
        key = (resource, NAMESPACE if resource.namespaced else "", name)
        raw = self.objects.pop(key)
        self._keys.pop(raw["metadata"]["uid"], None)
        self._children.get((_controller(raw), resource), {}).pop(key, None)
        self._enqueue(key, raw)

    def change(self, resource: Resource, name: str, patch: Raw) -> None:
        self.put(resource, merged(self.named(resource, name), patch))

    def named(self, resource: Resource, name: str) -> Raw:
        return self.objects[resource, NAMESPACE if resource.namespaced else "", name]

    # what a set consists of

    def podcliqueset(self, groups: Mapping[str, tuple[int, int]] | None = None, **metadata: Any) -> Raw:
        """A set `w`; `groups` are replicas and minimum of scaling groups by name."""
        sizes = groups or {}
        template = {"podCliqueScalingGroups": [{"name": name} for name in sizes]}
        for name, (replicas, minimum) in sizes.items():
            spec = {"replicas": replicas, "minAvailable": minimum, "cliqueNames": [name]}
            self.put(POD_CLIQUE_SCALING_GROUPS, {"metadata": {"name": f"w-0-{name}"}, "spec": spec})
        return self.put(POD_CLIQUE_SETS, {"metadata": {"name": "w", **metadata}, "spec": {"template": template}})

    def gang(self, name: str, cliques: Mapping[str, int], *, base: str = "", **spec: Any) -> Raw:
        """A gang with the minimums of its cliques, and these cliques with as many replicas."""
        labels = {names.PART_OF: "w", names.SET_REPLICA: "0"} | ({names.BASE_POD_GANG: base} if base else {})
        for clique, minimum in cliques.items():
            self.clique(clique, name, minimum, base)
        notes = {"annotations": {names.TOPOLOGY_NAME: "topo"}} if _is_constrained(spec) else {}
        podgroups = [{"name": clique, "podReferences": [], "minReplicas": n} for clique, n in cliques.items()]
        constraints = spec.pop("podgroups", {})
        podgroups = [entry | constraints.get(entry["name"], {}) for entry in podgroups]
        metadata = {"name": name, "labels": labels, **notes, "ownerReferences": [_owner(POD_CLIQUE_SETS, "w", "set")]}
        return self.put(POD_GANGS, {"metadata": metadata, "spec": {"podgroups": podgroups, **spec}})

    def clique(self, name: str, gang: str, replicas: int, base: str = "") -> Raw:
        labels = {names.PART_OF: "w", names.SET_REPLICA: "0", names.POD_GANG: gang} | (
            {names.BASE_POD_GANG: base} if base else {}
        )
        spec = {"replicas": replicas, "podSpec": {"schedulerName": "muster"}}
        return self.put(POD_CLIQUES, {"metadata": {"name": name, "labels": labels}, "spec": spec})

    def pods(self, clique: str, *numbers: int, gated: bool = True, **spec: Any) -> list[str]:
        """Pods of a clique as its controller makes them; returns their names."""
        owner = self.named(POD_CLIQUES, clique)
        labels = owner["metadata"]["labels"]
        gates = {"schedulingGates": [{"name": names.GANG_GATE}]} if gated else {}
        made = [f"{clique}-{number}" for number in numbers]
        for name in made:
            metadata = {
                "name": name,
                "labels": {**labels, names.POD_CLIQUE: clique, names.SUBGROUP: clique},
                "annotations": {names.POD_GROUP: labels[names.POD_GANG]},
                "ownerReferences": [_owner(POD_CLIQUES, clique, owner["metadata"]["uid"])],
                "creationTimestamp": timestamp(self.now),
            }
            pod_spec = {"schedulerName": "muster", **gates, **spec}
            self.put(PODS, {"metadata": metadata, "spec": pod_spec, "status": {"phase": "Pending"}})
        return made

    def node(self, name: str, rack: str = "r1", zone: str = "z1") -> None:
        self.put(NODES, {"metadata": {"name": name, "labels": {RACK: rack, ZONE: zone}}})

    def topology(self, name: str = "topo") -> None:
        levels = [{"nodeLabel": label} for label in (ZONE, RACK)]
        self.put(TOPOLOGIES, {"metadata": {"name": name}, "spec": {"levels": levels}})

    # what happens to pods

    def bind(self, pods: Iterable[str], node: str = "n1", *, ready: bool = False) -> None:
        for name in pods:
            self.change(PODS, name, {"spec": {"nodeName": node}})
            if ready:
                self.set_ready(name)

    def set_ready(self, name: str, status: str = "True") -> None:
        conditions = [{"type": "Ready", "status": status, "lastTransitionTime": timestamp(self.now)}]
        self.change(PODS, name, {"status": {"phase": "Running", "conditions": conditions}})

    def terminate(self, name: str, **condition: str) -> None:
        conditions = [{"type": "DisruptionTarget", "status": "True", **condition}] if condition else []
        status = {"status": {"conditions": conditions}} if conditions else {}
        self.change(PODS, name, {"metadata": {"deletionTimestamp": timestamp(self.now)}, **status})

    # reading

    def gated(self) -> list[str]:
        """Pods that the gate of their gang holds."""
        return sorted(raw["metadata"]["name"] for raw in self.all_of(PODS) if names.GANG_GATE in _gates(raw))

    def all_of(self, resource: Resource) -> list[Raw]:
        return [raw for key, raw in self.objects.items() if key[0] == resource]

    def condition(self, gang: str, kind: str) -> tuple[str, str, str]:
        """Status, reason and message."""
        raw = find_condition(self.named(POD_GANGS, gang), kind) or {}
        return raw.get("status", ""), raw.get("reason", ""), raw.get("message", "")

    def pod_group(self, gang: str) -> Raw | None:
        return self.get(POD_GROUPS, NAMESPACE, gang)

    # the controller

    def settle(self) -> None:
        """Reconciles gangs until no change concerns one."""
        for _ in range(MOST_STEPS):
            if not self._queue:
                return
            key = self._queue.popleft()
            if key in self.objects:
                self.reconcile(key)
        raise AssertionError("the controller does not settle")

    def is_enqueued(self, gang: str) -> bool:
        """Whether a change concerns a gang that was not reconciled since."""
        return (POD_GANGS, NAMESPACE, gang) in self._queue

    def forget_events(self) -> None:
        """No change concerns any gang."""
        self._queue.clear()

    def advance(self, seconds: float) -> None:
        """Time passes; gangs whose time has come are reconciled."""
        self.now += timedelta(seconds=seconds)
        due = [key for key, at in self._again.items() if at <= self.now]
        for key in due:
            del self._again[key]
            self._queue.append(key)
        self.settle()

    def reconcile(self, key: Key) -> Reconciliation:
        gang = self.objects[key]
        self.reconciled.append(key[2])
        reconciliation = self.controller.reconcile(gang, self, self.now)
        for action in reconciliation.actions:
            self._perform(action)
        status, current = reconciliation.status, self.objects.get(key)
        if self.writes_statuses and current and status is not None and status != current.get("status"):
            self.put(key[0], {**current, "status": status})
        if (after := reconciliation.again_after_seconds) is not None:
            self._again[key] = self.now + timedelta(seconds=after)
        return reconciliation

    def _perform(self, action: Action) -> None:
        self.performed.append(action)
        match action:
            case Create(resource=resource, object=raw):
                assert (resource, NAMESPACE, raw["metadata"]["name"]) not in self.objects
                self.put(resource, raw)
            case Update(resource=resource, name=name, patch=patch):
                self.change(resource, name, patch)
            case Remove(resource=resource, name=name):
                self.remove(resource, name)
        for observe in self.observer:
            observe()

    def _enqueue(self, key: Key, raw: Raw) -> None:
        concerned = {key} if key[0] == POD_GANGS else set()
        owner = self._keys.get(_controller(raw))
        if owner is not None and key[0] in self.controller.children:
            concerned.add(owner)
        concerned |= {*related_keys([self.controller], key[0], raw, self)}
        self._queue.extend(one for one in sorted(concerned, key=str) if one not in self._queue)


def packed(required: str = "", preferred: str = "") -> Raw:
    """A `topologyConstraint` of a PodGang."""
    levels = {"required": required, "preferred": preferred}
    return {"topologyConstraint": {"packConstraint": {name: level for name, level in levels.items() if level}}}


def _is_constrained(spec: Raw) -> bool:
    return "topologyConstraint" in str(spec)


def _owner(resource: Resource, name: str, uid: str) -> Raw:
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**kind, "name": name, "uid": uid, "controller": True}


def _controller(raw: Raw) -> str:
    owners = raw["metadata"].get("ownerReferences", ())
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def _gates(pod: Raw) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]

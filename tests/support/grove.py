"""Grove's controllers in memory, run to a fixpoint as the live runtime runs them: events, owners, time, deletion.

Rule 1: time moves only in `advance`. Rule 2: pods change only by `bind`, `ready`, `fail` and `delete`. Rule 3: cliques
without a controller of their own say what `report` gives them: so sets and groups are tested without pods.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from muster.api import names
from muster.api.fields import integer, text, texts
from muster.api.resources import NODES, POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, PODS, Resource
from muster.grove.health import BREACHED, CLIQUE_SCHEDULED, HealthCondition, observed_healthy, with_conditions
from muster.grove.table import GROVE
from muster.kube.controller.status_queue import pruned
from muster.workloads.conditions import timestamp
from muster.workloads.expansion import controller_uid
from muster.workloads.merge_patch import merged
from muster.workloads.types import Action, Controller, Create, Key, OwnerEvent, Raw, Remove, Update, related_keys

STRUCTURE = {kind: one for kind, one in GROVE.items() if kind not in (POD_CLIQUES, POD_GANGS)}  # without pods
START = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE = "team"
MOST_ROUNDS = 100_000
CONTAINER: Raw = {"name": "main", "image": "image:1"}


def clique(name: str, replicas: int = 1, minimum: int | None = None, **template: Any) -> Raw:
    """A clique of a template; its role is its name."""
    spec = {"roleName": name, "podSpec": {"containers": [CONTAINER]}, "replicas": replicas, **template.pop("spec", {})}
    return {"name": name, "spec": spec if minimum is None else {**spec, "minAvailable": minimum}, **template}


def group(name: str, *cliques: str, replicas: int = 1, minimum: int = 1, **template: Any) -> Raw:
    """A scaling group of a template."""
    return {"name": name, "cliqueNames": list(cliques), "replicas": replicas, "minAvailable": minimum, **template}


def pod_clique_set(*cliques: Raw, groups: Sequence[Raw] = (), replicas: int = 1, name: str = "w", **fields: Any) -> Raw:
    """A set; `fields` are those of its template, `update_strategy` and `metadata` aside."""
    strategy = fields.pop("update_strategy", None)
    metadata = {"name": name, "namespace": NAMESPACE, **fields.pop("metadata", {})}
    template = {"cliques": list(cliques), **fields}
    if groups:
        template["podCliqueScalingGroups"] = list(groups)
    spec: Raw = {"replicas": replicas, "template": template}
    if strategy:
        spec["updateStrategy"] = {"type": strategy}
    kind = {"apiVersion": POD_CLIQUE_SETS.api_version, "kind": POD_CLIQUE_SETS.kind}
    return {**kind, "metadata": metadata, "spec": spec}


class GroveCluster:
    """See above."""

    def __init__(self, controllers: Mapping[Resource, Controller] = GROVE) -> None:
        self.controllers, self.now = dict(controllers), START
        self.objects: dict[Key, Raw] = {}
        self.performed: list[Action] = []
        self.events: list[tuple[str, OwnerEvent]] = []  # each with the name of what it is about
        self.observers: list[Callable[[Action], None]] = []  # called after every action
        self._keys: dict[str, Key] = {}  # by uid
        self._children: dict[str, dict[Key, None]] = {}  # by the uid of their controller
        self._queue: deque[Key] = deque()
        self._again: dict[Key, datetime] = {}
        self._numbers = count(1)

    def of(self, owner: Raw, resource: Resource) -> Sequence[Raw]:
        keys = self._children.get(owner["metadata"]["uid"], ())
        own = [self.objects[key] for key in keys if key[0] == resource]
        return sorted(own, key=lambda raw: (raw["metadata"]["creationTimestamp"], raw["metadata"]["name"]))

    def get(self, resource: Resource, namespace: str, name: str) -> Raw | None:
        return self.objects.get((resource, namespace, name))

    def orphans(self, resource: Resource) -> list[Raw]:
        return [raw for raw in self.every(resource) if (uid := controller_uid(raw)) and uid not in self._keys]

    def every(self, resource: Resource) -> list[Raw]:
        return [raw for key, raw in self.objects.items() if key[0] == resource]

    def named(self, resource: Resource, name: str = "w") -> Raw:
        return self.objects[_key(resource, name)]

    def has(self, resource: Resource, name: str) -> bool:
        return _key(resource, name) in self.objects

    def names(self, resource: Resource) -> list[str]:
        return sorted(raw["metadata"]["name"] for raw in self.every(resource))

    def spec(self, resource: Resource, name: str = "w") -> Raw:
        spec: Raw = self.named(resource, name)["spec"]
        return spec

    def status(self, resource: Resource, name: str = "w") -> Raw:
        status: Raw = self.named(resource, name).get("status", {})
        return status

    def labels(self, resource: Resource, name: str) -> dict[str, str]:
        return texts(self.named(resource, name), "metadata.labels")

    def condition(self, resource: Resource, name: str, kind: str) -> tuple[str, str]:
        """Status and reason; both empty where there is no such condition."""
        for condition in self.status(resource, name).get("conditions", ()):
            if condition["type"] == kind:
                return condition["status"], condition["reason"]
        return "", ""

    def changes(self) -> list[Action]:
        """What controllers did since this was called last."""
        performed, self.performed = self.performed, []
        return performed

    # what people do

    def apply(self, raw: Raw, resource: Resource = POD_CLIQUE_SETS) -> None:
        """Creates an object or replaces its spec, and settles."""
        key = _key(resource, raw["metadata"]["name"])
        old = self.objects.get(key)
        if old is None:
            self._create(resource, raw)
        else:
            self._put(resource, {**old, "spec": raw["spec"]})
        self.settle()

    def patch(self, resource: Resource, name: str, patch: Raw) -> None:
        """Merges a patch, and settles."""
        self._put(resource, merged(self.named(resource, name), patch))
        self.settle()

    def scale(self, resource: Resource, name: str, replicas: int) -> None:
        self.patch(resource, name, {"spec": {"replicas": replicas}})

    def update_image(self, image: str, clique_name: str = "", name: str = "w") -> None:
        """A new template for all cliques of a set, or for one of them."""
        template = self.spec(POD_CLIQUE_SETS, name)["template"]
        cliques = [
            merged(one, {"spec": {"podSpec": {"containers": [{**CONTAINER, "image": image}]}}})
            if clique_name in ("", one["name"])
            else one
            for one in template["cliques"]
        ]
        self.patch(POD_CLIQUE_SETS, name, {"spec": {"template": {"cliques": cliques}}})

    def delete(self, resource: Resource, name: str) -> None:
        """Deletes an object and, once it is gone, all below it; settles."""
        self._delete(_key(resource, name))
        self.settle()

    def advance(self, seconds: float) -> None:
        """Time passes; what waited for it is reconciled."""
        self.now += timedelta(seconds=seconds)
        for key in [key for key, at in self._again.items() if at <= self.now]:
            del self._again[key]
            self._enqueue(key)
        self.settle()

    # what cliques say, where nothing reconciles them

    def report(self, *cliques: str, scheduled: int = 0, ready: int | None = None, updated: bool = True) -> None:
        """Cliques say how many pods are scheduled and ready (as many, unless said), as their controller would."""
        for name in cliques:
            self._report(name, scheduled, scheduled if ready is None else ready, updated)
        self.settle()

    def _report(self, name: str, scheduled: int, ready: int, updated: bool) -> None:
        raw = self.named(POD_CLIQUES, name)
        needed = integer(raw, "spec.minAvailable") if integer(raw, "spec.replicas", 1) else 0
        is_scheduled, is_breached = scheduled >= needed, ready < needed
        reason = "ScheduledReplicasBelowMinAvailable" if not is_scheduled else "InsufficientReadyPods"
        conditions = [
            HealthCondition(CLIQUE_SCHEDULED, str(is_scheduled), "Reported", ""),
            HealthCondition(BREACHED, str(is_breached), reason if is_breached else "SufficientReadyPods", ""),
            *([observed_healthy("")] if needed and not is_breached else []),
        ]
        old = text(raw, "status.currentPodTemplateHash")
        status = {
            "replicas": integer(raw, "spec.replicas", 1),
            "scheduledReplicas": scheduled,
            "readyReplicas": ready,
            "currentPodTemplateHash": self.labels(POD_CLIQUES, name)[names.TEMPLATE_HASH] if updated else old,
            "conditions": with_conditions(raw, conditions, self.now),
        }
        self._put(POD_CLIQUES, {**raw, "status": status})

    def report_all(self) -> None:
        """Every clique has all of its pods ready; new ones that come of it as well."""
        for _ in range(100):
            waiting = [raw for raw in self.every(POD_CLIQUES) if not _is_satisfied(raw)]
            if not waiting:
                return
            for raw in waiting:
                replicas = integer(raw, "spec.replicas", 1)
                self._report(raw["metadata"]["name"], replicas, replicas, updated=True)
            self.settle()
        raise AssertionError("cliques keep changing")

    # pods

    def pods(self, prefix: str = "") -> list[str]:
        return [name for name in self.names(PODS) if name.startswith(prefix)]

    def gated(self) -> list[str]:
        gates = {raw["metadata"]["name"]: raw["spec"].get("schedulingGates") or () for raw in self.every(PODS)}
        return sorted(name for name, own in gates.items() if any(gate["name"] == names.GANG_GATE for gate in own))

    def bind(self, *pods: str, node: str = "n1") -> None:
        """A scheduler binds pods; all that are not gated, unless some are named."""
        for name in pods or self._unbound():
            scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp(self.now)}
            patch = {"spec": {"nodeName": node}, "status": {"conditions": [scheduled]}}
            self._put(PODS, merged(self.named(PODS, name), patch))
        self.settle()

    def _unbound(self) -> list[str]:
        gated = set(self.gated())
        unbound = [raw["metadata"]["name"] for raw in self.every(PODS) if not raw["spec"].get("nodeName")]
        return [name for name in unbound if name not in gated]

    def ready(self, *pods: str, status: str = "True") -> None:
        """Bound pods run and are ready, or not any more; all of them, unless some are named."""
        bound = [raw["metadata"]["name"] for raw in self.every(PODS) if raw["spec"].get("nodeName")]
        for name in pods or bound:
            ready = {"type": "Ready", "status": status, "lastTransitionTime": timestamp(self.now)}
            pod = self.named(PODS, name)
            others = [one for one in pod.get("status", {}).get("conditions", ()) if one["type"] != "Ready"]
            self._put(PODS, merged(pod, {"status": {"phase": "Running", "conditions": [*others, ready]}}))
        self.settle()

    def fail(self, *pods: str) -> None:
        """Pods end for worse."""
        for name in pods:
            status = {"phase": "Failed", "conditions": []}
            self._put(PODS, merged(self.named(PODS, name), {"status": status}))
        self.settle()

    def run_pods(self) -> None:
        """Binds and readies until no pod is left that can be."""
        for _ in range(100):
            before = dict(self.objects)
            self.bind()
            self.ready(*(name for name in self.pods() if self.spec(PODS, name).get("nodeName")))
            if {key: raw.get("spec") for key, raw in before.items()} == {
                key: raw.get("spec") for key, raw in self.objects.items()
            }:
                return
        raise AssertionError("pods keep changing")

    def node(self, name: str, **labels: str) -> None:
        self.apply({"metadata": {"name": name, "labels": labels}}, NODES)

    # the runtime

    def settle(self) -> None:
        """Reconciles until nothing changes."""
        for _ in range(MOST_ROUNDS):
            if not self._queue:
                return
            key = self._queue.popleft()
            if key in self.objects:
                self._reconcile(key)
        raise AssertionError(f"the controllers do not settle: {self._queue}")

    def restart(self) -> None:
        """Another process takes over: it knows what is written, and looks at everything."""
        self._queue.clear()
        self._again.clear()
        for key in self.objects:
            self._enqueue(key)

    def _reconcile(self, key: Key) -> None:
        owner = self.objects[key]
        self._again.pop(key, None)
        reconciliation = self.controllers[key[0]].reconcile(owner, self, self.now)
        self.events += [(key[2], event) for event in reconciliation.events]
        for action in reconciliation.actions:
            self._perform(action)
            self.performed.append(action)
            for observe in self.observers:
                observe(action)
        is_urgent = reconciliation.again_after_seconds == 0
        if reconciliation.status is not None:
            self._write_status(key, owner, reconciliation.status, is_urgent)
        if is_urgent:
            self._enqueue(key)
        elif reconciliation.again_after_seconds is not None:
            self._again[key] = self.now + timedelta(seconds=reconciliation.again_after_seconds)

    def _write_status(self, key: Key, owner: Raw, status: Raw, _is_urgent: bool) -> None:
        current, old = self.objects.get(key), owner.get("status")
        if current is not None and current.get("status") == old and pruned(status) != pruned(old or {}):
            self._put(key[0], {**current, "status": status})

    def _perform(self, action: Action) -> None:
        match action:
            case Create(resource=resource, object=raw):
                self._create(resource, raw)
            case Update(resource=resource, namespace=namespace, name=name, patch=patch):
                assert "status" not in patch, "a patch does not reach the status"
                if old := self.objects.get((resource, namespace, name)):
                    self._put(resource, merged(old, patch))
            case Remove(resource=resource, namespace=namespace, name=name, uid=uid):
                old = self.objects.get((resource, namespace, name))
                if old is not None and old["metadata"]["uid"] == uid:
                    self._delete((resource, namespace, name))

    def _create(self, resource: Resource, raw: Raw) -> None:
        number = next(self._numbers)
        is_old = resource == POD_CLIQUES not in self.controllers  # so that no gang waits for pods of it
        metadata = {
            **raw["metadata"],
            "namespace": NAMESPACE if resource.namespaced else "",
            "uid": f"uid-{number}",
            "generation": 1,
            "creationTimestamp": timestamp(self.now - timedelta(hours=is_old)),
        }
        metadata["name"] = metadata.get("name") or f"{metadata['generateName']}{number:05}"
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        assert _key(resource, metadata["name"]) not in self.objects, f"{resource.kind} {metadata['name']} exists"
        status = {"status": {"phase": "Pending"}} if resource == PODS else {}
        self._put(resource, {**kind, **raw, "metadata": metadata, **status})

    def _put(self, resource: Resource, raw: Raw) -> None:
        key = _key(resource, raw["metadata"]["name"])
        old = self.objects.get(key)
        if old == raw:
            return
        if old is not None and old.get("spec") != raw.get("spec"):
            raw = merged(raw, {"metadata": {"generation": raw["metadata"]["generation"] + 1}})
        self.objects[key] = raw
        self._keys[raw["metadata"]["uid"]] = key
        if uid := controller_uid(raw):
            self._children.setdefault(uid, {})[key] = None
        if raw["metadata"].get("deletionTimestamp") and not raw["metadata"].get("finalizers"):
            self._drop(key)
        else:
            self._notify(key, raw)

    def _delete(self, key: Key) -> None:
        raw = self.objects.get(key)
        if raw is None:
            return
        if raw["metadata"].get("finalizers"):
            self._put(key[0], merged(raw, {"metadata": {"deletionTimestamp": timestamp(self.now)}}))
        else:
            self._drop(key)

    def _drop(self, key: Key) -> None:
        """Removes an object and, as the garbage collector would, all below it."""
        raw = self.objects.pop(key)
        uid = raw["metadata"]["uid"]
        del self._keys[uid]
        self._children.get(controller_uid(raw), {}).pop(key, None)
        self._notify(key, raw)
        for child in [*self._children.pop(uid, ())]:
            self._collect(child)

    def _collect(self, key: Key) -> None:
        self._delete(key)

    def _notify(self, key: Key, raw: Raw) -> None:
        self._enqueue(key)
        below = raw
        while (uid := controller_uid(below)) in self._keys:
            owner = self._keys[uid]
            controller = self.controllers.get(owner[0])
            if controller is not None and key[0] in controller.children:
                self._enqueue(owner)
            below = self.objects[owner]
        for related in related_keys(self.controllers.values(), key[0], raw, self):
            self._enqueue(related)

    def _enqueue(self, key: Key) -> None:
        if key[0] in self.controllers and key not in self._queue:
            self._queue.append(key)


def _key(resource: Resource, name: str) -> Key:
    return resource, NAMESPACE if resource.namespaced else "", name


def _is_satisfied(raw: Raw) -> bool:
    replicas = integer(raw, "spec.replicas", 1)
    counts = (integer(raw, "status.scheduledReplicas"), integer(raw, "status.readyReplicas"))
    is_current = text(raw, "status.currentPodTemplateHash") == raw["metadata"]["labels"][names.TEMPLATE_HASH]
    return counts == (replicas, replicas) and is_current


def removed_names(actions: Iterable[Action], resource: Resource) -> list[str]:
    """What was removed of a kind, in order."""
    return [action.name for action in actions if isinstance(action, Remove) and action.resource == resource]


def created_names(actions: Iterable[Action], resource: Resource) -> list[str]:
    """What was created of a kind, in order."""
    created = [action.object for action in actions if isinstance(action, Create) and action.resource == resource]
    return [raw["metadata"].get("name", "") for raw in created]

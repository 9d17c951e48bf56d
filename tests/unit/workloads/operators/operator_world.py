"""A cluster in memory on which controllers of operators run, and plain StatefulSet and Job controllers below them."""

import copy
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from muster.api.resources import JOBS, PODS, STATEFUL_SETS, Resource
from muster.workloads.operators.pod_admission import admit_pod
from muster.workloads.operators.table import OPERATORS
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation, Remove, Update

START = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
MOST_ROUNDS = 50


class OperatorWorld:
    """Objects by kind and name, all in one namespace; `settle` runs every controller until nothing changes."""

    def __init__(self, *, webhooks: bool = True) -> None:
        self.now, self.created, self.webhooks = START, list[str](), webhooks
        self.objects: dict[Resource, dict[str, Raw]] = {}
        self._uids = count(1)

    def add(self, resource: Resource, raw: Raw) -> Raw:
        """Create an object, as an API server would."""
        raw = copy.deepcopy(raw)
        metadata = raw["metadata"]
        name = metadata.get("name") or f"{metadata['generateName']}{next(self._uids):05}"
        kept = self.objects.setdefault(resource, {})
        assert name not in kept, f"{resource.kind} {name} exists"
        metadata |= {"name": name, "namespace": "team", "uid": f"uid-{next(self._uids)}", "generation": 1}
        kept[name] = raw = admit_pod(raw) if resource == PODS and self.webhooks else raw
        self.created.append(f"{resource.kind} {name}")
        return raw

    def get(self, resource: Resource, *names: str) -> Raw:
        return self.objects.get(resource, {})[names[-1]]

    def orphans(self, resource: Resource) -> list[Raw]:  # noqa: ARG002
        return []

    def names(self, resource: Resource) -> list[str]:
        return sorted(self.objects.get(resource, {}))

    def pods(self) -> list[str]:
        return self.names(PODS)

    def labels(self, pod: str) -> dict[str, str]:
        labels: dict[str, str] = self.get(PODS, pod)["metadata"].get("labels", {})
        return labels

    def of(self, owner: Raw, resource: Resource) -> Sequence[Raw]:
        uid = owner["metadata"]["uid"]
        return [raw for raw in self.objects.get(resource, {}).values() if _controller(raw).get("uid") == uid]

    def owners(self, pod: str) -> list[str]:
        """The owner chain of a pod, from the pod upwards."""
        chain, raw = [], self.get(PODS, pod)
        while reference := _controller(raw):
            chain.append(f"{reference['kind']} {reference['name']}")
            assert reference["controller"] is True
            assert reference["blockOwnerDeletion"] is True
            raw = next(raw for kept in self.objects.values() for raw in kept.values() if _is(raw, reference))
        return chain

    def set_pods(self, phase: str, *names: str, ready: bool = True, **status: Any) -> None:
        """Set the phase of these pods, or of all."""
        for name in names or self.pods():
            conditions = [{"type": "Ready", "status": "True" if ready and phase == "Running" else "False"}]
            self.get(PODS, name)["status"] = {"phase": phase, "conditions": conditions, **status}

    def run_pods(self, *names: str) -> None:
        self.set_pods("Running", *names)

    def delete(self, resource: Resource, name: str) -> None:
        """Delete an object and, as the garbage collector does, what it owned."""
        uid = self.objects[resource].pop(name)["metadata"]["uid"]
        for kind, kept in self.objects.items():
            for dependent in [key for key, raw in kept.items() if _controller(raw).get("uid") == uid]:
                if dependent in kept:
                    self.delete(kind, dependent)

    def merge(self, resource: Resource, name: str, patch: Raw) -> None:
        _merge(self.get(resource, name), patch)

    def settle(self, *, runs_pods: bool = False) -> list[str]:
        """Run all controllers to a fixpoint; returns what they created, in order."""
        first = len(self.created)
        for _ in range(MOST_ROUNDS):
            if not self.step():
                return self.created[first:]
            if runs_pods:
                self.run_pods(*[pod for pod in self.pods() if "status" not in self.get(PODS, pod)])
            self.now += timedelta(seconds=1)
        raise AssertionError("the controllers do not settle")

    def step(self) -> bool:
        """Reconcile every object once; False: nothing changed."""
        has_changed = False
        for controller in (*OPERATORS, *STAND_INS):
            for name in self.names(controller.resource):
                if name in self.objects[controller.resource]:
                    has_changed |= self.reconcile(controller, name)
        return has_changed

    def reconcile(self, controller: Controller, name: str) -> bool:
        raw = self.get(controller.resource, name)
        before = copy.deepcopy(self.objects)
        outcome = controller.reconcile(raw, self, self.now)
        assert self.objects == before, "a controller only reads"
        for action in outcome.actions:
            self.perform(action)
        if outcome.status is not None and name in self.objects[controller.resource]:
            self.get(controller.resource, name)["status"] = outcome.status
        return self.objects != before

    def perform(self, action: Action) -> None:
        match action:
            case Create(resource=resource, object=raw):
                self.add(resource, raw)
            case Update(resource=resource, name=name, patch=patch):
                self.merge(resource, name, patch)
            case Remove(resource=resource, name=name, uid=uid):
                assert self.get(resource, name)["metadata"]["uid"] == uid
                self.delete(resource, name)


def _controller(raw: Raw) -> Raw:
    references = raw["metadata"].get("ownerReferences", [])
    return next((reference for reference in references if reference.get("controller")), {})


def _is(raw: Raw, reference: Raw) -> bool:
    return bool(raw["metadata"]["uid"] == reference["uid"])


def _merge(target: Raw, patch: Raw) -> None:
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict) and isinstance(target.get(name), dict):
            _merge(target[name], value)
        else:
            target[name] = copy.deepcopy(value)


def _reference(owner: Raw) -> list[Raw]:
    metadata = owner["metadata"]
    names = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
    uid = {"name": metadata["name"], "uid": metadata["uid"]}
    return [{**names, **uid, "controller": True, "blockOwnerDeletion": True}]


def _pod(owner: Raw, name: str, extra: Raw) -> Raw:
    template = copy.deepcopy(owner["spec"]["template"])
    metadata = {**template.get("metadata", {}), "name": name, "namespace": "team", "ownerReferences": _reference(owner)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template.get("spec", {}), **extra}}


def _stateful_set(owner: Raw, children: Children, now: datetime) -> Reconciliation:
    """Pods by ordinal; a pod whose template labels are old is replaced, one at a time, last first."""
    spec, name = owner["spec"], owner["metadata"]["name"]
    start = spec.get("ordinals", {}).get("start", 0)
    present = {raw["metadata"]["name"]: raw for raw in children.of(owner, PODS)}
    wanted = [f"{name}-{start + i}" for i in range(spec["replicas"])]
    extra = {"subdomain": spec["serviceName"]}
    create = [Create(PODS, _pod(owner, pod, {"hostname": pod, **extra})) for pod in wanted if pod not in present]
    surplus = [pod for pod in present if pod not in wanted]
    partition = spec.get("updateStrategy", {}).get("rollingUpdate", {}).get("partition", 0)
    stale = [pod for i, pod in enumerate(wanted) if i >= partition and pod in present and _is_stale(present[pod], spec)]
    removed = [*surplus, *stale[-1:]] if not create else surplus
    remove = [Remove(PODS, "team", pod, present[pod]["metadata"]["uid"]) for pod in removed]
    ready = sum(_is_ready(pod) for pod in present.values())
    return Reconciliation((*create, *remove), {"replicas": len(present), "readyReplicas": ready})


def _is_stale(pod: Raw, spec: Raw) -> bool:
    labels = spec["template"]["metadata"]["labels"].items()
    return not labels <= pod["metadata"]["labels"].items()


def _is_ready(pod: Raw) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _job(owner: Raw, children: Children, now: datetime) -> Reconciliation:
    """One pod per index, named by it; complete when all succeeded, failed when one failed."""
    spec, name = owner["spec"], owner["metadata"]["name"]
    if owner.get("status", {}).get("conditions"):
        return Reconciliation()
    present = {raw["metadata"]["name"]: raw for raw in children.of(owner, PODS)}
    if spec.get("suspend"):
        removed = [Remove(PODS, "team", pod, raw["metadata"]["uid"]) for pod, raw in present.items()]
        return Reconciliation(tuple(removed), {"active": 0})
    pods = [f"{name}-{i}" for i in range(spec.get("parallelism", 1))]
    create = [Create(PODS, _pod(owner, pod, {})) for pod in pods if pod not in present]
    phases = [raw.get("status", {}).get("phase") for raw in present.values()]
    status: Raw = {"active": len(present), "ready": sum(map(_is_ready, present.values()))}
    if "Failed" in phases:
        failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
        status = {"failed": 1, "conditions": [{**failed, "lastTransitionTime": "2026-05-04T12:00:00Z"}]}
    elif phases and all(phase == "Succeeded" for phase in phases):
        status = {"succeeded": len(phases), "conditions": [{"type": "Complete", "status": "True"}]}
    return Reconciliation(tuple(create), status)


STAND_INS = (Controller(STATEFUL_SETS, _stateful_set, (PODS,)), Controller(JOBS, _job, (PODS,)))


def condition(raw: Raw, kind: str) -> str:
    """The status of a condition and its reason, such as `True AllGroupsReady`; empty: there is none."""
    for item in raw.get("status", {}).get("conditions", []):
        if item["type"] == kind:
            return f"{item['status']} {item['reason']}"
    return ""

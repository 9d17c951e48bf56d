"""Workloads and their children in memory, as an API server keeps them: what a controller decides is performed on them.

Rule: time moves only in `advance`; pods change only by `run`, `finish` and `delete`.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from muster.api.resources import PODS, Resource
from muster.workloads.conditions import timestamp
from muster.workloads.defaults import with_defaults
from muster.workloads.merge_patch import merged
from muster.workloads.table import CONTROLLERS
from muster.workloads.types import Action, Controller, Create, Raw, Reconciliation, Remove, Update

START = datetime(2026, 1, 1, tzinfo=UTC)
MOST_ROUNDS = 1000
Key = tuple[Resource, str]  # kind and name; all are in one namespace


def pod_template(**labels: str) -> Raw:
    """A template with one container."""
    return {"metadata": {"labels": labels or {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}


def workload(resource: Resource, name: str = "w", *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Raw:
    """A workload with a template."""
    metadata = {"name": name, **({"annotations": dict(annotations)} if annotations else {})}
    own = {"template": pod_template(), "selector": {"matchLabels": {"app": "x"}}, **spec}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": own}


class WorkloadObjects:
    """See above."""

    def __init__(self, controllers: Mapping[Resource, Controller] = CONTROLLERS) -> None:
        self.controllers, self.now = controllers, START
        self.objects: dict[Key, Raw] = {}
        self._uids = count(1)

    def of(self, owner: Raw, resource: Resource) -> Sequence[Raw]:
        """See Children."""
        own = [raw for raw in self.all_of(resource) if _controller_uid(raw) == owner["metadata"]["uid"]]
        return sorted(own, key=lambda raw: (raw["metadata"]["creationTimestamp"], raw["metadata"]["name"]))

    def orphans(self, resource: Resource) -> list[Raw]:  # noqa: ARG002
        """See Children: deletions cascade at once."""
        return []

    def all_of(self, resource: Resource) -> list[Raw]:
        return [raw for (kind, _), raw in self.objects.items() if kind == resource]

    def get(self, resource: Resource, *names: str) -> Raw:
        """By name, or by namespace and name."""
        return self.objects[resource, names[-1] if names else "w"]

    def names(self, resource: Resource = PODS) -> list[str]:
        return [raw["metadata"]["name"] for raw in self.all_of(resource)]

    def create(self, resource: Resource, raw: Raw) -> Raw:
        number = next(self._uids)
        metadata = {**raw["metadata"], "namespace": "default", "uid": f"uid-{number}", "generation": 1}
        metadata["creationTimestamp"] = timestamp(self.now)
        metadata["name"] = metadata.get("name") or f"{metadata['generateName']}{number:05}"
        status = {"status": {"phase": "Pending"}} if resource == PODS else {}
        new = with_defaults({**raw, "metadata": metadata, **status})
        assert (resource, metadata["name"]) not in self.objects
        self.objects[resource, metadata["name"]] = new
        return new

    def change(self, resource: Resource, name: str = "w", **spec: Any) -> None:
        """A user's change of the spec."""
        old = self.get(resource, name)
        generation = old["metadata"]["generation"] + 1
        self.objects[resource, name] = merged(old, {"metadata": {"generation": generation}, "spec": spec})

    def delete(self, resource: Resource, name: str) -> None:
        """A deletion: at once, unless a finalizer keeps the object."""
        raw = self.get(resource, name)
        if raw["metadata"].get("finalizers"):
            self.objects[resource, name] = merged(raw, {"metadata": {"deletionTimestamp": timestamp(self.now)}})
        else:
            del self.objects[resource, name]

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # pods

    def run(self, names: Iterable[str] | None = None) -> None:
        """Pods run and are ready; all that are Pending, unless some are named."""
        for name in [*(self.names() if names is None else names)]:
            pod = self.objects.get((PODS, name))
            if pod is not None and pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]:
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp(self.now)}
                self.objects[PODS, name] = merged(pod, {"status": {"phase": "Running", "conditions": [ready]}})

    def finish(self, name: str, phase: str = "Succeeded") -> None:
        """A pod ends."""
        state = {"terminated": {"finishedAt": timestamp(self.now)}}
        unready = {"type": "Ready", "status": "False", "lastTransitionTime": timestamp(self.now)}
        status = {"phase": phase, "conditions": [unready], "containerStatuses": [{"name": "main", "state": state}]}
        self.objects[PODS, name] = merged(self.get(PODS, name), {"status": status})

    # reconciliations

    def reconcile(self, resource: Resource, name: str = "w") -> Reconciliation:
        """Reconcile one object, and perform what its controller decides."""
        owner = self.get(resource, name)
        reconciliation = self.controllers[resource].reconcile(owner, self, self.now)
        for action in reconciliation.actions:
            self.perform(action)
        if reconciliation.status is not None and (resource, name) in self.objects:
            current = self.get(resource, name)
            self.objects[resource, name] = {**current, "status": reconciliation.status}
        return reconciliation

    def perform(self, action: Action) -> None:
        match action:
            case Create(resource=resource, object=raw):
                self.create(resource, raw)
            case Update(resource=resource, name=name, patch=patch):
                new = merged(self.get(resource, name), patch)
                generation = new["metadata"]["generation"] + ("spec" in patch)
                self.objects[resource, name] = merged(new, {"metadata": {"generation": generation}})
                if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
                    del self.objects[resource, name]
            case Remove(resource=resource, name=name, uid=uid):
                if self.objects.get((resource, name), {}).get("metadata", {}).get("uid") == uid:
                    self.delete(resource, name)

    def settle(self, *, runs: bool = True) -> None:
        """Reconcile everything until nothing changes; `runs`: new pods run at once."""
        for _ in range(MOST_ROUNDS):
            before = dict(self.objects)
            for resource, name in list(self.objects):
                if resource in self.controllers and (resource, name) in self.objects:
                    self.reconcile(resource, name)
            if runs:
                self.run()
            if self.objects == before:
                return
        raise AssertionError("does not settle")


def _controller_uid(raw: Raw) -> str:
    references = raw["metadata"].get("ownerReferences", ())
    return next((reference["uid"] for reference in references if reference.get("controller")), "")

"""PodCliques, their pods and their set in memory; pods change only by what a test says."""

from typing import Any

from muster.api import names
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, PODS, Resource
from muster.grove.cliques.clique_controller import CONTROLLER
from muster.workloads.conditions import timestamp
from muster.workloads.merge_patch import merged
from muster.workloads.pod_templates import is_ready
from muster.workloads.types import Raw
from tests.support.workload_objects import WorkloadObjects

MAIN: Raw = {"name": "main", "image": "x"}


def a_set(name: str = "w", **template: Any) -> Raw:
    """A set with one clique `a`, unless the template says otherwise."""
    cliques = [{"name": "a", "spec": {"roleName": "a", "replicas": 2, "podSpec": {"containers": [MAIN]}}}]
    return {
        "apiVersion": POD_CLIQUE_SETS.api_version,
        "kind": POD_CLIQUE_SETS.kind,
        "metadata": {"name": name},
        "spec": {"replicas": 1, "template": {"cliques": cliques, **template}},
    }


def a_clique(
    name: str = "w-0-a",
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    pod_spec: Raw | None = None,
    **spec: Any,
) -> Raw:
    """A clique of the set `w` as the set makes it."""
    own = {
        names.MANAGED_BY: names.GROVE_OPERATOR,
        names.PART_OF: "w",
        names.APP_NAME: name,
        names.SET_REPLICA: "0",
        names.POD_GANG: "w-0",
        names.TEMPLATE_HASH: "h1",
        **(labels or {}),
    }
    return {
        "apiVersion": POD_CLIQUES.api_version,
        "kind": POD_CLIQUES.kind,
        "metadata": {"name": name, "labels": own, **({"annotations": annotations} if annotations else {})},
        "spec": {
            "roleName": "a",
            "replicas": 2,
            "minAvailable": 1,
            "podSpec": pod_spec or {"containers": [MAIN]},
            **spec,
        },
    }


class Cliques(WorkloadObjects):
    """Only cliques are reconciled."""

    def __init__(self, *cliques: Raw, pcs: Raw | None = None) -> None:
        super().__init__({POD_CLIQUES: CONTROLLER})
        self.create(POD_CLIQUE_SETS, pcs or a_set())
        for clique in cliques or (a_clique(),):
            self.create(POD_CLIQUES, clique)

    def get(self, resource: Resource, *names: str) -> Any:
        """By name; as a controller asks, with a namespace: None where there is none."""
        if len(names) == 2:
            return self.objects.get((resource, names[1]))
        return super().get(resource, *names)

    def settle_cliques(self) -> None:
        """Reconcile; pods stay as they are."""
        self.settle(runs=False)

    def group(self, name: str, replicas: int) -> None:
        """A scaling group."""
        self.objects[POD_CLIQUE_SCALING_GROUPS, name] = {
            "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1},
            "spec": {"replicas": replicas},
        }

    def get_set(self) -> Raw:
        return dict(self.get(POD_CLIQUE_SETS, "w"))

    def clique(self, name: str = "w-0-a") -> Raw:
        return dict(self.get(POD_CLIQUES, name))

    def status(self, name: str = "w-0-a") -> Raw:
        return dict(self.clique(name).get("status") or {})

    def condition(self, kind: str, name: str = "w-0-a") -> Raw:
        return next(each for each in self.status(name)["conditions"] if each["type"] == kind)

    def pods_of(self, name: str = "w-0-a") -> list[Raw]:
        """Those that were not deleted."""
        pods = self.of(self.clique(name), PODS)
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def indexes(self, name: str = "w-0-a") -> list[int]:
        return sorted(int(pod["metadata"]["labels"][names.POD_INDEX]) for pod in self.pods_of(name))

    def relabel(self, template_hash: str, name: str = "w-0-a") -> None:
        """The set gives the clique another template."""
        patch = {"metadata": {"labels": {names.TEMPLATE_HASH: template_hash}}}
        self.objects[POD_CLIQUES, name] = merged(self.clique(name), patch)

    def patch(self, pod: str, **change: Any) -> None:
        self.objects[PODS, pod] = merged(self.get(PODS, pod), change)

    def bind(self, *pods: str) -> None:
        """A scheduler binds pods; all, unless some are named."""
        for name in pods or self.names():
            if self.get(PODS, name)["spec"].get("nodeName"):
                continue
            condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp(self.now)}
            self.patch(name, spec={"nodeName": "n1", "schedulingGates": None}, status={"conditions": [condition]})

    def ready(self, *pods: str) -> None:
        """Pods run and are ready; all, unless some are named."""
        self.bind(*pods)
        self.run(pods or None)

    def ready_pods(self, name: str = "w-0-a") -> int:
        """How many pods of a clique are ready."""
        return sum(is_ready(pod) for pod in self.pods_of(name))

    def unschedulable(self, *pods: str) -> None:
        """A scheduler finds no node for pods."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        for name in pods:
            self.patch(name, status={"conditions": [condition]})

    def unready(self, pod: str, *, exit_code: int = 0) -> None:
        """A pod that runs and is not ready; with an exit code, a container of it failed before."""
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": timestamp(self.now)}
        container: Raw = {"name": "main", "ready": False, "started": exit_code == 0}
        if exit_code:
            container["lastState"] = {"terminated": {"exitCode": exit_code}}
        self.patch(pod, status={"phase": "Running", "conditions": [condition], "containerStatuses": [container]})

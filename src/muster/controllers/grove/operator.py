"""Grove's controllers beside a scheduler: `grove` decides, `kube.controller` writes, the leader only.

Rule 1: pods, PodGroups, nodes and Topologies come from the scheduler's own watches; of nodes only labels are kept, and
only pods of PodCliqueSets. Rule 2: beside another operator only PodGangs are reconciled.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from muster.api import names
from muster.api.resources import NODES, POD_GROUPS, PODS, TOPOLOGIES, Resource
from muster.config.settings import GroveOperator
from muster.grove.table import GROVE, bridge
from muster.kube.cluster import Cluster, Raw
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.kube.leadership import Leadership
from muster.workloads.types import Controller

FED = (PODS, POD_GROUPS, NODES, TOPOLOGIES)
FIELD_MANAGER = "muster-grove"
WORKERS = 32
NODE_FIELDS = ("name", "uid", "resourceVersion", "labels")


def build_operator(
    cluster: Cluster, settings: GroveOperator, leadership: Leadership | None, schedulers: Collection[str]
) -> ControllerRuntime:
    """Grove's controllers; `handle` has to get every event of the kinds in `FED`."""
    controllers = controllers_of(settings, schedulers)
    return ControllerRuntime(
        cluster,
        controllers,
        lambda: datetime.now(UTC),
        leadership,
        FED,
        kept,
        FIELD_MANAGER,
        WORKERS,
    )


def controllers_of(settings: GroveOperator, schedulers: Collection[str]) -> Mapping[Resource, Controller]:
    """The controllers of a mode; beside another operator they concern pods of these schedulers."""
    return GROVE if settings.mode == "operator" else bridge(schedulers)


def kept(resource: Resource, raw: Raw) -> Raw | None:
    """What of an object is kept; None: it is none of Grove's."""
    metadata = raw["metadata"]
    if resource == NODES:
        return {"metadata": {name: metadata[name] for name in NODE_FIELDS if name in metadata}}
    if resource == PODS and (metadata.get("labels") or {}).get(names.MANAGED_BY) != names.GROVE_OPERATOR:
        return None
    return {**raw, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}

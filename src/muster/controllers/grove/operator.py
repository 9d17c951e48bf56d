"""Grove's controllers beside a scheduler: `grove` decides, `kube.controller` writes, the leader only.

Rule 1: pods, PodGroups, nodes and Topologies come from the scheduler's own watches; of nodes only labels are kept, and
only pods of PodCliqueSets. Rule 2: beside another operator only PodGangs are reconciled. Rule 3: sets whose pods name
another scheduler are another operator's, with all that becomes of them.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus

import structlog
from msgspec.structs import replace

from muster.api import names
from muster.api.fields import items, text
from muster.api.meta import ObjectMeta
from muster.api.resources import NODES, POD_CLIQUE_SETS, POD_CLIQUES, POD_GROUPS, PODS, TOPOLOGIES, Resource
from muster.config.settings import GroveOperator
from muster.grove.cliques.pod_specs import CliqueSettings
from muster.grove.table import bridge, operator
from muster.kube.cluster import Cluster, Raw
from muster.kube.controller.controller_runtime import ControllerRuntime
from muster.kube.errors import ApiError
from muster.kube.leadership import Leadership
from muster.kube.stored_object import StoredObject, metadata_of, raw_of
from muster.workloads.types import Controller

log = structlog.get_logger()
FED = (PODS, POD_GROUPS, NODES, TOPOLOGIES)
FIELD_MANAGER = "muster-grove"
WORKERS = 32


def build_operator(
    cluster: Cluster,
    settings: GroveOperator,
    leadership: Leadership | None,
    schedulers: Sequence[str],
    is_binding: Callable[[], bool] = lambda: False,
    pool_label: str = names.NODE_POOL,
) -> ControllerRuntime:
    """Grove's controllers; `handle` has to get every event of the kinds in `FED`. Statuses wait for bindings."""
    return ControllerRuntime(
        cluster,
        controllers_of(settings, schedulers, pool_label),
        lambda: datetime.now(UTC),
        leadership,
        FED,
        partial(kept, frozenset(schedulers)),
        FIELD_MANAGER,
        WORKERS,
        is_binding,
        log_problem,
    )


def log_problem(resource: Resource, problem: ApiError | None) -> None:
    """A watch that is lost, or back; that a cluster does not have a kind of Grove is no problem."""
    if problem is None:
        log.info("watch is back", resource=resource.plural)
    elif problem.status == HTTPStatus.NOT_FOUND:
        log.info("kind is not installed, waiting for its CRD", resource=resource.plural)
    else:
        log.warning("watch is lost", resource=resource.plural, reason=problem.reason, what=problem.message)


def controllers_of(
    settings: GroveOperator, schedulers: Sequence[str], pool_label: str = names.NODE_POOL
) -> Mapping[Resource, Controller]:
    """The controllers of a mode; beside another operator they concern pods of these schedulers."""
    if settings.mode != "operator":
        return bridge(schedulers, pool_label)
    own = CliqueSettings(scheduler_name=schedulers[0])
    return operator(replace(own, startup_image=settings.startup_image) if settings.startup_image else own, pool_label)


def kept(schedulers: Container[str], resource: Resource, stored: StoredObject) -> Raw | None:
    """What of an object is kept; None: it is none of ours."""
    if resource == PODS and not _is_of_clique(metadata_of(stored)):
        return None
    if resource == NODES:
        return _kept_node(metadata_of(stored))
    raw = raw_of(stored)
    metadata = raw["metadata"]
    if resource == POD_CLIQUE_SETS and not is_ours(raw, schedulers):
        return None
    return {**raw, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _kept_node(meta: ObjectMeta) -> Raw:
    """Identity and labels: the images of a node alone may be many kilobytes."""
    fields = {"name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version, "labels": meta.labels}
    return {"metadata": {name: value for name, value in fields.items() if value}}


def _is_of_clique(meta: ObjectMeta) -> bool:
    """Whether a pod has the operator's label, or a PodClique as its controller: labels may be taken off."""
    if meta.labels.get(names.MANAGED_BY) == names.GROVE_OPERATOR:
        return True
    owners = meta.owner_references
    return bool(owners) and any(owner.controller and owner.kind == POD_CLIQUES.kind for owner in owners)


def is_ours(pcs: Raw, schedulers: Container[str]) -> bool:
    """Whether the pods of a set name a scheduler of ours, or none."""
    cliques = items(pcs, "spec.template.cliques")
    named = (text(clique, "spec.podSpec.schedulerName") for clique in cliques)
    return all(name in schedulers for name in named if name)

"""ClusterTopologyBindings: each becomes a Topology of the same name, which a scheduler reads.

Rule 1: a Topology that the binding did not make is never changed. Rule 2: where the binding names Topologies that
others keep, it makes none, and says whether they have its levels.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial

from muster.api.decoding import decode
from muster.api.fields import integer, items, text
from muster.api.grove.topology_binding import ClusterTopologyBinding, SchedulerTopologyBinding
from muster.api.names import DEFAULT_SCHEDULER
from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS, TOPOLOGIES, Resource
from muster.grove.health import FALSE, TRUE, UNKNOWN, HealthCondition, with_conditions
from muster.workloads.operators.objects import name_of
from muster.workloads.pod_templates import controller_reference, is_terminating
from muster.workloads.types import Action, Children, Controller, Create, KnownObjects, Raw, Reconciliation, Update

DRIFT = "SchedulerTopologyDrift"  # condition


def reconcile(raw: Raw, children: Children, now: datetime, scheduler: str = DEFAULT_SCHEDULER) -> Reconciliation:
    """Keeps the Topology in step, or says how those of others differ. `scheduler`: whose Topology the own one is."""
    if is_terminating(raw):
        return Reconciliation()
    spec = decode(raw, ClusterTopologyBinding)[0].spec
    levels = [{"nodeLabel": level.key} for level in spec.levels]
    if spec.scheduler_topology_bindings:
        statuses = [_compared(entry, levels, children) for entry in spec.scheduler_topology_bindings]
        return Reconciliation(status=_status(raw, statuses, now))
    present = children.get(TOPOLOGIES, "", name_of(raw))
    own = SchedulerTopologyBinding(scheduler_name=scheduler, topology_reference=name_of(raw))
    actions = tuple(_actions(raw, present, levels))
    status = _compared(own, levels, children)
    if actions:  # performed before the status is written
        status = _topology_status(own, is_in_sync=True, message="")
    return Reconciliation(actions, _status(raw, [status], now))


def _actions(raw: Raw, present: Raw | None, levels: list[Raw]) -> Iterator[Action]:
    if present is None:
        metadata = {"name": name_of(raw), "ownerReferences": [controller_reference(raw)]}
        new = {"apiVersion": TOPOLOGIES.api_version, "kind": TOPOLOGIES.kind, "metadata": metadata}
        yield Create(TOPOLOGIES, {**new, "spec": {"levels": levels}})
    elif _is_own(raw, present) and items(present, "spec.levels") != levels:
        yield Update(TOPOLOGIES, "", name_of(raw), {"spec": {"levels": levels}})


def _is_own(raw: Raw, topology: Raw) -> bool:
    uid = text(raw, "metadata.uid")
    return not is_terminating(topology) and any(
        text(reference, "uid") == uid for reference in items(topology, "metadata.ownerReferences")
    )


def _compared(entry: SchedulerTopologyBinding, levels: list[Raw], children: Children) -> Raw:
    name = entry.topology_reference
    topology = children.get(TOPOLOGIES, "", name)
    if topology is None:
        return _topology_status(entry, is_in_sync=False, message=f"Topology `{name}` does not exist")
    labels = [text(level, "nodeLabel") for level in items(topology, "spec.levels")]
    wanted = [level["nodeLabel"] for level in levels]
    message = "" if labels == wanted else f"Topology `{name}` has the levels {labels}, the binding {wanted}"
    status = _topology_status(entry, is_in_sync=labels == wanted, message=message)
    return {**status, "schedulerBackendTopologyObservedGeneration": integer(topology, "metadata.generation", 1)}


def _topology_status(entry: SchedulerTopologyBinding, *, is_in_sync: bool, message: str) -> Raw:
    status: Raw = {
        "schedulerName": entry.scheduler_name,
        "topologyReference": entry.topology_reference,
        "inSync": is_in_sync,
    }
    return {**status, "message": message} if message else status


def failed(raw: Raw, status: Raw, reason: str, message: str, now: datetime) -> Raw:
    """The status of a binding whose Topology was not written: that it is in step is not true."""
    entries = [
        {**entry, "inSync": False, "message": f"{reason}: {message}"} for entry in status["schedulerTopologyStatuses"]
    ]
    condition = HealthCondition(DRIFT, UNKNOWN, reason, message)
    return {**status, "schedulerTopologyStatuses": entries, "conditions": with_conditions(raw, (condition,), now)}


def _status(raw: Raw, statuses: list[Raw], now: datetime) -> Raw:
    return {
        "observedGeneration": integer(raw, "metadata.generation", 1),
        "schedulerTopologyStatuses": statuses,
        "conditions": with_conditions(raw, (_drift(statuses),), now),
    }


def _drift(statuses: list[Raw]) -> HealthCondition:
    differing = [status for status in statuses if not status["inSync"]]
    message = "; ".join(status["message"] for status in differing)
    if any("schedulerBackendTopologyObservedGeneration" not in status for status in differing):
        return HealthCondition(DRIFT, UNKNOWN, "TopologyNotFound", message)
    if differing:
        return HealthCondition(DRIFT, TRUE, "Drift", message)
    return HealthCondition(DRIFT, FALSE, "InSync", "every Topology has the levels of the binding")


def _related(_resource: Resource, topology: Raw, known: KnownObjects) -> Iterator[tuple[str, str]]:
    """The bindings that a Topology belongs to, or that name it."""
    for raw in known.every(CLUSTER_TOPOLOGY_BINDINGS):
        references = {text(entry, "topologyReference") for entry in items(raw, "spec.schedulerTopologyBindings")}
        if name_of(topology) in (references or {name_of(raw)}):
            yield "", name_of(raw)


def build_controller(scheduler: str) -> Controller:
    """The controller whose Topologies a scheduler of this name reads."""
    return Controller(
        CLUSTER_TOPOLOGY_BINDINGS,
        partial(reconcile, scheduler=scheduler),
        children=(TOPOLOGIES,),
        watches=(TOPOLOGIES,),
        related=_related,
        failed=failed,
    )

"""ClusterTopologyBinding: names for the levels of a cluster, broadest first."""

from typing import Annotated

from muster.api.meta import Condition, ObjectMeta, Wire, doc

_CONDITIONS = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
_DOMAIN = "^[a-z][a-z0-9-]*$"
_KEY = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"


class BindingLevel(Wire, frozen=True):
    """One level: the name that sets use, and the node label behind it."""

    domain: Annotated[
        str, doc("The name that sets use.", required=True, minLength=1, maxLength=63, pattern=_DOMAIN)
    ] = ""
    key: Annotated[str, doc("The node label.", required=True, minLength=1, maxLength=316, pattern=_KEY)] = ""


class SchedulerTopologyBinding(Wire, frozen=True):
    """A Topology that exists and is kept by others."""

    scheduler_name: Annotated[str, doc("The scheduler that reads it.", required=True)] = ""
    topology_reference: Annotated[str, doc("The name of the Topology.", required=True)] = ""


class SchedulerTopologyStatus(SchedulerTopologyBinding, frozen=True):
    """Whether a Topology has the levels of the binding."""

    in_sync: Annotated[bool, doc("Its levels are those of the binding.", default=False)] = False
    scheduler_backend_topology_observed_generation: Annotated[int, doc("The generation that was compared.")] = 0
    message: Annotated[str, doc("How it differs.")] = ""


class ClusterTopologyBindingSpec(Wire, frozen=True):
    """The levels, and where they are kept."""

    levels: Annotated[tuple[BindingLevel, ...], doc("Broadest first.", required=True, minItems=1)] = ()
    scheduler_topology_bindings: Annotated[
        tuple[SchedulerTopologyBinding, ...], doc("Topologies that others keep; for these, only drift is reported.")
    ] = ()


class ClusterTopologyBindingStatus(Wire, frozen=True):
    """Whether the Topologies are those of the binding."""

    observed_generation: Annotated[int, doc("The generation that this status is about.")] = 0
    scheduler_topology_statuses: Annotated[tuple[SchedulerTopologyStatus, ...], doc("One a Topology.")] = ()
    conditions: Annotated[tuple[Condition, ...], doc("In the Kubernetes form.", **_CONDITIONS)] = ()


class ClusterTopologyBinding(Wire, frozen=True):
    """The levels of a cluster by names; it becomes a Topology of the same name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterTopologyBindingSpec = ClusterTopologyBindingSpec()
    status: ClusterTopologyBindingStatus | None = None

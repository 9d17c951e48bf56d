"""PodGang: pods that are scheduled together, as a scheduler of Grove reads it."""

from typing import Annotated

from muster.api.meta import Condition, ObjectMeta, Wire, doc

_CONDITIONS = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


class ObjectReference(Wire, frozen=True):
    """An object by namespace and name."""

    namespace: Annotated[str, doc("Its namespace.", required=True)] = ""
    name: Annotated[str, doc("Its name.", required=True)] = ""


class PackLevels(Wire, frozen=True):
    """Levels by the node labels that name their domains."""

    required: Annotated[str, doc("All pods sit in one domain of this node label.")] = ""
    preferred: Annotated[str, doc("They do whenever some placement allows it.")] = ""


class GangTopologyConstraint(Wire, frozen=True):
    """Where pods of a gang sit together."""

    pack_constraint: Annotated[PackLevels | None, doc("The levels.")] = None


class GangPodGroup(Wire, frozen=True):
    """The pods of one clique in a gang."""

    name: Annotated[str, doc("The PodClique.", required=True)] = ""
    pod_references: Annotated[tuple[ObjectReference, ...], doc("Its pods, sorted by name.", required=True)] = ()
    min_replicas: Annotated[int, doc("How many of them must be scheduled together.", required=True, minimum=0)] = 0
    topology_constraint: Annotated[GangTopologyConstraint | None, doc("Where its pods sit together.")] = None


class TopologyConstraintGroup(Wire, frozen=True):
    """Cliques of a gang that sit together: a constrained replica of a scaling group."""

    name: Annotated[str, doc("The replica of the scaling group.", required=True)] = ""
    pod_group_names: Annotated[tuple[str, ...], doc("The cliques.", required=True)] = ()
    topology_constraint: Annotated[GangTopologyConstraint | None, doc("Where their pods sit together.")] = None


class PodGangSpec(Wire, frozen=True):
    """What is scheduled together, and where."""

    podgroups: Annotated[tuple[GangPodGroup, ...], doc("The cliques of the gang.", required=True)] = ()
    topology_constraint: Annotated[GangTopologyConstraint | None, doc("Where all pods of the gang sit together.")] = (
        None
    )
    topology_constraint_group_configs: Annotated[
        tuple[TopologyConstraintGroup, ...], doc("Some cliques of the gang that sit together.")
    ] = ()
    priority_class_name: Annotated[str, doc("The PriorityClass of the gang.")] = ""
    reuse_reservation_ref: Annotated[ObjectReference | None, doc("An older gang whose places suit; a hint only.")] = (
        None
    )


class PodGangStatus(Wire, frozen=True):
    """How a gang fares."""

    phase: Annotated[str, doc("Pending, Starting or Running.")] = ""
    placement_score: Annotated[float | None, doc("How well the preferred domains are met: 0 to 1, 1 is best.")] = None
    conditions: Annotated[
        tuple[Condition, ...], doc("Initialized, Scheduled, Ready, Unhealthy, DisruptionTarget.", **_CONDITIONS)
    ] = ()


class PodGang(Wire, frozen=True):
    """Pods of several cliques that start together; the operator makes it from a PodCliqueSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGangSpec = PodGangSpec()
    status: PodGangStatus | None = None

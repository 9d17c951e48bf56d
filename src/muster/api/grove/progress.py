"""How far an update has come, and what failed: parts of the status of Grove's kinds."""

from typing import Annotated

from muster.api.meta import Time, Wire, doc


class LastError(Wire, frozen=True):
    """Something the operator failed to do."""

    code: Annotated[str, doc("A stable word for the failure.", required=True)] = ""
    description: Annotated[str, doc("One sentence for people.", required=True)] = ""
    observed_at: Annotated[Time | None, doc("When it happened.", required=True)] = None


class PodsSelectedToUpdate(Wire, frozen=True):
    """Ready pods that a rolling update replaces, one at a time."""

    current: Annotated[str, doc("The pod that is being replaced.")] = ""
    current_index: Annotated[int | None, doc("The index of the pod that takes its place; unset: not known.")] = None
    ready_before: Annotated[int, doc("How many pods were ready when it was selected.")] = 0
    completed: Annotated[tuple[str, ...], doc("Pods that were replaced.")] = ()


class PodCliqueUpdateProgress(Wire, frozen=True):
    """The update of one clique."""

    update_started_at: Annotated[Time | None, doc("When it began.")] = None
    update_ended_at: Annotated[Time | None, doc("When nothing was left to do; unset: it is under way.")] = None
    pod_clique_set_generation_hash: Annotated[str, doc("The set's template that is rolled out.")] = ""
    pod_template_hash: Annotated[str, doc("The pod template that is rolled out.")] = ""
    ready_pods_selected_to_update: Annotated[
        PodsSelectedToUpdate | None, doc("Ready pods that are replaced; unset for OnDelete.")
    ] = None


class ReplicasSelectedToUpdate(Wire, frozen=True):
    """Available replicas of a scaling group that a rolling update replaces, one at a time."""

    current: Annotated[int, doc("The replica that is being replaced.")] = 0
    completed: Annotated[tuple[int, ...], doc("Replicas that were replaced.")] = ()


class ScalingGroupUpdateProgress(Wire, frozen=True):
    """The update of one scaling group."""

    update_started_at: Annotated[Time | None, doc("When it began.")] = None
    update_ended_at: Annotated[Time | None, doc("When nothing was left to do; unset: it is under way.")] = None
    pod_clique_set_generation_hash: Annotated[str, doc("The set's template that is rolled out.")] = ""
    updated_pod_cliques_count: Annotated[int, doc("Cliques of the group that have the latest template.")] = 0
    total_pod_cliques_count: Annotated[int, doc("Cliques that the group has.")] = 0
    ready_replica_indices_selected_to_update: Annotated[
        ReplicasSelectedToUpdate | None, doc("Available replicas that are replaced; unset for OnDelete.")
    ] = None


class ReplicaUpdateProgress(Wire, frozen=True):
    """The update of one replica of a set."""

    replica_index: Annotated[int, doc("The replica.")] = 0
    update_started_at: Annotated[Time | None, doc("When it began.")] = None
    update_ended_at: Annotated[Time | None, doc("When it ended.")] = None


class PodCliqueSetUpdateProgress(Wire, frozen=True):
    """The update of a set."""

    update_started_at: Annotated[Time | None, doc("When it began.")] = None
    update_ended_at: Annotated[Time | None, doc("When nothing was left to do; unset: it is under way.")] = None
    updated_pod_cliques_count: Annotated[int, doc("Cliques that have the latest template.")] = 0
    total_pod_cliques_count: Annotated[int, doc("Cliques that the set has.")] = 0
    updated_pod_clique_scaling_groups_count: Annotated[int, doc("Scaling groups that have the latest template.")] = 0
    total_pod_clique_scaling_groups_count: Annotated[int, doc("Scaling groups that the set has.")] = 0
    currently_updating: Annotated[tuple[ReplicaUpdateProgress, ...], doc("Replicas that are being updated.")] = ()

"""The status of a set: its replicas, its gangs, its update, and whether it has the topology that it names."""

from collections.abc import Sequence
from datetime import datetime

from muster.api.fields import at, integer, text
from muster.api.grove.pod_clique import MOST_CLIQUES
from muster.grove.health import TRUE, HealthCondition, with_conditions
from muster.grove.naming import selector, set_labels
from muster.grove.sets.set_rollout import SetRollout
from muster.grove.sets.set_view import SetView
from muster.grove.topology import LEVELS_UNAVAILABLE, levels_condition
from muster.workloads.conditions import find_condition, without_condition
from muster.workloads.operators.objects import name_of
from muster.workloads.types import Raw

TOO_MANY = "TooManyPodCliques"  # condition
MOST_SUMMARIES = 500  # gangs: an object has a limit in size, and each change of it is sent to every watcher
MOST_DETAILED = 50  # gangs that the status says more of than their phase
MOST_CHARACTERS = 200  # of a message; the PodGang itself has all of it


def set_status(view: SetView, rollout: SetRollout, gangs: Sequence[Raw], now: datetime) -> Raw:
    """The whole status."""
    status: Raw = {
        "observedGeneration": integer(view.raw, "metadata.generation", 1),
        "replicas": sum(any(replica.parts()) for replica in view.replicas),
        "updatedReplicas": sum(replica.health.is_updated and replica.health.is_available for replica in view.replicas),
        "availableReplicas": sum(replica.health.is_available for replica in view.replicas),
        "hpaPodSelector": selector(set_labels(view.pcs.metadata.name)),
        "podGangStatuses": gang_summaries(gangs),
        "currentGenerationHash": view.hashes.generation,
        "conditions": _conditions(view, now),
    }
    if rollout.progress is not None:
        status["updateProgress"] = rollout.progress
    return status


def _conditions(view: SetView, now: datetime) -> list[Raw]:
    current = {
        LEVELS_UNAVAILABLE: levels_condition(view.topology) if view.topology is not None else None,
        TOO_MANY: too_many_condition(view),
    }
    conditions = with_conditions(view.raw, [condition for condition in current.values() if condition], now)
    for kind in (kind for kind, condition in current.items() if condition is None):
        conditions = without_condition(conditions, kind)
    return conditions


def too_many_condition(view: SetView) -> HealthCondition | None:
    """That scaled gangs are left out, as the set would have too many cliques; None: none is."""
    left = len(view.unscaled)
    if not left:
        return None
    message = (
        f"scaling groups of {left} replicas, from replica {view.unscaled[0]} on, are scaled beyond the {MOST_CLIQUES} "
        "PodCliques of one set: what is above their minAvailable gets no PodGang and stays gated; scale them in, or "
        "use several sets"
    )
    return HealthCondition(TOO_MANY, TRUE, "ScaledBeyondLimit", message)


def gang_summaries(gangs: Sequence[Raw]) -> list[Raw]:
    """How each gang fares; those that do not run come first where there are too many for one object."""
    urgent = sorted(gangs, key=_is_running)
    shown = gangs if len(gangs) <= MOST_SUMMARIES else urgent[:MOST_SUMMARIES]
    detailed = {name_of(gang) for gang in urgent[:MOST_DETAILED]}
    return [_summary(gang, is_detailed=name_of(gang) in detailed) for gang in shown]


def _is_running(gang: Raw) -> bool:
    return text(gang, "status.phase") == "Running"


def _summary(gang: Raw, *, is_detailed: bool) -> Raw:
    summary: Raw = {"name": name_of(gang), "phase": text(gang, "status.phase") or "Pending"}
    score = at(gang, "status.placementScore")
    if score is not None:
        summary["placementScore"] = score
    if is_detailed and (condition := find_condition(gang, "Scheduled")):
        summary["conditions"] = [_shortened(condition)]
    return summary


def _shortened(condition: Raw) -> Raw:
    message = text(condition, "message")
    if len(message) <= MOST_CHARACTERS:
        return condition
    return {**condition, "message": f"{message[: MOST_CHARACTERS - 1]}…"}

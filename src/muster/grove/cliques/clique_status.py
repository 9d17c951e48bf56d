"""The status of a PodClique: counts and conditions.

Rule 1: a clique is below its minimum when too few pods are scheduled, or too few are ready or still starting; while it
is updated that is not known. Rule 2: that it had its minimum ready once is never forgotten, but for a scale to zero:
only what was healthy can be terminated for not being so.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from muster.api import names
from muster.api.fields import integer, text, texts
from muster.grove.cliques.clique_pods import CliquePods, read_pods
from muster.grove.cliques.clique_rollout import CliqueRollout
from muster.grove.health import (
    BREACHED,
    CLIQUE_SCHEDULED,
    FALSE,
    HEALTHY_OBSERVED,
    TRUE,
    UNKNOWN,
    HealthCondition,
    is_scaled_below_minimum,
    minimum_of,
    observed_healthy,
    was_healthy,
    with_conditions,
)
from muster.grove.naming import selector, set_labels
from muster.workloads.conditions import without_condition, without_zeros
from muster.workloads.operators.objects import name_of
from muster.workloads.types import Raw

# reasons
ENOUGH_SCHEDULED, TOO_FEW_SCHEDULED = "SufficientScheduledPods", "InsufficientScheduledPods"
ENOUGH_READY, TOO_FEW_READY = "SufficientReadyPods", "InsufficientReadyPods"
BELOW_MINIMUM, UPDATING = "ScheduledReplicasBelowMinAvailable", "UpdateInProgress"


def clique_status(clique: Raw, pods: CliquePods, rollout: CliqueRollout, now: datetime) -> Raw:
    """The status of a clique with these pods."""
    labels, old = texts(clique, "metadata.labels"), clique.get("status") or {}
    is_current = not rollout.is_under_way and not pods.outdated
    template = labels.get(names.TEMPLATE_HASH) if is_current else text(old, "currentPodTemplateHash")
    generation = text(old, "currentPodCliqueSetGenerationHash")
    counts = {
        "observedGeneration": integer(clique, "metadata.generation"),
        "readyReplicas": pods.ready,
        "updatedReplicas": len(pods.live) - len(pods.outdated),
        "scheduleGatedReplicas": sum(pod.is_gated for pod in pods.live),
        "scheduledReplicas": pods.scheduled,
        "hpaPodSelector": _selector(clique),
        "currentPodTemplateHash": template,
        "currentPodCliqueSetGenerationHash": labels.get(names.GENERATION_HASH) if is_current else generation,
        "updateProgress": rollout.progress,
        "conditions": _conditions(clique, pods, rollout, now),
    }
    return {"replicas": len(pods.live), **without_zeros(counts)}


def holds_minimum(clique: Raw, pods: Iterable[Raw]) -> bool:
    """Whether a clique with these pods has its minimum, whatever its status says: that is written later."""
    return _breached(clique, read_pods(clique, pods), is_updating=False).status == FALSE


def _selector(clique: Raw) -> str:
    """What an autoscaler selects; empty for members of scaling groups, which are not scaled by themselves."""
    labels = texts(clique, "metadata.labels")
    if names.SCALING_GROUP in labels:
        return ""
    return selector({**set_labels(labels.get(names.PART_OF, "")), names.POD_CLIQUE: name_of(clique)})


# conditions ---------------------------------------------------------------------------------------------------------


def _conditions(clique: Raw, pods: CliquePods, rollout: CliqueRollout, now: datetime) -> list[Raw]:
    conditions = with_conditions(clique, _new_conditions(clique, pods, rollout.is_under_way), now)
    if minimum_of(clique) == 0:
        return without_condition(conditions, HEALTHY_OBSERVED)
    return conditions


def _new_conditions(clique: Raw, pods: CliquePods, is_updating: bool) -> Iterator[HealthCondition]:
    yield _scheduled(clique, pods)
    yield _breached(clique, pods, is_updating)
    if 0 < minimum_of(clique) <= pods.ready and not was_healthy(clique):
        yield observed_healthy("as many pods as needed were ready")


def _scheduled(clique: Raw, pods: CliquePods) -> HealthCondition:
    minimum = minimum_of(clique)
    if not minimum:
        message = "scaled to zero: nothing has to be scheduled"
        return HealthCondition(CLIQUE_SCHEDULED, TRUE, ENOUGH_SCHEDULED, message)
    message = f"{pods.scheduled} pods are scheduled, {minimum} are needed"
    if pods.scheduled >= minimum:
        return HealthCondition(CLIQUE_SCHEDULED, TRUE, ENOUGH_SCHEDULED, message)
    return HealthCondition(CLIQUE_SCHEDULED, FALSE, TOO_FEW_SCHEDULED, message + _way_out(clique))


def _way_out(clique: Raw) -> str:
    if not is_scaled_below_minimum(clique):
        return ""
    replicas, minimum = integer(clique, "spec.replicas", 1), minimum_of(clique)
    return f": replicas {replicas} is below minAvailable {minimum}; scale to 0, or to at least {minimum}"


def _breached(clique: Raw, pods: CliquePods, is_updating: bool) -> HealthCondition:
    minimum = minimum_of(clique)
    if is_updating:
        return HealthCondition(BREACHED, UNKNOWN, UPDATING, "an update is in progress")
    if not minimum:
        return HealthCondition(BREACHED, FALSE, ENOUGH_READY, "scaled to zero: nothing has to be ready")
    if pods.scheduled < minimum:
        message = f"{pods.scheduled} pods are scheduled, {minimum} are needed{_way_out(clique)}"
        return HealthCondition(BREACHED, TRUE, BELOW_MINIMUM, message)
    starting = sum(pod.is_bound and not pod.is_broken for pod in pods.live)
    message = f"{starting} pods are ready or starting, {minimum} are needed"
    if starting < minimum:
        return HealthCondition(BREACHED, TRUE, TOO_FEW_READY, message)
    return HealthCondition(BREACHED, FALSE, ENOUGH_READY, message)

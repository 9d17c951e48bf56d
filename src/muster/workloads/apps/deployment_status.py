"""The status of a Deployment: counts, and the conditions that `kubectl rollout status` reads."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from muster.api.fields import at, integer, items, text
from muster.api.moment import parse_time
from muster.workloads.apps.deployment_rollout import Rollout, actual, available, name_of, size
from muster.workloads.apps.replica_sets import REPLICA_FAILURE
from muster.workloads.conditions import find_condition, timestamp, with_condition, without_condition, without_zeros
from muster.workloads.types import Raw

PROGRESSING, AVAILABLE = "Progressing", "Available"
NEW_AVAILABLE, TIMED_OUT, PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"
NO_DEADLINE = 2**31 - 1


def deployment_status(rollout: Rollout, now: datetime, *, is_estimated: bool, created: str = "") -> Raw:
    """The whole status. `is_estimated`: also its progress; `created`: a ReplicaSet that is being created."""
    deployment = rollout.deployment
    counts = _counts(rollout)
    conditions = _with_availability(rollout, items(deployment, "status.conditions"), now)
    conditions = _with_pause(deployment, conditions, now)
    if not has_deadline(deployment):
        conditions = without_condition(conditions, PROGRESSING)
    elif created:
        message = f'Created new replica set "{created}"'
        conditions = _with(conditions, PROGRESSING, "True", "NewReplicaSetCreated", message, now)
    elif is_estimated and not _was_complete(deployment, counts):
        conditions = _with_progress(rollout, conditions, counts, now)
    conditions = _with_replica_failure(rollout, conditions)
    return without_zeros({**counts, "collisionCount": at(deployment, "status.collisionCount")}) | {
        "conditions": conditions
    }


def _counts(rollout: Rollout) -> dict[str, int]:
    sets = rollout.all
    ready = sum(integer(each, "status.readyReplicas") for each in sets)
    all_available = sum(map(available, sets))
    return {
        "observedGeneration": integer(rollout.deployment, "metadata.generation"),
        "replicas": sum(map(actual, sets)),
        "updatedReplicas": actual(rollout.new) if rollout.new is not None else 0,
        "readyReplicas": ready,
        "availableReplicas": all_available,
        "unavailableReplicas": max(0, sum(map(size, sets)) - all_available),
    }


def _with(conditions: Sequence[Raw], kind: str, status: str, reason: str, message: str, now: datetime) -> list[Raw]:
    condition = {"type": kind, "status": status, "reason": reason, "message": message}
    return with_condition(conditions, condition, now, "lastUpdateTime")


def _with_availability(rollout: Rollout, conditions: Sequence[Raw], now: datetime) -> list[Raw]:
    if sum(map(available, rollout.all)) >= rollout.replicas - rollout.max_unavailable:
        message = "Deployment has minimum availability."
        return _with(conditions, AVAILABLE, "True", "MinimumReplicasAvailable", message, now)
    message = "Deployment does not have minimum availability."
    return _with(conditions, AVAILABLE, "False", "MinimumReplicasUnavailable", message, now)


def _with_pause(deployment: Raw, conditions: Sequence[Raw], now: datetime) -> list[Raw]:
    """A pause stops the clock of the deadline."""
    reason = text(find_condition(deployment, PROGRESSING) or {}, "reason")
    if not has_deadline(deployment) or reason == TIMED_OUT:
        return list(conditions)
    is_paused = at(deployment, "spec.paused") is True
    if is_paused and reason != PAUSED:
        return _with(conditions, PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now)
    if not is_paused and reason == PAUSED:
        return _with(conditions, PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", now)
    return list(conditions)


def _with_replica_failure(rollout: Rollout, conditions: Sequence[Raw]) -> list[Raw]:
    """Why a ReplicaSet cannot make its pods; the new one counts first."""
    newest_first = [*([rollout.new] if rollout.new is not None else []), *rollout.old]
    failures = [failure for each in newest_first if (failure := find_condition(each, REPLICA_FAILURE))]
    others = without_condition(conditions, REPLICA_FAILURE)
    if not failures:
        return others
    return [*others, {**failures[0], "lastUpdateTime": failures[0].get("lastTransitionTime")}]


def has_deadline(deployment: Raw) -> bool:
    """Whether a rollout without progress fails."""
    return integer(deployment, "spec.progressDeadlineSeconds", 600) != NO_DEADLINE


def is_complete(deployment: Raw, status: Raw) -> bool:
    """Whether all pods are new and available, by this status."""
    replicas = integer(deployment, "spec.replicas", 1)
    counts = {integer(status, field) for field in ("updatedReplicas", "replicas", "availableReplicas")}
    return counts == {replicas} and integer(status, "observedGeneration") >= integer(deployment, "metadata.generation")


def _was_complete(deployment: Raw, counts: Raw) -> bool:
    reason = text(find_condition(deployment, PROGRESSING) or {}, "reason")
    return bool(reason == NEW_AVAILABLE and counts["replicas"] == counts["updatedReplicas"])


def _with_progress(rollout: Rollout, conditions: Sequence[Raw], counts: Raw, now: datetime) -> list[Raw]:
    deployment, new = rollout.deployment, rollout.new
    subject = f'ReplicaSet "{name_of(new)}"' if new is not None else f'Deployment "{name_of(deployment)}"'
    if is_complete(deployment, counts):
        return _with(conditions, PROGRESSING, "True", NEW_AVAILABLE, f"{subject} has successfully progressed.", now)
    if _is_progressing(deployment, counts):
        updated = _with(conditions, PROGRESSING, "True", "ReplicaSetUpdated", f"{subject} is progressing.", now)
        return [_touched(condition, now) if condition["type"] == PROGRESSING else condition for condition in updated]
    left = _seconds_left(deployment, conditions, now)
    if left is not None and left <= 0:
        return _with(conditions, PROGRESSING, "False", TIMED_OUT, f"{subject} has timed out progressing.", now)
    return list(conditions)


def _touched(condition: Raw, now: datetime) -> Raw:
    return {**condition, "lastUpdateTime": timestamp(now)}


def _is_progressing(deployment: Raw, counts: Raw) -> bool:
    """Whether there are more new, ready or available pods than before, or fewer old ones."""
    before = {field: integer(deployment, f"status.{field}") for field in counts}
    old_before, old = (each["replicas"] - each["updatedReplicas"] for each in (before, counts))
    grown = any(counts[field] > before[field] for field in ("updatedReplicas", "readyReplicas", "availableReplicas"))
    return grown or old < old_before


def _seconds_left(deployment: Raw, conditions: Sequence[Raw], now: datetime) -> float | None:
    """Until a rollout without progress fails; None: it does not, or has failed."""
    condition = next((each for each in conditions if each.get("type") == PROGRESSING), None)
    since = parse_time(text(condition or {}, "lastUpdateTime"))
    if condition is None or since is None or condition.get("reason") in (NEW_AVAILABLE, TIMED_OUT):
        return None
    limit = timedelta(seconds=integer(deployment, "spec.progressDeadlineSeconds", 600))
    return (since + limit - now).total_seconds()


def progress_seconds(deployment: Raw, status: Raw, now: datetime) -> float | None:
    """When to look whether a rollout has failed; None: it is complete, has failed, or may take for ever."""
    if not has_deadline(deployment) or is_complete(deployment, status):
        return None
    left = _seconds_left(deployment, items(status, "conditions"), now)
    return None if left is None else max(1.0, left + 1)

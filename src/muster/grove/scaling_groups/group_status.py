"""The status of a scaling group: how many replicas are scheduled, available and updated, and whether that is enough."""

from collections.abc import Iterator
from datetime import datetime

from muster.api.fields import integer, items, mapping, text
from muster.api.moment import parse_time
from muster.api.names import SCALING_GROUP
from muster.grove.health import (
    BREACHED,
    FALSE,
    HEALTHY_OBSERVED,
    TERMINATING,
    TRUE,
    UNKNOWN,
    HealthCondition,
    breached_since,
    observed_healthy,
    was_healthy,
    with_conditions,
)
from muster.grove.naming import selector, set_labels
from muster.grove.scaling_groups.group_rollout import GroupRollout
from muster.grove.scaling_groups.group_view import GroupView
from muster.workloads.conditions import without_condition
from muster.workloads.operators.objects import name_of
from muster.workloads.types import Raw


def group_status(group: GroupView, rollout: GroupRollout, now: datetime) -> Raw:
    """The whole status."""
    pcsg, replicas = group.pcsg, group.replicas
    status: Raw = {
        "observedGeneration": integer(pcsg, "metadata.generation", 1),
        "replicas": sum(any(replica.present()) for replica in replicas),
        "scheduledReplicas": sum(replica.health.is_scheduled for replica in replicas),
        "availableReplicas": sum(replica.health.is_available for replica in replicas),
        "updatedReplicas": sum(replica.health.is_updated and replica.health.is_available for replica in replicas),
        "selector": selector({**set_labels(group.pcs.metadata.name), SCALING_GROUP: name_of(pcsg)}),
        "currentPodCliqueSetGenerationHash": _generation(group, rollout),
        "conditions": _conditions(group, rollout, now),
    }
    if rollout.progress is not None:
        status["updateProgress"] = rollout.progress
    return status


def _generation(group: GroupView, rollout: GroupRollout) -> str:
    """The template of the set that every replica has: the latest one once none has an older one."""
    is_current = group.may_update and not rollout.is_under_way
    if is_current and not any(replica.is_outdated for replica in group.replicas):
        return group.hashes.generation
    return text(group.pcsg, "status.currentPodCliqueSetGenerationHash")


def _conditions(group: GroupView, rollout: GroupRollout, now: datetime) -> list[Raw]:
    breached = breach_condition(group, rollout)
    conditions = with_conditions(group.pcsg, (breached, *_healthy(group)), now)
    if not group.replicas:  # scaled to zero: what comes next has never run
        conditions = without_condition(conditions, HEALTHY_OBSERVED)
    with_breach = {**group.pcsg, "status": {**mapping(group.pcsg, "status"), "conditions": conditions}}
    return with_conditions(with_breach, _terminating(group, with_breach), now)


def breach_condition(group: GroupView, rollout: GroupRollout) -> HealthCondition:
    """Whether fewer replicas than the minimum are scheduled and hold their own minimums."""
    if rollout.is_under_way:
        return HealthCondition(BREACHED, UNKNOWN, "UpdateInProgress", "replicas are being updated")
    scheduled = [replica for replica in group.replicas if replica.health.is_scheduled]
    count, minimum = len(group.replicas), group.minimum
    if len(scheduled) < minimum:
        message = f"{len(scheduled)} of {count} replicas are scheduled, {minimum} are needed"
        if count < minimum:
            message = f"scaled to {count}, and {minimum} are needed: scale to {minimum} or more, or to 0"
        return HealthCondition(BREACHED, TRUE, "ScheduledReplicasBelowMinAvailable", message)
    held = sum(not replica.health.is_breached for replica in scheduled)
    message = f"{held} of {count} replicas hold their minimums, {minimum} are needed"
    if held < minimum:
        return HealthCondition(BREACHED, TRUE, "InsufficientAvailablePodCliqueScalingGroupReplicas", message)
    return HealthCondition(BREACHED, FALSE, "SufficientAvailablePodCliqueScalingGroupReplicas", message)


def _healthy(group: GroupView) -> Iterator[HealthCondition]:
    available = sum(replica.health.is_available for replica in group.replicas)
    if not was_healthy(group.pcsg) and 0 < group.minimum <= available:
        yield observed_healthy("as many replicas as needed were available")


def _terminating(group: GroupView, pcsg: Raw) -> Iterator[HealthCondition]:
    """Whether all cliques were recreated since the group fell below its minimum, and it has not recovered yet.

    A set that terminates a replica says so only by deleting cliques: this is what it looks like here.
    """
    since, created = breached_since(pcsg), [*_created(group)]
    is_new = since is not None and was_healthy(pcsg) and all(time is None or time > since for time in created)
    if is_new:
        message = "the whole replica of the set was recreated, and is not back yet"
        yield HealthCondition(TERMINATING, TRUE, "GangTerminationActive", message)
    elif any(condition.get("type") == TERMINATING for condition in items(pcsg, "status.conditions")):
        yield HealthCondition(TERMINATING, FALSE, "GangTerminationActive", "nothing is being recreated")


def _created(group: GroupView) -> Iterator[datetime | None]:
    for replica in group.replicas:
        for clique in replica.present():
            yield parse_time(text(clique, "metadata.creationTimestamp"))

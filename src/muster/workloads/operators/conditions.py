"""Conditions in the status of a workload, and what a pod's status says.

Rule: a condition that stays as it is keeps its time, so that a reconciliation of its own result changes nothing.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from msgspec import Struct

from muster.workloads.conditions import timestamp
from muster.workloads.pod_templates import is_ready, phase
from muster.workloads.types import Raw


class WorkloadCondition(Struct, frozen=True):
    """A condition that holds now."""

    type: str
    reason: str
    message: str
    is_true: bool = True


def set_condition(
    conditions: Iterable[Raw], condition: WorkloadCondition, now: datetime, excluded: Collection[str] = ()
) -> list[Raw]:
    """The conditions with this one; those of excluded types become false. A new one is added only if it is true."""
    changed = [_negated(old, now) if old.get("type") in excluded else old for old in conditions]
    new = _written(condition, now)
    for index, old in enumerate(changed):
        if old.get("type") == condition.type:
            changed[index] = old if old.get("status") == new["status"] else new
            return changed
    return [*changed, new] if condition.is_true else changed


def _written(condition: WorkloadCondition, now: datetime) -> Raw:
    return {
        "type": condition.type,
        "status": "True" if condition.is_true else "False",
        "lastTransitionTime": timestamp(now),
        "reason": condition.reason,
        "message": condition.message,
    }


def _negated(condition: Raw, now: datetime) -> Raw:
    if condition.get("status") != "True":
        return condition
    return {**condition, "status": "False", "lastTransitionTime": timestamp(now)}


def is_running_and_ready(pod: Raw) -> bool:
    """Whether the pod runs and is ready."""
    return phase(pod) == "Running" and is_ready(pod)


def has_restarted(pod: Raw) -> bool:
    """Whether a container of a pod that has not ended was restarted; fast, as it is asked of every pod of a set."""
    status = pod.get("status") or {}
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    if not any(container.get("restartCount") for container in containers):
        return False
    return phase(pod) in ("Pending", "Running")

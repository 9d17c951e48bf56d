"""The status of a training job: its conditions, and the pods of each role by their fate."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from muster.api.fields import items, mapping, text
from muster.workloads.conditions import is_condition_true, timestamp, with_condition, without_condition
from muster.workloads.operators.kubeflow.training_kinds import PYTORCH, TENSORFLOW, WORKER, TrainingKind, TrainingRole
from muster.workloads.operators.kubeflow.training_pods import ReplicaName, job_labels, may_restart
from muster.workloads.operators.objects import name_of
from muster.workloads.pod_templates import is_terminating, phase
from muster.workloads.types import Raw

CREATED, RUNNING, RESTARTING, SUCCEEDED, SUSPENDED, FAILED = (
    "Created",
    "Running",
    "Restarting",
    "Succeeded",
    "Suspended",
    "Failed",
)


class RoleCounts(Struct, frozen=True):
    """The pods of a role by their fate."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


def is_finished(job: Raw) -> bool:
    """Whether the job has ended, for better or worse."""
    return is_condition_true(job, SUCCEEDED) or is_condition_true(job, FAILED)


def count_pods(role: TrainingRole, pods: Mapping[ReplicaName, Raw]) -> RoleCounts:
    """The pods of a role by their fate; a running pod that is being deleted counts as failed."""
    counts = {"active": 0, "succeeded": 0, "failed": 0}
    for replica, pod in pods.items():
        if replica.role == role.label and (fate := _fate(pod)):
            counts[fate] += 1
    return RoleCounts(**counts)


def _fate(pod: Raw) -> str:
    if phase(pod) == "Running":
        return "failed" if is_terminating(pod) else "active"
    return {"Succeeded": "succeeded", "Failed": "failed"}.get(phase(pod), "")


def with_job_condition(
    status: Raw, kind: str, condition: str, message: str, now: datetime, *, reason: str = "", is_true: bool = True
) -> Raw:
    """The status with a condition. Running and Restarting exclude each other; a job that failed stays so."""
    conditions = items(status, "conditions")
    if any(old.get("type") == FAILED and old.get("status") == "True" for old in conditions):
        return status
    new = {
        "type": condition,
        "status": "True" if is_true else "False",
        "reason": f"{kind}{reason or condition}",
        "message": message,
    }
    changed = with_condition(conditions, new, now, "lastUpdateTime")
    if changed == conditions:
        return status
    if condition in (RUNNING, RESTARTING):
        changed = without_condition(changed, RESTARTING if condition == RUNNING else RUNNING)
    if condition in (SUCCEEDED, FAILED):
        changed = [{**old, "status": "False"} if old.get("type") == RUNNING else old for old in changed]
    return {**status, "conditions": changed}


def end_job(status: Raw, kind: str, condition: str, message: str, now: datetime) -> Raw:
    """The status of a job that has just succeeded or failed."""
    ended = with_job_condition(status, kind, condition, message, now)
    return {**ended, "completionTime": text(status, "completionTime") or timestamp(now)}


def first_status(job: Raw, kind: str, now: datetime) -> Raw:
    """The status to begin with: a new job is Created."""
    status = dict(mapping(job, "status"))
    if items(status, "conditions"):
        return status
    return with_job_condition(status, kind, CREATED, f"{kind} {name_of(job)} is created.", now)


def replica_statuses(kind: TrainingKind, job: Raw, counts: Mapping[str, RoleCounts]) -> Raw:
    """The counts as the status has them, with the selector that a scale subresource reads."""
    return {
        role: {
            "active": count.active,
            "succeeded": count.succeeded,
            "failed": count.failed,
            "selector": ",".join(f"{name}={value}" for name, value in sorted(_selector(kind, job, role).items())),
        }
        for role, count in counts.items()
    }


def _selector(kind: TrainingKind, job: Raw, role: str) -> dict[str, str]:
    return job_labels(kind, job, role.lower())


def update_conditions(
    kind: TrainingKind,
    job: Raw,
    roles: Sequence[TrainingRole],
    pods: Mapping[ReplicaName, Raw],
    status: Raw,
    now: datetime,
) -> Raw:
    """Running, Succeeded, Restarting or Failed: the master roles decide, without them the workers."""
    name, word = name_of(job), kind.resource.kind
    masters = [role for role in roles if role.name in kind.masters]
    for role in masters or [role for role in roles if role.name == WORKER]:
        counts = count_pods(role, pods)
        if _has_succeeded(kind, job, role, counts, pods, is_master=bool(masters)):
            return end_job(status, word, SUCCEEDED, f"{word} {name} is successfully completed.", now)
        if counts.active:
            status = with_job_condition(status, word, RUNNING, f"{word} {name} is running.", now)
    for role in roles:
        failed = [pod for replica, pod in pods.items() if replica.role == role.label and _fate(pod) == "failed"]
        if any(phase(pod) == "Failed" and not may_restart(kind, role, pod) for pod in failed):
            return end_job(status, word, FAILED, f"{word} {name} failed: {len(failed)} {role.name} pods failed.", now)
        if failed and role.restart_policy != "Never":
            message = f"{word} {name} restarts {len(failed)} {role.name} pods that failed."
            status = with_job_condition(status, word, RESTARTING, message, now)
    return status


def _has_succeeded(
    kind: TrainingKind,
    job: Raw,
    role: TrainingRole,
    counts: RoleCounts,
    pods: Mapping[ReplicaName, Raw],
    *,
    is_master: bool,
) -> bool:
    """All pods of the deciding role; for PyTorch any elastic worker; for TensorFlow, by default, worker 0."""
    if counts.succeeded >= role.replicas:
        return True
    if is_master:
        return False
    if kind is PYTORCH:
        return bool(mapping(job, "spec.elasticPolicy")) and counts.succeeded > 0
    if kind is TENSORFLOW and text(job, "spec.successPolicy") != "AllWorkers":
        first = pods.get(ReplicaName(role.label, 0))
        return first is not None and phase(first) == "Succeeded"
    return False

"""Jobs: pods until enough of them have succeeded.

Rule: a Job is over when it has SuccessCriteriaMet or FailureTarget; it is Complete or Failed once its last pod is gone
or counted.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from muster.api.fields import at, integer, items, text
from muster.api.moment import parse_time
from muster.api.resources import JOBS, PODS
from muster.workloads.apps.replica_sets import remove_pod
from muster.workloads.batch.job_indexes import format_indexes
from muster.workloads.batch.job_pods import (
    backoff_seconds,
    create_pods,
    delete_pods,
    remove_tracking,
    surplus_pods,
    wanted_active,
)
from muster.workloads.batch.job_tally import JobTally, count_pods, is_indexed, is_tracked, release
from muster.workloads.conditions import (
    find_condition,
    is_condition_true,
    timestamp,
    with_condition,
    without_zeros,
)
from muster.workloads.pod_templates import is_active, is_finished, is_ready, is_terminating
from muster.workloads.types import Action, Children, Controller, Raw, Reconciliation, Remove

OWN_CONTROLLER = "kubernetes.io/job-controller"
FAILURE_TARGET, SUCCESS_CRITERIA_MET = "FailureTarget", "SuccessCriteriaMet"
FAILED, COMPLETE, SUSPENDED = "Failed", "Complete", "Suspended"
_FINAL = {FAILURE_TARGET: FAILED, SUCCESS_CRITERIA_MET: COMPLETE}


class JobState(Struct, frozen=True):
    """A Job with its pods, as one reconciliation sees them."""

    job: Raw
    pods: Sequence[Raw]
    active: Sequence[Raw]
    tally: JobTally
    now: datetime

    @property
    def terminating(self) -> int:
        """Pods that were deleted and have not ended yet."""
        return sum(is_terminating(pod) and not is_finished(pod) for pod in self.pods)

    @property
    def is_suspended(self) -> bool:
        """Whether the Job is to have no pods for now."""
        return at(self.job, "spec.suspend") is True


def reconcile(job: Raw, children: Children, now: datetime) -> Reconciliation:
    """Counts pods that ended, decides whether the Job is over, and creates or deletes pods."""
    if text(job, "spec.managedBy") not in ("", OWN_CONTROLLER):
        return Reconciliation()
    pods = children.of(job, PODS)
    if is_job_finished(job):
        return _clean_up(job, pods, now)
    state = JobState(job, pods, [pod for pod in pods if is_active(pod)], count_pods(job, pods), now)
    freed = [remove_tracking(pod) for pod in state.tally.settled]
    over = _over(state)
    wait = 0.0
    actions: Sequence[Action] = ()
    if over is not None:
        actions = [remove_pod(pod) for pod in state.active]
    elif not is_terminating(job):
        wait = 0.0 if state.is_suspended else _backoff(state)
        actions = delete_pods(state.active) if state.is_suspended else _manage(state, wait)
    status = _status(state, over)
    return Reconciliation((*freed, *actions), status, _again(state, over, wait, actions))


def is_job_finished(job: Raw) -> bool:
    """Whether a Job is Complete or Failed."""
    return is_condition_true(job, COMPLETE) or is_condition_true(job, FAILED)


# pods ---------------------------------------------------------------------------------------------------------------


def _manage(state: JobState, wait: float) -> Sequence[Action]:
    """Deletes surplus pods, or else creates missing ones, unless they have to wait after failures."""
    wanted = wanted_active(state.job, len(state.active), state.tally)
    surplus = surplus_pods(state.job, state.active, max(0, len(state.active) - wanted))
    if surplus:
        return delete_pods(surplus)
    replaces_ended_only = text(state.job, "spec.podReplacementPolicy") == "Failed"
    missing = wanted - len(state.active) - (state.terminating if replaces_ended_only else 0)
    if missing <= 0 or wait > 0:
        return ()
    return create_pods(state.job, state.pods, state.active, state.tally, missing)


def _backoff(state: JobState) -> float:
    wanted = wanted_active(state.job, len(state.active), state.tally)
    return backoff_seconds(state.job, state.pods, state.now) if wanted > len(state.active) else 0.0


def _clean_up(job: Raw, pods: Sequence[Raw], now: datetime) -> Reconciliation:
    """Frees the pods of a Job that is over, and deletes the Job when its time to live has passed."""
    freed = tuple(remove_tracking(pod) for pod in pods if is_tracked(pod))
    time_to_live = at(job, "spec.ttlSecondsAfterFinished")
    if not isinstance(time_to_live, int) or is_terminating(job):
        return Reconciliation(freed)
    left = (_finished_at(job, now) + timedelta(seconds=time_to_live) - now).total_seconds()
    if left > 0:
        return Reconciliation(freed, again_after_seconds=left)
    metadata = job["metadata"]
    return Reconciliation((*freed, Remove(JOBS, metadata.get("namespace", ""), metadata["name"], metadata["uid"])))


def _finished_at(job: Raw, now: datetime) -> datetime:
    condition = find_condition(job, COMPLETE) or find_condition(job, FAILED) or {}
    return parse_time(text(condition, "lastTransitionTime")) or now


# the end ------------------------------------------------------------------------------------------------------------


def _over(state: JobState) -> Raw | None:
    """The condition by which a Job is over, as stored or new; None: it goes on."""
    for kind in _FINAL:
        if is_condition_true(state.job, kind):
            return find_condition(state.job, kind)
    failure = _failure(state)
    if failure is not None:
        return _condition(FAILURE_TARGET, *failure)
    if _is_complete(state):
        return _condition(SUCCESS_CRITERIA_MET, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _condition(kind: str, reason: str, message: str, status: str = "True") -> Raw:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _failure(state: JobState) -> tuple[str, str] | None:
    """Reason and message of a Job that has failed."""
    tally, limit = state.tally, at(state.job, "spec.maxFailedIndexes")
    if tally.all_failed > integer(state.job, "spec.backoffLimit", 6):
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if (left := _deadline_seconds(state)) is not None and left <= 0:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    if not tally.failed_indexes:
        return None
    if isinstance(limit, int) and len(tally.failed_indexes) > limit:
        return "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
    if len(tally.failed_indexes) + len(tally.completed) >= integer(state.job, "spec.completions"):
        return "FailedIndexes", "Job has failed indexes"
    return None


def _deadline_seconds(state: JobState) -> float | None:
    """How long the Job may still run; None: without limit, or it does not run."""
    limit, start = at(state.job, "spec.activeDeadlineSeconds"), parse_time(text(state.job, "status.startTime"))
    if not isinstance(limit, int) or start is None or state.is_suspended:
        return None
    return (start + timedelta(seconds=limit) - state.now).total_seconds()


def _is_complete(state: JobState) -> bool:
    if state.active:
        return False
    if at(state.job, "spec.completions") is None:
        return state.tally.all_succeeded > 0
    return state.tally.all_succeeded >= integer(state.job, "spec.completions")


def _again(state: JobState, over: Raw | None, wait: float, actions: Sequence[Action]) -> float | None:
    """When to look again although nothing changes: pods to count, more than fit in one burst, backoff, deadline."""
    if over is not None:
        return None if state.tally.is_settled and not state.tally.settled else 0.0
    if state.tally.is_full:
        return 0.0
    waits = [seconds for seconds in (wait, _deadline_seconds(state)) if seconds]
    wanted = wanted_active(state.job, len(state.active), state.tally)
    if actions and abs(wanted - len(state.active)) > len(actions):
        waits.append(0.0)
    return min(waits, default=None)


# status -------------------------------------------------------------------------------------------------------------


def _status(state: JobState, over: Raw | None) -> Raw:
    conditions, start = _conditions(state, over)
    tally = state.tally
    is_complete = any(condition["type"] == COMPLETE for condition in conditions)
    status = {
        "conditions": conditions,
        "startTime": start,
        "completionTime": timestamp(state.now) if is_complete else None,
        "active": len(state.active),
        "ready": sum(map(is_ready, state.active)),
        "terminating": state.terminating,
        "succeeded": tally.succeeded,
        "failed": tally.failed,
        "completedIndexes": format_indexes(tally.completed) if is_indexed(state.job) else "",
        "failedIndexes": format_indexes(tally.failed_indexes) if tally.failed_indexes else "",
    }
    uncounted = without_zeros({"succeeded": [*tally.uncounted_succeeded], "failed": [*tally.uncounted_failed]})
    return {**without_zeros(status), "uncountedTerminatedPods": uncounted}


def _conditions(state: JobState, over: Raw | None) -> tuple[list[Raw], str]:
    """The conditions, and when the Job started: suspension begins and ends that."""
    conditions, start = items(state.job, "status.conditions"), text(state.job, "status.startTime")
    if over is not None:
        return _ended(state, conditions, over), start or timestamp(state.now)
    if state.is_suspended:
        return _with(conditions, _condition(SUSPENDED, "JobSuspended", "Job suspended"), state.now), ""
    if is_condition_true(state.job, SUSPENDED):
        resumed = _condition(SUSPENDED, "JobResumed", "Job resumed", "False")
        return _with(conditions, resumed, state.now), timestamp(state.now)
    return conditions, start or timestamp(state.now)


def _ended(state: JobState, conditions: Sequence[Raw], over: Raw) -> list[Raw]:
    ended = _with(conditions, over, state.now)
    if state.active or state.terminating or not state.tally.is_settled:
        return ended
    return _with(ended, _condition(_FINAL[over["type"]], over.get("reason", ""), over.get("message", "")), state.now)


def _with(conditions: Sequence[Raw], new: Raw, now: datetime) -> list[Raw]:
    return with_condition(conditions, new, now, "lastProbeTime")


CONTROLLER = Controller(JOBS, reconcile, (PODS,), release=release)

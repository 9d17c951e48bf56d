"""JobSets as their operator (v0.8) reconciles them: Jobs of each replicated job, in order where the user asks for one.

Rule: Jobs belong to the attempt that their label tells. A restart counts up in the status; Jobs of earlier attempts are
deleted before those of the next one, which have the same names, are created.

Simpler than the operator: exclusive placement is left to annotations on the pods, and a resumed Job keeps the template
that it was created with.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain

from msgspec import Struct

from muster.api.fields import at, integer, items, mapping, text, texts
from muster.api.moment import parse_time
from muster.api.resources import JOB_SETS, JOBS, SERVICES
from muster.workloads.conditions import find_condition, is_condition_true
from muster.workloads.operators.conditions import WorkloadCondition, set_condition
from muster.workloads.operators.job_set_jobs import (
    REPLICATED_JOB,
    JobCounts,
    JobSetJobs,
    ReplicatedJob,
    classify,
    count_jobs,
    job_name,
    new_job,
    replicated_jobs,
    subdomain,
)
from muster.workloads.operators.job_set_policies import JobSetRestart, failure_outcome, has_succeeded
from muster.workloads.operators.objects import bounded, flag, headless_service, name_of, removal
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation, Update

_OPERATOR = "jobset.sigs.k8s.io/jobset-controller"
_COMPLETED = WorkloadCondition("Completed", "AllJobsCompleted", "enough Jobs succeeded")
_SUSPENDED = WorkloadCondition("Suspended", "SuspendedJobs", "the JobSet is suspended")
_RESUMED = WorkloadCondition("Suspended", "ResumeJobs", "the JobSet is resumed", is_true=False)
_STARTING = WorkloadCondition(
    "StartupPolicyInProgress", "InOrderStartupPolicyInProgress", "replicated jobs start one after the other"
)
_STARTED = WorkloadCondition(
    "StartupPolicyCompleted", "InOrderStartupPolicyCompleted", "all replicated jobs have started"
)


class JobSetView(Struct, frozen=True):
    """A JobSet and what there is of it."""

    raw: Raw
    replicated: tuple[ReplicatedJob, ...]
    jobs: JobSetJobs
    counts: Mapping[str, JobCounts]

    @property
    def is_suspended(self) -> bool:
        """Whether it is to have no pods."""
        return flag(self.raw, "spec.suspend")

    @property
    def is_in_order(self) -> bool:
        """Whether a replicated job waits for those before it."""
        return text(self.raw, "spec.startupPolicy.startupPolicyOrder") == "InOrder"

    def has_started(self, replicated: ReplicatedJob) -> bool:
        """Whether all Jobs of a replicated job are ready, or were."""
        return self.counts[replicated.name].started == replicated.replicas


def reconcile(job_set: Raw, children: Children, now: datetime) -> Reconciliation:
    """Creates Jobs, restarts or ends the JobSet as its policies say, suspends and resumes; reports."""
    if is_terminating(job_set) or text(job_set, "spec.managedBy") not in ("", _OPERATOR):
        return Reconciliation()
    replicated = replicated_jobs(job_set)
    existing = children.of(job_set, JOBS)
    jobs = classify(existing, integer(job_set, "status.restarts"))
    view = JobSetView(job_set, replicated, jobs, count_jobs(jobs, [job.name for job in replicated]))
    if is_condition_true(job_set, "Completed") or is_condition_true(job_set, "Failed"):
        return _after_the_end(view, now)
    outdated = tuple(_deletions(jobs.previous))
    if jobs.failed:
        return Reconciliation(outdated, _status_after_failure(view, now))
    if jobs.succeeded and has_succeeded(job_set, replicated, jobs):
        return Reconciliation(outdated, _ended(_status(view), _COMPLETED, now))
    actions = chain(outdated, _service_actions(view, children), _job_actions(view), _suspension_actions(view))
    return bounded(actions, len(existing), {**_status(view), "conditions": _conditions(view, now)})


def _deletions(jobs: Sequence[Raw]) -> Iterator[Action]:
    return (removal(JOBS, job) for job in jobs if not is_terminating(job))


# the end ------------------------------------------------------------------------------------------------------------


def _after_the_end(view: JobSetView, now: datetime) -> Reconciliation:
    """Jobs that still run are deleted; the JobSet too, once its time to live is over."""
    actions, remaining = tuple(_deletions(view.jobs.active)), _seconds_to_live(view.raw, now)
    if remaining is not None and remaining <= 0:
        actions = (*actions, removal(JOB_SETS, view.raw))
    again = remaining if remaining and remaining > 0 else None
    return Reconciliation(actions, _status(view), again)


def _seconds_to_live(job_set: Raw, now: datetime) -> float | None:
    seconds = at(job_set, "spec.ttlSecondsAfterFinished")
    conditions = (find_condition(job_set, kind) for kind in ("Completed", "Failed"))
    ended = next((parse_time(text(condition, "lastTransitionTime")) for condition in conditions if condition), None)
    if not isinstance(seconds, int) or ended is None:
        return None
    return (ended + timedelta(seconds=min(max(seconds, 0), 10**9)) - now).total_seconds()


def _status_after_failure(view: JobSetView, now: datetime) -> Raw:
    status, outcome = _status(view), failure_outcome(view.raw, view.jobs.failed)
    if isinstance(outcome, WorkloadCondition):
        return _ended(status, outcome, now)
    return _restarted(status, outcome)


def _restarted(status: Raw, restart: JobSetRestart) -> Raw:
    counted = integer(status, "restartsCountTowardsMax") + restart.counts
    return {**status, "restarts": integer(status, "restarts") + 1, "restartsCountTowardsMax": counted}


def _ended(status: Raw, condition: WorkloadCondition, now: datetime) -> Raw:
    conditions = set_condition(items(status, "conditions"), condition, now)
    return {**status, "conditions": conditions, "terminalState": condition.type}


# Jobs and the service -----------------------------------------------------------------------------------------------


def _service_actions(view: JobSetView, children: Children) -> Iterator[Action]:
    name = subdomain(view.raw)
    if name and not children.of(view.raw, SERVICES):
        service = headless_service(view.raw, name, {"jobset.sigs.k8s.io/jobset-name": name_of(view.raw)})
        is_published = flag(view.raw, "spec.network.publishNotReadyAddresses", default=True)
        service["spec"]["publishNotReadyAddresses"] = is_published
        yield Create(SERVICES, service)


def _job_actions(view: JobSetView) -> Iterator[Action]:
    """Jobs that are missing. A replicated job that waits for others has none yet."""
    if view.jobs.previous and text(view.raw, "spec.failurePolicy.restartStrategy") == "BlockingRecreate":
        return
    present = {name_of(job) for jobs in (view.jobs.previous, view.jobs.active) for job in jobs}
    present |= {name_of(job) for jobs in (view.jobs.succeeded, view.jobs.failed) for job in jobs}
    total = sum(job.replicas for job in view.replicated)
    for replicated in _startable(view):
        for index in range(replicated.replicas):
            if job_name(view.raw, replicated, index) not in present:
                yield Create(JOBS, new_job(view.raw, replicated, index, total))


def _startable(view: JobSetView) -> Iterator[ReplicatedJob]:
    """Replicated jobs whose turn it is: in order, those that have started and the first that has not."""
    replicas = {job.name: job.replicas for job in view.replicated}
    for replicated in view.replicated:
        if not _has_dependencies(view, replicated, replicas):
            continue
        if view.is_in_order and not view.is_suspended and view.has_started(replicated):
            continue
        yield replicated
        if view.is_in_order and not view.is_suspended:
            return


def _has_dependencies(view: JobSetView, replicated: ReplicatedJob, replicas: Mapping[str, int]) -> bool:
    for name, state in replicated.depends_on[:1]:  # the API allows one
        counts = view.counts.get(name)
        reached = counts and {"Complete": counts.succeeded, "Ready": counts.started}.get(state)
        if reached != replicas.get(name):
            return False
    return True


def _suspension_actions(view: JobSetView) -> Iterator[Action]:
    startable = {replicated.name for replicated in _startable(view)}
    for job in view.jobs.active:
        is_startable = texts(job, "metadata.labels").get(REPLICATED_JOB) in startable
        if flag(job, "spec.suspend") != view.is_suspended and (view.is_suspended or is_startable):
            patch = {"spec": {"suspend": view.is_suspended}}
            yield Update(JOBS, text(job, "metadata.namespace"), name_of(job), patch)


# status -------------------------------------------------------------------------------------------------------------


def _status(view: JobSetView) -> Raw:
    status = dict(mapping(view.raw, "status"))
    status["replicatedJobsStatus"] = [
        {"name": name, **{field: getattr(counts, field) for field in JobCounts.__struct_fields__}}
        for name, counts in sorted(view.counts.items())
    ]
    return {"restarts": 0, **status}


def _conditions(view: JobSetView, now: datetime) -> list[Raw]:
    conditions = items(view.raw, "status.conditions")
    if view.is_suspended:
        return set_condition(conditions, _SUSPENDED, now)
    if view.is_in_order and not all(map(view.has_started, view.replicated)):
        return set_condition(conditions, _STARTING, now, excluded=(_STARTED.type,))
    if view.is_in_order:
        conditions = set_condition(conditions, _STARTED, now, excluded=(_STARTING.type,))
    return set_condition(conditions, _RESUMED, now)


CONTROLLER = Controller(JOB_SETS, reconcile, children=(JOBS, SERVICES))

"""CronJobs: a Job for each time of a schedule.

Rule: the last time that was served is the latest of the status and of the Jobs that exist, so that a status that could
not be written never runs a time twice.
"""

from collections.abc import Sequence
from copy import deepcopy
from datetime import datetime, timedelta

from muster.api.fields import at, integer, mapping, text, texts
from muster.api.moment import parse_time
from muster.api.resources import CRON_JOBS, JOBS
from muster.workloads.batch.cron_schedule import CronSchedule, parse_schedule
from muster.workloads.batch.jobs import COMPLETE, FAILED, is_job_finished
from muster.workloads.conditions import is_condition_true, timestamp, without_zeros
from muster.workloads.pod_templates import controller_reference, is_terminating
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation, Remove

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"  # annotation of Jobs
DELAY_SECONDS = 0.1  # after a time, so that it has surely come


def reconcile(cron_job: Raw, children: Children, now: datetime) -> Reconciliation:
    """Creates the Job of the latest time that is due, and deletes old Jobs."""
    jobs = children.of(cron_job, JOBS)
    status, cleaned = _status(cron_job, jobs), _clean_up(cron_job, jobs)
    if is_terminating(cron_job) or at(cron_job, "spec.suspend") is True:
        return Reconciliation(tuple(cleaned), status)
    try:
        schedule = parse_schedule(text(cron_job, "spec.schedule"), text(cron_job, "spec.timeZone"))
    except ValueError:  # API servers reject it
        return Reconciliation(tuple(cleaned), status)
    started = _start(cron_job, jobs, schedule, now)
    following = schedule.next(now)
    again = None if following is None else (following - now).total_seconds() + DELAY_SECONDS
    return Reconciliation((*cleaned, *started), status, again)


def _start(cron_job: Raw, jobs: Sequence[Raw], schedule: CronSchedule, now: datetime) -> list[Action]:
    due = _due(cron_job, jobs, schedule, now)
    active = [job for job in jobs if is_scheduled(job) and not is_job_finished(job)]
    policy = text(cron_job, "spec.concurrencyPolicy")
    if due is None or (policy == "Forbid" and active):
        return []
    replaced = active if policy == "Replace" else []
    return [*(_remove(job) for job in replaced), Create(JOBS, _new_job(cron_job, schedule, due))]


def _due(cron_job: Raw, jobs: Sequence[Raw], schedule: CronSchedule, now: datetime) -> datetime | None:
    """The latest time that was not served, if it is not too late for it."""
    latest = schedule.latest(now)
    since = _last_scheduled(cron_job, jobs) or parse_time(text(cron_job, "metadata.creationTimestamp")) or now
    deadline = at(cron_job, "spec.startingDeadlineSeconds")
    if isinstance(deadline, int):
        since = max(since, now - timedelta(seconds=deadline))
    return latest if latest is not None and latest > since else None


def is_scheduled(job: Raw) -> bool:
    """Whether a schedule made the Job, and not a user by hand."""
    return SCHEDULED in texts(job, "metadata.annotations")


def _last_scheduled(cron_job: Raw, jobs: Sequence[Raw]) -> datetime | None:
    stored = text(cron_job, "status.lastScheduleTime")
    times = map(parse_time, (stored, *(texts(job, "metadata.annotations").get(SCHEDULED, "") for job in jobs)))
    return max((time for time in times if time is not None), default=None)


def _new_job(cron_job: Raw, schedule: CronSchedule, due: datetime) -> Raw:
    template = mapping(cron_job, "spec.jobTemplate")
    local = due.astimezone(schedule.zone).isoformat().replace("+00:00", "Z")
    metadata = {
        "name": f"{text(cron_job, 'metadata.name')}-{int(due.timestamp()) // 60}",
        "namespace": text(cron_job, "metadata.namespace"),
        "labels": texts(template, "metadata.labels"),
        "annotations": {**texts(template, "metadata.annotations"), SCHEDULED: local},
        "ownerReferences": [controller_reference(cron_job)],
    }
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": metadata,
        "spec": deepcopy(mapping(template, "spec")),
    }


def _remove(job: Raw) -> Remove:
    metadata = job["metadata"]
    return Remove(JOBS, metadata.get("namespace", ""), metadata["name"], metadata["uid"])


def _clean_up(cron_job: Raw, jobs: Sequence[Raw]) -> list[Action]:
    """Deletes the oldest Jobs that ended, beyond the limits of the history."""
    limits = {COMPLETE: "successfulJobsHistoryLimit", FAILED: "failedJobsHistoryLimit"}
    removals: list[Action] = []
    for condition, field in limits.items():
        limit = integer(cron_job, f"spec.{field}", 3 if condition == COMPLETE else 1)
        ended = sorted((job for job in jobs if is_condition_true(job, condition)), key=_started_at)
        removals += [_remove(job) for job in ended[: max(0, len(ended) - limit)] if not is_terminating(job)]
    return removals


def _started_at(job: Raw) -> tuple[bool, str, str]:
    start = text(job, "status.startTime")
    return not start, start, text(job, "metadata.name")


def _status(cron_job: Raw, jobs: Sequence[Raw]) -> Raw:
    active = [job for job in jobs if is_scheduled(job) and not is_job_finished(job)]
    completed = [text(job, "status.completionTime") for job in jobs if is_condition_true(job, COMPLETE)]
    last = _last_scheduled(cron_job, jobs)
    status = {
        "active": [_reference(job) for job in active],
        "lastScheduleTime": timestamp(last) if last else None,
        "lastSuccessfulTime": max((text(cron_job, "status.lastSuccessfulTime"), *completed)),
    }
    return without_zeros(status)


def _reference(job: Raw) -> Raw:
    metadata = job["metadata"]
    named = {name: metadata.get(name, "") for name in ("name", "namespace", "uid")}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, **named}


CONTROLLER = Controller(CRON_JOBS, reconcile, (JOBS,))

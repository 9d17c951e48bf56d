"""When a JobSet has succeeded or failed, and when it starts over."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from muster.api.fields import at, integer, items, text, texts
from muster.workloads.conditions import find_condition
from muster.workloads.operators.conditions import WorkloadCondition
from muster.workloads.operators.job_set_jobs import REPLICATED_JOB, JobSetJobs, ReplicatedJob
from muster.workloads.operators.objects import name_of, strings
from muster.workloads.types import Raw


class JobSetRestart(Struct, frozen=True):
    """All Jobs start over."""

    counts: bool  # whether it is one of `maxRestarts`


def has_succeeded(job_set: Raw, replicated: Sequence[ReplicatedJob], jobs: JobSetJobs) -> bool:
    """Whether enough Jobs succeeded: all of the targets, or any of them."""
    targets = set(strings(job_set, "spec.successPolicy.targetReplicatedJobs")) or {job.name for job in replicated}
    succeeded = sum(1 for job in jobs.succeeded if _replicated_name(job) in targets)
    if text(job_set, "spec.successPolicy.operator") == "Any":
        return succeeded >= 1
    return succeeded >= sum(job.replicas for job in replicated if job.name in targets)


def failure_outcome(job_set: Raw, failed: Sequence[Raw]) -> JobSetRestart | WorkloadCondition:
    """What the failure policy says of these failed Jobs."""
    first = min(failed, key=_failure_time)
    if at(job_set, "spec.failurePolicy") is None:
        return _failure("FailedJobs", "a Job failed and there is no failure policy", first)
    rule, job = next(_matching_rules(job_set, failed), ("RestartJobSet", first))
    if rule == "FailJobSet":
        return _failure("FailJobSetFailurePolicyAction", "a rule of the failure policy fails the JobSet", job)
    if rule == "RestartJobSetAndIgnoreMaxRestarts":
        return JobSetRestart(counts=False)
    if integer(job_set, "status.restartsCountTowardsMax") >= integer(job_set, "spec.failurePolicy.maxRestarts"):
        return _failure("ReachedMaxRestarts", "it was restarted as often as `maxRestarts` allows", job)
    return JobSetRestart(counts=True)


def _matching_rules(job_set: Raw, failed: Sequence[Raw]) -> Iterator[tuple[str, Raw]]:
    """Each rule that concerns a failed Job, with the first of them to fail."""
    for rule in items(job_set, "spec.failurePolicy.rules"):
        if concerned := [job for job in failed if _concerns(rule, job)]:
            yield text(rule, "action"), min(concerned, key=_failure_time)


def _concerns(rule: Raw, job: Raw) -> bool:
    reasons, targets = strings(rule, "onJobFailureReasons"), strings(rule, "targetReplicatedJobs")
    reason = text(find_condition(job, "Failed"), "reason")
    return (not reasons or reason in reasons) and (not targets or _replicated_name(job) in targets)


def _replicated_name(job: Raw) -> str:
    return texts(job, "metadata.labels").get(REPLICATED_JOB, "")


def _failure_time(job: Raw) -> tuple[str, str]:
    return text(find_condition(job, "Failed"), "lastTransitionTime"), name_of(job)


def _failure(reason: str, message: str, job: Raw) -> WorkloadCondition:
    return WorkloadCondition("Failed", reason, f"{message} (first failed Job: {name_of(job)})")

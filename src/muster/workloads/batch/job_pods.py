"""Which pods a Job creates and deletes."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from muster.api.fields import at, integer, items, mapping, text
from muster.api.moment import parse_time
from muster.api.resources import PODS
from muster.workloads.apps.replica_sets import remove_pod
from muster.workloads.batch.job_indexes import COMPLETION_INDEX, INDEX_FAILURES, completion_index, index_failures
from muster.workloads.batch.job_tally import (
    TRACKING_FINALIZER,
    JobTally,
    is_failed,
    is_indexed,
    is_tracked,
    without_tracking,
)
from muster.workloads.bursts import burst_beside
from muster.workloads.pod_templates import LONGEST_GENERATED, deletion_order, is_terminating, new_pod, phase
from muster.workloads.types import Action, Create, Raw, Update

FIRST_BACKOFF, LONGEST_BACKOFF = timedelta(seconds=10), timedelta(minutes=10)  # after failures
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def delete_pods(pods: Iterable[Raw]) -> tuple[Action, ...]:
    """Deletes pods that are not to count as failed: without their finalizer."""
    doomed = list(pods)
    chosen = doomed[: burst_beside(len(doomed))]
    freed = [remove_tracking(pod) for pod in chosen if is_tracked(pod)]
    return (*freed, *(remove_pod(pod) for pod in chosen))


def remove_tracking(pod: Raw) -> Update:
    """Removes the finalizer of a pod that is counted, or never will be."""
    metadata = pod["metadata"]
    return Update(PODS, metadata.get("namespace", ""), metadata["name"], without_tracking(pod))


def wanted_active(job: Raw, active: int, tally: JobTally) -> int:
    """How many pods are to run: no more than completions are missing."""
    parallelism = integer(job, "spec.parallelism", 1)
    if at(job, "spec.completions") is None:
        return active if tally.all_succeeded else parallelism
    failed = len(tally.failed_indexes or ())
    return max(0, min(parallelism, integer(job, "spec.completions") - tally.all_succeeded - failed))


def surplus_pods(job: Raw, active: Sequence[Raw], surplus: int) -> list[Raw]:
    """Pods to delete: those that double an index or have none of the Job's, then as many as are too many."""
    doubled = _doubled(active, integer(job, "spec.completions")) if is_indexed(job) else []
    if len(doubled) >= surplus:
        return doubled
    uids = {pod["metadata"]["uid"] for pod in doubled}
    others = [pod for pod in active if pod["metadata"]["uid"] not in uids]
    return doubled + deletion_order(others)[: surplus - len(doubled)]


def _doubled(active: Sequence[Raw], completions: int) -> list[Raw]:
    by_index: dict[int | None, list[Raw]] = {}
    for pod in active:
        index = completion_index(pod)
        by_index.setdefault(index if index is not None and index < completions else None, []).append(pod)
    without_index = by_index.pop(None, [])
    return without_index + [pod for pods in by_index.values() for pod in deletion_order(pods)[:-1]]


# new pods -----------------------------------------------------------------------------------------------------------


def create_pods(job: Raw, pods: Sequence[Raw], active: Sequence[Raw], tally: JobTally, missing: int) -> list[Action]:
    """New pods; those of an Indexed Job have the lowest indexes that have none."""
    count = min(missing, burst_beside(len(active)))
    if not is_indexed(job):
        return [Create(PODS, new_job_pod(job)) for _ in range(count)]
    taken = {completion_index(pod) for pod in active} | tally.completed | (tally.failed_indexes or frozenset())
    if text(job, "spec.podReplacementPolicy") == "Failed":
        taken |= {completion_index(pod) for pod in pods if is_terminating(pod)}
    return [Create(PODS, _indexed_pod(job, index, tally)) for index in _lowest_missing(job, taken, count)]


def _lowest_missing(job: Raw, taken: set[int | None], count: int) -> list[int]:
    indexes: list[int] = []
    for index in range(integer(job, "spec.completions")):
        if len(indexes) == count:
            break
        if index not in taken:
            indexes.append(index)
    return indexes


def new_job_pod(job: Raw) -> Raw:
    """A pod of a Job, with the finalizer that it has until it is counted."""
    pod = new_pod(job, mapping(job, "spec.template"))
    finalizers = pod["metadata"].get("finalizers", [])
    pod["metadata"]["finalizers"] = [*(name for name in finalizers if name != TRACKING_FINALIZER), TRACKING_FINALIZER]
    return pod


def _indexed_pod(job: Raw, index: int, tally: JobTally) -> Raw:
    pod, name = new_job_pod(job), text(job, "metadata.name")
    metadata, spec = pod["metadata"], pod["spec"]
    suffix = f"-{index}-"
    is_long = len(name + suffix) > LONGEST_GENERATED
    metadata["generateName"] = (name[: LONGEST_GENERATED - len(suffix)] if is_long else name) + suffix
    metadata["labels"] = {**metadata.get("labels", {}), COMPLETION_INDEX: str(index)}
    metadata["annotations"] = {**metadata.get("annotations", {}), COMPLETION_INDEX: str(index)}
    if tally.failed_indexes is not None:
        before = tally.awaited.get(index)
        metadata["annotations"][INDEX_FAILURES] = str(index_failures(before) + 1 if before else 0)
    spec["hostname"] = f"{name}-{index}"
    for container in (*items(spec, "initContainers"), *items(spec, "containers")):
        _add_index_variable(container)
    return pod


def _add_index_variable(container: Raw) -> None:
    if not any(variable.get("name") == INDEX_VARIABLE for variable in items(container, "env")):
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
        container["env"] = [*items(container, "env"), {"name": INDEX_VARIABLE, "valueFrom": source}]


# backoff ------------------------------------------------------------------------------------------------------------


def backoff_seconds(job: Raw, pods: Sequence[Raw], now: datetime) -> float:
    """How long to wait before the next pod, after the failures since the last success; 0: not at all.

    Pods that are gone are forgotten; Kubernetes remembers them while its controller runs.
    """
    succeeded = max((finished_at(pod) for pod in pods if phase(pod) == "Succeeded"), default=None)
    times = [finished_at(pod) for pod in pods if is_failed(job, pod)]
    failed = [time for time in times if succeeded is None or time > succeeded]
    if not failed:
        return 0.0
    doublings: int = 2 ** min(len(failed) - 1, 20)
    backoff = min(LONGEST_BACKOFF, FIRST_BACKOFF * doublings)
    return max(0.0, (max(failed) + backoff - now).total_seconds())


def finished_at(pod: Raw) -> datetime:
    """When a pod ended: its last container, else when it became unready, was deleted, or was created."""
    ends = [text(status, "state.terminated.finishedAt") for status in items(pod, "status.containerStatuses")]
    conditions = [condition for condition in items(pod, "status.conditions") if condition.get("type") == "Ready"]
    unready = [text(condition, "lastTransitionTime") for condition in conditions if condition.get("status") == "False"]
    deleted = parse_time(text(pod, "metadata.deletionTimestamp"))
    if ends and all(ends):
        unready = ends
    times = [time for time in map(parse_time, unready) if time]
    if times:
        return max(times)
    grace = timedelta(seconds=integer(pod, "metadata.deletionGracePeriodSeconds"))
    return deleted - grace if deleted else parse_time(text(pod, "metadata.creationTimestamp")) or NEVER


NEVER = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

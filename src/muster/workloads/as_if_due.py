"""Workloads that make all of their pods now, and not later or one after the other: plans are about all pods.

Rule: only waiting for time or for readiness ends; a replicated job that waits for another to complete still waits.
"""

from collections.abc import Callable, Mapping

from muster.api.fields import items, mapping, text
from muster.api.grove.pod_clique_set import ON_DELETE
from muster.api.resources import CRON_JOBS, JOB_SETS, POD_CLIQUE_SETS, STATEFUL_SETS, Resource
from muster.workloads.merge_patch import merged
from muster.workloads.types import Raw

Dependency = tuple[str, str]  # the name of a replicated job, and what it has to be


def as_if_due(resource: Resource, raw: Raw) -> Raw:
    """The workload without what it waits for; other kinds stay as they are."""
    change = _CHANGES.get(resource)
    return raw if change is None else change(raw)


def _stateful_set(raw: Raw) -> Raw:
    return merged(raw, {"spec": {"podManagementPolicy": "Parallel"}})


def _cron_job(raw: Raw) -> Raw:
    spec = {"schedule": "* * * * *", "startingDeadlineSeconds": None, "timeZone": None}
    return merged(raw, {"metadata": {"creationTimestamp": "1999-12-31T23:00:00Z"}, "spec": spec, "status": None})


def _pod_clique_set(raw: Raw) -> Raw:
    """Without an update: pods that exist stay, and only those that are missing are made."""
    return merged(raw, {"spec": {"updateStrategy": {"type": ON_DELETE}}})


def _job_set(raw: Raw) -> Raw:
    """Without an order among its replicated jobs, and without dependencies that are ready as soon as they exist."""
    spec = mapping(raw, "spec")
    if not isinstance(spec.get("replicatedJobs"), list):
        return raw
    waiting = _waiting({text(job, "name"): _dependency(job) for job in items(spec, "replicatedJobs")})
    jobs = [job if text(job, "name") in waiting else {**job, "dependsOn": []} for job in items(spec, "replicatedJobs")]
    return {**raw, "spec": {**spec, "startupPolicy": {}, "replicatedJobs": jobs}}


def _dependency(job: Raw) -> Dependency | None:
    """What a replicated job waits for: the API allows one."""
    return next(((text(other, "name"), text(other, "status")) for other in items(job, "dependsOn")), None)


def _waiting(dependencies: Mapping[str, Dependency | None]) -> set[str]:
    """Replicated jobs that wait for one to complete, for one that waits so, or in a circle."""
    waits: dict[str, bool] = {}
    for name in dependencies:
        path: dict[str, None] = {}
        while name in dependencies and name not in waits and name not in path:
            path[name] = None
            name, state = dependencies[name] or ("", "Ready")
            if state != "Ready" and name in dependencies:
                waits.update(dict.fromkeys(path, True))
        is_waiting = waits.get(name, name in path)
        waits.update(dict.fromkeys(path.keys() - waits.keys(), is_waiting))
    return {name for name, is_waiting in waits.items() if is_waiting}


_CHANGES: Mapping[Resource, Callable[[Raw], Raw]] = {
    STATEFUL_SETS: _stateful_set,
    CRON_JOBS: _cron_job,
    JOB_SETS: _job_set,
    POD_CLIQUE_SETS: _pod_clique_set,
}

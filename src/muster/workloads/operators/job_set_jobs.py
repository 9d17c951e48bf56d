"""The Jobs of a JobSet: those that exist, by their fate, and those to create, with the operator's labels."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from muster.api.fields import integer, items, mapping, number, text, texts
from muster.api.resources import JOBS
from muster.workloads.conditions import is_condition_true
from muster.workloads.operators.objects import MOST_CHILDREN, child, flag, labelled_template, name_of, sha1_of
from muster.workloads.types import Raw

_PREFIX = "jobset.sigs.k8s.io"
# labels, and annotations of the same names
JOB_SET, REPLICATED_JOB, ATTEMPT = (
    f"{_PREFIX}/jobset-name",
    f"{_PREFIX}/replicatedjob-name",
    f"{_PREFIX}/restart-attempt",
)
REPLICAS, GLOBAL_REPLICAS = f"{_PREFIX}/replicatedjob-replicas", f"{_PREFIX}/global-replicas"
JOB_INDEX, GLOBAL_INDEX, JOB_KEY = f"{_PREFIX}/job-index", f"{_PREFIX}/job-global-index", f"{_PREFIX}/job-key"
COORDINATOR = f"{_PREFIX}/coordinator"
# annotations that users set
EXCLUSIVE, NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/exclusive-topology", "alpha.jobset.sigs.k8s.io/node-selector"


class ReplicatedJob(Struct, frozen=True):
    """One of `spec.replicatedJobs`."""

    name: str
    replicas: int
    first_index: int  # of its first Job among all Jobs of the JobSet
    template: Raw  # of Jobs
    depends_on: tuple[tuple[str, str], ...] = ()  # names of replicated jobs, and what they have to be


class JobCounts(Struct, frozen=True):
    """How many Jobs of a replicated job are in which state."""

    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    active: int = 0
    suspended: int = 0

    @property
    def started(self) -> int:
        """Jobs whose pods are ready or were."""
        return self.ready + self.succeeded + self.failed


class JobSetJobs(Struct, frozen=True):
    """The Jobs of a JobSet by their fate."""

    previous: tuple[Raw, ...] = ()  # of attempts before this one
    active: tuple[Raw, ...] = ()
    succeeded: tuple[Raw, ...] = ()
    failed: tuple[Raw, ...] = ()


def replicated_jobs(job_set: Raw) -> tuple[ReplicatedJob, ...]:
    """The replicated jobs in the order of the spec."""
    replicated, first = list[ReplicatedJob](), 0
    for raw in items(job_set, "spec.replicatedJobs"):
        replicas = min(integer(raw, "replicas", 1), MOST_CHILDREN - first)
        depends_on = tuple((text(other, "name"), text(other, "status")) for other in items(raw, "dependsOn"))
        replicated.append(ReplicatedJob(text(raw, "name"), replicas, first, mapping(raw, "template"), depends_on))
        first += replicas
    return tuple(replicated)


def classify(jobs: Iterable[Raw], attempt: int) -> JobSetJobs:
    """Jobs of earlier attempts, and those of this one by their fate."""
    fates: dict[str, list[Raw]] = {"previous": [], "active": [], "succeeded": [], "failed": []}
    for job in jobs:
        fates[_fate(job, attempt)].append(job)
    return JobSetJobs(**{fate: tuple(members) for fate, members in fates.items()})


def _fate(job: Raw, attempt: int) -> str:
    if (number(texts(job, "metadata.labels").get(ATTEMPT, "")) or 0) < attempt:
        return "previous"
    if is_condition_true(job, "Failed"):
        return "failed"
    return "succeeded" if is_condition_true(job, "Complete") else "active"


def count_jobs(jobs: JobSetJobs, names: Iterable[str]) -> Mapping[str, JobCounts]:
    """The counts of each replicated job."""
    counts: dict[str, dict[str, int]] = {name: dict.fromkeys(JobCounts.__struct_fields__, 0) for name in names}
    for fate, members in (("succeeded", jobs.succeeded), ("failed", jobs.failed)):
        for job in members:
            _count(counts, job, fate)
    for job in jobs.active:
        for state in _states(job):
            _count(counts, job, state)
    return {name: JobCounts(**values) for name, values in counts.items()}


def _count(counts: dict[str, dict[str, int]], job: Raw, state: str) -> None:
    name = texts(job, "metadata.labels").get(REPLICATED_JOB, "")
    if name in counts:
        counts[name][state] += 1


def _states(job: Raw) -> Iterable[str]:
    parallelism = integer(job, "spec.parallelism", 1)
    wanted = min(parallelism, integer(job, "spec.completions", parallelism))
    if integer(job, "status.succeeded") + integer(job, "status.ready") >= wanted:
        yield "ready"
    if integer(job, "status.active"):
        yield "active"
    if flag(job, "spec.suspend"):
        yield "suspended"


def job_name(job_set: Raw, replicated: ReplicatedJob, index: int) -> str:
    """The name of a Job."""
    return f"{name_of(job_set)}-{replicated.name}-{index}"


def subdomain(job_set: Raw) -> str:
    """The service that names the pods; empty: the user wants none."""
    if not flag(job_set, "spec.network.enableDNSHostnames", default=True):
        return ""
    return text(job_set, "spec.network.subdomain") or name_of(job_set)


def new_job(job_set: Raw, replicated: ReplicatedJob, index: int, total: int) -> Raw:
    """A Job; `total`: Jobs of the whole JobSet. Job and pods tell their place in labels and in annotations."""
    labels = _labels(job_set, replicated, index, total)
    annotations = labels | _placement(job_set, replicated)
    template = labelled_template(mapping(replicated.template, "spec.template"), labels, annotations)
    template["spec"] = {"restartPolicy": "OnFailure", **mapping(template, "spec")}
    if domain := subdomain(job_set):
        template["spec"]["subdomain"] = domain
    spec = {"completionMode": "Indexed", **mapping(replicated.template, "spec"), "template": template}
    spec["suspend"] = flag(job_set, "spec.suspend")
    return child(
        job_set,
        JOBS,
        job_name(job_set, replicated, index),
        spec,
        labels=texts(replicated.template, "metadata.labels") | labels,
        annotations=texts(replicated.template, "metadata.annotations") | annotations,
    )


def _labels(job_set: Raw, replicated: ReplicatedJob, index: int, total: int) -> dict[str, str]:
    name = job_name(job_set, replicated, index)
    labels = {
        JOB_SET: name_of(job_set),
        REPLICATED_JOB: replicated.name,
        ATTEMPT: str(integer(job_set, "status.restarts")),
        REPLICAS: str(replicated.replicas),
        GLOBAL_REPLICAS: str(total),
        JOB_INDEX: str(index),
        JOB_KEY: sha1_of(f"{text(job_set, 'metadata.namespace')}/{name}"),
        GLOBAL_INDEX: str(replicated.first_index + index),
    }
    coordinator = mapping(job_set, "spec.coordinator")
    if coordinator:
        place = f"{integer(coordinator, 'jobIndex')}-{integer(coordinator, 'podIndex')}"
        pod = f"{name_of(job_set)}-{text(coordinator, 'replicatedJob')}-{place}"
        labels[COORDINATOR] = f"{pod}.{text(job_set, 'spec.network.subdomain') or name_of(job_set)}"
    return labels


def _placement(job_set: Raw, replicated: ReplicatedJob) -> dict[str, str]:
    placement: dict[str, str] = {}
    for raw in (job_set, replicated.template):
        annotations = texts(raw, "metadata.annotations")
        if EXCLUSIVE in annotations:
            placement |= {key: annotations[key] for key in (EXCLUSIVE, NODE_SELECTOR) if key in annotations}
    return placement

"""JobSet: a branch for every replicated job, and in it a leaf for every replica.

All replicated jobs are needed that the controller creates at once. Those that it creates after others are ready or
complete (`startupPolicy: InOrder`, `dependsOn`) come as gangs of their own: what is waited for would wait for them.
"""

from collections.abc import Iterator

from muster.api import names
from muster.grouping.annotations import BATCH_MINIMUM, batch_minimum, stated_number
from muster.grouping.fields import integer, items, number, text, texts
from muster.grouping.gangs import gang_of_tree, lacks_label
from muster.grouping.topology import template_constraint
from muster.grouping.tree import Part, build_tree, remember
from muster.grouping.types import GangTree, GroupingRequest, Owner, Raw, Ungrouped

REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"  # label
JOB_INDEX = "jobset.sigs.k8s.io/job-index"  # label
AT_ONCE = "replicated jobs that are created at once; the others follow as gangs of their own"


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<jobset>-<uid>`."""
    owner, labels = request.owner, request.pod.metadata.labels
    job, index = labels.get(REPLICATED_JOB, ""), number(labels.get(JOB_INDEX, ""))
    if not job or index is None:
        return lacks_label(request.pod, JOB_INDEX if job else REPLICATED_JOB, owner)
    tree = remember(owner, "jobset", lambda: _problem(owner) or build_tree(_branches(owner), *_needed(owner)))
    return gang_of_tree(owner, tree, (job, _replica(job, index)))


def _problem(owner: Owner) -> Ungrouped | None:
    """An annotation that is no number, on the JobSet or on a template."""
    of_jobs = (texts(job, "template.metadata.annotations") for job in items(owner.spec, "replicatedJobs"))
    minimums = (stated_number(texts_, names.BATCH_MIN_MEMBER, owner) for texts_ in of_jobs)
    return next((each for each in (batch_minimum(owner), *minimums) if isinstance(each, Ungrouped)), None)


def _needed(owner: Owner) -> tuple[int | None, str]:
    """How many replicated jobs are needed; None: all."""
    minimum = batch_minimum(owner)
    if isinstance(minimum, int):
        return minimum, BATCH_MINIMUM
    if text(owner.spec, "startupPolicy.startupPolicyOrder") == "InOrder":
        return 1, "spec.startupPolicy.startupPolicyOrder: InOrder; the others follow as gangs of their own"
    jobs = [job for job in items(owner.spec, "replicatedJobs") if _pods(job) and integer(job, "replicas", 1)]
    followers = sum(bool(items(job, "dependsOn")) for job in jobs)
    return (len(jobs) - followers, AT_ONCE) if followers else (None, "")


def _branches(owner: Owner) -> Iterator[Part]:
    for job in items(owner.spec, "replicatedJobs"):
        if name := text(job, "name"):
            yield Part(name=name, parts=_replicas(job, name), source=f"replicas of replicated job {name}")


def _replicas(job: Raw, name: str) -> Iterator[Part]:
    count, pods = integer(job, "replicas", 1), _pods(job)
    annotations = texts(job, "template.metadata.annotations")
    minimum = number(annotations.get(names.BATCH_MIN_MEMBER, ""))
    source = f"{BATCH_MINIMUM} of its template" if minimum else f"parallelism of replicated job {name}"
    constraint = template_constraint(job.get("template") or {})
    for index in range(count if pods else 0):
        yield Part(name=_replica(name, index), need=minimum or pods, source=source, constraint=constraint)


def _replica(job: str, index: int) -> str:
    return f"{job}-replica-{index}"


def _pods(job: Raw) -> int:
    """How many pods a Job has at a time."""
    parallelism = integer(job, "template.spec.parallelism", 1)
    return min(parallelism, integer(job, "template.spec.completions", parallelism))

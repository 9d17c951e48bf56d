"""JobSet: a branch for every replicated job, and in it a leaf for every replica.

All replicated jobs are needed that the controller creates at once. Those that it creates after others are ready or
complete (`startupPolicy: InOrder`, `dependsOn`) come as gangs of their own: what is waited for would wait for them.
With an exclusive topology, JobSet's webhook admits the first pod of a replica and the others once it has a node, so a
replica is a branch of `leader` and `followers`, which count once they exist.
"""

from collections.abc import Iterator

from muster.api import names
from muster.grouping.annotations import BATCH_MINIMUM, batch_minimum, stated_number
from muster.grouping.fields import integer, items, number, text, texts
from muster.grouping.gangs import gang_of_tree, lacks_label
from muster.grouping.topology import template_constraint
from muster.grouping.tree import Part, Path, build_tree, remember
from muster.grouping.types import GangTree, GroupingRequest, Owner, Raw, Ungrouped

REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"  # label
JOB_INDEX = "jobset.sigs.k8s.io/job-index"  # label
POD_INDEX = "batch.kubernetes.io/job-completion-index"  # label
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"  # annotation, on the JobSet or on a template
BY_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"  # annotation beside it: nodes are labelled, and no pod waits
LEADER, FOLLOWERS = "leader", "followers"
AT_ONCE = "replicated jobs that are created at once; the others follow as gangs of their own"


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<jobset>-<uid>`."""
    owner, labels = request.owner, request.pod.metadata.labels
    job, index = labels.get(REPLICATED_JOB, ""), number(labels.get(JOB_INDEX, ""))
    if not job or index is None:
        return lacks_label(request.pod, JOB_INDEX if job else REPLICATED_JOB, owner)
    tree = remember(owner, "jobset", lambda: _problem(owner) or build_tree(_branches(owner), *_needed(owner)))
    return gang_of_tree(owner, tree, _path(request, job, index))


def _path(request: GroupingRequest, job: str, index: int) -> Path:
    replica = _replica(job, index)
    if job not in remember(request.owner, "exclusive", lambda: _exclusive_jobs(request.owner)):
        return (job, replica)
    is_leader = request.pod.metadata.labels.get(POD_INDEX) == "0"
    return (job, replica, f"{replica}-{LEADER if is_leader else FOLLOWERS}")


def _exclusive_jobs(owner: Owner) -> frozenset[str]:
    return frozenset(text(job, "name") for job in items(owner.spec, "replicatedJobs") if _waits(owner, job))


def _waits(owner: Owner, job: Raw) -> bool:
    """Whether pods of a replica are not admitted before its first pod has a node."""
    annotations = {**owner.metadata.annotations, **texts(job, "template.metadata.annotations")}
    return bool(annotations.get(EXCLUSIVE)) and not annotations.get(BY_SELECTOR) and _pods(job) > 1


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
            replicas = _replicas(job, name, waits=_waits(owner, job))
            yield Part(name=name, parts=replicas, source=f"replicas of replicated job {name}")


def _replicas(job: Raw, name: str, *, waits: bool) -> Iterator[Part]:
    count, pods = integer(job, "replicas", 1), _pods(job)
    annotations = texts(job, "template.metadata.annotations")
    minimum = number(annotations.get(names.BATCH_MIN_MEMBER, ""))
    source = f"{BATCH_MINIMUM} of its template" if minimum else f"parallelism of replicated job {name}"
    constraint = template_constraint(job.get("template") or {})
    for index in range(count if pods else 0):
        replica, need = _replica(name, index), minimum or pods
        if waits:
            yield Part(name=replica, parts=_leader_first(replica, need, source), constraint=constraint)
        else:
            yield Part(name=replica, need=need, source=source, constraint=constraint)


def _leader_first(replica: str, need: int, source: str) -> Iterator[Part]:
    yield Part(name=f"{replica}-{LEADER}", need=1, source="the first pod of a replica, before the others are admitted")
    yield Part(
        name=f"{replica}-{FOLLOWERS}",
        need=need - 1,
        source=f"{source}, less its first pod",
        is_needed=need > 1,
        is_late=True,
    )


def _replica(job: str, index: int) -> str:
    return f"{job}-replica-{index}"


def _pods(job: Raw) -> int:
    """How many pods a Job has at a time."""
    parallelism = integer(job, "template.spec.parallelism", 1)
    return min(parallelism, integer(job, "template.spec.completions", parallelism))

"""LeaderWorkerSet: every replica is a gang of a leader and its workers, in segments where the workload has them.

Worker i belongs to segment (i - 1) // g where the leader is one more than full segments, else to i // g; index 0 is the
leader, in the first segment. With `startupPolicy: LeaderReady` the controller creates the workers once the leader is
ready, and with an exclusive topology once it has a node, so they count once they exist.

With `groupIdentity: Hash` a Deployment makes the leaders, and a replica has no index: the webhook writes the key of the
group in its place.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from muster.api import names
from muster.api.podgroup import TopologyConstraint
from muster.grouping.annotations import segment_size
from muster.grouping.fields import integer, mapping, number, text, texts
from muster.grouping.gangs import gang_of_tree, lacks_label, owner_gang_name, remembered_tree
from muster.grouping.topology import segment_constraint, template_constraint
from muster.grouping.tree import Part, Path
from muster.grouping.types import GangTree, GroupingRequest, Owner, Ungrouped, WorkloadPod

GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"  # label
GROUP_KEY = "leaderworkerset.sigs.k8s.io/group-key"  # label
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"  # label
SIZE = "leaderworkerset.sigs.k8s.io/size"  # annotation: of the pod's own group, which an update may leave behind
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"  # annotation, on the LeaderWorkerSet
LEADER, WORKERS = "leader", "workers"
SIZE_PATH = "spec.leaderWorkerTemplate.size"


class LeaderWorkerGroup(Struct, frozen=True):
    """One replica: how many pods it has, and how they are divided."""

    size: int  # leader included
    segment: int = 0  # workers of a segment; 0: there are none
    is_leader_excluded: bool = False  # from the first segment
    is_leader_first: bool = False  # workers come once the leader is ready, or has a node

    @property
    def is_leader_extra(self) -> bool:
        """Whether the workers alone fill the segments."""
        return (self.size - 1) % self.segment == 0

    def segment_of(self, worker: int) -> int:
        """The segment of a worker, by its index from 1."""
        return (worker - 1) // self.segment if self.is_leader_extra else worker // self.segment

    def workers_in(self, segment: int) -> int:
        """How many workers, without the leader, a segment really has."""
        first = segment * self.segment + (1 if self.is_leader_extra else 0)
        return max(min(first + self.segment, self.size) - max(first, 1), 0)


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<lws>-<uid>-group-<i>` for every replica."""
    owner, labels = request.owner, request.pod.metadata.labels
    identity, worker = _identity(labels), number(labels.get(WORKER_INDEX, ""))
    if not identity or worker is None:
        return lacks_label(request.pod, WORKER_INDEX if identity else GROUP_INDEX, owner)
    replica = _replica(owner, request.pod)
    if isinstance(replica, Ungrouped):
        return replica
    tree = remembered_tree(owner, replica, _parts(owner, replica))
    return gang_of_tree(owner, tree, _path(replica, worker), owner_gang_name(owner, "group", identity))


def _identity(labels: Mapping[str, str]) -> str:
    """What tells the replica of a pod from others: its index, or its key; empty: the labels do not say."""
    stated = labels.get(GROUP_INDEX, "")
    index = number(stated)
    if index is not None:
        return str(index)
    return stated if stated == labels.get(GROUP_KEY) else ""


def _replica(owner: Owner, pod: WorkloadPod) -> LeaderWorkerGroup | Ungrouped:
    spec = mapping(owner.spec, "leaderWorkerTemplate")
    size = max(number(pod.metadata.annotations.get(SIZE, "")) or integer(spec, "size", 1), 1)
    segment = integer(spec, "subGroupPolicy.subGroupSize") or _annotated_segment(owner)
    is_first = text(owner.spec, "startupPolicy") == "LeaderReady" or EXCLUSIVE in owner.metadata.annotations
    if isinstance(segment, Ungrouped):
        return segment
    if not segment or size == 1:
        return LeaderWorkerGroup(size, is_leader_first=is_first)
    if not 2 <= segment <= size:
        return _wrong_segment(owner, segment, size)
    is_excluded = text(spec, "subGroupPolicy.subGroupPolicyType") == "LeaderExcluded"
    return LeaderWorkerGroup(size, segment, is_excluded, is_first)


def _annotated_segment(owner: Owner) -> int | Ungrouped | None:
    of_workers = texts(owner.spec, "leaderWorkerTemplate.workerTemplate.metadata.annotations")
    return segment_size(owner, owner.metadata.annotations, of_workers)


def _wrong_segment(owner: Owner, segment: int, size: int) -> Ungrouped:
    return Ungrouped(
        "InvalidSegments",
        f"segments of {segment} do not fit the {size} pods of a replica of LeaderWorkerSet `{owner.metadata.name}`: "
        "the pod is not grouped",
        f"between 2 and {size}, in `subGroupPolicy.subGroupSize` or annotation `{names.SEGMENT_SIZE}`",
    )


def _path(replica: LeaderWorkerGroup, worker: int) -> Path:
    if not replica.segment:
        return (LEADER,) if worker == 0 else (WORKERS,)
    if worker == 0:
        return (LEADER,) if replica.is_leader_excluded else (_segment(0), LEADER)
    segment = replica.segment_of(worker)
    is_nested = segment == 0 and not replica.is_leader_excluded
    return (_segment(segment), WORKERS) if is_nested else (_segment(segment),)


def _segment(index: int) -> str:
    return f"segment-{index}"


def _parts(owner: Owner, replica: LeaderWorkerGroup) -> Iterator[Part]:
    leader = Part(name=LEADER, need=1, source="one leader a replica", constraint=_role_constraint(owner, "leader"))
    if not replica.segment:
        yield leader
        if replica.size > 1:
            constraint = _role_constraint(owner, "worker")
            yield _workers(WORKERS, replica, replica.size - 1, f"{SIZE_PATH} - 1", constraint)
        return
    if replica.is_leader_excluded:
        yield leader
    yield from _segments(owner, replica, leader)


def _segments(owner: Owner, replica: LeaderWorkerGroup, leader: Part) -> Iterator[Part]:
    annotations = texts(owner.spec, "leaderWorkerTemplate.workerTemplate.metadata.annotations")
    constraint = segment_constraint({**owner.metadata.annotations, **annotations}, owner)
    for index in range(replica.segment_of(replica.size - 1) + 1):
        count = replica.workers_in(index)
        source = f"workers of segment {index} in {SIZE_PATH}: {replica.size}, by {replica.segment}"
        if index or replica.is_leader_excluded:
            yield _workers(_segment(index), replica, count, source, constraint)
        else:
            workers = (_workers(WORKERS, replica, count, source),) if count else ()
            yield Part(name=_segment(0), parts=(leader, *workers), constraint=constraint)


def _workers(
    name: str, replica: LeaderWorkerGroup, count: int, source: str, constraint: TopologyConstraint | None = None
) -> Part:
    return Part(name=name, need=count, source=source, constraint=constraint, is_late=replica.is_leader_first)


def _role_constraint(owner: Owner, role: str) -> TopologyConstraint | None:
    return template_constraint(mapping(owner.spec, f"leaderWorkerTemplate.{role}Template"))

"""PyTorchJob: `master` and `worker`, and the workers in segments where an annotation says so.

As many pods are needed as the scheduling policy says, else as the elastic policy's minimum, else all. Of segments, as
many are needed as hold that many workers; the others are extras.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from muster.api import names
from muster.grouping.annotations import segment_size
from muster.grouping.fields import integer, number, texts
from muster.grouping.gangs import gang_of_tree, lacks_label, remembered_tree
from muster.grouping.kinds.kubeflow_job import (
    REPLICA_INDEX,
    REPLICA_TYPE,
    WORKER,
    Role,
    job_minimum,
    read_roles,
    role_of,
)
from muster.grouping.topology import segment_constraint, template_constraint
from muster.grouping.tree import Part, Path
from muster.grouping.types import GangTree, GroupingRequest, Owner, Ungrouped

FIELD = "pytorchReplicaSpecs"
ELASTIC_MINIMUM = "spec.elasticPolicy.minReplicas"


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<job>-<uid>`."""
    owner, role = request.owner, role_of(request)
    if not role:
        return lacks_label(request.pod, REPLICA_TYPE, owner)
    segment = segment_size(owner, _worker_annotations(owner), owner.metadata.annotations)
    if isinstance(segment, Ungrouped):
        return segment
    path = _path(request, role, segment)
    if isinstance(path, Ungrouped):
        return path
    return gang_of_tree(owner, remembered_tree(owner, FIELD, _parts(owner, segment)), path)


def _worker_annotations(owner: Owner) -> dict[str, str]:
    return texts(owner.spec, f"{FIELD}.Worker.template.metadata.annotations")


def _path(request: GroupingRequest, role: str, segment: int | None) -> Path | Ungrouped:
    if segment is None or role != WORKER:
        return (role,)
    index = number(request.pod.metadata.labels.get(REPLICA_INDEX, ""))
    if index is None:
        return lacks_label(request.pod, REPLICA_INDEX, request.owner)
    return (WORKER, _segment(index // segment))


def _segment(index: int) -> str:
    return f"{WORKER}-{index}"


def _parts(owner: Owner, segment: int | None) -> Iterator[Part]:
    for role in read_roles(owner, FIELD, *_minimum(owner)):
        yield role.part if segment is None or role.name != WORKER else _segmented(owner, role, segment)


def _minimum(owner: Owner) -> tuple[int | None, str]:
    stated = job_minimum(owner)
    elastic = integer(owner.spec, ELASTIC_MINIMUM.removeprefix("spec."))
    return (elastic, ELASTIC_MINIMUM) if stated[0] is None and elastic else stated


def _segmented(owner: Owner, role: Role, segment: int) -> Part:
    """A branch of segments; the last one has the rest."""
    constraint = segment_constraint(
        {**owner.metadata.annotations, **texts(role.template, "metadata.annotations")}, owner
    )
    source = f"annotation {names.SEGMENT_SIZE}: {segment}"
    segments = (
        Part(
            name=_segment(index),
            need=min(segment, role.replicas - index * segment),
            source=source,
            constraint=constraint,
        )
        for index in range(-(-role.replicas // segment))
    )
    whole = replace(role.part, parts=segments, constraint=template_constraint(role.template))
    needed = -(-role.need // segment)
    return replace(whole, need=max(needed, 1), source=f"segments that hold {role.need} pods of {role.source}")

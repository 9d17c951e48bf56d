"""MPIJob, versions 1 and 2: `launcher` and `worker`.

With `launcherCreationPolicy: WaitForWorkersReady` the launcher is created once all workers are ready, so it counts once
it exists.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from muster.grouping.fields import text
from muster.grouping.gangs import gang_of_tree, lacks_label, remembered_tree
from muster.grouping.kinds.kubeflow_job import JOB_ROLE, job_minimum, read_roles, role_of
from muster.grouping.tree import Part
from muster.grouping.types import GangTree, GroupingRequest, Owner, Ungrouped

FIELD = "mpiReplicaSpecs"
LAUNCHER = "launcher"


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<job>-<uid>`."""
    owner, role = request.owner, role_of(request)
    if not role:
        return lacks_label(request.pod, JOB_ROLE, owner)
    return gang_of_tree(owner, remembered_tree(owner, FIELD, _parts(owner)), (role,))


def _parts(owner: Owner) -> Iterator[Part]:
    is_late = text(owner.spec, "launcherCreationPolicy") == "WaitForWorkersReady"
    for role in read_roles(owner, FIELD, *job_minimum(owner), worker_default=0):
        yield replace(role.part, is_late=is_late and role.name == LAUNCHER)

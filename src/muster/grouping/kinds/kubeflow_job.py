"""Jobs of Kubeflow's training operator: a leaf for every role, such as `master`, `ps` and `worker`.

The minimum of the job (of its scheduling policy, else all replicas) is divided: roles other than workers come first and
are needed whole, and workers fill up what remains. A role for which nothing remains is an extra.
"""

from collections.abc import Iterator

from msgspec import Struct

from muster.grouping.fields import integer, mapping
from muster.grouping.gangs import gang_of_tree, lacks_label, remembered_tree
from muster.grouping.topology import template_constraint
from muster.grouping.tree import Part
from muster.grouping.types import GangTree, GroupingRequest, Owner, Raw, Rule, Ungrouped

REPLICA_TYPE = "training.kubeflow.org/replica-type"  # label
JOB_ROLE = "training.kubeflow.org/job-role"  # label, of MPI operator 2
REPLICA_INDEX = "training.kubeflow.org/replica-index"  # label
MIN_AVAILABLE = "spec.runPolicy.schedulingPolicy.minAvailable"
WORKER = "worker"


class Role(Struct, frozen=True):
    """A role of a job: how many replicas it has, and how many of them are needed."""

    name: str  # as labels have it, in lower case
    path: str  # of its replicas
    replicas: int
    need: int
    source: str
    template: Raw

    @property
    def part(self) -> Part:
        """The leaf of the role."""
        return Part(
            name=self.name,
            need=self.need,
            source=self.source,
            constraint=template_constraint(self.template),
            is_needed=self.need > 0,
        )


def by_roles(field: str) -> Rule:
    """The rule of a kind whose roles stand in a field such as `tfReplicaSpecs`."""

    def group(request: GroupingRequest) -> GangTree | Ungrouped:
        """`pg-<job>-<uid>`."""
        owner = request.owner
        role = role_of(request)
        if not role:
            return lacks_label(request.pod, REPLICA_TYPE, owner)
        tree = remembered_tree(owner, field, (role.part for role in read_roles(owner, field, *job_minimum(owner))))
        return gang_of_tree(owner, tree, (role,))

    return group


def role_of(request: GroupingRequest) -> str:
    """The role of a pod, in lower case; empty: its labels do not say."""
    labels = request.pod.metadata.labels
    return (labels.get(REPLICA_TYPE) or labels.get(JOB_ROLE, "")).lower()


def job_minimum(owner: Owner) -> tuple[int | None, str]:
    """How many pods a job needs in all, and where that stands; None: all of them."""
    minimum = integer(owner.spec, MIN_AVAILABLE.removeprefix("spec."))
    return (minimum, MIN_AVAILABLE) if minimum else (None, "")


def read_roles(owner: Owner, field: str, total: int | None, source: str, worker_default: int = 1) -> Iterator[Role]:
    """The roles with pods, workers last; `total` pods are needed, None: all."""
    specs = {name.lower(): (name, spec) for name, spec in sorted(mapping(owner.spec, field).items())}
    rest, before = total, 0
    for name in sorted(specs, key=lambda name: (name == WORKER, name)):
        path = f"spec.{field}.{specs[name][0]}.replicas"
        replicas = integer(specs[name][1], "replicas", worker_default if name == WORKER else 1)
        if not replicas:
            continue
        need = replicas if rest is None else min(replicas, rest)
        yield Role(
            name=name,
            path=path,
            replicas=replicas,
            need=need,
            source=path if need == replicas else _share(source, total, before),
            template=mapping(specs[name][1], "template"),
        )
        rest, before = None if rest is None else rest - need, before + need


def _share(source: str, total: int | None, before: int) -> str:
    """Where the minimum of a role comes from that is not needed whole."""
    return f"{source}: {total}" if not before else f"{source}: {total}, less {before} of other roles"

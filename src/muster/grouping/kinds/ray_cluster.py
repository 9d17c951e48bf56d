"""RayCluster: the head, and every group of workers. RayJob and RayService are wrappers above it.

A group with several hosts a replica is a branch of replicas that come whole or not at all. An operator that does not
index its pods leaves open which replica a pod belongs to: the group is then one leaf.

A group that scales down loses any of its replicas, whether the autoscaler chooses them or KubeRay (in the order of a Go
map), and the others keep their indexes: a replica has a leaf beyond the number of replicas, while it has pods.

With `enableInTreeAutoscaling` the replicas of a group are what the work asks for, not what it needs to start: without
`minReplicas` the group is an extra. A cluster that runs must not fall short because its autoscaler asks for more (S2).
Workers that are not wanted any more stay until the autoscaler names them: a group without replicas has a leaf, while it
has pods.
"""

from collections.abc import Iterator

from muster.grouping.fields import at, integer, items, number, text
from muster.grouping.gangs import gang_of_tree, lacks_label, one_for_each_pod, remembered_tree
from muster.grouping.topology import template_constraint
from muster.grouping.tree import Part, Path, remember
from muster.grouping.types import GangTree, GroupingRequest, Owner, Raw, Ungrouped

GROUP, NODE_TYPE = "ray.io/group", "ray.io/node-type"  # labels
REPLICA_INDEX = "ray.io/worker-group-replica-index"  # label
HEAD = "headgroup"
CLEANUP = "redis-cleanup"  # a node type: made like the head, by a Job that runs when the cluster is gone
SPARE_REPLICAS = 256  # indexes beyond the number of replicas: by how many a group may have been scaled down


def group(request: GroupingRequest) -> GangTree | Ungrouped:
    """`pg-<cluster>-<uid>`."""
    owner, labels = request.owner, request.pod.metadata.labels
    if labels.get(NODE_TYPE) == CLEANUP:
        return one_for_each_pod(request, request.pod.metadata.uid)
    name = labels.get(GROUP, "")
    if not name:
        return lacks_label(request.pod, GROUP, owner)
    tree = remembered_tree(owner, "ray", _parts(owner))
    return gang_of_tree(owner, tree, _path(owner, name, number(labels.get(REPLICA_INDEX, ""))))


def _path(owner: Owner, name: str, replica: int | None) -> Path:
    hosts = remember(owner, "hosts", lambda: {_name(group): _hosts(group) for group in _groups(owner)})
    return (name,) if replica is None or hosts.get(name, 1) == 1 else (name, f"{name}-{replica}")


def _groups(owner: Owner) -> list[Raw]:
    """The groups that may have pods; of two with one name, the first."""
    is_autoscaled = _is_autoscaled(owner)
    groups = (group for group in items(owner.spec, "workerGroupSpecs") if _may_have_pods(group, is_autoscaled))
    return list({_name(group): group for group in reversed(list(groups))}.values())[::-1]


def _is_autoscaled(owner: Owner) -> bool:
    return owner.spec.get("enableInTreeAutoscaling") is True


def _may_have_pods(workers: Raw, is_autoscaled: bool) -> bool:
    return _desired(workers) > 0 or (is_autoscaled and _is_used(workers) and _hosts(workers) == 1)


def _parts(owner: Owner) -> Iterator[Part]:
    head = template_constraint(at(owner.spec, "headGroupSpec.template") or {})
    yield Part(name=HEAD, need=1, source="one head a cluster", constraint=head)
    is_autoscaled = _is_autoscaled(owner)
    yield from (_workers(group, is_autoscaled=is_autoscaled) for group in _groups(owner))


def _workers(workers: Raw, *, is_autoscaled: bool) -> Part:
    name, hosts, desired = _name(workers), _hosts(workers), _desired(workers)
    minimum = integer(workers, "minReplicas")
    is_needed = minimum > 0 or not is_autoscaled
    need = min(minimum or desired, desired) if is_needed else 1
    source = f"{_source(minimum, is_needed=is_needed)} of worker group {name}"
    constraint = template_constraint(workers.get("template") or {})
    if hosts == 1:
        is_spare = desired == 0
        return Part(name=name, need=need, source=source, constraint=constraint, is_needed=is_needed, is_spare=is_spare)
    replicas = (
        Part(
            name=f"{name}-{index}",
            need=hosts,
            source=f"numOfHosts of worker group {name}",
            is_spare=index >= desired,
        )
        for index in range(desired + SPARE_REPLICAS)
    )
    return Part(
        name=name,
        parts=replicas,
        need=need,
        source=source,
        constraint=constraint,
        is_needed=is_needed,
        may_hold_pods=True,
    )


def _source(minimum: int, *, is_needed: bool) -> str:
    if not is_needed:
        return "one by one, as the autoscaler asks for them: replicas"
    return "minReplicas" if minimum else "replicas"


def _name(workers: Raw) -> str:
    return text(workers, "groupName")


def _hosts(workers: Raw) -> int:
    return max(integer(workers, "numOfHosts", 1), 1)


def _is_used(workers: Raw) -> bool:
    return workers.get("suspend") is not True and bool(_name(workers))


def _desired(workers: Raw) -> int:
    """The replicas that the operator makes: within minimum and maximum, and none while the group is suspended."""
    if not _is_used(workers):
        return 0
    least, most = integer(workers, "minReplicas"), integer(workers, "maxReplicas", 2**31 - 1)
    return min(max(integer(workers, "replicas"), least), max(most, least))

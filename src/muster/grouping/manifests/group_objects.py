"""Groups the pods of objects that were read: those that exist, and those that workloads will have.

Rule 1: owners, leaves and PodGroups are what the live loop would make of them (`walk_owners`, `assign`,
`build_pod_group`). Rule 2: objects that need no grouping are returned as they are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from muster.api import names
from muster.api.core import Pod
from muster.api.objects import Objects, OtherObject, key
from muster.api.resources import PODS
from muster.grouping.eligibility import is_grouped
from muster.grouping.group import Assignment, assign
from muster.grouping.manifests.checks import check_manifests
from muster.grouping.manifests.future_pods import make_pods, plain_pod, workload_of
from muster.grouping.manifests.owner_index import OwnerIndex
from muster.grouping.manifests.planned_gangs import PlacedPod, join, notes_of, plan_gangs, ungrouped_pods
from muster.grouping.manifests.settings import GroupingSettings, GroupKind, group_kind
from muster.grouping.manifests.types import GroupedObjects, PlannedGang, Workload
from muster.grouping.pod_reader import pod_of
from muster.grouping.types import Raw, Ungrouped, WorkloadPod
from muster.validation.pods.membership import gang_of

DEFAULTS = GroupingSettings()


def group_objects(objects: Objects, settings: GroupingSettings = DEFAULTS) -> GroupedObjects:
    """The objects with the pods and PodGroups that their workloads will have.

    InputError: a manifest that Kubernetes would refuse, or that is too large.
    """
    manifests, others = _divide(objects.others, settings.kinds)
    candidates = _candidates(objects, settings, has_manifests=bool(manifests))
    if not manifests and not candidates:
        return GroupedObjects(replace(objects, others=()) if objects.others else objects, others=others)
    check_manifests(manifests, settings.makers)
    future = make_pods(objects, manifests, settings)
    owners = (*(manifest.raw for manifest in manifests), *_owning_pods(objects), *future.owners)
    index = OwnerIndex(owners, settings)
    placed = [_place(pod, index, settings) for pod in candidates]
    existing = {key(group.metadata) for group in objects.pod_groups}  # a pod keeps its own without its owners
    placed = [one for one in placed if isinstance(one.placing, Assignment) or gang_of(one.pod) not in existing]
    placed += [_place(pod, index, settings, is_planned=True) for pod in future.pods if _is_grouped(pod, settings)]
    made = {workload_of(manifest.raw) for manifest in manifests if manifest.kind in settings.makers}
    gangs = plan_gangs(placed, objects, made, settings.pool_label)
    return GroupedObjects(
        _with_gangs(objects, future.pods, placed, gangs),
        gangs,
        ungrouped_pods(placed),
        future.expanded,
        notes_of(placed),
        others,
    )


def _divide(others: Iterable[OtherObject], kinds: frozenset[GroupKind]) -> tuple[list[OtherObject], dict[str, int]]:
    """Workloads, and how many there are of other kinds."""
    manifests = [other for other in others if group_kind(other.raw) in kinds]
    left = Counter(other.title for other in others if group_kind(other.raw) not in kinds)
    return manifests, dict(sorted(left.items()))


# pods ---------------------------------------------------------------------------------------------------------------


def _candidates(objects: Objects, settings: GroupingSettings, *, has_manifests: bool) -> list[Pod]:
    """Pods that exist and are grouped here; those that have their PodGroup only where there are manifests."""
    known = {key(group.metadata) for group in objects.pod_groups}
    return [
        pod
        for pod in objects.pods
        if (has_manifests or gang_of(pod) not in known) and _may_be_ours(pod, settings) and _is_grouped(pod, settings)
    ]


def _may_be_ours(pod: Pod, settings: GroupingSettings) -> bool:
    """In files, a pod that runs and names neither scheduler nor PodGroup is anyone's: it only uses its node."""
    if pod.spec.scheduler_name:
        return pod.spec.scheduler_name in settings.schedulers
    return not pod.spec.node_name or bool(pod.metadata.annotations.get(names.POD_GROUP))


def _is_grouped(pod: Pod, settings: GroupingSettings) -> bool:
    return is_grouped(pod_of(pod), settings.schedulers, is_from_file=True)


def _owning_pods(objects: Objects) -> Iterator[Raw]:
    """Pods that own pods, such as the driver of Spark executors."""
    references = ((pod, reference) for pod in objects.pods for reference in pod.metadata.owner_references)
    owning = {
        f"{pod.metadata.namespace or names.DEFAULT_NAMESPACE}/{reference.name}"
        for pod, reference in references
        if reference.kind == PODS.kind
    }
    return (plain_pod(pod) for pod in (objects.pods if owning else ()) if key(pod.metadata) in owning)


def _place(pod: Pod, index: OwnerIndex, settings: GroupingSettings, *, is_planned: bool = False) -> PlacedPod:
    read = pod_of(pod)
    chain = index.chain_of(read)
    if isinstance(chain, Ungrouped):
        return PlacedPod(pod, _workload(read), chain, is_planned)
    top = chain.owners[-1] if chain.owners else None
    workload = _workload(read) if top is None else _named(top.metadata.name, top.kind, top.api_version, read)
    return PlacedPod(pod, workload, assign(read, chain, settings.rules), is_planned)


def _workload(pod: WorkloadPod) -> Workload:
    """The pod itself, or the owner that it names."""
    references = pod.metadata.owner_references
    if not references:
        return _named(pod.metadata.name or pod.metadata.generate_name, PODS.kind, PODS.api_version, pod)
    return _named(references[0].name, references[0].kind, references[0].api_version, pod)


def _named(name: str, kind: str, api_version: str, pod: WorkloadPod) -> Workload:
    return Workload(pod.metadata.namespace or names.DEFAULT_NAMESPACE, name, kind, api_version)


# objects ------------------------------------------------------------------------------------------------------------


def _with_gangs(
    objects: Objects, future: Sequence[Pod], placed: Iterable[PlacedPod], gangs: Iterable[PlannedGang]
) -> Objects:
    joined = {id(one.pod): join(one.pod, one.placing) for one in placed if isinstance(one.placing, Assignment)}
    by_key = {gang.key: gang.pod_group for gang in gangs}
    groups = [by_key.pop(key(group.metadata), group) for group in objects.pod_groups]
    pods = tuple(joined.get(id(pod), pod) for pod in (*objects.pods, *future))
    return replace(objects, pod_groups=(*groups, *by_key.values()), pods=pods, others=())

"""Workloads and PodCliqueSets among objects, with the pods and PodGroups that they will have: what every verb plans.

Rule: a PodCliqueSet is expanded by Grove's controllers, every other workload by its own and by the rules of grouping;
what comes of both is one value.
"""

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from muster.api import names
from muster.api.core import Pod
from muster.api.objects import Objects, key
from muster.api.podgroup import PodGroup
from muster.api.resources import POD_CLIQUE_SETS, POD_GANGS
from muster.grouping.manifests.future_pods import workload_of
from muster.grouping.manifests.group_objects import DEFAULTS, group_objects
from muster.grouping.manifests.settings import GroupingSettings
from muster.grouping.manifests.types import ExpandedWorkload, GroupedObjects, PlannedGang, Workload
from muster.grouping.types import Minimum
from muster.planning.grove.set_objects import SetObjects, expand_sets
from muster.validation.pods.membership import gang_of


def group_workloads(objects: Objects, settings: GroupingSettings = DEFAULTS) -> GroupedObjects:
    """The objects with the pods and PodGroups of all their workloads.

    InputError: a manifest that cannot be read, or is too large. Refused: a PodCliqueSet that is invalid.
    """
    expanded = expand_sets(objects, tuple(settings.schedulers), settings.pool_label)
    grouped = group_objects(expanded.objects, settings)
    if not expanded.parts:
        return grouped
    gangs = sorted((*grouped.gangs, *_gangs(expanded)), key=lambda gang: gang.key)
    return replace(
        grouped, gangs=tuple(gangs), expanded=(*grouped.expanded, *_expanded(expanded)), parts=expanded.parts
    )


# gangs --------------------------------------------------------------------------------------------------------------


def _gangs(expanded: SetObjects) -> Iterator[PlannedGang]:
    """The PodGroups of PodGangs, and where their minimums come from."""
    pods: dict[str, Counter[str]] = {}
    for pod in expanded.objects.pods:
        if names.POD_GANG in pod.metadata.labels and (gang := gang_of(pod)):
            pods.setdefault(gang, Counter())[pod.metadata.labels.get(names.SUBGROUP, "")] += 1
    for group in expanded.objects.pod_groups:
        labels, name = group.metadata.labels, key(group.metadata)
        if names.BRIDGED in group.metadata.annotations and labels.get(names.PART_OF):
            namespace = group.metadata.namespace or names.DEFAULT_NAMESPACE
            owner = Workload(namespace, labels[names.PART_OF], POD_CLIQUE_SETS.kind, POD_CLIQUE_SETS.api_version)
            is_existing = name in expanded.existing
            minimums = tuple(_minimums(group))
            yield PlannedGang(group, POD_GANGS.kind, owner, minimums, pods.get(name, {}), is_existing)


def _minimums(group: PodGroup) -> Iterator[Minimum]:
    children = Counter(sub_group.parent for sub_group in group.spec.sub_groups)
    base = group.metadata.labels.get(names.BASE_POD_GANG)
    starts = f"; it starts once `{base}` is scheduled" if base else ""
    yield Minimum("", children[""], f"all cliques of PodGang `{group.metadata.name}`{starts}")
    for sub_group in group.spec.sub_groups:
        if sub_group.name in children:
            yield Minimum(sub_group.name, children[sub_group.name], "a replica of a scaling group with a constraint")
        else:
            yield Minimum(sub_group.name, sub_group.min_member or 1, "`minAvailable` of its clique")


# what became of manifests -------------------------------------------------------------------------------------------


def _expanded(expanded: SetObjects) -> Iterator[ExpandedWorkload]:
    schedulers: dict[tuple[str, str], Counter[str]] = {}
    for pod in expanded.objects.pods:
        if key(pod.metadata) in expanded.made:
            schedulers.setdefault(_set_of(pod), Counter())[pod.spec.scheduler_name] += 1
    existing = {_set_of(pod) for pod in expanded.objects.pods if key(pod.metadata) not in expanded.made}
    for other in expanded.sets:
        workload = workload_of(other.raw)
        place = workload.namespace, workload.name
        if place in schedulers or place not in existing:
            yield ExpandedWorkload(workload, other.where, schedulers.get(place, {}))


def _set_of(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace or names.DEFAULT_NAMESPACE, pod.metadata.labels.get(names.PART_OF, "")

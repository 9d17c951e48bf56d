"""Gangs of pods that are placed: one PodGroup for all pods that join it."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.core import Pod
from muster.api.objects import Objects, key
from muster.api.podgroup import PodGroup
from muster.grouping.group import Assignment, build_pod_group
from muster.grouping.manifests.types import PlannedGang, UngroupedPods, Workload
from muster.grouping.presence import settle
from muster.grouping.types import Ungrouped


class PlacedPod(Struct, frozen=True):
    """A pod, and where grouping puts it."""

    pod: Pod
    workload: Workload
    placing: Assignment | Ungrouped
    is_planned: bool = False  # it does not exist yet


def plan_gangs(
    placed: Iterable[PlacedPod],
    objects: Objects,
    made: Collection[Workload] = (),
    pool_label: str = names.NODE_POOL,
) -> tuple[PlannedGang, ...]:
    """Every gang that pods join, by namespace and name. `made`: workloads all of whose pods are made here."""
    members: dict[tuple[str, str], list[tuple[PlacedPod, Assignment]]] = {}
    for one in placed:
        if isinstance(one.placing, Assignment):
            namespace = one.pod.metadata.namespace or names.DEFAULT_NAMESPACE
            members.setdefault((namespace, one.placing.gang.name), []).append((one, one.placing))
    classes = frozenset(group.metadata.name for group in objects.priority_classes)
    existing = {key(group.metadata): group for group in objects.pod_groups}
    return tuple(
        _gang(members[place], existing.get("/".join(place)), classes, place[0], made, pool_label)
        for place in sorted(members)
    )


def _gang(
    members: list[tuple[PlacedPod, Assignment]],
    existing: PodGroup | None,
    classes: frozenset[str],
    namespace: str,
    made: Collection[Workload],
    pool_label: str,
) -> PlannedGang:
    """As the live loop builds it: the first pod by name speaks where the owner is silent."""
    first, assignment = min(members, key=lambda member: member[0].pod.metadata.name)
    pods = Counter(assignment_.gang.leaf for _, assignment_ in members)
    desired = build_pod_group(assignment, pods, classes, pool_label)
    desired = replace(desired, metadata=replace(desired.metadata, namespace=namespace))
    if existing is not None:
        desired = _kept(existing, desired, has_new_pods=any(one.is_planned for one, _ in members))
    groups = {"", *(group.name for group in desired.spec.sub_groups)}
    minimums = tuple(each for each in settle(assignment.gang, pods).minimums if each.group in groups)
    has_all_pods = all(one.is_planned for one, _ in members) and _is_made(first, assignment, made)
    return PlannedGang(desired, assignment.rule, first.workload, minimums, pods, existing is not None, has_all_pods)


def _is_made(first: PlacedPod, assignment: Assignment, made: Collection[Workload]) -> bool:
    """Whether all pods of a gang are made here: by what a user created, or by what the rule is about."""
    owner = assignment.request.owner
    chooses = Workload(first.workload.namespace, owner.metadata.name, owner.kind, owner.api_version)
    return first.workload in made or chooses in made


def _kept(existing: PodGroup, desired: PodGroup, *, has_new_pods: bool) -> PodGroup:
    """A PodGroup that exists stays as it is, as users may have changed it; new pods change it, but not its queue."""
    if not has_new_pods:
        return existing
    return replace(existing, spec=replace(desired.spec, queue=existing.spec.queue))


def join(pod: Pod, assignment: Assignment) -> Pod:
    """The pod with the annotations and the label by which it joins its gang (N3)."""
    meta, leaf = pod.metadata, assignment.gang.leaf
    annotations = {**meta.annotations, names.POD_GROUP: assignment.gang.name, names.GROUPED_BY: assignment.rule}
    labels = {name: text for name, text in meta.labels.items() if name != names.SUBGROUP}
    labels |= {names.SUBGROUP: leaf} if leaf else {}
    return replace(pod, metadata=replace(meta, annotations=annotations, labels=labels))


# what is said -------------------------------------------------------------------------------------------------------


def ungrouped_pods(placed: Iterable[PlacedPod]) -> tuple[UngroupedPods, ...]:
    """Pods that get no PodGroup, by workload and reason."""
    return _by_reason((one, one.placing) for one in placed if isinstance(one.placing, Ungrouped))


def notes_of(placed: Iterable[PlacedPod]) -> tuple[UngroupedPods, ...]:
    """What to tell of pods that are grouped."""
    return _by_reason(
        (one, note) for one in placed if isinstance(one.placing, Assignment) for note in one.placing.notes
    )


def _by_reason(pairs: Iterator[tuple[PlacedPod, Ungrouped]]) -> tuple[UngroupedPods, ...]:
    pods: dict[tuple[Workload, Ungrouped], list[str]] = {}
    for one, why in pairs:
        pods.setdefault((one.workload, why), []).append(key(one.pod.metadata))
    ordered: Mapping[tuple[Workload, Ungrouped], list[str]] = dict(
        sorted(pods.items(), key=lambda item: (item[0][0], item[0][1].reason, item[0][1].message))
    )
    return tuple(UngroupedPods(workload, tuple(names_), why) for (workload, why), names_ in ordered.items())

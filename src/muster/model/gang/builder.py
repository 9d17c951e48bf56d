"""Gangs from objects: every PodGroup with the pods that name it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from muster.api import names
from muster.api.core import Pod, PriorityClass
from muster.api.objects import Objects, key
from muster.api.podgroup import PodGroup, PodGroupSpec, SubGroup
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState, holds_resources, pod_state
from muster.model.gang.types import Branch, Group, Leaf, Member
from muster.validation import defaults
from muster.validation.podgroup import parents_first, planning_problems
from muster.validation.pods.membership import OURS, Stray, is_ours, leaf_of, orphans
from muster.validation.pods.pods_by_gang import group_by_gang
from muster.validation.pods.requests import requests


class CollectedGangs(Struct, frozen=True):
    """Every gang of the input, and the pods of ours that belong to none."""

    gangs: tuple[Gang, ...]
    orphans: tuple[Stray, ...]  # they name no PodGroup, or one that does not exist


def collect_gangs(objects: Objects, schedulers: Collection[str] = OURS) -> CollectedGangs:
    """Every PodGroup with the pods that name it (N3, N6)."""
    groups = {key(group.metadata): group for group in objects.pod_groups}
    pods, classes = group_by_gang(objects.pods), objects.priority_classes
    gangs = (build_gang(group, pods.get(name, ()), classes, schedulers) for name, group in sorted(groups.items()))
    return CollectedGangs(tuple(gangs), tuple(sorted(orphans(objects, schedulers), key=lambda stray: stray.pod)))


def build_gang(
    group: PodGroup,
    pods: Iterable[Pod] = (),
    classes: Iterable[PriorityClass] = (),
    schedulers: Collection[str] = OURS,
) -> Gang:
    """The gang of a PodGroup and the pods that name it, whichever scheduler these pods are for."""
    parts = parents_first(group.spec)
    branches = {part.parent for part in parts}
    leaves = {part.name for part in parts if part.name not in branches} or {""}
    members: dict[str, list[Member]] = defaultdict(list)
    strays: list[Stray] = []
    leftovers: list[Member] = []
    other_schedulers: set[str] = set()
    pods = tuple(pods)
    for pod in pods:
        if not is_ours(pod, schedulers):
            other_schedulers.add(pod.spec.scheduler_name)
            continue
        leaf = leaf_of(pod, leaves, branches)
        if isinstance(leaf, Stray):
            strays.append(leaf)
            leftovers += [build_member(pod)] if is_leftover(pod) else []
        else:
            members[leaf].append(build_member(pod))
    classes = tuple(classes)
    is_nominated = any(pod.status.nominated_node_name for pod in pods)
    gang = Gang(
        namespace=group.metadata.namespace or names.DEFAULT_NAMESPACE,
        name=group.metadata.name,
        root=_build_tree(group, parts, members),
        queue=defaults.queue(group),
        priority=defaults.priority(group, classes),
        unknown_class=defaults.unknown_class(group, classes),
        preemptibility=defaults.preemptibility(group, classes),
        created=_to_seconds(group.metadata.creation_timestamp),
        strays=tuple(sorted(strays, key=lambda stray: stray.pod)),
        leftovers=tuple(sorted(leftovers, key=lambda member: member.rank)),
        other_schedulers=tuple(sorted(other_schedulers)),
        broken=tuple(planning_problems(group)),
        has_nominations=is_nominated or names.MOVED_TO in group.metadata.annotations,
        source=group,
    )
    # computed here, while its pods are in the processor's caches: every cycle reads them
    _ = gang.key, gang.is_settled, gang.constraints, gang.waiting
    return gang


def build_member(pod: Pod) -> Member:
    """The member for a pod."""
    return Member(
        name=pod.metadata.name,
        state=pod_state(pod),
        node=pod.spec.node_name if holds_resources(pod) else "",
        task_priority=_to_int(pod.metadata.labels.get(names.TASK_PRIORITY, "")),
        created=_to_seconds(pod.metadata.creation_timestamp),
        requests=requests(pod.spec),
    )


def is_leftover(stray: Pod) -> bool:
    """Whether a pod of no leaf is on a node: its SubGroup was removed while it ran (N4)."""
    is_bound = bool(stray.spec.node_name) and holds_resources(stray)
    return is_bound and pod_state(stray) in (PodState.PLACED, PodState.TERMINATING)


def _to_seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def _to_int(text: str) -> int:
    """The number that a label states; 0 where it is none, or has more than nine digits."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 9 else 0


def _build_tree(group: PodGroup, parts: tuple[SubGroup, ...], members: Mapping[str, list[Member]]) -> Group:
    """The tree, built from the bottom up: depth costs no stack."""
    order = {part.name: i for i, part in reversed(list(enumerate(group.spec.sub_groups)))}
    constraints = defaults.constraints(group)
    below: dict[str, list[Group]] = defaultdict(list)
    all_parts: tuple[SubGroup | PodGroupSpec, ...] = (*reversed(parts), group.spec)
    for part in all_parts:
        name, parent = (part.name, part.parent) if isinstance(part, SubGroup) else ("", "")
        children = tuple(reversed(below.pop(name, ())))
        shared = {"name": name, "order": order.get(name, -1), "constraint": constraints[name]}
        node: Group
        if children:
            node = Branch(
                need=_stated_minimum(part.min_sub_group) or len(children),
                need_pods=_stated_minimum(part.min_member),
                children=children,
                **shared,  # type: ignore[arg-type]
            )
        else:
            node = Leaf(
                need=_stated_minimum(part.min_member) or 1,
                members=tuple(sorted(members.get(name, ()), key=lambda member: member.rank)),
                **shared,  # type: ignore[arg-type]
            )
        if not isinstance(part, SubGroup):
            return node
        below[parent].append(node)
    raise AssertionError("the PodGroup itself comes last")


def _stated_minimum(minimum: int | None) -> int:
    """A stored zero or less states nothing (V1)."""
    return max(minimum or 0, 0)

"""Gangs that will never start, as their minimums exceed the pods that their workloads will have."""

from collections import Counter

from msgspec import Struct

from muster.api.podgroup import PodGroupSpec, SubGroup
from muster.grouping.manifests.types import PlannedGang


class PodShortage(Struct, frozen=True):
    """A leaf with fewer pods than it needs."""

    group: str  # empty: the PodGroup is one leaf
    need: int
    pods: int
    source: str  # of the minimum


def shortage_of(gang: PlannedGang) -> PodShortage | None:
    """The first leaf whose missing pods keep the gang from starting; None: it can start, or pods may still come."""
    if not gang.has_all_pods:
        return None
    spec = gang.pod_group.spec
    children = Counter(group.parent for group in spec.sub_groups)
    satisfied: Counter[str] = Counter()  # children, by parent
    shortages: dict[str, PodShortage] = {}  # of the first child, by parent
    for group in reversed(spec.sub_groups):  # parents come before their children
        shortage = _shortage(gang, group.name, group, children, satisfied, shortages)
        if shortage is None:
            satisfied[group.parent] += 1
        else:
            shortages[group.parent] = shortage
    return _shortage(gang, "", spec, children, satisfied, shortages)


def _shortage(
    gang: PlannedGang,
    name: str,
    group: PodGroupSpec | SubGroup,
    children: Counter[str],
    satisfied: Counter[str],
    shortages: dict[str, PodShortage],
) -> PodShortage | None:
    if children[name]:
        is_satisfied = satisfied[name] >= (group.min_sub_group or children[name])
        return None if is_satisfied else shortages.get(name)
    need, pods = group.min_member or 1, gang.pods.get(name, 0)
    source = next((minimum.source for minimum in gang.minimums if minimum.group == name), "")
    return PodShortage(name, need, pods, source) if pods < need else None

"""What a tree needs while some of its pods do not exist yet.

Rule 1: a late leaf without pods does not count: where all parts of a group are late and absent, the group above counts
the others. Rule 2: a branch that has pods of its own is a leaf, as its pods do not say which part they belong to. Where
others do, it stays a branch: an operator that was upgraded says it on new pods only, and these must be placed (N4).
Rule 3: of a semi-preemptible gang, absent groups are left out: minimums must not rise (V5), but groups may be added.
Rule 4: a spare leaf without pods is left out.
"""

from collections import Counter, defaultdict
from collections.abc import Collection

from msgspec.structs import replace

from muster.api.podgroup import SubGroup
from muster.grouping.types import GangTree, Minimum

_EXISTING = "; those whose pods come later count once they exist"


def settle(gang: GangTree, present: Collection[str], *, is_semi_preemptible: bool = False) -> GangTree:
    """The gang as it is needed now: `present` are the names of groups that have pods."""
    gang = _flatten(_leave_out(gang, gang.spare.difference(present)) if gang.spare else gang, present)
    absent = _absent(gang, present) if gang.late else frozenset()
    if not absent or all(group.name in absent for group in gang.sub_groups):
        return gang
    lowered = _lower(gang, absent)
    return _leave_out(lowered, absent) if is_semi_preemptible else lowered


def _flatten(gang: GangTree, present: Collection[str]) -> GangTree:
    flat = _branches(gang).intersection(present)
    flat = flat - _with_pods_below(gang, present) if flat else flat
    if not flat:
        return gang
    sums = _sums(gang)
    inside: set[str] = set()
    kept: list[SubGroup] = []
    for group in gang.sub_groups:
        if group.parent in flat or group.parent in inside:
            inside.add(group.name)
        elif group.name in flat:
            kept.append(replace(group, min_sub_group=None, min_member=sums[group.name]))
        else:
            kept.append(group)
    minimums = tuple(
        replace(minimum, value=sums[minimum.group], source=f"pods of {minimum.source}")
        if minimum.group in flat
        else minimum
        for minimum in gang.minimums
        if minimum.group not in inside
    )
    return replace(gang, sub_groups=tuple(kept), minimums=minimums, late=gang.late - inside)


def _branches(gang: GangTree) -> frozenset[str]:
    return frozenset(group.parent for group in gang.sub_groups)


def _with_pods_below(gang: GangTree, present: Collection[str]) -> set[str]:
    """Branches with a part that has pods."""
    above: set[str] = set()
    for group in reversed(gang.sub_groups):
        if group.name in present or group.name in above:
            above.add(group.parent)
    return above


def _sums(gang: GangTree) -> dict[str, int]:
    """How many pods each group needs in all: of its first children, as many as it needs."""
    below: dict[str, list[int]] = defaultdict(list)
    sums: dict[str, int] = {}
    for group in reversed(gang.sub_groups):
        parts = below[group.name][::-1]
        needed = group.min_sub_group or len(parts)
        sums[group.name] = sum(parts[:needed]) if parts else group.min_member or 1
        below[group.parent].append(sums[group.name])
    return sums


def _absent(gang: GangTree, present: Collection[str]) -> frozenset[str]:
    """Late leaves without pods, and branches with nothing else."""
    existing: set[str] = set()
    branches = _branches(gang)
    for group in reversed(gang.sub_groups):
        is_leaf = group.name not in branches
        if (is_leaf and (group.name not in gang.late or group.name in present)) or group.name in existing:
            existing.update((group.name, group.parent))
    return frozenset(group.name for group in gang.sub_groups if group.name not in existing)


def _leave_out(gang: GangTree, absent: frozenset[str]) -> GangTree:
    """Without these groups; a minimum that is all of the others is left out as well."""
    kept = [group for group in gang.sub_groups if group.name not in absent]
    children = Counter(group.parent for group in kept)
    return replace(
        gang,
        min_sub_group=_unless_all(gang.min_sub_group, children[""]),
        sub_groups=tuple(
            replace(group, min_sub_group=_unless_all(group.min_sub_group, children[group.name])) for group in kept
        ),
        minimums=tuple(minimum for minimum in gang.minimums if minimum.group not in absent),
    )


def _unless_all(need: int | None, children: int) -> int | None:
    return None if need == children else need


def _lower(gang: GangTree, absent: frozenset[str]) -> GangTree:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # children in all, and absent ones
    for group in gang.sub_groups:
        counts[group.parent][0] += 1
        counts[group.parent][1] += group.name in absent
    needs = {"": gang.min_sub_group, **{group.name: group.min_sub_group for group in gang.sub_groups}}
    lowered = {
        name: min(needs[name] or total, total - missing)
        for name, (total, missing) in counts.items()
        if 0 < missing < total
    }
    return replace(
        gang,
        min_sub_group=lowered.get("", gang.min_sub_group),
        sub_groups=tuple(
            replace(group, min_sub_group=lowered[group.name]) if group.name in lowered else group
            for group in gang.sub_groups
        ),
        minimums=tuple(_lowered(minimum, lowered) for minimum in gang.minimums),
    )


def _lowered(minimum: Minimum, lowered: dict[str, int]) -> Minimum:
    value = lowered.get(minimum.group, minimum.value)
    return minimum if value == minimum.value else Minimum(minimum.group, value, minimum.source + _EXISTING)

"""The tree of a workload: from the groups that a kind names to SubGroups that pass V1-V3.

Rule 1: a kind says how many of a group are needed and why; names, order and bounds are settled here, once. Rule 2: what
is optional comes after what is needed, as earlier siblings are placed first (M3, G3).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from msgspec import Struct

from muster.api.podgroup import SubGroup, TopologyConstraint
from muster.grouping.naming import hashed, sub_group_name
from muster.grouping.types import Minimum, Owner, Ungrouped

T = TypeVar("T")
Path = tuple[str, ...]  # names of groups as the workload has them, from the top down

MOST_SUB_GROUPS = 10_000  # as many as the CRD allows
LARGEST = 2**31 - 1  # of a minimum
_MOST_TREES = 64  # of one owner that are remembered


class Part(Struct, frozen=True, kw_only=True):
    """A group of a workload: a leaf with pods, or a branch with parts."""

    name: str
    parts: Iterable["Part"] | None = None  # None: a leaf; may be a generator, read once
    need: int | None = None  # pods of a leaf, parts of a branch; None: all parts that are needed
    source: str = ""  # where `need` comes from
    constraint: TopologyConstraint | None = None
    is_needed: bool = True  # False: what is above does without it
    is_late: bool = False  # leaf: its pods come after others run
    is_spare: bool = False  # leaf: it is there only while it has pods
    may_hold_pods: bool = False  # branch: where pods do not say their part, it is a leaf


class WorkloadTree(Struct, frozen=True):
    """The SubGroups of a workload, and the leaf of every path."""

    sub_groups: tuple[SubGroup, ...]
    min_sub_group: int | None
    minimums: tuple[Minimum, ...]
    leaves: dict[Path, str]
    late: frozenset[str]
    spare: frozenset[str]


class _TreeTooLarge(Exception):
    pass


def build_tree(parts: Iterable[Part], need: int | None = None, source: str = "") -> WorkloadTree | Ungrouped:
    """The tree of these parts, of which `need` are needed; None: all but the optional ones."""
    builder = _TreeBuilder()
    try:
        min_sub_group = builder.add_children((), "", Part(name="", parts=parts, need=need, source=source))
    except _TreeTooLarge as error:
        return Ungrouped(
            "TooLarge",
            f"the workload has {error}: the pod is not grouped",
            "make it smaller, or split it into several workloads",
        )
    late, spare = frozenset(builder.late), frozenset(builder.spare)
    return WorkloadTree(tuple(builder.sub_groups), min_sub_group, tuple(builder.minimums), builder.leaves, late, spare)


class _TreeBuilder:
    """Collects SubGroups, parents before children, and the minimum of every group."""

    def __init__(self) -> None:
        self.sub_groups: list[SubGroup] = []
        self.minimums: list[Minimum] = []
        self.leaves: dict[Path, str] = {}
        self.late: set[str] = set()
        self.spare: set[str] = set()
        self._names: set[str] = set()

    def add_children(self, path: Path, name: str, branch: Part) -> int | None:
        """Adds the parts of a branch; returns its `minSubGroup`."""
        at, needed, total = len(self.minimums), 0, 0
        for part in _needed_first(branch.parts or ()):
            if self._add((*path, part.name), name, part):
                total += 1
                needed += part.is_needed
        if total == 0:
            return None
        minimum = _minimum_of(branch, needed, total)
        self.minimums.insert(at, Minimum(name, minimum, branch.source or _all_of(needed, total)))
        return minimum if minimum < total else None

    def _add(self, path: Path, parent: str, part: Part) -> bool:
        """Whether there is something to add: a branch without parts is none, and a path counts once."""
        if path in self.leaves:
            return False
        return self._add_leaf(path, parent, part) if part.parts is None else self._add_branch(path, parent, part)

    def _add_leaf(self, path: Path, parent: str, part: Part) -> bool:
        need = max(part.need or 0, 1)
        if need > LARGEST:
            raise _TreeTooLarge(f"a group `{part.name[:80]}` of {need if need < 10**20 else 'far too many'} pods")
        name = self._name(path)
        if part.is_spare:
            self.spare.add(name)
        self._append(SubGroup(name, parent, min_member=need, topology_constraint=part.constraint))
        self.minimums.append(Minimum(name, need, part.source))
        self.leaves[path] = name
        if part.is_late:
            self.late.add(name)
        return True

    def _add_branch(self, path: Path, parent: str, part: Part) -> bool:
        at, name = len(self.sub_groups), self._name(path)
        self._append(SubGroup(name, parent, topology_constraint=part.constraint))
        min_sub_group = self.add_children(path, name, part)
        if len(self.sub_groups) == at + 1:
            self.sub_groups.pop()
            self._names.discard(name)
            return False
        self.sub_groups[at] = SubGroup(name, parent, min_sub_group=min_sub_group, topology_constraint=part.constraint)
        if part.may_hold_pods:
            self.leaves[path] = name
        return True

    def _append(self, group: SubGroup) -> None:
        if len(self.sub_groups) - len(self.spare) >= MOST_SUB_GROUPS:
            raise _TreeTooLarge(f"more than {MOST_SUB_GROUPS} groups")
        self.sub_groups.append(group)

    def _name(self, path: Path) -> str:
        """The last part of the path; where another group has that name, with a hash of the whole path."""
        name = sub_group_name(path[-1])
        if name in self._names:
            name = sub_group_name(f"{path[-1]}-{hashed('/'.join(path))}")
        self._names.add(name)
        return name


def _needed_first(parts: Iterable[Part]) -> Iterator[Part]:
    """Needed parts as they come, then optional ones; not more than a tree may have."""
    optional: list[Part] = []
    for part in parts:
        if part.is_needed:
            yield part
        elif len(optional) > MOST_SUB_GROUPS:
            raise _TreeTooLarge(f"more than {MOST_SUB_GROUPS} groups")
        else:
            optional.append(part)
    yield from optional


def _minimum_of(branch: Part, needed: int, total: int) -> int:
    wanted = needed if branch.need is None else branch.need
    return min(max(wanted, 1), total)


def _all_of(needed: int, total: int) -> str:
    return "all of them" if needed in (0, total) else "those that are needed; the others are extras"


def remember(owner: Owner, key: Hashable, build: Callable[[], T]) -> T:
    """What was built of this owner before: an Owner never changes, and its 10,000 pods ask for the same tree."""
    memory: dict[Hashable, T] = owner.__dict__.setdefault("trees", {})
    if key not in memory:
        if len(memory) >= _MOST_TREES:
            memory.clear()
        memory[key] = build()
    return memory[key]

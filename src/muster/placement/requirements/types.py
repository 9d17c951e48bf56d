"""Requirements: the groups of a gang that still have to be satisfied, with pods by class.

Rule: they hold nothing of names, queues or priorities beyond what decides *where* pods go (T1, T3, M3, M4).
"""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

ImpossibleReason = Literal["NotEnoughPods", "InvalidSpec", "Unsupported", "NodeUnknown"]


class RequiredLevel(Struct, frozen=True):
    """One level of one Topology, and what the pods that are placed already say about it (T3)."""

    topology: str
    level: int
    pinned: int | None = None  # the one domain that is left; NOWHERE: none, the placed pods are apart
    path: tuple[int, ...] = ()  # the domains that the placed pods share, from the top level down
    placed: tuple[int, ...] = ()  # the domains of this level that the placed pods are in


class Requirement(Struct, frozen=True, eq=False):
    """A group that must be satisfied: a leaf with pods to place, or a branch with children to satisfy."""

    name: str
    need: int  # pods of a leaf, children of a branch
    required: RequiredLevel | None = None
    preferred: RequiredLevel | None = None
    pods: tuple[tuple[int, int], ...] = ()  # leaf: runs of (class, how many) in the order of M4
    children: tuple["Requirement", ...] = ()  # branch: children that could be satisfied, first choice first (M3)
    tight: RequiredLevel | None = None  # a level that it is held to in addition, as it prefers (T2)
    at_most: int = 0  # so many domains of its preferred level, with those of its placed pods; 0: any number
    first: tuple[int, ...] = ()  # domains of its preferred level that are known to do
    total: int = 0  # branch: so many pods below it in all, from whichever leaves have some to spare (M5)
    within: tuple[str, ...] = ()  # the branches around it that count pods in all (M5)
    kind: int = 0  # requirements of one kind are interchangeable

    @property
    def is_leaf(self) -> bool:
        """It has pods of its own."""
        return not self.children


class RequirementKinds:
    """Numbers for requirements that are alike in all that placement can see."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def derive(self, requirement: Requirement, **changes: Any) -> Requirement:
        """A requirement, changed, with its kind."""
        changed = replace(requirement, **changes) if changes else requirement
        children = tuple(sorted(child.kind for child in changed.children))
        signature = (
            *(
                changed.need,
                changed.required,
                changed.preferred,
                changed.pods,
                children,
                changed.tight,
                changed.at_most,
            ),
            *(changed.total, changed.within),
        )
        return replace(changed, kind=self._numbers.setdefault(signature, len(self._numbers)))


class LostPod(Struct, frozen=True):
    """A placed pod whose node does not exist, and the level at which its group must share a domain."""

    pod: str = ""
    node: str = ""
    level: str = ""


class Impossible(Struct, frozen=True):
    """A requirement that no cluster could meet as things are: the group, and why."""

    group: str
    reason: ImpossibleReason
    detail: str = ""
    lost: LostPod = LostPod()  # of NodeUnknown

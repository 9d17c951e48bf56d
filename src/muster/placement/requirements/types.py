"""Requirements: the groups of a gang that still have to be satisfied, with pods by class.

Rule: they hold only what decides *where* pods go (T1, T3, M3, M4): no queues, no priorities.
"""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

ImpossibleReason = Literal["NotEnoughPods", "InvalidSpec", "Unsupported", "NodeUnknown"]


class RequiredLevel(Struct, frozen=True):
    """One level of one Topology, and the domains of the pods that are placed already (T3)."""

    topology: str
    level: int
    pinned: int | None = None  # the only feasible domain; NOWHERE: none, the placed pods share no domain
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
    tight: RequiredLevel | None = None  # a further required level, set by its preference (T2)
    at_most: int = 0  # limit on domains of its preferred level, those of placed pods included; 0: no limit
    first: tuple[int, ...] = ()  # domains of its preferred level that are known to suffice
    total: int = 0  # branch: minimum of pods below it in all, from any leaves with pods to spare (M5)
    within: tuple[str, ...] = ()  # its ancestors with a total of pods (M5)
    kind: int = 0  # requirements of one kind are interchangeable

    @property
    def is_leaf(self) -> bool:
        """Whether it has pods of its own."""
        return not self.children


class RequirementKinds:
    """Numbers the kinds of requirements: equal in all that placement considers, equal kind."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def derive(self, requirement: Requirement, **changes: Any) -> Requirement:
        """The requirement with these changes, and with its kind."""
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
    """A requirement that no amount of free capacity could meet: the group, and why."""

    group: str
    reason: ImpossibleReason
    detail: str = ""
    lost: LostPod = LostPod()  # of NodeUnknown

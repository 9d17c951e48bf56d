"""The tree of a gang: pods in leaves, leaves and branches in branches."""

from collections.abc import Iterator

from msgspec import Struct

from muster.api.podgroup import TopologyConstraint
from muster.api.quantity import Resources
from muster.model.gang.pod_state import PLACED, PodState

NO_CONSTRAINT = TopologyConstraint()


class Member(Struct, frozen=True, eq=False, gc=False):
    """A pod of a gang."""

    name: str
    state: PodState
    node: str = ""  # empty: it is on none, or has finished there
    task_priority: int = 0
    created: float = 0.0  # seconds; a pod without a creation time counts as the oldest
    requests: Resources = Resources()

    @property
    def rank(self) -> tuple[int, float, str]:
        """The sort key of pods in a leaf (M4)."""
        return (-self.task_priority, self.created, self.name)


class Leaf(Struct, frozen=True, eq=False):
    """A group of pods."""

    name: str
    need: int  # pods
    order: int = -1  # position in the spec; -1: the PodGroup itself
    constraint: TopologyConstraint = TopologyConstraint()
    members: tuple[Member, ...] = ()  # in the order of M4

    def members_in(self, *states: PodState) -> tuple[Member, ...]:
        """Its pods in these states, in the order of M4."""
        return tuple(member for member in self.members if member.state in states)

    def is_all(self, state: PodState) -> bool:
        """Whether it has pods, and all of them are in this state."""
        for member in self.members:
            if member.state is not state:
                return False
        return bool(self.members)

    @property
    def placed(self) -> tuple[Member, ...]:
        """Its pods on nodes."""
        return self.members_in(PLACED)


class Branch(Struct, frozen=True, eq=False):
    """A group of groups."""

    name: str
    need: int  # children
    order: int = -1
    constraint: TopologyConstraint = TopologyConstraint()
    children: tuple["Leaf | Branch", ...] = ()
    need_pods: int = 0  # the total of pods that all groups below it need in addition (M5)


Group = Leaf | Branch


def walk(root: Group) -> Iterator[Group]:
    """Every group, parents before children, siblings in spec order."""
    ahead: list[Group] = [root]
    while ahead:
        group = ahead.pop()
        yield group
        if isinstance(group, Branch):
            ahead += reversed(group.children)


def walk_leaves(root: Group) -> Iterator[Leaf]:
    """Every leaf, in spec order."""
    return (group for group in walk(root) if isinstance(group, Leaf))

"""A gang: a PodGroup, its tree and its pods.

No pod is lost: it is in a leaf, or it is a stray with a reason (N4).
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct

from muster.api import names
from muster.api.podgroup import PodGroup, TopologyConstraint
from muster.api.quantity import Resources
from muster.model.gang.pod_state import PENDING, PLACED, PodState
from muster.model.gang.state import Standing, requests_in, standings, sum_resources, uniform_standing
from muster.model.gang.types import NO_CONSTRAINT, Group, Leaf, Member, walk, walk_leaves
from muster.validation import defaults
from muster.validation.pods.membership import Stray
from muster.validation.problem import Problem

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801
    """A property that is computed once; `functools.cached_property` takes a lock for it before Python 3.12."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, gang: Any, _owner: type) -> T:
        value = gang.__dict__[self._name] = self._compute(gang)
        return value


class Gang(Struct, frozen=True, eq=False, dict=True):
    """A PodGroup, its tree and its pods. What every cycle reads is computed once."""

    namespace: str
    name: str
    root: Group
    queue: str = names.DEFAULT_QUEUE
    priority: int = defaults.PRIORITY
    unknown_class: str = ""  # the PriorityClass that it names and that does not exist (P1)
    preemptibility: str = names.PREEMPTIBLE
    created: float = 0.0  # seconds; a PodGroup without a creation time counts as the oldest
    strays: tuple[Stray, ...] = ()
    leftovers: tuple[Member, ...] = ()  # strays on nodes: they run, or are terminating (N4)
    other_schedulers: tuple[str, ...] = ()  # named by pods of this gang that are not ours (N6)
    broken: tuple[Problem, ...] = ()  # no valid tree: nothing else about it can be relied on
    has_nominations: bool = False  # pods are nominated, or noted as moved: nodes may be reserved for it (P7)
    source: PodGroup = PodGroup()  # as it is stored, with annotations and status

    @lazy_property
    def key(self) -> str:
        """Its identity everywhere: namespace/name (N3)."""
        return f"{self.namespace}/{self.name}"

    @lazy_property
    def is_settled(self) -> bool:
        """Whether it runs, every group is satisfied and no pod is pending: most gangs of a busy cluster."""
        if self.broken or self.strays:
            return False
        if isinstance(self.root, Leaf):
            is_placed = self.uniform is not None and self.uniform[0] is PLACED
            return is_placed and len(self.root.members) >= self.root.need
        now = self.standing
        if now.pending or now.gated or not now.placed:
            return False
        return all(standing.satisfied for standing in self.standings.values())

    @lazy_property
    def uniform(self) -> "tuple[PodState, tuple[tuple[str, int], ...]] | None":
        """The state of all its pods, and the sum of their requests; None: states differ, or it has SubGroups."""
        if not isinstance(self.root, Leaf) or not self.root.members or self.leftovers:
            return None
        state = self.root.members[0].state
        return (state, tuple(sorted(requests_in(self.root, state).items()))) if self.root.is_all(state) else None

    @lazy_property
    def waiting(self) -> tuple[str, ...]:
        """All pods of a gang of one leaf, by namespace/name, if all of them are pending; else none."""
        if self.uniform is None or self.uniform[0] is not PENDING or not isinstance(self.root, Leaf):
            return ()
        return tuple([f"{self.namespace}/{member.name}" for member in self.root.members])

    @lazy_property
    def constraints(self) -> tuple[TopologyConstraint, ...]:
        """The topology constraints of its groups, each once."""
        if isinstance(self.root, Leaf):
            return (self.root.constraint,) if self.root.constraint != NO_CONSTRAINT else ()
        stated = (group.constraint for group in walk(self.root))
        return tuple(dict.fromkeys(constraint for constraint in stated if constraint != NO_CONSTRAINT))

    @lazy_property
    def is_foreign(self) -> bool:
        """Whether all pods that name it are for another scheduler: it is left alone (N6). One without pods is not."""
        if not self.other_schedulers or self.strays:
            return False
        return not any(leaf.members for leaf in walk_leaves(self.root))

    @lazy_property
    def standings(self) -> "Mapping[str, Standing]":
        """The standing of every group, by name."""
        if isinstance(self.root, Leaf) and self.uniform is not None:
            return {self.root.name: uniform_standing(self.root, self.uniform[0])}
        return standings(self.root)

    @property
    def standing(self) -> Standing:
        """The standing of the gang as a whole."""
        return self.standings[self.root.name]

    @lazy_property
    def held(self) -> Resources:
        """The requests of its placed pods, leftovers included (N4)."""
        of_leftovers = (pod.requests for pod in self.leftovers if pod.state is PodState.PLACED)
        return sum_resources((requests_in(self.root, PodState.PLACED), *of_leftovers))

    @lazy_property
    def protected(self) -> Resources:
        """The requests of the placed pods in its leaves: leftovers are evicted first, whatever the gang is (N4)."""
        return requests_in(self.root, PodState.PLACED) if self.leftovers else self.held

    @lazy_property
    def terminating(self) -> Resources:
        """What terminating pods still hold on their nodes (N5, Q4)."""
        of_leftovers = (pod.requests for pod in self.leftovers if pod.state is PodState.TERMINATING)
        return sum_resources((self.terminating_members, *of_leftovers))

    @lazy_property
    def terminating_members(self) -> Resources:
        """The part of `terminating` that pods in its leaves hold."""
        return sum_resources(
            member.requests
            for leaf in walk_leaves(self.root)
            for member in leaf.members
            if member.state is PodState.TERMINATING and member.node
        )

    @lazy_property
    def pending_requests(self) -> Resources:
        """The requests of its pending pods."""
        return requests_in(self.root, PodState.PENDING)

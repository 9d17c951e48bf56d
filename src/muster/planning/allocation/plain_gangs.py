"""Plain gangs, most of those that wait: one leaf, pods of one class, none placed. Equal ones are placed together.

Rule: this is a fast path that decides nothing by itself. It places and refuses what `allocate` would, one by one, and
leaves doubtful cases to `allocate`. A property test holds the plans with and without it equal, byte for byte.
"""

from collections.abc import Mapping
from itertools import repeat

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.api.names import NON_PREEMPTIBLE, SEMI_PREEMPTIBLE
from muster.api.podgroup import TopologyConstraint
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PLACED
from muster.model.gang.state import Standing
from muster.model.gang.types import Leaf, Member
from muster.model.topology import Level
from muster.placement.packing.fit_index import PodsByNode
from muster.placement.requirements.types import Requirement
from muster.placement.search import flat
from muster.planning.cycle_state import CycleState
from muster.planning.decision import Binding
from muster.planning.gang_state import GangState
from muster.planning.refusal import Refusal

Ints = NDArray[np.int64]
NOT_PLACED = Standing(satisfied=False, counted=0, placed=0, succeeded=0, pending=0, gated=0, missing=0)


class EqualTerms(Struct, frozen=True, gc=False):
    """What gangs have in common that are equal in everything but their names and ages."""

    queue: str
    priority: int
    preemptibility: str
    need: int
    pods: int
    pod_class: int
    constraint: TopologyConstraint


class EqualGangs:
    """Gangs on the same terms: what each of them still needs, and what is known of them in this cycle."""

    def __init__(self, terms: EqualTerms) -> None:
        self.terms = terms
        self.is_known = False  # whether the rest was worked out
        self.requirement: Requirement | None = None  # None: it is not to be had without a search
        self.level: Level | None = None  # of which a domain must hold each
        self.asks: Ints = np.zeros(0, dtype=np.int64)  # of the pods of one core, by column
        self.requests: Mapping[str, int] = {}  # the part of it that queues share
        self.refusals: tuple[Refusal, ...] = ()  # of one of them, and so of all
        self.refused_at = -1  # the version of the cycle state on which none fitted


def terms_of(gang: Gang, class_of: Mapping[str, int]) -> EqualTerms | None:
    """The terms of a plain gang; None: it is another one."""
    root, waiting = gang.root, gang.waiting
    if not waiting or not isinstance(root, Leaf) or gang.broken or gang.strays or gang.unknown_class:
        return None
    if gang.preemptibility == SEMI_PREEMPTIBLE or gang.source.spec.scheduling_backoff == 1:
        return None
    if len(waiting) < root.need or root.constraint.preferred_topology_level:
        return None
    classes = set(map(class_of.get, waiting))
    pod_class = classes.pop()
    if classes or pod_class is None:
        return None
    return EqualTerms(
        gang.queue, gang.priority, gang.preemptibility, root.need, len(waiting), pod_class, root.constraint
    )


class PlainGangs:
    """The plain gangs of one cycle that are still to be tried."""

    def __init__(self, cycle_state: CycleState) -> None:
        self.cycle_state = cycle_state
        self.equals: dict[str, EqualGangs] = {}  # by gang
        self._by_terms: dict[EqualTerms, EqualGangs] = {}

    def add(self, gang: Gang) -> bool:
        """Whether it is plain: then it is known here."""
        terms = terms_of(gang, self.cycle_state.snapshot.class_of)
        if terms is None:
            return False
        equals = self._by_terms.get(terms)
        if equals is None:
            equals = self._by_terms[terms] = EqualGangs(terms)
        self.equals[gang.key] = equals
        return True

    def requirement(self, gang: Gang, equals: EqualGangs) -> Requirement | None:
        """What a gang and its equals need; None: that is not to be had without a search."""
        if not equals.is_known:
            equals.is_known = True
            self._prepare(gang, equals)
        return equals.requirement

    def _prepare(self, gang: Gang, equals: EqualGangs) -> None:
        cycle_state, requirements = self.cycle_state, self.cycle_state.requirements(gang)
        requirement = None if requirements.invalid() else next(requirements.core_requirements(), None)
        if not isinstance(requirement, Requirement) or not flat.applies(cycle_state.now, requirement, growing=True):
            return
        if (spot := requirement.required) is not None:
            equals.level = cycle_state.snapshot.topologies[spot.topology].levels[spot.level]
        equals.requirement = requirement
        equals.asks = cycle_state.pod_classes.requests[equals.terms.pod_class] * requirement.need
        equals.requests = cycle_state.amounts(equals.asks)

    def most(self, equals: EqualGangs) -> int:
        """How many equal gangs, one after the other, fit and are allowed by their queue (Q4)."""
        terms = equals.terms
        if equals.refused_at == self.cycle_state.version:
            return 0
        most = self.cycle_state.now.count_gangs(terms.pod_class, equals.level, terms.need)
        left = self.cycle_state.usage.allowance(terms.queue, protected=terms.preemptibility == NON_PREEMPTIBLE)
        if left is None or not most:
            return most
        columns = self.cycle_state.pod_classes.columns[terms.pod_class]
        return 0 if (left < 0).any() else min(most, int((left[columns] // equals.asks[columns]).min()))

    def bind(self, gangs: list[str], equals: EqualGangs) -> dict[str, GangState]:
        """Bind these equal gangs, no more than `most`. None are bound where something fails."""
        cycle_state, terms = self.cycle_state, equals.terms
        places, counts = cycle_state.now.pack(terms.pod_class, equals.level, terms.need, len(gangs))
        try:
            gang_states = {
                key: self._bound(cycle_state.gang_states[key], gang_places)
                for key, gang_places in zip(gangs, places, strict=True)
            }
        except Exception:  # they are tried again one by one, so that only one of them fails
            cycle_state.now.drop(terms.pod_class)
            return {}
        requests = {name: amount * len(gang_states) for name, amount in equals.requests.items()}
        cycle_state.grant_all(gang_states, terms.pod_class, counts, requests)
        for key in gangs:
            del self.equals[key]
        return gang_states

    def _bound(self, gang_state: GangState, places: PodsByNode) -> GangState:
        """A gang with its first pods on these nodes (M4)."""
        gang, leaf = gang_state.gang, gang_state.gang.root
        assert isinstance(leaf, Leaf)
        nodes: list[str] = []
        for node, count in places:
            nodes += repeat(self.cycle_state.snapshot.nodes[node].metadata.name, count)
        core = list(zip(leaf.members, nodes, strict=False))
        name, space, group = gang.name, gang.namespace, leaf.name
        bindings = tuple([Binding(space, member.name, node, name, group, "core") for member, node in core])
        placed = [replace(member, state=PLACED, node=node) for member, node in core]
        return GangState(_seated(gang, leaf, placed), "Scheduled", gang_state.refusals, bindings)


def _seated(gang: Gang, leaf: Leaf, placed: list[Member]) -> Gang:
    """The gang with its first members placed; what is known of it by that needs not be worked out."""
    count, waiting = len(placed), leaf.members[len(placed) :]
    after = replace(gang, root=replace(leaf, members=(*placed, *waiting)))
    standing = Standing(True, count, count, 0, len(waiting), 0, 0)
    after.__dict__.update(key=gang.key, is_settled=not waiting, standings={leaf.name: standing})
    return after

"""Extras of gangs that are one leaf of one pod class: one pod at a time (G3, G4), at constant cost per pod.

Rule: this is a fast path that decides nothing by itself. It binds what `allocate` finds, one pod at a time, and leaves
doubtful cases to `allocate`. The cycle state gets a gang once, with all its extras: until then it is out of date.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from muster.api.names import NON_PREEMPTIBLE, SEMI_PREEMPTIBLE
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.types import Leaf, Member
from muster.model.gang.updates import replace_members
from muster.model.roles import core
from muster.placement.requirements.tree import pod_classes
from muster.placement.requirements.types import Requirement
from muster.placement.search.search_state import PodsOnNode
from muster.planning.cycle_state import CycleState
from muster.planning.decision import Binding
from muster.planning.gang_state import GangState


class GrowingGang(Struct, eq=False):
    """A gang that has its core, and the pods that come after it."""

    gang: Gang  # as it was before the first of them
    requirement: Requirement  # one more pod
    waiting: Sequence[Member]  # in the order of M4
    bindings: list[Binding] = []  # of the first of them

    @property
    def left(self) -> int:
        """Pods that still wait."""
        return len(self.waiting) - len(self.bindings)


class PlainExtras:
    """The plain gangs of one cycle that grow."""

    def __init__(self, cycle_state: CycleState) -> None:
        self._cycle_state = cycle_state
        self._growing: dict[str, GrowingGang] = {}
        self._others: set[str] = set()  # gangs that are not plain

    def requirement(self, gang_state: GangState) -> Requirement | None:
        """What one more pod of a gang needs; None: it is not plain, or no pod waits."""
        key = gang_state.gang.key
        if key in self._others or not gang_state.gang.standing.satisfied:
            return None
        growing = self._growing.get(key)
        if growing is None:
            growing = _begin(self._cycle_state, gang_state.gang)
            if growing is None:
                self._others.add(key)
                return None
            self._growing[key] = growing
        if not growing.left:
            return None
        return self._cycle_state.kinds.derive(
            growing.requirement, pods=((growing.requirement.pods[0][0], growing.left),)
        )

    def bind(self, gang: Gang, assignment: Sequence[PodsOnNode]) -> tuple[Binding, bool]:
        """The next pod goes there; and whether more of them wait."""
        growing, (assigned,) = self._growing[gang.key], assignment
        node = self._cycle_state.snapshot.nodes[assigned.node].metadata.name
        pod = growing.waiting[len(growing.bindings)]
        requests = self._cycle_state.requested(assignment)
        self._cycle_state.grant(gang, assignment, requests, protected(gang, requests))
        growing.bindings.append(Binding(gang.namespace, pod.name, node, gang.name, assigned.leaf, "extra"))
        return growing.bindings[-1], growing.left > 0

    def write(self, key: str) -> None:
        """Write a gang with all its extras to the cycle state."""
        growing = self._growing.pop(key, None)
        if growing is None or not growing.bindings:
            return
        gang_state, bindings = self._cycle_state.gang_states[key], growing.bindings
        gang = _placed(gang_state.gang, growing.waiting, [binding.node for binding in bindings])
        self._cycle_state.gang_states[key] = replace(
            gang_state,
            gang=gang,
            verdict="Scheduled",
            bindings=(*gang_state.bindings, *bindings),
            unplaceable=frozenset(),
        )

    def write_all(self) -> None:
        """Write all gangs that grew."""
        for key in tuple(self._growing):
            self.write(key)


def protected(gang: Gang, requests: Mapping[str, int]) -> Mapping[str, int]:
    """How much of an extra is non-preemptible: extras of a plain gang do not change its core."""
    return requests if gang.preemptibility == NON_PREEMPTIBLE else {}


def _begin(cycle_state: CycleState, gang: Gang) -> GrowingGang | None:
    """A gang of one leaf whose waiting pods are all of one class, each of which may go where the others may.

    Every pod can move an anchor (T3), and where it comes before pods of the core it becomes core itself (P2).
    """
    leaf = gang.root
    if not isinstance(leaf, Leaf) or leaf.constraint.preferred_topology_level:
        return None
    requirements = cycle_state.requirements(gang)
    requirement = None if requirements.invalid() else requirements.further_requirement(leaf, 1)
    if not isinstance(requirement, Requirement) or len(set(pod_classes(requirement))) > 1:
        return None
    waiting = leaf.members_in(PodState.PENDING)
    if len(waiting) != requirement.pods[0][1]:
        return None
    if gang.preemptibility == SEMI_PREEMPTIBLE and not _is_core_kept(gang, waiting):
        return None
    return GrowingGang(gang, requirement, waiting)


def _is_core_kept(gang: Gang, waiting: Sequence[Member]) -> bool:
    """Whether the core is the same when all these pods are placed: then it is with the first of them, too."""
    after = _placed(gang, waiting, [""] * len(waiting))
    return [pod.name for pod in core(gang.root)] == [pod.name for pod in core(after.root)]


def _placed(gang: Gang, waiting: Sequence[Member], nodes: Sequence[str]) -> Gang:
    """A gang of one leaf with the first of its pods that wait on these nodes."""
    pods = zip(waiting, nodes, strict=False)
    placed = {(gang.root.name, pod.name): replace(pod, state=PodState.PLACED, node=node) for pod, node in pods}
    return replace(gang, root=replace_members(gang.root, placed))

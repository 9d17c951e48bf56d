"""Relocation: victims that get another node in the same plan move instead of waiting (P5, P6)."""

from collections.abc import Mapping
from functools import partial

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.state import is_satisfied
from muster.model.gang.types import Branch, Group, Leaf, Member, walk
from muster.model.gang.updates import replace_members
from muster.model.inter_pod_rules import rules_of
from muster.model.roles import units
from muster.model.snapshot import Snapshot
from muster.placement.budget import OutOfSteps
from muster.placement.capacity import Capacity
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.types import Requirement
from muster.placement.search.search_state import PodsOnNode
from muster.planning.allocation.elastic import further_parts
from muster.planning.cycle_state import CycleState
from muster.planning.decision import Eviction, Verdict
from muster.planning.preemption.candidates import Candidates, Mask

Ints = NDArray[np.int64]
Pod = tuple[str, str]  # leaf and name
NewPlaces = dict[Pod, str]  # the node that each goes to
VictimPods = Mapping[str, set[Pod]]  # by gang
MARK = "\0"  # between the names of a gang and of its leaf


class Relocation:
    """New places for victims, written to the cycle state."""

    def __init__(self, cycle_state: CycleState) -> None:
        self.cycle_state = cycle_state
        self._ruled: set[str] | None = None
        self._satisfied: dict[str, frozenset[str]] = {}
        self._movable: Mask | None = None

    # movable units --------------------------------------------------------------------------------------------------

    def movable(self, candidates: Candidates) -> Mask:
        """Units all of whose pods can be moved, with those inside."""
        if self._movable is None:
            own = [self._is_movable(candidates, number) for number in range(len(candidates.units))]
            whole = [own[i] and all(own[n] for n in unit.inside) for i, unit in enumerate(candidates.units)]
            self._movable = np.array(whole, dtype=bool)
        return self._movable

    def _is_movable(self, candidates: Candidates, number: int) -> bool:
        """Whether the pods of a unit may move: not where inter-pod rules concern them, as no place could be proved.

        Nor pods of groups below their minimum, which no move could satisfy.
        """
        unit = candidates.units[number]
        if unit.gang.unknown_class:
            return False  # its new pods would wait (P1)
        if any(leaf not in self._satisfied_leaves(unit.gang) for leaf, _ in unit.pods):
            return False
        return not any(self._has_rules(unit.gang, member) for _, member in unit.pods)

    def _has_rules(self, gang: Gang, member: Member) -> bool:
        """Whether inter-pod rules select a running pod or its class, or the pod has its own."""
        if self._ruled is None:
            self._ruled = _pods_with_rules(self.cycle_state.snapshot)
        pod = f"{gang.namespace}/{member.name}"
        if pod in self.cycle_state.snapshot.inter_pod_rules.running or pod in self._ruled:
            return True
        return self.cycle_state.pod_class(gang, member.name) in self.cycle_state.now.inter_pod.touched

    def _satisfied_leaves(self, gang: Gang) -> frozenset[str]:
        """The leaves that are satisfied, with every group above them."""
        if gang.key not in self._satisfied:
            now = gang.standings
            groups: list[Group] = [gang.root] if now[gang.root.name].satisfied else []
            for group in groups:
                children = group.children if isinstance(group, Branch) else ()
                groups += [child for child in children if now[child.name].satisfied]
            self._satisfied[gang.key] = frozenset(group.name for group in groups if isinstance(group, Leaf))
        return self._satisfied[gang.key]

    # new places -----------------------------------------------------------------------------------------------------

    def place_victims(self) -> None:
        """Find new places for victims on what is free once every gang was tried; the victim's gang pays the steps."""
        for key in sorted(key for key, gang_state in self.cycle_state.gang_states.items() if gang_state.evictions):
            self.cycle_state.attempt(key, partial(self._place_victims_of, key))

    def _place_victims_of(self, key: str) -> None:
        gang_state = self.cycle_state.gang_states[key]
        lost = {
            (eviction.sub_group, eviction.pod)
            for eviction in gang_state.evictions
            if not eviction.move_to and eviction.reason != "Stale"
        }
        if lost and self._could_move(gang_state.gang, lost):
            self.cycle_state.charge_to(key)
            new_places = find_new_places(self.cycle_state, self.cycle_state.later.copy(), gang_state.gang, lost)
            self.cycle_state.save()
            self.write(key, new_places)
            self._keep_in_place(key)

    def _could_move(self, gang: Gang, lost: set[Pod]) -> bool:
        """Whether any of them fits anywhere, and all of them may be moved."""
        members = [member for _, member in _members(gang, lost)]
        if any(self._is_held_by_rules(gang, member) for member in members):
            return False
        return any(
            bool(self.cycle_state.later.fits(self.cycle_state.pod_class(gang, member.name)).any()) for member in members
        )

    def _is_held_by_rules(self, gang: Gang, member: Member) -> bool:
        if self._ruled is None:
            self._ruled = _pods_with_rules(self.cycle_state.snapshot)
        touched = self.cycle_state.pod_class(gang, member.name) in self.cycle_state.now.inter_pod.touched
        return touched or f"{gang.namespace}/{member.name}" in self._ruled

    def _keep_in_place(self, key: str) -> None:
        """Cancel evictions of pods whose new place is their old node: whole units, or all victims of a gang."""
        gang_state = self.cycle_state.gang_states[key]
        core = {
            (leaf, pod.name)
            for unit in units(self.cycle_state.before[key].root)
            if unit.core
            for leaf, pod in unit.pods
        }
        loses_core = any((eviction.sub_group, eviction.pod) in core for eviction in gang_state.evictions)
        back = [
            eviction
            for eviction in gang_state.evictions
            if eviction.move_to == eviction.node and eviction.reason != "Stale"
        ]
        if not back or (loses_core and len(back) < len(gang_state.evictions)):
            return
        staying = (
            {(eviction.sub_group, eviction.pod) for eviction in back} if loses_core else self._whole_units(key, back)
        )
        evictions = tuple(
            eviction for eviction in gang_state.evictions if (eviction.sub_group, eviction.pod) not in staying
        )
        verdict: Verdict = "Scheduled" if is_satisfied(gang_state.gang.root) else gang_state.verdict
        self.cycle_state.gang_states[key] = replace(gang_state, evictions=evictions, verdict=verdict)

    def _whole_units(self, key: str, back: list[Eviction]) -> set[Pod]:
        """Pods of units all of whose pods return to their nodes."""
        names = {(eviction.sub_group, eviction.pod) for eviction in back}
        staying: set[Pod] = set()
        for unit in units(self.cycle_state.before[key].root):
            pods = {(leaf, pod.name) for leaf, pod in unit.pods}
            if pods and pods <= names:
                staying |= pods
        return staying

    def write(self, key: str, new_places: NewPlaces) -> None:
        """Reserve new places for evicted pods, and note them in the evictions."""
        gang_state = self.cycle_state.gang_states[key]
        if not new_places:
            return
        members = {(leaf, member.name): member for leaf, member in _members(gang_state.gang, set(new_places))}
        placed = {at: replace(members[at], state=PodState.PLACED, node=node) for at, node in new_places.items()}
        self.cycle_state.reserve_new_places(key, [(leaf, member) for (leaf, _), member in placed.items()])
        evictions = tuple(
            replace(eviction, move_to=new_places.get((eviction.sub_group, eviction.pod), eviction.move_to))
            for eviction in gang_state.evictions
        )
        gang = replace(gang_state.gang, root=replace_members(gang_state.gang.root, placed))
        self.cycle_state.gang_states[key] = replace(gang_state, gang=gang, evictions=evictions)


# one gang after the other -------------------------------------------------------------------------------------------


def find_new_places(cycle_state: CycleState, capacity: Capacity, gang: Gang, victims: set[Pod]) -> NewPlaces:
    """New places for evicted pods of a gang: its core whole or not at all, then extras. Takes them from `capacity`.

    In `gang` these pods are placed or terminating; here they wait, and no other pod of it does.
    """
    gang = _waiting(gang, victims)
    new_places: NewPlaces = {}
    known = gang.queue in cycle_state.usage.tree.nodes
    allowance = cycle_state.usage.allowance(gang.queue, protected=False, later=True) if known else None
    try:
        while len(new_places) < len(victims):
            requirements = Requirements(gang, cycle_state.snapshot, cycle_state.kinds)
            assignment = _next_assignment(cycle_state, capacity, gang, requirements, allowance)
            if assignment is None:
                break
            for assigned in assignment:
                capacity.put(assigned.node, assigned.pod_class, assigned.pods)
                if allowance is not None:
                    allowance = allowance - cycle_state.pod_classes.requests[assigned.pod_class] * assigned.pods
            gang = cycle_state.with_placed(gang, assignment)
            new_places |= _new_places(gang, victims)
    except OutOfSteps:
        pass
    return new_places


def _next_assignment(
    cycle_state: CycleState, capacity: Capacity, gang: Gang, requirements: Requirements, allowance: Ints | None
) -> tuple[PodsOnNode, ...] | None:
    """Nodes for the core if that is missing, else for the next further part that fits."""
    if not requirements.standings[gang.root.name].satisfied:
        for requirement in requirements.core_requirements():
            if (
                isinstance(requirement, Requirement)
                and (assignment := cycle_state.find(capacity, requirement, allowance)) is not None
            ):
                return assignment
        return None
    for _, part, pods in further_parts(gang.root, requirements.standings):
        more = requirements.further_requirement(part, pods)
        if isinstance(more, Requirement) and (assignment := cycle_state.find(capacity, more, allowance)) is not None:
            return assignment
    return None


def place_beside(
    cycle_state: CycleState,
    capacity: Capacity,
    assignment: tuple[PodsOnNode, ...],
    gangs: Mapping[str, Gang],
    victims: VictimPods,
) -> dict[str, NewPlaces] | None:
    """New places for all victims, gang by gang, after an assignment is taken; None: not found this way."""
    capacity = capacity.copy()
    for assigned in assignment:
        capacity.put(assigned.node, assigned.pod_class, assigned.pods)
    new_places: dict[str, NewPlaces] = {}
    for key, gang in gangs.items():
        after = _waiting(gang, victims[key])
        requirement = Requirements(after, cycle_state.snapshot, cycle_state.kinds).restoring_requirement(victims[key])
        restored = cycle_state.find(capacity, requirement) if isinstance(requirement, Requirement) else None
        if restored is None:
            return None
        for assigned in restored:
            capacity.put(assigned.node, assigned.pod_class, assigned.pods)
        new_places[key] = _new_places(cycle_state.with_placed(after, restored), victims[key])
    return new_places


# all at once --------------------------------------------------------------------------------------------------------


def place_together(
    cycle_state: CycleState,
    capacity: Capacity,
    requirement: Requirement,
    gangs: Mapping[str, Gang],
    victims: VictimPods,
) -> tuple[tuple[PodsOnNode, ...], dict[str, NewPlaces]] | None:
    """Nodes for a requirement and new places for all victims, found in one search; None: there are none.

    Every gang has as many pods in every part as before, and keeps its levels. OutOfSteps: unknown.
    """
    parts = [_renamed(cycle_state, "", requirement)]
    after: dict[str, Gang] = {}
    for key, gang in gangs.items():
        after[key] = _waiting(gang, victims[key])
        part = Requirements(after[key], cycle_state.snapshot, cycle_state.kinds).restoring_requirement(victims[key])
        if not isinstance(part, Requirement):
            return None
        parts.append(_renamed(cycle_state, key, part))
    whole = cycle_state.kinds.derive(Requirement("*", len(parts), children=tuple(parts)))
    joint_assignment = cycle_state.find(capacity, whole)
    if joint_assignment is None:
        return None
    assignment: dict[str, list[PodsOnNode]] = {}
    for assigned in joint_assignment:
        key, _, leaf = assigned.leaf.partition(MARK)
        assignment.setdefault(key, []).append(replace(assigned, leaf=leaf))
    new_places = {
        key: _new_places(cycle_state.with_placed(gang, assignment.get(key, [])), victims[key])
        for key, gang in after.items()
    }
    return tuple(assignment.get("", ())), new_places


def _renamed(cycle_state: CycleState, key: str, requirement: Requirement) -> Requirement:
    """The requirement with names that no other gang has; bottom up, as trees may be deep."""
    order: list[Requirement] = [requirement]
    made: dict[int, Requirement] = {}
    for part in order:
        order += part.children
    for part in reversed(order):
        children = tuple(made[id(child)] for child in part.children)
        made[id(part)] = cycle_state.kinds.derive(part, name=f"{key}{MARK}{part.name}", children=children)
    return made[id(requirement)]


# gangs and their pods -----------------------------------------------------------------------------------------------


def _waiting(gang: Gang, victims: set[Pod]) -> Gang:
    """The gang with its victims waiting, and no other pod of it."""
    back = {
        (leaf, member.name): replace(member, state=PodState.PENDING, node="")
        for leaf, member in _members(gang, victims)
    }
    aside = {
        (leaf.name, member.name): replace(member, state=PodState.GATED)
        for leaf in walk(gang.root)
        if isinstance(leaf, Leaf)
        for member in leaf.members_in(PodState.PENDING)
    }
    return replace(gang, root=replace_members(gang.root, aside | back))


def _new_places(gang: Gang, victims: set[Pod]) -> NewPlaces:
    return {
        (leaf.name, member.name): member.node
        for leaf in walk(gang.root)
        if isinstance(leaf, Leaf)
        for member in leaf.placed
        if (leaf.name, member.name) in victims
    }


def _members(gang: Gang, wanted: set[Pod]) -> list[tuple[str, Member]]:
    leaves = {name for name, _ in wanted}
    return [
        (leaf.name, member)
        for leaf in walk(gang.root)
        if isinstance(leaf, Leaf) and leaf.name in leaves
        for member in leaf.members
        if (leaf.name, member.name) in wanted
    ]


def _pods_with_rules(snapshot: Snapshot) -> set[str]:
    """Running pods that carry inter-pod rules themselves."""
    return {
        f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
        for pod in snapshot.objects.pods
        if pod.spec.node_name
        and (pod.spec.affinity is not None or pod.spec.topology_spread_constraints)
        and any(rule.firm for rule in rules_of(pod))
    }

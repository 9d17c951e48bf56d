"""Hints of longer searches, checked against the current cluster before a pod is bound by them (X7).

Rule: nothing is taken from a hint unchecked: minimums (M2), levels (T1), free capacity and node filters (X5), limits
and quotas (Q4). A hint that no longer holds is dropped.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.state import is_satisfied
from muster.model.gang.types import Leaf, Member, walk
from muster.model.gang.updates import replace_members
from muster.model.topology import NOWHERE
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.types import RequiredLevel
from muster.placement.search.search_state import PodsOnNode
from muster.planning.cycle_state import CycleState
from muster.planning.memory.answer_cache import Hint


def hinted_assignment(cycle_state: CycleState, gang: Gang) -> tuple[PodsOnNode, ...] | None:
    """Nodes for the whole core of a gang, as a longer search proposed them, if they still hold."""
    memory = cycle_state.recall.memory
    hint = memory.hints.get(gang.key) if memory is not None else None
    if memory is None or hint is None:
        return None
    assignment = check_hint(cycle_state, gang, hint)
    if assignment is None:
        del memory.hints[gang.key]
    return assignment


def check_hint(cycle_state: CycleState, gang: Gang, hint: Hint) -> tuple[PodsOnNode, ...] | None:
    """The assignment of a hint; None where it breaks any rule."""
    placed = _members(gang, dict(hint.places))
    if len(placed) != len(hint.places) or any(
        pod.node not in cycle_state.snapshot.node_index for pod in placed.values()
    ):
        return None
    assignment = tuple(
        PodsOnNode(leaf, cycle_state.pod_class(gang, name), cycle_state.snapshot.node_index[member.node], 1)
        for (leaf, name), member in placed.items()
    )
    after = replace(gang, root=replace_members(gang.root, placed))
    if not (_meets_minimums(gang, after) and _keeps_levels(cycle_state, after) and _are_free(cycle_state, assignment)):
        return None
    return assignment if _is_allowed(cycle_state, gang, after, assignment) else None


def _members(gang: Gang, places: Mapping[str, str]) -> dict[tuple[str, str], Member]:
    """The waiting pods of a hint, each on its node, by leaf and name."""
    return {
        (leaf.name, member.name): replace(member, state=PodState.PLACED, node=places[member.name])
        for leaf in walk(gang.root)
        if isinstance(leaf, Leaf)
        for member in leaf.members_in(PodState.PENDING)
        if member.name in places
    }


def _meets_minimums(before: Gang, after: Gang) -> bool:
    """The root is satisfied (G1), and so is every SubGroup that gets a pod (G2)."""
    had = before.standings
    return is_satisfied(after.root) and all(
        now.satisfied or now.placed == had[name].placed for name, now in after.standings.items()
    )


def _keeps_levels(cycle_state: CycleState, after: Gang) -> bool:
    """Every required level is met (T1), as far as the nodes of its pods are known."""
    requirements = Requirements(after, cycle_state.snapshot)
    if requirements.invalid() or any(requirements.find_lost_pod(group) for group in walk(after.root)):
        return False
    spots = (requirements.resolve_level(group, group.constraint.required_topology_level) for group in walk(after.root))
    return all(isinstance(spot, RequiredLevel) and spot.pinned != NOWHERE for spot in spots if spot is not None)


def _are_free(cycle_state: CycleState, assignment: tuple[PodsOnNode, ...]) -> bool:
    """Whether they fit one after the other, by capacity and node filters. Hints have no inter-pod rules."""
    capacity = cycle_state.now.copy()
    for assigned in assignment:
        if assigned.pod_class in capacity.inter_pod.touched or not capacity.fits(assigned.pod_class)[assigned.node]:
            return False
        capacity.put(assigned.node, assigned.pod_class, assigned.pods)
    return True


def _is_allowed(cycle_state: CycleState, gang: Gang, after: Gang, assignment: tuple[PodsOnNode, ...]) -> bool:
    """Within the limits and quotas of its queue (Q4)."""
    requests = cycle_state.requested(assignment)
    return cycle_state.usage.excess(gang.queue, requests, cycle_state.protected_increase(gang, after, requests)) is None

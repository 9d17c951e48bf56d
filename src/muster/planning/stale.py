"""Evicts gangs and SubGroups that stay below their minimum for longer than their grace period (S1-S3).

Rule: the only clock is the snapshot's `now`, the only memory are annotations.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial

from muster.model.gang.gang import Gang
from muster.model.gang.types import Group, Leaf, Member, walk
from muster.model.roles import units_of
from muster.planning.cycle_state import CycleState
from muster.planning.preemption.preemption import Preemption
from muster.planning.staleness import first_short, grace_period, short_groups, stale_since


def release_stale(cycle_state: CycleState, preemption: Preemption) -> None:
    """Evict what is short for longer than its grace period, after every gang was tried.

    PodDisruptionBudgets do not prevent it. Pods that the API server would certainly not evict stay, the others go.
    """
    now = cycle_state.snapshot.now
    if now is None:
        return
    for key in sorted(key for key, gang_state in cycle_state.gang_states.items() if not gang_state.gang.is_settled):
        cycle_state.attempt(key, partial(_release, cycle_state, preemption, key, now))


def _release(cycle_state: CycleState, preemption: Preemption, key: str, now: datetime) -> None:
    gang = cycle_state.gang_states[key].gang
    grace = grace_period(gang)
    if grace is None or gang.broken:
        return
    for group in short_groups(gang):
        if now - (stale_since(gang, group.name, now) or now) >= grace:
            stuck = preemption.budgets.stuck
            placed = (*_leftovers(gang), *_placed(group)) if group is gang.root else _placed(group)
            pods = [pod for pod in placed if f"{gang.namespace}/{pod[1].name}" not in stuck]
            if pods:
                cycle_state.evict(key, pods, "Stale", key, short=first_short(gang, group))


def _leftovers(gang: Gang) -> Iterator[tuple[str, Member]]:
    """Leftovers (N4): they are evicted with the whole gang."""
    return (pod for unit in units_of(gang) if unit.leftover for pod in unit.pods)


def _placed(group: Group) -> Iterator[tuple[str, Member]]:
    for leaf in walk(group):
        for member in leaf.placed if isinstance(leaf, Leaf) else ():
            yield leaf.name, member

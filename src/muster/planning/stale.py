"""Gangs and SubGroups that fell below their minimum and found no replacement in time are released (S1-S3).

Rule: the only clock is the snapshot's `now`, the only memory are annotations.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial

from muster.api import names
from muster.api.duration import nanoseconds
from muster.api.moment import past_moment
from muster.model.gang.gang import Gang
from muster.model.gang.types import Branch, Group, Leaf, Member, walk
from muster.model.roles import units_of
from muster.planning.cycle_state import CycleState
from muster.planning.preemption.make_room import Preemption

GRACE = timedelta(seconds=60)  # where the PodGroup does not say
AGES = 100 * 365 * 86_400 * 10**9  # nanoseconds: whoever asks for more means for ever


def release(cycle_state: CycleState, preemption: Preemption) -> None:
    """Evict what is short for longer than its grace, after everybody had a chance to be made whole.

    No budget holds it back. Pods whose eviction would be refused for certain stay, and the others go all the same.
    """
    now = cycle_state.snapshot.now
    if now is None:
        return
    for key in sorted(key for key, gang_state in cycle_state.gang_states.items() if not gang_state.gang.is_settled):
        cycle_state.attempt(key, partial(_release, cycle_state, preemption, key, now))


def _release(cycle_state: CycleState, preemption: Preemption, key: str, now: datetime) -> None:
    gang = cycle_state.gang_states[key].gang
    grace = grace_of(gang)
    if grace is None or gang.broken:
        return
    for group in short(gang):
        if now - (since_when(gang, group.name, now) or now) >= grace:
            stuck = preemption.budgets.stuck
            leaving = (*_leftovers(gang), *_placed(group)) if group is gang.root else _placed(group)
            pods = [one for one in leaving if f"{gang.namespace}/{one[1].name}" not in stuck]
            if pods:
                cycle_state.evict(key, pods, "Stale", key)


def short(gang: Gang) -> Iterator[Group]:
    """Groups that are placed in part and not satisfied, while everything above them is (S1): the root, or parts."""
    now = gang.standings
    ahead: list[Group] = [gang.root]
    while ahead:
        group = ahead.pop()
        if not now[group.name].satisfied:
            if now[group.name].placed:
                yield group
        elif isinstance(group, Branch):
            ahead += reversed(group.children)


def grace_of(gang: Gang) -> timedelta | None:
    """How long it may be short; None: for ever."""
    stated = gang.source.spec.staleness_grace_period
    if stated is None:
        return GRACE
    try:
        found = nanoseconds(stated)
    except ValueError:
        return GRACE
    return None if found < 0 or found > AGES else timedelta(microseconds=found // 1000)


def since_when(gang: Gang, group: str, now: datetime) -> datetime | None:
    """Since when the gang, or one of its SubGroups, is short; None: since now, as after a stamp from the future."""
    annotations = gang.source.metadata.annotations
    if not group:
        return past_moment(annotations.get(names.STALE_SINCE, ""), now)
    try:
        known = json.loads(annotations.get(names.STALE_SUBGROUPS, "{}"))
    except (ValueError, RecursionError):
        return None
    since = known.get(group) if isinstance(known, dict) else None
    return past_moment(since, now) if isinstance(since, str) else None


def _leftovers(gang: Gang) -> Iterator[tuple[str, Member]]:
    """N4: what leaves before any extra does not stay where the whole gang leaves."""
    return (pod for unit in units_of(gang) if unit.leftover for pod in unit.pods)


def _placed(group: Group) -> Iterator[tuple[str, Member]]:
    for leaf in walk(group):
        for member in leaf.placed if isinstance(leaf, Leaf) else ():
            yield leaf.name, member

"""Which replicas of a set are recreated, as they have been below their minimum for too long.

Rule 1: this is decided by cliques: one that was healthy has been below its minimum for too long, and so has its group.
What the group says alone is not enough: it outlives its cliques, its status may be older than the termination, and it
stays below its minimum while those that were recreated come back one by one. Rule 2: cliques that are younger than the
breach stay: a termination that was interrupted goes on with what is left. Rule 3: nothing is terminated whose pods are
back, though its status does not say so yet.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from muster.api.resources import PODS
from muster.grove.cliques.clique_status import holds_minimum
from muster.grove.health import is_breached
from muster.grove.layout import GroupLayout, group_minimum
from muster.grove.sets.set_view import SetReplicaView, SetView
from muster.grove.termination import (
    BreachWait,
    longer,
    next_removals,
    shortest,
    termination_delay,
    wait_for,
    wait_for_status,
)
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Children, Raw


class SetTermination(Struct, frozen=True):
    """What is terminated now, and when to look again."""

    replicas: tuple[int, ...] = ()
    cliques: tuple[Raw, ...] = ()  # of these replicas, those of groups included
    again_after_seconds: float | None = None  # None: nothing waits


class Breach(Struct, frozen=True):
    """A clique that keeps a replica below its minimum, and how long it is until that is terminated for it."""

    clique: Raw
    wait: BreachWait


def plan_termination(view: SetView, children: Children, updating: int | None, now: datetime) -> SetTermination:
    """Replicas whose delay is over; never the one that is being updated."""
    delay, waits = termination_delay(view.pcs), list[BreachWait]()
    expired: dict[int, list[Raw]] = {}
    for replica in view.replicas:
        if replica.index == updating or not replica.health.is_breached:
            continue
        breaches = [*_breaches(view, replica, children, delay, now)]
        waits += (breach.wait for breach in breaches)
        if reasons := [breach.clique for breach in breaches if breach.wait.is_over]:
            expired[replica.index] = next_removals(_present(view, replica), reasons)
        waits.append(wait_for_status(_back(view, replica, children), delay, now))
    cliques = (clique for own in expired.values() for clique in own)
    return SetTermination(tuple(expired), tuple(cliques), shortest(waits))


def _breaches(
    view: SetView, replica: SetReplicaView, children: Children, delay: timedelta, now: datetime
) -> Iterator[Breach]:
    """Standalone cliques below their minimums, and those of groups that are below theirs for it."""
    for clique in replica.cliques:
        if clique is not None and not _has_minimum(clique, children):
            yield Breach(clique, wait_for((clique,), delay, now))
    for layout, group in zip(replica.layout.groups, replica.groups, strict=True):
        wait = wait_for((group,), delay, now)
        for clique in () if wait.seconds is None else _short(view, layout, children):
            yield Breach(clique, longer(wait, wait_for((clique,), delay, now)))


def _short(view: SetView, layout: GroupLayout, children: Children) -> list[Raw]:
    """Cliques below their minimums, of a group that has not as many replicas without one as it needs."""
    rows = [[view.clique(clique.name) for clique in row] for row in layout.replicas]
    held = sum(all(clique is not None and _has_minimum(clique, children) for clique in row) for row in rows)
    if held >= group_minimum(layout.template):
        return []
    return [clique for row in rows for clique in row if clique is not None and not _has_minimum(clique, children)]


def _has_minimum(clique: Raw, children: Children) -> bool:
    return not is_breached(clique) or holds_minimum(clique, children.of(clique, PODS))


def _back(view: SetView, replica: SetReplicaView, children: Children) -> Iterator[Raw]:
    """Cliques whose pods are back, though their status does not say so yet."""
    return (clique for clique in _present(view, replica) if is_breached(clique) and _has_minimum(clique, children))


def _present(view: SetView, replica: SetReplicaView) -> Iterator[Raw]:
    """The cliques of a replica that are not terminating."""
    members = (clique for group in replica.layout.groups for row in group.replicas for clique in row)
    for layout in (*replica.layout.cliques, *members):
        clique = view.clique(layout.name)
        if clique is not None and not is_terminating(clique):
            yield clique

"""Which replicas of a set are recreated, as they have been below their minimum for too long.

Rule 1: this is decided by the ages of cliques, not by what a group says was done: its status may be older than the
termination, and a replica whose cliques are all younger than the breach was recreated already. Rule 2: cliques that
are younger than the breach stay: a termination that was interrupted goes on with what is left. Rule 3: nothing is
terminated whose pods are back, though its status does not say so yet.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from muster.api.resources import PODS
from muster.grove.cliques.clique_status import holds_minimum
from muster.grove.health import breached_since, is_breached, was_healthy
from muster.grove.layout import GroupLayout, group_minimum
from muster.grove.sets.set_view import SetReplicaView, SetView
from muster.grove.termination import (
    existed_at,
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


class BreachedPart(Struct, frozen=True):
    """A part of a replica that is below its minimum."""

    raw: Raw  # a standalone clique, or a group
    cliques: Sequence[Raw]  # that keep it there


def plan_termination(view: SetView, children: Children, updating: int | None, now: datetime) -> SetTermination:
    """Replicas whose delay is over; never the one that is being updated."""
    delay, waits = termination_delay(view.pcs), []
    expired: dict[int, list[Raw]] = {}
    for replica in view.replicas:
        if replica.index == updating or not replica.health.is_breached:
            continue
        breached = [*_breached(view, replica, children, delay, now)]
        waits.append(wait_for((part.raw for part in breached), delay, now))
        if waits[-1].is_over:
            over = [part for part in breached if wait_for((part.raw,), delay, now).is_over]
            expired[replica.index] = _next_removals(view, replica, over)
        waits.append(wait_for_status(_back(view, replica, children), delay, now))
    cliques = (clique for own in expired.values() for clique in own)
    return SetTermination(tuple(index for index, own in expired.items() if own), tuple(cliques), shortest(waits))


def _next_removals(view: SetView, replica: SetReplicaView, over: Sequence[BreachedPart]) -> list[Raw]:
    latest = max(since for part in over if (since := breached_since(part.raw)))
    return next_removals(_present(view, replica), (clique for part in over for clique in part.cliques), latest)


def _breached(
    view: SetView, replica: SetReplicaView, children: Children, delay: timedelta, now: datetime
) -> Iterator[BreachedPart]:
    """Parts of a replica that are below their minimum, but for groups whose cliques were recreated since."""
    for clique in replica.cliques:
        if clique is not None and not _has_minimum(clique, children):
            yield BreachedPart(clique, (clique,))
    for layout, group in zip(replica.layout.groups, replica.groups, strict=True):
        since = None if group is None else breached_since(group)
        if group is None or since is None or not _has_older(view, replica, since):
            continue
        if cliques := _regressed(view, layout, children, delay, now):
            yield BreachedPart(group, cliques)


def _regressed(view: SetView, layout: GroupLayout, children: Children, delay: timedelta, now: datetime) -> list[Raw]:
    """Cliques that were healthy and keep a group below its minimum; none where that is not why.

    The group itself outlives its cliques: that it was healthy says nothing about those that were recreated. Either as
    many replicas as it needs were healthy, or one is below its minimum for too long, and some were recreated for it.
    """
    rows = [[view.clique(clique.name) for clique in row] for row in layout.replicas]
    healthy = [row for row in rows if all(clique is not None and was_healthy(clique) for clique in row)]
    held = [row for row in rows if all(clique is not None and _has_minimum(clique, children) for clique in row)]
    cliques = (clique for row in rows for clique in row if clique is not None and was_healthy(clique))
    short = [clique for clique in cliques if not _has_minimum(clique, children)]
    minimum = group_minimum(layout.template)
    had_minimum = len(healthy) >= minimum or wait_for(short, delay, now).is_over
    return short if had_minimum and len(held) < minimum else []


def _has_minimum(clique: Raw, children: Children) -> bool:
    return not is_breached(clique) or holds_minimum(clique, children.of(clique, PODS))


def _back(view: SetView, replica: SetReplicaView, children: Children) -> Iterator[Raw]:
    """Cliques whose pods are back, though their status does not say so yet."""
    return (clique for clique in _present(view, replica) if is_breached(clique) and _has_minimum(clique, children))


def _has_older(view: SetView, replica: SetReplicaView, since: datetime) -> bool:
    return any(existed_at(clique, since) for clique in _present(view, replica))


def _present(view: SetView, replica: SetReplicaView) -> Iterator[Raw]:
    """The cliques of a replica that are not terminating."""
    members = (clique for group in replica.layout.groups for row in group.replicas for clique in row)
    for layout in (*replica.layout.cliques, *members):
        clique = view.clique(layout.name)
        if clique is not None and not is_terminating(clique):
            yield clique

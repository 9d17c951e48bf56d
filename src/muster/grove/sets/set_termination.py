"""Which replicas of a set are recreated, as they have been below their minimum for too long.

Rule 1: this is decided by the ages of cliques, not by what a group says was done: its status may be older than the
termination, and a replica whose cliques are all younger than the breach was recreated already. Rule 2: cliques that
are younger than the breach stay: a termination that was interrupted goes on with what is left. Rule 3: nothing is
terminated whose pods are back, though its status does not say so yet.
"""

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from muster.api.fields import text
from muster.api.moment import parse_time
from muster.api.resources import PODS
from muster.grove.cliques.clique_status import holds_minimum
from muster.grove.health import breached_since, is_breached, was_healthy
from muster.grove.layout import GroupLayout, group_minimum
from muster.grove.sets.set_view import SetReplicaView, SetView
from muster.grove.termination import shortest, termination_delay, wait_for, wait_for_status
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Children, Raw


class SetTermination(Struct, frozen=True):
    """What is terminated now, and when to look again."""

    replicas: tuple[int, ...] = ()
    cliques: tuple[Raw, ...] = ()  # of these replicas, those of groups included
    again_after_seconds: float | None = None  # None: nothing waits


def plan_termination(view: SetView, children: Children, updating: int | None, now: datetime) -> SetTermination:
    """Replicas whose delay is over; never the one that is being updated."""
    delay, waits = termination_delay(view.pcs), []
    expired: dict[int, list[Raw]] = {}
    for replica in view.replicas:
        if replica.index == updating or not replica.health.is_breached:
            continue
        breached = [*_breached(view, replica, children)]
        waits.append(wait_for(breached, delay, now))
        if waits[-1].is_over:
            over = (part for part in breached if wait_for((part,), delay, now).is_over)
            latest = max(filter(None, map(breached_since, over)))
            expired[replica.index] = [*_cliques_before(view, replica, latest)]
        waits.append(wait_for_status(_back(view, replica, children), delay, now))
    cliques = (clique for own in expired.values() for clique in own)
    return SetTermination(tuple(index for index, own in expired.items() if own), tuple(cliques), shortest(waits))


def _breached(view: SetView, replica: SetReplicaView, children: Children) -> Iterator[Raw]:
    """Parts of a replica that are below their minimum, but for groups whose cliques were recreated since."""
    for clique in replica.cliques:
        if clique is not None and not _has_minimum(clique, children):
            yield clique
    for layout, group in zip(replica.layout.groups, replica.groups, strict=True):
        since = None if group is None else breached_since(group)
        if group is None or since is None or not any(_cliques_before(view, replica, since)):
            continue
        if _has_regressed(view, layout, children):
            yield group


def _has_regressed(view: SetView, layout: GroupLayout, children: Children) -> bool:
    """Whether as many replicas of a group as it needs were healthy, and fewer have their minimums now.

    The group itself outlives its cliques: that it was healthy says nothing about those that were recreated.
    """
    rows = [[view.clique(clique.name) for clique in row] for row in layout.replicas]
    healthy = [row for row in rows if all(clique is not None and was_healthy(clique) for clique in row)]
    held = [row for row in rows if all(clique is not None and _has_minimum(clique, children) for clique in row)]
    return len(healthy) >= group_minimum(layout.template) > len(held)


def _has_minimum(clique: Raw, children: Children) -> bool:
    return not is_breached(clique) or holds_minimum(clique, children.of(clique, PODS))


def _back(view: SetView, replica: SetReplicaView, children: Children) -> Iterator[Raw]:
    """Cliques whose pods are back, though their status does not say so yet."""
    return (clique for clique in _present(view, replica) if is_breached(clique) and _has_minimum(clique, children))


def _cliques_before(view: SetView, replica: SetReplicaView, since: datetime) -> Iterator[Raw]:
    """The cliques of a replica that exist since then or longer, and are not terminating."""
    return (clique for clique in _present(view, replica) if _is_older(clique, since))


def _present(view: SetView, replica: SetReplicaView) -> Iterator[Raw]:
    members = (clique for group in replica.layout.groups for row in group.replicas for clique in row)
    for layout in (*replica.layout.cliques, *members):
        clique = view.clique(layout.name)
        if clique is not None and not is_terminating(clique):
            yield clique


def _is_older(clique: Raw, since: datetime) -> bool:
    created = parse_time(text(clique, "metadata.creationTimestamp"))
    return created is not None and created <= since

"""Which groups of a gang are below their minimum, since when, and how long they may be (S1-S3).

Rule: the only clock is the snapshot's `now`, the only memory are annotations.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

from muster.api import names
from muster.api.duration import parse_nanoseconds
from muster.api.moment import parse_past_time
from muster.model.gang.gang import Gang
from muster.model.gang.types import Branch, Group

GRACE = timedelta(seconds=60)  # where the PodGroup states none
AGES = 100 * 365 * 86_400 * 10**9  # nanoseconds: a longer grace period never ends


def short_groups(gang: Gang) -> Iterator[Group]:
    """Groups that are partly placed and not satisfied while all groups above them are (S1): the root, or SubGroups."""
    now = gang.standings
    ahead: list[Group] = [gang.root]
    while ahead:
        group = ahead.pop()
        if not now[group.name].satisfied:
            if now[group.name].placed:
                yield group
        elif isinstance(group, Branch):
            ahead += reversed(group.children)


def first_short(gang: Gang, group: Group) -> str:
    """The SubGroup for which a group is below its minimum: the first one in it that is; empty: there is none."""
    now = gang.standings
    while isinstance(group, Branch):
        below = next((child for child in group.children if not now[child.name].satisfied), None)
        if below is None:
            break
        group = below
    return group.name


def grace_period(gang: Gang) -> timedelta | None:
    """How long a gang may be short; None: for ever."""
    stated = gang.source.spec.staleness_grace_period
    if stated is None:
        return GRACE
    try:
        grace = parse_nanoseconds(stated)
    except ValueError:
        return GRACE
    return None if grace < 0 or grace > AGES else timedelta(microseconds=grace // 1000)


def stale_since(gang: Gang, group: str, now: datetime) -> datetime | None:
    """Since when the gang, or one of its SubGroups, is short; None: unknown, or in the future."""
    annotations = gang.source.metadata.annotations
    if not group:
        return parse_past_time(annotations.get(names.STALE_SINCE, ""), now)
    try:
        known = json.loads(annotations.get(names.STALE_SUBGROUPS, "{}"))
    except (ValueError, RecursionError):
        return None
    since = known.get(group) if isinstance(known, dict) else None
    return parse_past_time(since, now) if isinstance(since, str) else None

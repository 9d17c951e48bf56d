"""When time alone changes what a plan would decide: grace periods (S2, S3), promised places (P7), minimum run times.

The live loop plans every few seconds for this; in virtual time the next such moment is known.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta

from muster.api import names
from muster.api.duration import parse_nanoseconds
from muster.api.moment import parse_time
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.model.gang.gang import Gang
from muster.planning.preemption.relocation.moved_places import LONGEST, open_places
from muster.planning.staleness import AGES, GRACE, grace_period, short_groups, stale_since

NOTES = frozenset((names.STALE_SINCE, names.STALE_SUBGROUPS, names.MOVED_TO))


def has_notes(group: PodGroup) -> bool:
    """Whether a gang is short, or places are promised to its pods."""
    return not NOTES.isdisjoint(group.metadata.annotations)


def deadlines_of(gang: Gang, now: datetime) -> Iterator[datetime]:
    """When grace periods and promises of a gang end."""
    grace = grace_period(gang)
    if grace is not None and not gang.broken:
        for group in short_groups(gang):
            yield (stale_since(gang, group.name, now) or now) + grace
    for place in open_places(gang, now):
        yield place.since + min(grace or GRACE, LONGEST)


def run_times(queues: Collection[Queue]) -> list[timedelta]:
    """The minimum run times that queues state; some that are not understood, or never pass, end nothing."""
    stated = {text for queue in queues for text in (queue.spec.preempt_min_runtime, queue.spec.reclaim_min_runtime)}
    times = (_nanoseconds(text) for text in stated)
    return sorted(timedelta(microseconds=time // 1000) for time in times if 0 < time <= AGES)


def _nanoseconds(text: str) -> int:
    try:
        return parse_nanoseconds(text)
    except ValueError:
        return 0


def ends_of_run_times(groups: Iterable[PodGroup], times: Collection[timedelta]) -> Iterator[datetime]:
    """When gangs have run for the minimum run times: from then on they may be preempted."""
    for group in groups if times else ():
        start = parse_time(group.metadata.annotations.get(names.LAST_START, ""))
        if start is not None:
            yield from (start + time for time in times)

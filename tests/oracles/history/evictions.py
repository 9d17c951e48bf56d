"""I5 and I6: who is evicted, and what for."""

from collections.abc import Iterator

from tests.oracles.history.starts import grace, is_partial
from tests.oracles.history.timeline import Moment, Timeline, gang_key
from tests.oracles.objects import name, owner

USE_SECONDS = 90.0  # from an eviction to the binding that it was for, while faults go on


def evicted_core(timeline: Timeline) -> Iterator[str]:
    """I5: what is protected is not evicted; a gang below its minimums is released as a whole (S2)."""
    for moment in timeline.evictions:
        seen = timeline.since(timeline.decided(moment), moment)
        if all(_was_protected(one, gang_key(moment), name(moment.pod)) for one in seen):
            yield f"{name(moment.pod)} of a protected core was evicted at revision {moment.change.revision}"


def _was_protected(moment: Moment, key: str, pod: str) -> bool:
    """Whether a pod is part of what its gang keeps; the change that evicts it makes it terminating, so look before."""
    if moment.is_eviction and name(moment.pod) == pod:
        return True
    checked = moment.gang(key)
    return checked is not None and checked.met() and pod in checked.protected()


def evicted_in_vain(timeline: Timeline) -> Iterator[str]:
    """I6: a gang that waited is bound after an eviction, or it, its pods or the nodes changed so that it is not.

    A gang that was below its minimums for its grace is released, and needs no gang that waits (S2).
    """
    for moment in timeline.evictions:
        if _is_release(timeline, moment):
            continue
        waited = _waiting_gangs(timeline, moment)
        if not waited:
            yield f"{name(moment.pod)} is evicted at revision {moment.change.revision}, and no other gang waits"
        elif not _is_used(timeline, moment, waited):
            yield f"{name(moment.pod)} is evicted at revision {moment.change.revision}, and none of {waited} is bound"


def _is_release(timeline: Timeline, moment: Moment) -> bool:
    """Whether the gang was in part for its grace; a second of it may pass between the clocks that measure it."""
    seconds = grace(moment, gang_key(moment)) - 1.0
    seen = timeline.since(moment.at - seconds, moment)
    return all(is_partial(one, gang_key(moment)) for one in seen[:-1]) and len(seen) > 1


def _waiting_gangs(timeline: Timeline, moment: Moment) -> list[str]:
    """Other gangs with pods that could be bound, at some time between the decision and its effect."""
    return sorted(
        {
            key
            for seen in timeline.since(timeline.decided(moment), moment)
            for key in seen.index.gangs
            if key != gang_key(moment) and (checked := seen.gang(key)) and any(checked.waiting.values())
        }
    )


def _is_used(timeline: Timeline, moment: Moment, waited: list[str]) -> bool:
    """Whether one of the gangs is bound in time, or something that it depended on is gone."""
    later = (one for one in timeline.after(moment) if one.at - moment.at <= USE_SECONDS)
    return any(_explains(one, waited) for one in later)


def _explains(moment: Moment, waited: list[str]) -> bool:
    raw, kind = moment.change.object, moment.change.object["kind"]
    if kind == "Pod" and owner(raw) in waited:
        return moment.is_binding or moment.change.is_deleted
    if kind == "PodGroup":
        return name(raw) in waited and moment.change.is_deleted
    return kind == "Node" and (moment.change.is_deleted or bool((raw.get("spec") or {}).get("unschedulable")))

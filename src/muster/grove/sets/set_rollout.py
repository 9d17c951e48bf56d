"""How a new template reaches the replicas of a set: one at a time.

Rule 1: replicas without scheduled pods first, then those below their minimum, then by index. Rule 2: the next one
follows when this one is updated and available. Rule 3: a replica is chosen in the status before anything of it
changes, so that a restart chooses no second one.
"""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from muster.api.fields import integer, items, mapping, text
from muster.api.names import TEMPLATE_HASH
from muster.grove.health import is_scaled_below_minimum, label_of
from muster.grove.sets.set_view import SetReplicaView, SetView
from muster.workloads.conditions import timestamp
from muster.workloads.types import Raw


class SetRollout(Struct, frozen=True):
    """What an update does now."""

    updating: frozenset[int] = frozenset()  # replicas that may have the latest template
    current: int | None = None  # the one that is being updated; None: no update is under way
    progress: Raw | None = None  # for the status; None: there never was an update


def plan_set_rollout(view: SetView, now: datetime) -> SetRollout:
    """Which replicas may have the latest template, and which one is next."""
    before = mapping(view.raw, "status.updateProgress")
    known = text(view.raw, "status.currentGenerationHash")
    outdated = [replica for replica in view.replicas if not replica.health.has_template]
    if known in ("", view.hashes.generation) and not outdated and not _is_open(before):
        return SetRollout(progress=_counted(view, before) if before else None)
    started = before if known == view.hashes.generation and _is_open(before) else _started(before, now)
    if view.pcs.spec.updates_on_delete:
        everything = frozenset(replica.index for replica in view.replicas)
        return SetRollout(everything, progress=_counted(view, _ended(started, now)))
    return _rolling(view, started, outdated, now)


def _rolling(view: SetView, started: Raw, outdated: list[SetReplicaView], now: datetime) -> SetRollout:
    current = _current(started, len(view.replicas))
    chosen = frozenset() if current is None else frozenset((current,))
    if current is not None and not _is_done(view.replicas[current]):
        return SetRollout(chosen, current, _counted(view, started))
    waiting = [replica for replica in outdated if replica.index != current]
    if not waiting:
        return SetRollout(chosen, progress=_counted(view, _ended(started, now)))
    following = next_replica(waiting).index
    entry = {"replicaIndex": following, "updateStartedAt": timestamp(now)}
    return SetRollout(chosen, following, _counted(view, {**started, "currentlyUpdating": [entry]}))


def next_replica(waiting: Iterable[SetReplicaView]) -> SetReplicaView:
    """The replica whose update costs least."""
    return min(waiting, key=lambda replica: (replica.scheduled_pods > 0, not replica.health.is_breached, replica.index))


def _is_open(progress: Raw) -> bool:
    return bool(progress) and not text(progress, "updateEndedAt")


def _current(progress: Raw, count: int) -> int | None:
    indexes = (integer(entry, "replicaIndex") for entry in items(progress, "currentlyUpdating"))
    return next((index for index in indexes if index < count), None)


def _is_done(replica: SetReplicaView) -> bool:
    """Whether a replica is updated and available; what is scaled below its minimum is never, and holds up no other."""
    is_available = replica.health.is_available or any(map(is_scaled_below_minimum, replica.parts()))
    return replica.health.is_updated and is_available


def _started(before: Raw, now: datetime) -> Raw:
    """The progress of a new update; a replica that an older one is updating stays the chosen one."""
    current = items(before, "currentlyUpdating") if _is_open(before) else []
    return {"updateStartedAt": timestamp(now), "currentlyUpdating": current}


def _ended(progress: Raw, now: datetime) -> Raw:
    return {**progress, "currentlyUpdating": [], "updateEndedAt": timestamp(now)}


def _counted(view: SetView, progress: Raw) -> Raw:
    """The progress with how many cliques and groups have the latest template."""
    wanted = [clique for replica in view.replicas for gang in replica.layout.gangs for clique in gang.cliques]
    hashes = (label_of(view.clique(clique.name), TEMPLATE_HASH) for clique in wanted)
    updated = sum(label == view.hashes.of(clique) for label, clique in zip(hashes, wanted, strict=True))
    groups = [group for replica in view.replicas for group in replica.groups]
    return {
        **progress,
        "updatedPodCliquesCount": updated,
        "totalPodCliquesCount": len(wanted),
        "updatedPodCliqueScalingGroupsCount": sum(
            text(group, "status.currentPodCliqueSetGenerationHash") == view.hashes.generation for group in groups
        ),
        "totalPodCliqueScalingGroupsCount": len(groups),
    }

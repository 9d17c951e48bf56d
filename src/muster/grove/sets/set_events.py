"""Events about a set: its update, its terminations, and whether it has the topology that it names.

Rule: a change is what the next status has and the one before it has not.
"""

from collections.abc import Collection, Iterator

from muster.api.fields import integer, items, mapping, text
from muster.grove.events import termination_event
from muster.grove.health import FALSE
from muster.grove.sets.set_rollout import SetRollout
from muster.grove.sets.set_status import TOO_MANY, too_many_condition
from muster.grove.sets.set_view import SetView
from muster.grove.topology import LEVELS_UNAVAILABLE, levels_condition
from muster.workloads.conditions import find_condition
from muster.workloads.types import OwnerEvent, Raw

REPLICA_TERMINATED = "PodCliqueSetReplicaDeleteSuccessful"
UPDATE_STARTED, UPDATE_ENDED, REPLICA_UPDATING = "UpdateStarted", "UpdateEnded", "ReplicaUpdateStarted"


def set_events(view: SetView, rollout: SetRollout, terminated: Collection[int]) -> Iterator[OwnerEvent]:
    """What has begun or ended since the last status."""
    yield from termination_event(REPLICA_TERMINATED, terminated)
    yield from _update_events(view, rollout)
    yield from _topology_events(view)
    condition = too_many_condition(view)
    if condition is not None and find_condition(view.raw, TOO_MANY) is None:
        yield OwnerEvent(TOO_MANY, condition.message)


def _update_events(view: SetView, rollout: SetRollout) -> Iterator[OwnerEvent]:
    before, after = mapping(view.raw, "status.updateProgress"), rollout.progress or {}
    is_new = text(view.raw, "status.currentGenerationHash") not in ("", view.hashes.generation)
    template = f"template {view.hashes.generation}"
    if after and (is_new or _differ(before, after, "updateStartedAt")):
        how = "pods get it when they are deleted" if view.pcs.spec.updates_on_delete else "one replica at a time"
        yield OwnerEvent(UPDATE_STARTED, f"update of {len(view.replicas)} replicas to {template}: {how}", True)
    if (index := _updating(after)) is not None and (is_new or index != _updating(before)):
        yield OwnerEvent(REPLICA_UPDATING, f"replica {index} is updated to {template}", True)
    has_ended = bool(text(after, "updateEndedAt")) and (is_new or _differ(before, after, "updateEndedAt"))
    if has_ended and not view.pcs.spec.updates_on_delete:
        yield OwnerEvent(UPDATE_ENDED, f"all replicas have {template}", True)


def _differ(before: Raw, after: Raw, field: str) -> bool:
    return text(before, field) != text(after, field)


def _updating(progress: Raw) -> int | None:
    return next((integer(entry, "replicaIndex") for entry in items(progress, "currentlyUpdating")), None)


def _topology_events(view: SetView) -> Iterator[OwnerEvent]:
    """That levels became unavailable, or for another reason than before."""
    if view.topology is None:
        return
    condition, before = levels_condition(view.topology), find_condition(view.raw, LEVELS_UNAVAILABLE)
    if condition.status != FALSE and condition.reason != text(before, "reason"):
        yield OwnerEvent(LEVELS_UNAVAILABLE, condition.message)

"""How a new template reaches the replicas of a scaling group: each is recreated as a whole.

Rule 1: replicas that are not available go at once. Rule 2: available ones go one at a time, while enough are
available. Rule 3: a replica is chosen in the status before it is deleted, so that a restart chooses no second one.
Rule 4: cliques with an older template go last: by them a restart knows that the whole replica is to be recreated.
"""

from datetime import datetime

from msgspec import Struct

from muster.api.fields import at, integer, mapping, text
from muster.api.moment import parse_time
from muster.api.names import TEMPLATE_HASH
from muster.grove.health import is_scaled_below_minimum, label_of
from muster.grove.scaling_groups.group_view import GroupReplicaView, GroupView
from muster.grove.termination import removals_before
from muster.workloads.conditions import timestamp
from muster.workloads.operators.objects import name_of
from muster.workloads.types import Raw

SELECTED = "readyReplicaIndicesSelectedToUpdate"
MOST_COMPLETED = 1_000  # replaced replicas that the status holds


class GroupRollout(Struct, frozen=True):
    """What an update does now."""

    is_under_way: bool = False
    doomed: tuple[Raw, ...] = ()  # cliques that go now, of replicas to recreate
    progress: Raw | None = None  # for the status; None: there never was an update


def plan_group_rollout(group: GroupView, now: datetime) -> GroupRollout:
    """Which replicas are recreated now, and which one is next."""
    before = mapping(group.pcsg, "status.updateProgress")
    outdated = [replica for replica in group.replicas if replica.is_outdated]
    is_known = text(before, "podCliqueSetGenerationHash") == group.hashes.generation
    if not group.may_update or (not outdated and not is_known):
        return GroupRollout(progress=before or None)
    started = before if is_known else _started(group, now)
    if group.pcs.spec.updates_on_delete:
        return GroupRollout(progress=_counted(group, _ended(started, now)))
    if text(started, "updateEndedAt") and not outdated:
        return GroupRollout(progress=_counted(group, started))
    return _rolling(group, started, outdated, now)


def _rolling(group: GroupView, started: Raw, outdated: list[GroupReplicaView], now: datetime) -> GroupRollout:
    selected = _selected(started)
    going = (replica for replica in outdated if replica.index == selected or not replica.health.is_available)
    doomed = tuple(clique for replica in going for clique in _next_removals(group, replica, started, now))
    if selected is not None and not _is_replaced(group, selected):
        return GroupRollout(True, doomed, _counted(group, started))
    ready = [replica.index for replica in outdated if replica.health.is_available]
    if ready and _available(group) >= min(group.minimum, len(group.replicas)):
        return GroupRollout(True, doomed, _counted(group, _selecting(started, selected, ready[0])))
    if outdated:
        return GroupRollout(True, doomed, _counted(group, started))
    return GroupRollout(progress=_counted(group, _ended(started, now)))


def _next_removals(group: GroupView, replica: GroupReplicaView, started: Raw, now: datetime) -> list[Raw]:
    """What goes now of a replica: cliques that are older than the update, and those of an older template at the end."""
    hashes = {member.layout.name: group.hashes.of(member.layout) for member in replica.members}
    outdated = [clique for clique in replica.present() if label_of(clique, TEMPLATE_HASH) != hashes[name_of(clique)]]
    return removals_before(replica.present(), outdated, parse_time(text(started, "updateStartedAt")) or now)


def _selected(progress: Raw) -> int | None:
    value = at(progress, f"{SELECTED}.current")
    return value if isinstance(value, int) else None


def _is_replaced(group: GroupView, index: int) -> bool:
    """Whether a replica has the latest template and is available; one that was scaled in needs no more.

    A clique that is scaled below its minimum is never available, and must not hold up the others.
    """
    if index >= len(group.replicas):
        return True
    replica = group.replicas[index]
    is_available = replica.health.is_available or any(map(is_scaled_below_minimum, replica.present()))
    return replica.health.is_updated and is_available


def _available(group: GroupView) -> int:
    return sum(replica.health.is_available for replica in group.replicas)


def _started(group: GroupView, now: datetime) -> Raw:
    """The progress of a new update; a replica that an older one is replacing stays the chosen one."""
    before = mapping(group.pcsg, "status.updateProgress")
    progress: Raw = {"updateStartedAt": timestamp(now), "podCliqueSetGenerationHash": group.hashes.generation}
    if before.get(SELECTED) and not text(before, "updateEndedAt"):
        progress[SELECTED] = {"current": integer(before, f"{SELECTED}.current"), "completed": []}
    return progress


def _selecting(progress: Raw, last: int | None, index: int) -> Raw:
    completed = [] if last is None else [*mapping(progress, SELECTED).get("completed", ()), last]
    return {**progress, SELECTED: {"current": index, "completed": completed[-MOST_COMPLETED:]}, "updateEndedAt": None}


def _ended(progress: Raw, now: datetime) -> Raw:
    ended = {name: value for name, value in progress.items() if name != SELECTED}
    return {**ended, "updateEndedAt": text(progress, "updateEndedAt") or timestamp(now)}


def _counted(group: GroupView, progress: Raw) -> Raw:
    members = [member for replica in group.replicas for member in replica.members]
    updated = sum(len(replica.members) for replica in group.replicas if replica.health.is_updated)
    counts = {"updatedPodCliquesCount": updated, "totalPodCliquesCount": len(members)}
    return {name: value for name, value in {**progress, **counts}.items() if value is not None}

"""How far a rolling update of a LeaderWorkerSet has come: the partition and the replicas of its leader StatefulSet.

Rule: groups are updated from the last to the first, at most `maxUnavailable` at a time, `maxSurge` more meanwhile.
"""

from collections.abc import Sequence

from msgspec import Struct

from muster.api.fields import at, integer, number, texts
from muster.workloads.operators.leader_worker_pods import REPLICAS
from muster.workloads.pod_templates import count_or_percent
from muster.workloads.types import Raw

_CONFIGURATION = "spec.rolloutStrategy.rollingUpdateConfiguration"


class GroupState(Struct, frozen=True):
    """The state of a group: its leader and its workers together."""

    is_ready: bool = False
    is_updated: bool = False


class RolloutStep(Struct, frozen=True):
    """What the leader StatefulSet gets next."""

    partition: int
    replicas: int


def next_step(
    lws: Raw, wanted: int, leader_set: Raw | None, groups: Sequence[GroupState], *, is_new: bool
) -> RolloutStep:
    """The next step; `is_new`: the template has just changed. `groups` has one state per replica of the StatefulSet."""
    step = _next_step(lws, wanted, leader_set, groups, is_new=is_new)
    return RolloutStep(max(step.partition, integer(lws, f"{_CONFIGURATION}.partition")), step.replicas)


def _next_step(
    lws: Raw, wanted: int, leader_set: Raw | None, groups: Sequence[GroupState], *, is_new: bool
) -> RolloutStep:
    if leader_set is None:
        return RolloutStep(0, wanted)
    surge = min(count_or_percent(at(lws, f"{_CONFIGURATION}.maxSurge"), wanted, rounds_up=True), wanted)
    present = integer(leader_set, "spec.replicas", 1)
    if is_new:
        return RolloutStep(min(wanted, present), _replicas(wanted, surge, wanted))
    partition = integer(leader_set, "spec.updateStrategy.rollingUpdate.partition")
    if partition == 0 and present == wanted:
        return RolloutStep(0, wanted)
    unready = sum(1 for i in range(wanted) if i >= len(groups) or not (groups[i].is_ready and groups[i].is_updated))
    replicas = _replicas(wanted, surge, unready)
    if number(texts(leader_set, "metadata.annotations").get(REPLICAS, "")) != wanted:
        return RolloutStep(min(partition, wanted + surge), replicas)
    unavailable = count_or_percent(at(lws, f"{_CONFIGURATION}.maxUnavailable"), wanted, rounds_up=False)
    at_once = (unavailable or (0 if surge else 1)) + surge - (wanted + surge - present)
    return RolloutStep(min(_partition(groups, present, at_once), partition), replicas)


def _replicas(wanted: int, surge: int, unready: int) -> int:
    """Surge groups go one by one once no more groups than they are unready."""
    return wanted + max(0, unready - 1) if unready <= surge else wanted + surge


def _partition(groups: Sequence[GroupState], present: int, at_once: int) -> int:
    done = 0
    for group in reversed(groups):
        if not (group.is_ready and group.is_updated):
            break
        done += 1
    lowest = max(0, present - done - at_once)
    partition = lowest + sum(1 for group in groups[:lowest] if not group.is_ready)
    for index in range(min(partition, present - 1), lowest - 1, -1):
        if groups[index].is_ready and not groups[index].is_updated:
            break
        partition = index
    return partition

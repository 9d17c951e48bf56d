"""What is written on PodGroups and Queues after a cycle (E2, E3).

Rule: with the answer written and nothing else changed, the answer is the same.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime

from msgspec.structs import replace

from muster.api.meta import Condition
from muster.api.podgroup import LevelStatus, PodGroup, PodGroupStatus, ResourcesStatus
from muster.api.quantity import Resources
from muster.api.queue import Queue, QueueStatus
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.types import Group, walk
from muster.model.queues import QueueTree, Uses, arrange, plus, uses
from muster.model.roles import leftovers, non_preemptible, resources
from muster.model.snapshot import Snapshot
from muster.planning.decision import CyclePlan
from muster.reporting.conditions import (
    ON_POD_GROUPS,
    ON_QUEUES,
    pod_group_conditions,
    queue_ready,
    with_transition_times,
)
from muster.reporting.minimums import minimums_of
from muster.reporting.outcome import Outcome, gangs_bound, pods


def pod_group_status(outcome: Outcome, old: PodGroup, now: datetime) -> PodGroupStatus:
    """Phase, counts, resources, levels and conditions of a PodGroup (E2, E3)."""
    states = Counter(pod.state for pod in pods(outcome.gang.root))
    return PodGroupStatus(
        phase=_phase(states, outcome.satisfied),
        satisfied=outcome.satisfied,
        running=states[PodState.PLACED],
        pending=states[PodState.PENDING] + states[PodState.GATED],
        succeeded=states[PodState.SUCCEEDED],
        failed=states[PodState.FAILED],
        leftovers=len(leftovers(outcome.gang)),
        resources_status=resources_status(outcome.gang),
        levels=() if outcome.gang.broken else tuple(_level(group, outcome) for group in walk(outcome.gang.root)),
        conditions=with_transition_times(
            pod_group_conditions(outcome),
            old.status.conditions if old.status else (),
            ON_POD_GROUPS,
            old.metadata.generation,
            now,
        ),
        disturbance=outcome.disturbance if _is_nominated(outcome) else None,
        scheduler_name=_reporter(_schedulers(outcome), bool(outcome.gang.other_schedulers)),
    )


def _is_nominated(outcome: Outcome) -> bool:
    return outcome.plan.verdict == "Scheduled" and not outcome.satisfied


def is_reported_elsewhere(gang: Gang, schedulers: Collection[str]) -> bool:
    """Whether another scheduler, named by pods of this gang, reports on its PodGroup (N6)."""
    return bool(gang.other_schedulers) and _is_another(gang.source.status, schedulers)


def _is_another(status: PodGroupStatus | QueueStatus | None, schedulers: Collection[str]) -> bool:
    return status is not None and status.scheduler_name not in ("", *schedulers)


def _reporter(schedulers: Collection[str], is_shared: bool) -> str:
    """The scheduler that reports on a shared object. Without it, each scheduler would overwrite the other's status."""
    return min(schedulers, default="") if is_shared else ""


def _schedulers(outcome: Outcome) -> Collection[str]:
    snapshot = outcome.plan.snapshot
    return snapshot.schedulers if snapshot is not None else ()


def _phase(states: Counter[PodState], enough: bool) -> str:
    if states[PodState.PLACED] or states[PodState.PENDING] or states[PodState.GATED]:
        return "Running" if enough else "Pending"
    if enough:
        return "Succeeded"
    return "Failed" if states[PodState.FAILED] else "Pending"


def resources_status(gang: Gang) -> ResourcesStatus:
    """What a gang requests and holds (E2)."""
    return ResourcesStatus(
        requested=_sorted(plus(gang.held, gang.pending_requests)),
        allocated=_sorted(gang.held),
        allocated_non_preemptible=_sorted(resources(non_preemptible(gang))),
    )


def _sorted(amounts: Mapping[str, int]) -> Resources:
    return Resources(sorted(amounts.items()))


def _level(group: Group, outcome: Outcome) -> LevelStatus:
    """Children and pods in fields of their own (E2)."""
    standing = outcome.standings[group.name]
    minimums = minimums_of(group, outcome.standings)
    return LevelStatus(
        name=group.name,
        min_member=minimums.min_member,
        min_sub_group=minimums.min_sub_group,
        sub_groups=minimums.sub_groups,
        satisfied_sub_groups=minimums.satisfied_sub_groups,
        satisfied=standing.satisfied,
        placed=standing.placed,
        succeeded=standing.succeeded,
        pending=standing.pending,
        gated=standing.gated,
        domain=outcome.domains.get(group.name, ""),
    )


# queues -------------------------------------------------------------------------------------------------------------


def queue_statuses(snapshot: Snapshot, plan: CyclePlan, now: datetime) -> dict[str, QueueStatus]:
    """What every queue and those below it request and hold, by name (E2).

    Queues with gangs of other schedulers only are theirs to report; of those that are shared, one reports (N6).
    """
    queues = {queue.metadata.name: queue for queue in snapshot.objects.queues if queue.metadata.name}
    tree = arrange(queues.values())
    used = uses(tree, gangs_bound(snapshot, plan).values())
    parents = {name: queues[name].spec.parent_queue for name in sorted(queues)}
    foreign, shared = _queues_of_others(snapshot, tree)
    elsewhere = {name for name in shared & queues.keys() if _is_another(queues[name].status, snapshot.schedulers)}
    below: dict[str, list[str]] = defaultdict(list)
    for name, parent in parents.items():
        below[parent].append(name)
    statuses = {
        name: _queue_status(queues[name], tuple(below[name]), used, queue_ready(name, tree, parents), now)
        for name in parents
        if name not in foreign | elsewhere
    }
    return {
        name: replace(status, scheduler_name=_reporter(snapshot.schedulers, name in shared))
        for name, status in statuses.items()
    }


def _queues_of_others(snapshot: Snapshot, tree: QueueTree) -> tuple[set[str], set[str]]:
    """Queues in which, or below which, all gangs are of other schedulers; and those in which some are."""
    ours, others = set[str](), set[str]()
    for queue, is_foreign, is_mixed in {(g.queue, g.is_foreign, bool(g.other_schedulers)) for g in snapshot.gangs}:
        path = [node.name for node in (tree.path(queue) if queue in tree.nodes else ())]
        if not is_foreign:
            ours.update(path)
        if is_mixed:
            others.update(path)
    return others - ours, others & ours


def _queue_status(queue: Queue, below: tuple[str, ...], used: Uses, ready: Condition, now: datetime) -> QueueStatus:
    name, old = queue.metadata.name, queue.status.conditions if queue.status else ()
    return QueueStatus(
        child_queues=below,
        requested=_sorted(used.requested.get(name, {})),
        allocated=_sorted(plus(used.allocated.get(name, {}), used.terminating.get(name, {}))),
        allocated_non_preemptible=_sorted(used.non_preemptible.get(name, {})),
        conditions=with_transition_times([ready], old, ON_QUEUES, queue.metadata.generation, now),
    )

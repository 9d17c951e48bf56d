"""The status of a PodGang: phase, score and conditions, from its pods and from what the PodGroup says.

Rule 1: whether a gang is scheduled or ready is counted from pods; why it is not is what the scheduler says on the
PodGroup, in its words (E1). Rule 2: conditions of other writers stay as they are. Rule 3: what is said here changes
with a gang and not with each of its pods: it has no counts.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from muster.api.fields import mapping, text
from muster.grove.gangs.cliques import GangClique
from muster.grove.gangs.gates import CREATION_PENDING, SCHEDULED, GateHold
from muster.grove.health import FALSE, TRUE, UNKNOWN, HealthCondition, with_conditions
from muster.workloads.conditions import find_condition, is_condition_true
from muster.workloads.types import Raw

INITIALIZED, READY, UNHEALTHY, DISRUPTION_TARGET = "Initialized", "Ready", "Unhealthy", "DisruptionTarget"
PENDING, STARTING, RUNNING = "Pending", "Starting", "Running"
CREATED, NOT_SCHEDULED = "PodGangPodsCreated", "PodGangNotScheduled"


class ObservedGang(Struct, frozen=True):
    """A PodGang as one reconciliation sees it."""

    gang: Raw
    cliques: Sequence[GangClique]
    hold: GateHold | None  # why gated pods wait; None: they do not
    pod_group: Raw | None  # as the scheduler reports on it
    is_made_here: bool = True  # no other operator says when it is initialized
    pinned: HealthCondition | None = None  # beside another operator: whether a scaled gang is where its base is

    @property
    def is_scheduled(self) -> bool:
        """Whether every minimum is scheduled."""
        return all(clique.is_scheduled for clique in self.cliques)

    @property
    def is_ready(self) -> bool:
        """Whether every minimum is ready."""
        return all(clique.ready >= clique.minimum for clique in self.cliques)


def gang_status(state: ObservedGang, score: float | None, now: datetime) -> Raw:
    """The whole status; `score` is None until the gang is scheduled."""
    status = {name: value for name, value in mapping(state.gang, "status").items() if name != "placementScore"}
    conditions = with_conditions(state.gang, _conditions(state), now)
    scored = {} if score is None else {"placementScore": score}
    return {**status, "phase": phase_of(state), "conditions": conditions, **scored}


def failed(gang: Raw, status: Raw, reason: str, message: str, now: datetime) -> Raw:
    """The status where an action failed: it says so, unless the gang is scheduled."""
    if is_condition_true({"status": status}, SCHEDULED):
        return status
    condition = HealthCondition(SCHEDULED, FALSE, reason, message)
    return {**status, "conditions": with_conditions({**gang, "status": status}, [condition], now)}


def phase_of(state: ObservedGang) -> str:
    """Running: every minimum runs. Starting: some pod is scheduled. Pending: none is."""
    if not any(clique.scheduled for clique in state.cliques):
        return PENDING
    return RUNNING if all(clique.running >= clique.minimum for clique in state.cliques) else STARTING


# conditions ---------------------------------------------------------------------------------------------------------


def _conditions(state: ObservedGang) -> Iterator[HealthCondition]:
    if state.is_made_here:
        yield _initialized(state)
    yield _scheduled(state)
    yield _ready(state)
    yield _unhealthy(state)
    yield _disruption_target(state.cliques)
    if state.pinned is not None:
        yield state.pinned


def is_initialized(gang: Raw, cliques: Sequence[GangClique]) -> bool:
    """Whether all pods were there once: that stays so, as in Grove."""
    if is_condition_true(gang, INITIALIZED) or not cliques:
        return bool(cliques)
    return all(clique.replicas is not None and len(clique.live) >= clique.replicas for clique in cliques)


def _initialized(state: ObservedGang) -> HealthCondition:
    if is_initialized(state.gang, state.cliques):
        return HealthCondition(INITIALIZED, TRUE, CREATED, "all pods of the gang were created")
    says = state.hold.message if state.hold else "not all pods of the gang exist yet"
    return HealthCondition(INITIALIZED, FALSE, CREATION_PENDING, says)


def _scheduled(state: ObservedGang) -> HealthCondition:
    said = find_condition(state.pod_group, SCHEDULED) if state.pod_group else None
    status, reason, message = (text(said, field) for field in ("status", "reason", "message"))
    if state.is_scheduled:
        met = message if status == TRUE else "every PodClique has its minimum scheduled"
        return HealthCondition(SCHEDULED, TRUE, "PodGangScheduled", met)
    if state.hold is not None:
        return HealthCondition(SCHEDULED, FALSE, state.hold.reason, state.hold.message)
    if status in (FALSE, UNKNOWN):
        return HealthCondition(SCHEDULED, status, reason or NOT_SCHEDULED, message)
    short = next(clique for clique in state.cliques if not clique.is_scheduled)
    says = f"PodClique `{short.name}` has fewer pods scheduled than its minimum of {short.minimum}"
    return HealthCondition(SCHEDULED, FALSE, NOT_SCHEDULED, says)


def _ready(state: ObservedGang) -> HealthCondition:
    if state.is_ready:
        return HealthCondition(READY, TRUE, "PodGangReady", "every PodClique has its minimum ready")
    return HealthCondition(READY, FALSE, "PodGangNotReady", _not_ready(state))


def _not_ready(state: ObservedGang) -> str:
    short = next(clique for clique in state.cliques if clique.ready < clique.minimum)
    return f"PodClique `{short.name}` has fewer pods ready than its minimum of {short.minimum}"


def was_ready(gang: Raw) -> bool:
    """Whether a gang was ready as a whole, as its status says."""
    return is_condition_true(gang, READY) or is_condition_true(gang, UNHEALTHY)


def _unhealthy(state: ObservedGang) -> HealthCondition:
    """A gang that was ready and is not."""
    if state.is_ready:
        return HealthCondition(UNHEALTHY, FALSE, "PodGangReady", "every PodClique has its minimum ready")
    if was_ready(state.gang):
        return HealthCondition(UNHEALTHY, TRUE, "MinAvailableBreached", _not_ready(state))
    return HealthCondition(UNHEALTHY, FALSE, "NotReadyYet", "the gang was not ready yet")


def _disruption_target(cliques: Iterable[GangClique]) -> HealthCondition:
    """A gang that evictions take below a minimum."""
    for clique in cliques:
        targets = [pod for pod in (*clique.live, *clique.terminating) if is_condition_true(pod, DISRUPTION_TARGET)]
        staying = sum(not is_condition_true(pod, DISRUPTION_TARGET) for pod in clique.live) if targets else 0
        if targets and staying < clique.minimum:
            why = find_condition(targets[0], DISRUPTION_TARGET) or {}
            says = f"PodClique `{clique.name}` keeps {staying} of the {clique.minimum} pods that it needs"
            message = "; ".join(filter(None, (says, text(why, "message"))))
            return HealthCondition(DISRUPTION_TARGET, TRUE, text(why, "reason") or "Evicted", message)
    return HealthCondition(DISRUPTION_TARGET, FALSE, "NotDisrupted", "no eviction takes the gang below its minimums")

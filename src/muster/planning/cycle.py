"""One cycle: a snapshot in, a plan out. Pure: the same snapshot and policy give the same plan, byte for byte (X3)."""

from collections import defaultdict
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from muster.model.snapshot import Snapshot
from muster.planning import stale
from muster.planning.allocation.allocate import Allocation, OnBound, Rank, rank
from muster.planning.cycle_state import CycleState
from muster.planning.decision import CyclePlan, GangPlan
from muster.planning.diagnosis.waiting import WaitingExtras
from muster.planning.gang_state import GangState
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.policy import Policy
from muster.planning.refusal import Evicted

NEAREST = 10  # gangs ahead that are named
Position = tuple[int, tuple[str, ...]]  # in a queue, and those right before


def plan(
    snapshot: Snapshot,
    policy: Policy | None = None,
    on_bound: OnBound | None = None,
    is_cancelled: Callable[[], bool] | None = None,
    memory: AnswerCache | None = None,
    on_phase: Callable[[str], object] = lambda _: None,
) -> CyclePlan:
    """Bindings, nominations, evictions, and for every gang a verdict with its reasons.

    `on_bound` is called with bindings as they are decided: none is taken back. Raises Cancelled where the caller gave
    up. `memory` caches answers of earlier cycles (X7): it makes a plan cheaper, never different. `on_phase` is called
    with the name of each part of the work when it begins.
    """
    on_phase("allocate")
    cycle_state = CycleState(snapshot, policy or Policy(), is_cancelled, memory)
    allocation = Allocation(cycle_state, on_bound)
    allocation.run()
    allocation.refusals.withdraw_hints()
    cycle_state.budget.check()
    on_phase("relocate")
    allocation.preemption.relocation.place_victims()
    on_phase("release")
    stale.release_stale(cycle_state, allocation.preemption)
    cycle_state.gang_states.update(
        {key: _judged(gang_state) for key, gang_state in cycle_state.gang_states.items() if gang_state.evictions}
    )
    on_phase("explain")
    WaitingExtras(cycle_state).explain()
    cycle_state.budget.check()
    gang_states = [cycle_state.gang_states[key] for key in sorted(cycle_state.gang_states)]
    places = _queued(gang_states, cycle_state, allocation.ranks)
    return CyclePlan(
        bindings=tuple(sorted(binding for gang_state in gang_states for binding in gang_state.bindings)),
        nominations=tuple(sorted(binding for gang_state in gang_states for binding in gang_state.nominations)),
        evictions=tuple(sorted(eviction for gang_state in gang_states for eviction in gang_state.evictions)),
        gangs=tuple([_gang_plan(cycle_state, key, places) for key in sorted(cycle_state.before)]),
        searches=tuple(budget.spent for budget in cycle_state.gang_budgets.values()),
        disturbance=allocation.preemption.share.figures(),
        division=cycle_state.division,
        failures=tuple(cycle_state.failures[key] for key in sorted(cycle_state.failures)),
    )


def _judged(gang_state: GangState) -> GangState:
    """The verdict on a gang that lost pods in this cycle: whether it still runs, and which gang preempted it."""
    if gang_state.evictions[0].reason == "Stale":
        return gang_state
    if gang_state.gang.standing.satisfied:
        return replace(gang_state, verdict="Scheduled")
    first = gang_state.evictions[0]
    refusal = Evicted(first.preemptor, first.reason, len(gang_state.evictions))
    return replace(gang_state, verdict="Waiting", refusals=(refusal,))


def _queued(gang_states: list[GangState], cycle_state: CycleState, ranks: Mapping[str, Rank]) -> dict[str, Position]:
    """For every gang that waits, its place in its queue (G4) and those right before it; some ranks are known."""
    lines: dict[str, list[tuple[object, str]]] = defaultdict(list)
    for gang_state in gang_states:
        gang = gang_state.gang
        if gang_state.verdict not in ("Scheduled", "Invalid") and not (gang.other_schedulers and gang.is_foreign):
            before = cycle_state.before[gang.key]
            known = ranks.get(before.key) or rank(before, before.standing, 0)
            lines[before.queue].append((known, before.key))
    positions: dict[str, Position] = {}
    for line in lines.values():
        keys = [key for _, key in sorted(line)]
        positions |= {key: (i + 1, tuple(keys[max(i - NEAREST, 0) : i])) for i, key in enumerate(keys)}
    return positions


def _gang_plan(cycle_state: CycleState, key: str, places: Mapping[str, Position]) -> GangPlan:
    """What was decided about a gang; about one that runs and wants nothing there was nothing to decide."""
    gang_state = cycle_state.gang_states.get(key)
    if gang_state is None:
        return GangPlan(cycle_state.before[key], "Scheduled", (), cycle_state.snapshot)
    return GangPlan(
        gang_state.gang, gang_state.verdict, gang_state.refusals, cycle_state.snapshot, *places.get(key, (0, ()))
    )

"""One cycle: a snapshot in, a plan out. Pure: the same snapshot and policy give the same plan, byte for byte (X3)."""

from collections import defaultdict
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from muster.model.snapshot import Snapshot
from muster.planning import stale
from muster.planning.allocate import Allocation, Granted, Rank, rank
from muster.planning.cycle_state import Board, Turn
from muster.planning.decision import GangPlan, Plan, Refusal
from muster.planning.diagnosis.waiting import WaitingExtras
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.policy import Policy

NEAREST = 10  # gangs ahead that are named
Position = tuple[int, tuple[str, ...]]  # in a queue, and those right before


def plan(
    snapshot: Snapshot,
    policy: Policy | None = None,
    granted: Granted | None = None,
    is_cancelled: Callable[[], bool] | None = None,
    memory: AnswerCache | None = None,
) -> Plan:
    """Who goes where, who has to leave for whom, and who waits for which reason.

    Bindings are reported to `granted` as they are decided: none is taken back. Cancelled: the caller gave up. What
    `memory` holds of earlier cycles is not searched again (X7); it makes a plan cheaper, never another one.
    """
    board = Board(snapshot, policy or Policy(), is_cancelled, memory)
    allocation = Allocation(board, granted)
    allocation.run()
    allocation.refusals.withdraw_hints()
    board.budget.check()
    allocation.preemption.relocation.place_victims()
    stale.release(board, allocation.preemption)
    board.turns.update({key: _judged(turn) for key, turn in board.turns.items() if turn.evictions})
    WaitingExtras(board).explain()
    board.budget.check()
    turns = [board.turns[key] for key in sorted(board.turns)]
    places = _queued(turns, board, allocation.ranks)
    return Plan(
        bindings=tuple(sorted(binding for turn in turns for binding in turn.bindings)),
        nominations=tuple(sorted(binding for turn in turns for binding in turn.nominations)),
        evictions=tuple(sorted(eviction for turn in turns for eviction in turn.evictions)),
        gangs=tuple([_gang_plan(board, key, places) for key in sorted(board.before)]),
        searches=tuple(budget.spent for budget in board.gang_budgets.values()),
        disturbance=allocation.preemption.share.figures(),
        division=board.division,
        failures=tuple(board.failures[key] for key in sorted(board.failures)),
    )


def _judged(turn: Turn) -> Turn:
    """Gangs that lost pods in this cycle: whether they still run, and for whom they left."""
    if turn.evictions[0].reason == "Stale":
        return turn
    if turn.gang.standing.satisfied:
        return replace(turn, verdict="Scheduled")
    first = turn.evictions[0]
    said = Refusal("Evicted", details={"for": first.whom, "by": first.reason, "pods": len(turn.evictions)})
    return replace(turn, verdict="Waiting", refusals=(said,))


def _queued(turns: list[Turn], board: Board, ranks: Mapping[str, Rank]) -> dict[str, Position]:
    """For every gang that waits, its place in its queue (G4) and those right before it; some ranks are known."""
    lines: dict[str, list[tuple[object, str]]] = defaultdict(list)
    for turn in turns:
        gang = turn.gang
        if turn.verdict not in ("Scheduled", "Invalid") and not (gang.other_schedulers and gang.is_foreign):
            before = board.before[gang.key]
            known = ranks.get(before.key) or rank(before, before.standing, 0)
            lines[before.queue].append((known, before.key))
    found: dict[str, Position] = {}
    for line in lines.values():
        keys = [key for _, key in sorted(line)]
        found |= {key: (i + 1, tuple(keys[max(i - NEAREST, 0) : i])) for i, key in enumerate(keys)}
    return found


def _gang_plan(board: Board, key: str, places: Mapping[str, Position]) -> GangPlan:
    """What was decided about a gang; about one that runs and wants nothing there was nothing to decide."""
    turn = board.turns.get(key)
    if turn is None:
        return GangPlan(board.before[key], "Scheduled", (), board.snapshot)
    return GangPlan(turn.gang, turn.verdict, turn.refusals, board.snapshot, *places.get(key, (0, ())))

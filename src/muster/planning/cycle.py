"""One cycle: a snapshot in, a plan out. Pure: the same snapshot and policy give the same plan, byte for byte (X3)."""

from muster.model.snapshot import Snapshot
from muster.placement.goal import Goals
from muster.planning.allocate import Allocation, Turn
from muster.planning.decision import GangPlan, Plan
from muster.planning.policy import Policy


def plan(snapshot: Snapshot, policy: Policy | None = None) -> Plan:
    """Who goes where, and who waits for which reason."""
    turns = Allocation(snapshot, (policy or Policy()).steps).run()
    bindings = sorted(binding for turn in turns for binding in turn.bindings)
    return Plan(bindings=tuple(bindings), gangs=tuple(_gang_plan(turn, snapshot) for turn in turns))


def _gang_plan(turn: Turn, snapshot: Snapshot) -> GangPlan:
    return GangPlan(turn.gang, turn.verdict, turn.refusals, Goals(turn.gang, snapshot).domains())

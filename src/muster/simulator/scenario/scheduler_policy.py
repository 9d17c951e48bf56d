"""The settings of a scenario as the values that planner and loop read."""

from msgspec import Struct

from muster.planning.policy import Policy
from muster.simulator.scenario.durations import to_ms
from muster.simulator.scenario.types import Scenario


class SimulationTimes(Struct, frozen=True):
    """Times of the simulated world."""

    horizon_ms: int | None  # None: until nothing is left to happen
    start_ms: int  # from bound to running
    stop_ms: int  # from evicted to gone


def times_of(scenario: Scenario) -> SimulationTimes:
    """The times of a scenario."""
    horizon_ms = None if scenario.horizon is None else to_ms(scenario.horizon)
    return SimulationTimes(horizon_ms, to_ms(scenario.kubelet.start), to_ms(scenario.kubelet.stop))


def policy_of(scenario: Scenario) -> Policy:
    """The policy of a scenario."""
    policy = scenario.policy
    return Policy(
        steps=policy.search_steps,
        cycle_steps=policy.cycle_steps,
        max_moved_pods=policy.consolidation.max_pods,
        max_disturbed_percent=policy.disturbance.max_share,
    )

"""Runs a scenario: reads what it names, simulates it, and makes the result."""

from pathlib import Path

from muster.simulator.engine.node_changes import node_changes
from muster.simulator.engine.saved_state import SavedSimulation
from muster.simulator.engine.simulation import Hooks, Simulation
from muster.simulator.results.figures import make_figures, mean_columns, planner_times
from muster.simulator.results.gang_frame import gang_frame
from muster.simulator.results.result import Histories, Result
from muster.simulator.scenario.arrivals import plan_arrivals
from muster.simulator.scenario.cluster_objects import build_objects
from muster.simulator.scenario.types import Scenario


def simulate(scenario: Scenario, folder: Path, hooks: Hooks | None = None) -> Result:
    """Simulates a scenario; `folder` is where its paths begin. InputError: it names what cannot be read or placed."""
    simulation = prepare(scenario, folder, hooks)
    simulation.run()
    return make_result(scenario, simulation)


def prepare(
    scenario: Scenario, folder: Path, hooks: Hooks | None = None, saved: SavedSimulation | None = None
) -> Simulation:
    """A simulation that has not begun, or goes on from a saved state."""
    objects = build_objects(scenario, folder)
    arrivals = plan_arrivals(scenario, folder, objects)
    return Simulation(scenario, objects, arrivals, node_changes(scenario, objects), hooks, saved)


def make_result(scenario: Scenario, simulation: Simulation) -> Result:
    """What a simulation found so far."""
    recorder, end_seconds = simulation.recorder, simulation.now_ms / 1000
    gangs, usage = gang_frame(simulation.runs.values(), simulation.now_ms), simulation.cluster.usage
    return Result(
        scenario=scenario,
        reached_seconds=end_seconds,
        is_complete=simulation.is_complete,
        gangs=gangs,
        events=recorder.events,
        timeline=recorder.timeline.frame,
        cycles=recorder.cycles.frame,
        figures=make_figures(gangs, recorder, end_seconds),
        histories=Histories(recorder.waits, recorder.queues, recorder.domains, usage.level, usage.domains),
        means=mean_columns(recorder, end_seconds),
        cycle_seconds=recorder.cycles.cpu_seconds,
        planner_times=planner_times(recorder),
    )

"""Loads a scenario from a file, and reports all of its problems at once."""

from pathlib import Path

from msgspec.structs import replace

from muster.config.typed_document import read_bounded, read_typed
from muster.simulator.scenario.problems import scenario_problems
from muster.simulator.scenario.types import Scenario

WHAT = "a scenario"


def load_scenario(path: str | Path) -> Scenario:
    """The scenario in a file; InputError lists all of its problems."""
    scenario = read_scenario(read_bounded(path, "`muster simulate --init` prints a scenario to start from", WHAT), path)
    return scenario if scenario.name else replace(scenario, name=Path(path).stem)


def read_scenario(data: bytes, source: str | Path) -> Scenario:
    """The scenario in the bytes of a YAML or JSON file."""
    return read_typed(data, str(source), Scenario, scenario_problems, WHAT)

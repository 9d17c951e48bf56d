"""Saving and resuming at any moment changes nothing: the same bytes as without an interruption."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.reporting.simulation.render import render
from muster.simulator.engine.saved_state import decode_state, encode_state
from muster.simulator.engine.simulation import Hooks, Simulation
from muster.simulator.results.report_input import describe_results
from muster.simulator.scenario.types import Scenario
from muster.simulator.simulate import make_result, prepare
from tests.property.test_simulations import EXAMPLES, scenarios
from tests.support.simulations import scenario_of

Raw = dict[str, Any]


def output(scenario: Scenario, simulation: Simulation) -> tuple[bytes, str, bytes]:
    """Everything that a user can see of a simulation."""
    result = make_result(scenario, simulation)
    frames = {"timeline": result.timeline, "cycles": result.cycles}
    return msgspec.json.encode(result.to_dict()), render(describe_results([result])), msgspec.json.encode(frames)


class StopAfter:
    """Stops a simulation after so many moments."""

    def __init__(self, moments: int) -> None:
        self._left = moments

    def hooks(self) -> Hooks:
        return Hooks(is_stopped=lambda: self._left <= 0, on_moment=self._count)

    def _count(self, _simulation: Simulation) -> None:
        self._left -= 1


@given(scenarios(), st.lists(st.integers(0, 80), min_size=1, max_size=4))
@settings(max_examples=EXAMPLES)
def test_a_simulation_that_is_saved_and_resumed_ends_with_the_same_bytes(parts: Raw, stops: list[int]) -> None:
    """At any moments, several times; through bytes, so that nothing is shared with what was before."""
    scenario = scenario_of(**parts)
    whole = prepare(scenario, Path())
    whole.run()
    state: bytes | None = None
    for moments in stops:
        part = prepare(scenario, Path(), StopAfter(moments).hooks(), decode_state(state) if state else None)
        part.run()
        if part.is_complete:
            break
        state = encode_state(part.save())
    resumed = prepare(scenario, Path(), None, decode_state(state) if state else None)
    resumed.run()
    assert output(scenario, resumed) == output(scenario, whole)


@given(scenarios(), st.integers(0, 110))
@settings(max_examples=3)
def test_another_process_goes_on_to_the_same_bytes(parts: Raw, minutes: int) -> None:
    with TemporaryDirectory() as folder:
        path, state = Path(folder, "s.json"), Path(folder, "s.state")
        path.write_bytes(msgspec.json.encode({"name": "s", **parts}))
        whole = _muster("-o", "json", path)
        _muster(path, "--stop-at", f"{minutes}m", "--save", state)
        assert not state.exists() or _muster("--resume", state, "-o", "json") == whole


def _muster(*words: object) -> bytes:
    command = [sys.executable, "-m", "muster.cli.main", "simulate", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120).stdout

"""`muster simulate`: scenarios and traces in virtual time."""

from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from muster.cli import options, printing
from muster.cli.simulation_progress import SimulationProgress, StopRequest
from muster.errors import InputError
from muster.kube import manifest_files
from muster.reporting.simulation.render import render
from muster.simulator.results.comparison import compare_results
from muster.simulator.results.report_input import describe_results
from muster.simulator.results.result import Result, to_csv
from muster.simulator.results.views import comparison_lines, duration, result_lines
from muster.simulator.scenario.loading import load_scenario
from muster.simulator.scenario.starter import STARTER
from muster.simulator.scenario.types import Scenario
from muster.simulator.simulate import simulate

INTERRUPTED = 130


@click.command("simulate")
@click.argument("scenarios", nargs=-1, metavar="SCENARIO…", type=click.Path(path_type=Path))
@click.option("--init", is_flag=True, help="Print a scenario to start from, with comments.")
@click.option("--compare", is_flag=True, help="Show scenarios side by side, and what differs gang by gang.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Use this seed instead of the scenario's.")
@click.option("--report", type=click.Path(path_type=Path), help="Write a report with charts: one HTML file.")
@click.option("--gangs-csv", type=click.Path(path_type=Path), help="Write one row a gang into this file.")
@click.option("--events-csv", type=click.Path(path_type=Path), help="Write one row an event into this file.")
@click.option("--times", is_flag=True, help="Add the CPU time of the planner, which differs from run to run.")
@options.output("table", "json", "yaml")
def command(
    scenarios: tuple[Path, ...],
    init: bool,
    compare: bool,
    seed: int | None,
    report: Path | None,
    gangs_csv: Path | None,
    events_csv: Path | None,
    times: bool,
    form: str,
) -> int:
    """Run scenarios in virtual time, with the real planner: waits, utilisation, evictions, fairness.

    A scenario is a YAML file: cluster, queues, workloads or traces, failures, drains, policy. The same scenario gives
    the same result, byte for byte. Ctrl-C stops early and keeps what was done; the exit code is then 130.

    \b
    Examples:
      muster simulate --init > month.yaml
      muster simulate month.yaml
      muster simulate month.yaml --report month.html
      muster simulate month.yaml --gangs-csv gangs.csv --events-csv events.csv
      muster simulate -o json month.yaml | jq .figures.waitSeconds.all
      muster simulate before.yaml after.yaml --compare
    """
    if init:
        printing.print_lines(STARTER.splitlines())
        return 0
    if not scenarios:
        raise InputError("no scenario is given", hint="`muster simulate --init > scenario.yaml` writes one")
    if compare and len(scenarios) < 2:
        raise InputError("--compare needs at least two scenarios", hint="`muster simulate A.yaml B.yaml --compare`")
    for path in filter(None, (report, gangs_csv, events_csv)):
        manifest_files.check_writable(path)
    loaded = [(_seeded(load_scenario(path), seed), path.parent) for path in scenarios]
    results, is_stopped = _run(loaded)
    _print(results, compare and len(results) > 1, form, times)
    _write_csv(results, gangs_csv, events_csv)
    if report is not None:
        _write_report(results, report)
    if is_stopped:
        _note_stop(results, len(loaded))
    return INTERRUPTED if is_stopped else 0


def _seeded(scenario: Scenario, seed: int | None) -> Scenario:
    return scenario if seed is None else replace(scenario, seed=seed)


def _run(scenarios: Sequence[tuple[Scenario, Path]]) -> tuple[list[Result], bool]:
    """The results, and whether the user stopped before all were complete."""
    stop, results = StopRequest(), list[Result]()
    with stop.on_interrupt():
        for scenario, folder in scenarios:
            progress = SimulationProgress(scenario.name, stop)
            try:
                results.append(simulate(scenario, folder, progress.hooks()))
            finally:
                progress.clear()
            if stop.is_set:
                break
    return results, stop.is_set


def _note_stop(results: Sequence[Result], number: int) -> None:
    last = results[-1]
    which = f"in scenario {len(results)} of {number}, `{last.scenario.name}`" if number > 1 else "in the scenario"
    printing.note(f"stopped {which}, after {duration(last.reached_seconds)} of virtual time")


def _write_csv(results: Sequence[Result], gangs: Path | None, events: Path | None) -> None:
    if gangs is not None:
        manifest_files.replace(gangs, to_csv((result.scenario.name, result.gangs) for result in results))
    if events is not None:
        manifest_files.replace(events, to_csv((result.scenario.name, result.events) for result in results))


def _write_report(results: Sequence[Result], path: Path) -> None:
    manifest_files.replace(path, render(describe_results(results)))
    printing.note(f"open {path} in a browser")


def _print(results: Sequence[Result], is_compared: bool, form: str, with_times: bool) -> None:
    differences = compare_results(results) if is_compared else []
    if form != "table":
        data = [result.to_dict(with_times) for result in results]
        if is_compared:
            paired = [one.to_dict() for one in differences]
            printing.emit(form, "SimulationComparison", {"simulations": data, "differences": paired})
        elif len(data) == 1:
            printing.emit(form, "Simulation", data[0])
        else:
            printing.emit(form, "SimulationList", {"simulations": data})
        return
    if is_compared:
        printing.show(comparison_lines(results, differences))
    else:
        for i, result in enumerate(results):
            printing.show([*([[]] if i else []), *result_lines(result)])
    if with_times:
        for result in results:
            times = ", ".join(f"{name} {value}" for name, value in result.planner_times.items())
            printing.note(f"planner of {result.scenario.name}: {times}")

"""`muster simulate`: scenarios and traces in virtual time."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from muster.cli import options, printing
from muster.cli.simulation_progress import SimulationProgress, StopRequest
from muster.errors import InputError
from muster.kube import manifest_files
from muster.reporting.simulation.render import render
from muster.simulator.engine.saved_state import SavedSimulation
from muster.simulator.results.comparison import MeasuredDifferences, compare_results
from muster.simulator.results.report_input import describe_results
from muster.simulator.results.result import Result, to_csv
from muster.simulator.results.views import comparison_lines, duration, result_lines
from muster.simulator.scenario.durations import to_ms
from muster.simulator.scenario.loading import load_scenario
from muster.simulator.scenario.problems import DURATION_HINT
from muster.simulator.scenario.starter import STARTER
from muster.simulator.scenario.types import Scenario
from muster.simulator.simulate import make_result, prepare
from muster.simulator.state_file import input_digests, read_state, write_state

INTERRUPTED = 130


@click.command("simulate")
@click.argument("scenarios", nargs=-1, metavar="SCENARIO…", type=click.Path(path_type=Path))
@click.option("--init", is_flag=True, help="Print a scenario to start from, with comments.")
@click.option("--compare", is_flag=True, help="Show scenarios side by side, and what differs gang by gang.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Use this seed instead of the scenario's.")
@click.option("--report", type=click.Path(path_type=Path), help="Write a report with charts: one HTML file.")
@click.option("--gangs-csv", type=click.Path(path_type=Path), help="Write one row a gang into this file.")
@click.option("--events-csv", type=click.Path(path_type=Path), help="Write one row an event into this file.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where paths in scenarios begin, instead of at them.")
@click.option("--save", type=click.Path(path_type=Path), help="Write the state into this file where it is stopped.")
@click.option("--resume", type=click.Path(path_type=Path), help="Go on from a file that --save wrote.")
@click.option("--stop-at", metavar="TIME", help="Stop at this virtual time, such as 36h.")
@click.option(
    "--times", is_flag=True, help="Add the CPU of the planner, also to the report: it differs from run to run."
)
@options.output("table", "json", "yaml")
def command(
    scenarios: tuple[Path, ...],
    init: bool,
    compare: bool,
    seed: int | None,
    report: Path | None,
    gangs_csv: Path | None,
    events_csv: Path | None,
    folder: Path | None,
    save: Path | None,
    resume: Path | None,
    stop_at: str | None,
    times: bool,
    form: str,
) -> int:
    """Run scenarios in virtual time, with the real planner: waits, utilisation, evictions, fairness.

    A scenario is a YAML file: cluster, queues, workloads or traces, failures, drains, policy. The same scenario gives
    the same result, byte for byte. Ctrl-C stops early and keeps what was done; the exit code is then 130.
    With --save it can go on later, to the same end.

    \b
    Examples:
      muster simulate --init > month.yaml
      muster simulate month.yaml
      muster simulate month.yaml --report month.html
      muster simulate month.yaml --gangs-csv gangs.csv --events-csv events.csv
      muster simulate -o json month.yaml | jq .figures.waitSeconds.all
      muster simulate before.yaml after.yaml --compare
      muster simulate month.yaml --save month.state
      muster simulate --resume month.state
    """
    if init:
        printing.print_lines(STARTER.splitlines())
        return 0
    _check_usage(scenarios, compare, save, resume, seed is not None or folder is not None)
    until_ms = _until(stop_at)
    _check_files({"--report": report, "--gangs-csv": gangs_csv, "--events-csv": events_csv, "--save": save})
    if resume is None:
        loaded = [SimulationRun(_seeded(load_scenario(path), seed), folder or path.parent) for path in scenarios]
    else:
        resumed = read_state(resume)
        loaded = [SimulationRun(resumed.scenario, resumed.folder, resumed.state)]
    results, is_interrupted, unsaved = _run(list(_named_apart(loaded)), save, until_ms)
    differences, incomparable = _compare(results) if compare and len(results) > 1 else (None, None)
    _print(results, differences, form, times)
    _write_csv(results, gangs_csv, events_csv)
    if report is not None:
        _write_report(results, report, times)
    for error in filter(None, (unsaved, incomparable)):
        raise error
    if not results[-1].is_complete:
        _note_stop(results, len(loaded), save)
    return INTERRUPTED if is_interrupted else 0


class SimulationRun(Struct, frozen=True):
    """A scenario to run, from its start or from a saved state."""

    scenario: Scenario
    folder: Path
    saved: SavedSimulation | None = None


def _check_usage(
    scenarios: Sequence[Path], compare: bool, save: Path | None, resume: Path | None, has_input: bool
) -> None:
    if resume is not None and (scenarios or has_input):
        raise InputError(
            "--resume has its scenario, seed and folder in its file", hint="`muster simulate --resume FILE`"
        )
    if resume is None and not scenarios:
        raise InputError("no scenario is given", hint="`muster simulate --init > scenario.yaml` writes one")
    if compare and len(scenarios) < 2:
        raise InputError("--compare needs at least two scenarios", hint="`muster simulate A.yaml B.yaml --compare`")
    if save is not None and len(scenarios) > 1:
        raise InputError("--save is for one scenario", hint="simulate each by itself")


def _check_files(files: Mapping[str, Path | None]) -> None:
    """A long run must not end with a file that cannot be written, nor with one that is written over."""
    options: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        manifest_files.check_writable(path)
        if path.is_char_device() or path.is_fifo():
            continue
        if (other := options.setdefault(path.resolve(), option)) != option:
            raise InputError(f"{other} and {option} name the same file, {path}", hint="give each a file of its own")


def _until(stop_at: str | None) -> int | None:
    try:
        return None if stop_at is None else to_ms(stop_at)
    except (ValueError, OverflowError) as error:
        raise InputError(f"--stop-at: {error}", hint=DURATION_HINT) from None


def _seeded(scenario: Scenario, seed: int | None) -> Scenario:
    return scenario if seed is None else replace(scenario, seed=seed)


def _named_apart(runs: Iterable[SimulationRun]) -> Iterator[SimulationRun]:
    """Files of one name in several folders, or one file twice: rows of a CSV file say which scenario they are of."""
    numbers: Counter[str] = Counter()
    for run in runs:
        name = run.scenario.name
        numbers[name] += 1
        yield (
            run
            if numbers[name] == 1
            else replace(run, scenario=replace(run.scenario, name=f"{name} ({numbers[name]})"))
        )


def _run(
    runs: Sequence[SimulationRun], save: Path | None, until_ms: int | None
) -> tuple[list[Result], bool, InputError | None]:
    """The results, whether the user stopped before all were complete, and why the state could not be saved."""
    stop, results, unsaved = StopRequest(), list[Result](), None
    with stop.on_interrupt():
        for run in runs:
            progress = SimulationProgress(run.scenario.name, stop)
            try:
                simulation = prepare(run.scenario, run.folder, progress.hooks(is_saved=save is not None), run.saved)
                inputs = {} if save is None else input_digests(run.scenario, run.folder)
                simulation.run(until_ms)
            finally:
                progress.clear()
            if save is not None and not simulation.is_complete:
                try:
                    write_state(save, run.scenario, run.folder, inputs, simulation)
                except InputError as error:  # what was done is shown nevertheless
                    unsaved = error
            results.append(make_result(run.scenario, simulation))
            if stop.is_set:
                break
    return results, stop.is_set, unsaved


def _note_stop(results: Sequence[Result], number: int, save: Path | None) -> None:
    last = results[-1]
    which = f"in scenario {len(results)} of {number}, `{last.scenario.name}`" if number > 1 else "in the scenario"
    printing.note(f"stopped {which}, after {duration(last.reached_seconds)} of virtual time")
    if save is not None:
        printing.note(f"`muster simulate --resume {save}` goes on from there")


def _write_csv(results: Sequence[Result], gangs: Path | None, events: Path | None) -> None:
    if gangs is not None:
        manifest_files.replace(gangs, to_csv((result.scenario.name, result.gangs) for result in results))
    if events is not None:
        manifest_files.replace(events, to_csv((result.scenario.name, result.events) for result in results))


def _write_report(results: Sequence[Result], path: Path, with_times: bool) -> None:
    manifest_files.replace(path, render(describe_results(results, with_times)))
    printing.note(f"open {path} in a browser")


def _compare(results: Sequence[Result]) -> tuple[list[MeasuredDifferences] | None, InputError | None]:
    """The differences, or why there are none: results are shown in any case."""
    try:
        return compare_results(results), None
    except InputError as error:
        return None, error


def _print(
    results: Sequence[Result], differences: list[MeasuredDifferences] | None, form: str, with_times: bool
) -> None:
    if form != "table":
        data = [result.to_dict(with_times) for result in results]
        if differences is not None:
            paired = [one.to_dict() for one in differences]
            printing.emit(form, "SimulationComparison", {"simulations": data, "differences": paired})
        elif len(data) == 1:
            printing.emit(form, "Simulation", data[0])
        else:
            printing.emit(form, "SimulationList", {"simulations": data})
        return
    if differences is not None:
        printing.show(comparison_lines(results, differences))
    else:
        for i, result in enumerate(results):
            printing.show([*([[]] if i else []), *result_lines(result)])
    if with_times:
        for result in results:
            times = ", ".join(f"{name} {value}" for name, value in result.planner_times.items())
            printing.note(f"planner of {result.scenario.name}: {times}")

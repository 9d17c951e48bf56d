"""Results as people see them: a few tables of figures, and scenarios side by side."""

from collections.abc import Iterator, Sequence
from typing import Any

from muster.reporting.text import Line, Span, many, table
from muster.simulator.results.comparison import MeasuredDifferences
from muster.simulator.results.figures import Figures
from muster.simulator.results.result import Result

WAIT_HEAD = ("WAIT", "STARTED", "NEVER", "MEAN", "P50", "P95", "P99")
PAIR_HEAD = ("DIFFERENCE", "GANGS", "LESS", "MORE", "MEAN", "P5", "P50", "P95")
PAIRED = {
    "waitSeconds": "first wait",
    "waitedSeconds": "all waiting",
    "fullSizeSeconds": "to full size",
    "finishedSeconds": "finish",
}


def result_lines(result: Result) -> Iterator[Line]:
    """One result."""
    yield _title(result)
    figures = result.figures
    yield [Span(_gangs(figures["gangs"]))]
    yield []
    yield from table(list(_wait_rows(figures)))
    yield []
    yield from table(list(_resource_rows(figures["resources"])))
    yield []
    yield from table([[Span(name, "dim"), Span(value)] for name, value in summary(result).items()])
    queues = figures["fairness"]["queues"]
    if queues:
        yield []
        yield from table(list(_queue_rows(figures["fairness"])))


def _title(result: Result) -> Line:
    scenario = result.scenario
    reached = f"{duration(result.reached_seconds)} of virtual time"
    stopped = [] if result.is_complete else [Span("  stopped before its end", "warn")]
    return [Span(scenario.name or "scenario", "name"), Span(f"  seed {scenario.seed}, {reached}", "dim"), *stopped]


def _gangs(gangs: Figures) -> str:
    because = ", ".join(f"{count} {reason}" for reason, count in gangs["waitingBecause"].items())
    waiting = f"{gangs['waiting']} waiting ({because})" if because else f"{gangs['waiting']} waiting"
    return (
        f"{many(gangs['arrived'], 'gang')} arrived: {gangs['finished']} finished, {gangs['running']} running, {waiting}"
    )


def _wait_rows(figures: Figures) -> Iterator[list[Span]]:
    yield [Span(text, "dim") for text in WAIT_HEAD]
    waits = figures["waitSeconds"]
    yield _spread_row("all gangs", waits["all"])
    for label, group in (("", "bySize"), ("class ", "byClass"), ("queue ", "byQueue")):
        for name, spread in waits[group].items() if len(waits[group]) > 1 else ():
            yield _spread_row(f"{label}{name}", spread)
    full = figures["fullSizeSeconds"]
    if full["count"] or full["never"]:
        yield _spread_row("elastic, to full size", full)
    if figures["scaleUpSeconds"]["count"]:
        yield _spread_row("scaled up, to its new size", figures["scaleUpSeconds"])


def _spread_row(name: str, spread: Figures) -> list[Span]:
    values = [duration(spread[field]) if field in spread else "-" for field in ("mean", "p50", "p95", "p99")]
    never = Span(str(spread["never"]), "warn" if spread["never"] else "plain")
    return [Span(name, "name"), Span(str(spread["count"])), never, *map(Span, values)]


def _resource_rows(resources: Figures) -> Iterator[list[Span]]:
    yield [Span(text, "dim") for text in ("RESOURCE", "ALLOCATED", "UTILISED")]
    for name, shares in resources.items():
        yield [Span(name, "name"), Span(percent(shares["allocated"])), Span(percent(shares["utilised"]))]


def _queue_rows(fairness: Figures) -> Iterator[list[Span]]:
    head = ("QUEUE", f"MEAN {fairness['resource']}", "FAIR SHARE", "LACKED")
    yield [Span(text, "dim") for text in head]
    for name, queue in fairness["queues"].items():
        amounts = (f"{queue['allocated']:.1f}", f"{queue['fairShare']:.1f}", percent(queue["lacked"]))
        yield [Span(name, "name"), *map(Span, amounts)]


def summary(result: Result) -> dict[str, str]:
    """Figures of one line each."""
    figures = result.figures
    evictions, fragments, domains = figures["evictions"], figures["fragmentation"], figures["domains"]
    planner = figures["planner"]
    lost = evictions["gpuHoursLostToEvictions"], evictions["gpuHoursLostToFailures"]
    lines = {
        "evicted, moved, failed pods": (
            f"{evictions['evictedPods']}, {evictions['movedPods']}, {evictions['failedPods']}"
        ),
        "GPU-hours lost to evictions, to failures": f"{lost[0]:.1f}, {lost[1]:.1f}",
        "idle GPUs on average": f"{fragments['idleGpus']:.1f}",
        "GPU-hours idle while a gang fits nowhere": f"{fragments['strandedGpuHours']:.1f}",
        "free GPUs of the freest node, domain": (
            f"{fragments['largestFreeNodeGpus']:.1f}, {fragments['largestFreeDomainGpus']:.1f} on average"
        ),
        "cycles, steps, share of Unknown": f"{planner['cycles']}, {planner['steps']}, {percent(planner['unknown'])}",
    }
    if domains["count"]:
        least = f"{percent(domains['least'])} of gangs in the fewest possible"
        lines["domains of a gang"] = f"{domains['mean']:.2f}, at least {domains['leastMean']:.2f}; {least}"
    return lines


# comparison -----------------------------------------------------------------------------------------------------------


def comparison_lines(results: Sequence[Result], differences: Sequence[MeasuredDifferences]) -> Iterator[Line]:
    """Scenarios side by side, then what differs gang by gang."""
    yield from table(list(_side_by_side(results)))
    for paired in differences:
        figures = paired.figures
        yield []
        title = f"{many(figures['pairs'], 'gang')} in both, {figures['unpaired']} in one only"
        yield [Span(f"{paired.other} against {paired.base}", "name"), Span(f"  {title}", "dim")]
        only = figures["startedOnlyInBase"], figures["startedOnlyInOther"]
        yield [Span(f"started only in {paired.base}: {only[0]}; only in {paired.other}: {only[1]}")]
        rows = [[Span(text, "dim") for text in PAIR_HEAD]]
        rows += [_difference_row(name, figures[column]) for column, name in PAIRED.items()]
        yield from table(rows)


def _side_by_side(results: Sequence[Result]) -> Iterator[list[Span]]:
    yield [Span("FIGURE", "dim"), *(Span(result.scenario.name or "scenario", "name") for result in results)]
    waits = [result.figures["waitSeconds"]["all"] for result in results]
    rows: dict[str, list[Any]] = {
        "started gangs": [str(wait["count"]) for wait in waits],
        "never started": [str(wait["never"]) for wait in waits],
        **{
            f"wait {field}": [duration(wait[field]) if field in wait else "-" for wait in waits]
            for field in ("mean", "p50", "p95", "p99")
        },
    }
    for resource in results[0].figures["resources"]:
        known = [result.figures["resources"].get(resource) for result in results]
        rows[f"{resource} utilised"] = [percent(shares["utilised"]) if shares else "-" for shares in known]
    summaries = [summary(result) for result in results]
    rows |= {name: [lines.get(name, "-") for lines in summaries] for name in summaries[0]}
    for name, values in rows.items():
        yield [Span(name, "dim"), *map(Span, values)]


def _difference_row(name: str, figures: Figures) -> list[Span]:
    values = [signed(figures[field]) if field in figures else "-" for field in ("mean", "p5", "p50", "p95")]
    counts = [str(figures[field]) for field in ("count", "less", "more")]
    return [Span(name, "name"), *map(Span, (*counts, *values))]


# words ----------------------------------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """A duration with its two largest units: `2d 3h`, `4m 10s`, `1.5s`."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    days, hours, minutes = whole // 86_400, whole % 86_400 // 3600, whole % 3600 // 60
    if days:
        return f"{days}d {hours}h"
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {whole % 60}s"


def signed(seconds: float) -> str:
    """A difference of durations, with its sign."""
    return f"{'-' if seconds < 0 else '+'}{duration(abs(seconds))}" if seconds else "0"


def percent(part: float) -> str:
    """A share for people."""
    return f"{part * 100:.1f}%"

"""Results as the report of `reporting/simulation` reads them."""

from collections.abc import Iterator, Sequence

from muster.api.decoding import encode
from muster.reporting.simulation.report import (
    DomainHeat,
    ElasticGang,
    GangColumns,
    HeadlineFigure,
    LongWait,
    PlannerColumns,
    QueueColumns,
    ReportVariant,
    ResourceColumns,
    SimulationReport,
    TimelineColumns,
    WaitStretch,
)
from muster.simulator.engine.timeline import Frame
from muster.simulator.results.figures import share
from muster.simulator.results.result import Histories, Result

LONGEST_WAITS = 10
HOUR_SECONDS = 3600
NOT_PLANNED = "no cycle has looked at it yet"


def describe_results(results: Sequence[Result], with_times: bool = False) -> SimulationReport:
    """One report of one result, or of several side by side; with times, it differs from run to run."""
    names = [result.scenario.name or f"scenario {i + 1}" for i, result in enumerate(results)]
    stopped = [name for name, result in zip(names, results, strict=True) if not result.is_complete]
    return SimulationReport(
        title=" and ".join(dict.fromkeys(names)),
        variants=[_variant(name, result, with_times) for name, result in zip(_distinct(names), results, strict=True)],
        note=f"stopped before its end: {', '.join(stopped)}" if stopped else "",
    )


def _distinct(names: Sequence[str]) -> list[str]:
    """Scenarios of the same name are numbered."""
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]


def _variant(name: str, result: Result, with_times: bool) -> ReportVariant:
    return ReportVariant(
        name=name,
        seed=str(result.scenario.seed),
        horizon_seconds=result.reached_seconds,
        settings=[*_settings(encode(result.scenario))],
        figures=_headlines(result),
        timeline=_timeline(result),
        gangs=_gangs(result.gangs),
        queues=[*_queues(result)],
        planner=_planner(result, with_times),
        elastic_gangs=[*_elastic_gangs(result.gangs)],
        heat=_heat(result.histories),
        longest_waits=_longest_waits(result),
    )


def _settings(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every field that the scenario states, by its path."""
    match value:
        case dict():
            for name, inner in value.items():
                yield from _settings(inner, f"{path}.{name}" if path else name)
        case list():
            for i, inner in enumerate(value):
                yield from _settings(inner, f"{path}[{i}]")
        case _:
            yield path, str(value)


def _headlines(result: Result) -> list[HeadlineFigure]:
    figures = result.figures
    waits, evictions, domains = figures["waitSeconds"]["all"], figures["evictions"], figures["domains"]
    lost = evictions["gpuHoursLostToEvictions"] + evictions["gpuHoursLostToFailures"]
    shares = [
        HeadlineFigure(name=f"{name} {kind}", amount=used[kind], unit="share", better="higher")
        for name, used in figures["resources"].items()
        for kind in ("allocated", "utilised")
    ]
    return [
        HeadlineFigure(name="gangs arrived", amount=figures["gangs"]["arrived"]),
        HeadlineFigure(name="gangs finished", amount=figures["gangs"]["finished"], better="higher"),
        HeadlineFigure(name="gangs waiting at the end", amount=figures["gangs"]["waiting"], better="lower"),
        *(
            HeadlineFigure(name=f"first wait, {name}", amount=waits.get(name), unit="seconds", better="lower")
            for name in ("p50", "p95", "p99")
        ),
        *shares,
        HeadlineFigure(
            name="stranded GPUs",
            amount=figures["fragmentation"]["stranded"],
            unit="share",
            better="lower",
            detail="idle while some gang waits that fits nowhere",
        ),
        HeadlineFigure(name="pods evicted", amount=evictions["evictedPods"], better="lower"),
        HeadlineFigure(name="pods moved", amount=evictions["movedPods"]),
        HeadlineFigure(name="GPU time lost", amount=lost * HOUR_SECONDS, unit="gpu_seconds", better="lower"),
        HeadlineFigure(name="gangs in the fewest domains", amount=domains.get("least"), unit="share", better="higher"),
        HeadlineFigure(name="searches cut short", amount=figures["planner"]["unknown"], unit="share", better="lower"),
    ]


def _timeline(result: Result) -> TimelineColumns:
    frame, means = result.timeline, result.means
    resources = [name.removeprefix("capacity_") for name in frame if name.startswith("capacity_")]
    return TimelineColumns(
        at_seconds=frame["at_seconds"],
        resources=[
            ResourceColumns(
                resource=name,
                allocated=frame[f"allocated_{name}"],
                working=frame[f"working_{name}"],
                capacity=frame[f"capacity_{name}"],
                means=(means[f"allocated_{name}"], means[f"capacity_{name}"]) if means else None,
            )
            for name in resources
            if any(frame[f"capacity_{name}"])
        ],
        waiting_gangs=frame["waiting_gangs"],
        working_gangs=frame["working_gangs"],
        idle_gpus=frame["idle_gpus"],
        stranded_gpus=frame["stranded_gpus"],
        largest_free_node_gpus=frame["largest_free_node_gpus"],
        largest_free_domain_gpus=frame["largest_free_domain_gpus"],
    )


def _gangs(frame: Frame) -> GangColumns:
    lost = zip(frame["gpu_hours_lost_to_evictions"], frame["gpu_hours_lost_to_failures"], strict=True)
    return GangColumns(
        name=frame["gang"],
        queue=frame["queue"],
        class_name=frame["class"],
        size=frame["pods"],
        gpus=frame["gpus"],
        arrived_seconds=frame["arrived_seconds"],
        first_wait_seconds=frame["wait_seconds"],
        finished_seconds=frame["finished_seconds"],
        waited_seconds=frame["waited_seconds"],
        starts=frame["starts"],
        evicted_pods=frame["evicted_pods"],
        moved_pods=frame["moved_pods"],
        lost_gpu_seconds=[HOUR_SECONDS * sum(hours) for hours in lost],
        domains=[number or 0 for number in frame["domains"]],
        least_domains=[number or 0 for number in frame["least_domains"]],
        verdict=frame["verdict"],
        reason=frame["reason"],
    )


def _planner(result: Result, with_times: bool) -> PlannerColumns | None:
    """Averages of each row of the cycles."""
    cycles = result.cycles
    if not cycles["plans"]:
        return None
    unknown = zip(cycles["unknown"], cycles["waiting"], strict=True)
    seconds = zip(result.cycle_seconds, cycles["plans"], strict=True)
    return PlannerColumns(
        at_seconds=cycles["at_seconds"],
        steps=[steps / plans for steps, plans in zip(cycles["steps"], cycles["plans"], strict=True)],
        unknown=[100 * share(part, whole) for part, whole in unknown],
        cpu_milliseconds=[1000 * amount / plans for amount, plans in seconds] if with_times else (),
    )


def _elastic_gangs(frame: Frame) -> Iterator[ElasticGang]:
    for is_elastic, arrived, full in zip(
        frame["is_elastic"], frame["arrived_seconds"], frame["full_size_seconds"], strict=True
    ):
        if is_elastic:
            yield ElasticGang(arrived, full)


def _queues(result: Result) -> Iterator[QueueColumns]:
    queues, means = result.histories.queues, result.figures["fairness"]["queues"]
    for name in sorted(queues.allocated):
        yield QueueColumns(
            queue=name,
            resource=queues.resource,
            allocated=queues.allocated[name],
            fair_share=queues.fair_share[name],
            means=(means[name]["allocated"], means[name]["fairShare"]) if name in means else None,
        )


def _heat(histories: Histories) -> DomainHeat | None:
    if not histories.domain_names:
        return None
    return DomainHeat(
        level=histories.level,
        domains=histories.domain_names,
        at_seconds=[at_ms / 1000 for at_ms in histories.domains.at_ms],
        used_gpus=histories.domains.used,
        capacity_gpus=histories.domains.capacity,
    )


def _longest_waits(result: Result) -> list[LongWait]:
    frame, stretches = result.gangs, result.histories.waits.by_gang
    order = sorted(range(len(frame["gang"])), key=lambda i: (-frame["waited_seconds"][i], frame["gang"][i]))
    return [
        LongWait(
            gang=frame["gang"][i],
            queue=frame["queue"][i],
            size=frame["pods"][i],
            gpus=frame["gpus"][i],
            waited_seconds=frame["waited_seconds"][i],
            is_waiting=frame["state"][i] == "waiting",
            stretches=[
                WaitStretch(
                    from_seconds=stretch.from_ms / 1000,
                    to_seconds=result.reached_seconds if stretch.to_ms is None else stretch.to_ms / 1000,
                    reason=stretch.reason or NOT_PLANNED,
                )
                for stretch in stretches.get(frame["gang"][i], ())
            ],
        )
        for i in order[:LONGEST_WAITS]
        if frame["waited_seconds"][i] > 0
    ]

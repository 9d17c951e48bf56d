"""A report as the page reads it: statistics over all gangs, lines with few samples, names without control characters.

Every part has a limit, so that the file stays small whatever the simulation was; what is left off is counted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from muster.api.quantity import is_in_bytes
from muster.control_characters import visible
from muster.reporting.simulation.downsample import StepLine, downsample, plain_numbers
from muster.reporting.simulation.pairs import compare_variants
from muster.reporting.simulation.report import (
    DomainHeat,
    GangColumns,
    LongWait,
    PlannerColumns,
    ReportVariant,
    SimulationReport,
    TimelineColumns,
)
from muster.reporting.simulation.waits import (
    Wait,
    WaitGroup,
    collect_waits,
    group_waits,
    size_label,
    size_order,
    summarize,
)

MOST_SAMPLES = 120_000  # of all lines together
MOST_INTERVALS, FEWEST_INTERVALS = 600, 40  # of one line
MOST_GANGS = 10_000  # listed, over all variants
MOST_QUEUES = 24  # drawn
MOST_HEAT_CELLS, MOST_HEAT_TIMES, MOST_DOMAINS = 240_000, 240, 1_000  # cells: over all variants
MOST_WAITS, MOST_STRETCHES = 10, 60
LONGEST_TEXT = 400  # characters

Payload = dict[str, Any]


def describe(report: SimulationReport) -> Payload:
    """Everything the page shows, as JSON values."""
    intervals = _intervals(report.variants)
    share = max(len(report.variants), 1)
    payload = {
        "title": report.title,
        "note": report.note,
        "variants": [_variant(variant, intervals, share) for variant in report.variants],
        "pairs": compare_variants(report.variants),
    }
    clean: Payload = _clean(msgspec.to_builtins(payload))
    return clean


def _intervals(variants: Sequence[ReportVariant]) -> int:
    """How finely lines are drawn: less so where there are many."""
    lines = sum(9 + 3 * len(one.timeline.resources) + 2 * min(len(one.queues), MOST_QUEUES) for one in variants)
    return min(max(MOST_SAMPLES // (4 * max(lines, 1)), FEWEST_INTERVALS), MOST_INTERVALS)


def _variant(variant: ReportVariant, intervals: int, share: int) -> Payload:
    timeline = variant.timeline
    decimals = 0 if variant.horizon_seconds >= 86400 else 3
    lines = _LineDrawing(timeline.at_seconds, intervals, decimals)
    return {
        "name": variant.name,
        "seed": variant.seed,
        "settings": variant.settings,
        "horizon": variant.horizon_seconds,
        "begins": variant.begins_at,
        "figures": variant.figures,
        "resources": _resources(timeline, lines),
        "gangsOverTime": {"waiting": lines.draw(timeline.waiting_gangs), "working": lines.draw(timeline.working_gangs)},
        "idle": {
            "idle": lines.draw(timeline.idle_gpus),
            "stranded": lines.draw(timeline.stranded_gpus),
            "largestNode": lines.draw(timeline.largest_free_node_gpus),
            "largestDomain": lines.draw(timeline.largest_free_domain_gpus),
        },
        "waits": _waits(variant.gangs, variant.horizon_seconds),
        "fullSize": _full_sizes(variant),
        "planner": _planner(variant.planner, intervals, decimals),
        "domains": _domains_crossed(variant.gangs),
        **_queues(variant, lines),
        "heat": None if variant.heat is None else _heat(variant.heat, share),
        "longest": [_long_wait(wait) for wait in variant.longest_waits[:MOST_WAITS]],
        **_gangs(variant, MOST_GANGS // share),
    }


class _LineDrawing:
    """Draws columns over the same times."""

    def __init__(self, times: Sequence[float], intervals: int, decimals: int) -> None:
        self._times = times
        self._intervals = intervals
        self._decimals = decimals

    def draw(self, values: Sequence[float], scale: float = 1) -> StepLine | None:
        """The column as a line; None: the column was left out."""
        if not len(values):
            return None
        scaled = np.asarray(values, dtype=float) / scale
        return downsample(self._times, scaled, self._intervals, self._decimals)


def _resources(timeline: TimelineColumns, lines: _LineDrawing) -> list[Payload]:
    described = []
    for columns in timeline.resources:
        scale, unit = choose_unit(columns.resource, max(columns.capacity, default=0))
        described.append(
            {
                "name": columns.resource,
                "unit": unit,
                "allocated": lines.draw(columns.allocated, scale),
                "working": lines.draw(columns.working, scale),
                "capacity": lines.draw(columns.capacity, scale),
                "means": [
                    mean / scale
                    for mean in columns.means or (_mean(timeline, columns.allocated), _mean(timeline, columns.capacity))
                ],
            }
        )
    return described


def _mean(timeline: TimelineColumns, values: Sequence[float]) -> float:
    """Over time, up to the last sample."""
    held = np.diff(np.asarray(timeline.at_seconds, dtype=float))
    total = float(held.sum())
    return float(np.asarray(values, dtype=float)[:-1] @ held) / total if total else 0.0


def choose_unit(resource: str, largest: float) -> tuple[float, str]:
    """Base units in one unit that people read, and its name."""
    if resource == "cpu":
        return 1000, "cores"
    if is_in_bytes(resource):
        power = min(max(int(largest).bit_length() - 1, 0) // 10, 5)
        return 1024.0**power, ("B", "KiB", "MiB", "GiB", "TiB", "PiB")[power]
    return 1, "GPUs" if resource.endswith("/gpu") else ""


def _waits(gangs: GangColumns, horizon_seconds: float) -> Payload:
    waits = collect_waits(gangs, horizon_seconds)
    return {
        "all": summarize("all gangs", waits),
        "size": group_waits(waits, [size_label(size) for size in gangs.size], size_order),
        "class": group_waits(waits, gangs.class_name),
        "queue": group_waits(waits, gangs.queue),
    }


def _full_sizes(variant: ReportVariant) -> WaitGroup | None:
    """How long elastic gangs took until all of their pods were bound; None: there are none."""
    if not variant.elastic_gangs:
        return None
    waits = (
        Wait(max(variant.horizon_seconds - gang.arrived_seconds, 0.0), is_over=False)
        if gang.full_size_seconds is None
        else Wait(gang.full_size_seconds, is_over=True)
        for gang in variant.elastic_gangs
    )
    return summarize("elastic gangs", waits)


def _planner(planner: PlannerColumns | None, intervals: int, decimals: int) -> Payload | None:
    if planner is None:
        return None
    lines = _LineDrawing(planner.at_seconds, intervals, decimals)
    return {
        "steps": lines.draw(planner.steps),
        "unknown": lines.draw(planner.unknown),
        "cpu": lines.draw(planner.cpu_milliseconds),
    }


def _domains_crossed(gangs: GangColumns) -> list[int]:
    """Gangs that started in 0, 1, 2 and more domains above the least that could have held them."""
    counts = [0] * 4
    for domains, least in zip(gangs.domains, gangs.least_domains, strict=True):
        if domains:
            counts[min(max(domains - least, 0), 3)] += 1
    return counts


def _queues(variant: ReportVariant, lines: _LineDrawing) -> Payload:
    """Queues that hold or deserve most, in the order given."""
    weights = [max(*columns.allocated, *columns.fair_share, 0, 0) for columns in variant.queues]
    kept = sorted(sorted(range(len(weights)), key=lambda i: -weights[i])[:MOST_QUEUES])
    described = []
    for columns in (variant.queues[i] for i in kept):
        scale, unit = choose_unit(columns.resource, max(*columns.allocated, *columns.fair_share, 0, 0))
        described.append(
            {
                "name": columns.queue,
                "resource": columns.resource,
                "unit": unit,
                "allocated": lines.draw(columns.allocated, scale),
                "fair": lines.draw(columns.fair_share, scale),
                "means": [
                    mean / scale
                    for mean in columns.means
                    or (_mean(variant.timeline, columns.allocated), _mean(variant.timeline, columns.fair_share))
                ],
            }
        )
    return {"queues": described, "queuesLeftOff": len(weights) - len(kept)}


def _heat(heat: DomainHeat, share: int) -> Payload:
    domains = min(len(heat.domains), MOST_DOMAINS)
    most_times = max(min(MOST_HEAT_TIMES, MOST_HEAT_CELLS // share // max(domains, 1)), 2)
    samples = len(heat.at_seconds)
    times = sorted({step * (samples - 1) // (most_times - 1) for step in range(most_times)}) if samples else []
    capacities = [_cells(heat.capacity_gpus[i], domains) for i in times]
    return {
        "level": heat.level,
        "domains": heat.domains[:domains],
        "domainsLeftOff": len(heat.domains) - domains,
        "times": [round(heat.at_seconds[i], 3) for i in times],
        "used": [_cells(heat.used_gpus[i], domains) for i in times],
        # None: as at the time before
        "capacity": [row if not i or row != capacities[i - 1] else None for i, row in enumerate(capacities)],
    }


def _cells(row: Sequence[float], domains: int) -> list[float | None]:
    return plain_numbers(np.asarray(row[:domains], dtype=float), 2)


def _long_wait(wait: LongWait) -> Payload:
    """Of many stretches the longest, in the order of time."""
    ordered = sorted(wait.stretches, key=lambda stretch: stretch.from_seconds - stretch.to_seconds)[:MOST_STRETCHES]
    return {
        "gang": wait.gang,
        "queue": wait.queue,
        "size": wait.size,
        "gpus": wait.gpus,
        "waited": wait.waited_seconds,
        "waiting": wait.is_waiting,
        "stretches": [
            {"from": stretch.from_seconds, "to": stretch.to_seconds, "reason": stretch.reason}
            for stretch in sorted(ordered, key=lambda stretch: stretch.from_seconds)
        ],
        "stretchesLeftOff": len(wait.stretches) - len(ordered),
    }


def _gangs(variant: ReportVariant, most: int) -> Payload:
    """The gangs that waited longest, in the order given."""
    gangs, waits = variant.gangs, collect_waits(variant.gangs, variant.horizon_seconds)
    kept = sorted(sorted(range(len(waits)), key=lambda i: -waits[i].seconds)[:most])
    described: Payload = {}
    for field in msgspec.structs.fields(GangColumns):
        column = getattr(gangs, field.name)
        values = [column[i] for i in kept]
        if field.name in ("queue", "class_name", "verdict", "reason"):
            described[field.name] = _encode(values)
        elif field.name == "name":
            described[field.name] = values
        else:
            described[field.name] = plain_numbers(_floats(values), 1)
    return {"gangs": described, "gangsLeftOff": len(waits) - len(kept)}


def _floats(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _encode(values: Sequence[str]) -> Payload:
    """Each text once, and its number for each row."""
    numbers = {text: i for i, text in enumerate(dict.fromkeys(values))}
    return {"texts": list(numbers), "rows": [numbers[value] for value in values]}


def _clean(value: Any) -> Any:
    """Texts of others on one line, without control characters, and not endless."""
    match value:
        case str():
            text = visible(value)
            return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
        case Mapping():
            return {key: _clean(item) for key, item in value.items()}
        case list() | tuple():
            return [_clean(item) for item in value]
        case _:
            return value

"""A made-up report of a simulation, the same for the same seed.

python -m tests.support.made_up_report out.html                one run
python -m tests.support.made_up_report out.html --variants 2   two runs with the same arrivals
"""

import argparse
import random
from copy import deepcopy
from pathlib import Path

from msgspec.structs import replace

from muster.reporting.simulation.render import render
from muster.reporting.simulation.report import (
    DomainHeat,
    GangColumns,
    HeadlineFigure,
    LongWait,
    QueueColumns,
    ReportVariant,
    ResourceColumns,
    SimulationReport,
    TimelineColumns,
    WaitStretch,
)
from tests.support.made_up_run import QUEUES, ToyGang, ToyRun, make_load

GIB = 1024**3
PER_GPU = {"cpu": 12_000, "memory": 120 * GIB, "nvidia.com/gpu": 1}
NAMES = ("strict order", "backfill", "two more racks")
MARCH_2 = 1_772_409_600  # a Monday in 2026


def make_report(seed: int = 7, gangs: int = 600, days: float = 7, variants: int = 1) -> SimulationReport:
    """A cluster that is busy by day; variants let gangs overtake, then add racks."""
    load = make_load(seed, gangs, days * 86400)
    racks = max(round(gangs / days / 9), 4)
    runs = [
        ToyRun(deepcopy(load), racks + 2 * (i > 1), days * 86400, is_backfilling=variants == 1 or i > 0).run()
        for i in range(variants)
    ]
    names = ("made-up week",) if variants == 1 else NAMES
    made = tuple(_variant(run, name, seed) for run, name in zip(runs, names, strict=False))
    return SimulationReport(title="A made-up week on a small cluster", variants=made)


def make_large_report(gangs: int = 10_000, samples: int = 100_000, variants: int = 1) -> SimulationReport:
    """As large as a month of a large cluster: the columns of a small one, repeated with other names and some noise."""
    report = make_report(gangs=300)
    small = report.variants[0]
    rows = [i % len(small.gangs.name) for i in range(gangs)]
    columns = {field: [getattr(small.gangs, field)[i] for i in rows] for field in small.gangs.__struct_fields__}
    columns["name"] = [f"namespace-{i % 40}/training-of-a-large-model-{i:05d}" for i in range(gangs)]
    columns["first_wait_seconds"] = [i * 7.3 + 0.25 for i in rows]
    large = replace(
        small,
        gangs=GangColumns(**columns),
        timeline=_noisy_timeline(samples, small.horizon_seconds),
        queues=tuple(
            QueueColumns(
                queue=f"team-{i:02d}",
                resource="nvidia.com/gpu",
                allocated=_noise(samples, i, 100),
                fair_share=_noise(samples, i + 100, 100),
            )
            for i in range(12)
        ),
    )
    return SimulationReport(title="Large", variants=tuple(replace(large, name=f"run {i}") for i in range(variants)))


def _noisy_timeline(samples: int, seconds: float) -> TimelineColumns:
    return TimelineColumns(
        at_seconds=[i * seconds / samples for i in range(samples)],
        resources=tuple(
            ResourceColumns(
                resource=resource,
                allocated=[each * value for value in _noise(samples, i, 9000)],
                working=[each * value for value in _noise(samples, i + 10, 9000)],
                capacity=[each * 10_000] * samples,
            )
            for i, (resource, each) in enumerate(PER_GPU.items())
        ),
        waiting_gangs=_noise(samples, 20, 900),
        working_gangs=_noise(samples, 21, 400),
        idle_gpus=_noise(samples, 22, 800),
        stranded_gpus=_noise(samples, 23, 300),
    )


def _noise(samples: int, seed: int, most: int) -> list[float]:
    chance = random.Random(seed)
    return [chance.randrange(most) for _ in range(samples)]


def _variant(run: ToyRun, name: str, seed: int) -> ReportVariant:
    settings = (
        ("arrivals", f"{len(run.load)} gangs, made up"),
        ("nodes", f"{len(run.capacity) * 8} in {len(run.capacity)} racks, 8 GPUs each"),
        ("preemption", "on"),
        ("overtaking", "on" if run.is_backfilling else "off"),
    )
    return ReportVariant(
        name=name,
        seed=str(seed),
        horizon_seconds=run.seconds,
        begins_at=MARCH_2,
        settings=settings,
        figures=_figures(run),
        timeline=_timeline(run),
        gangs=_gangs(run),
        queues=tuple(
            QueueColumns(
                queue=queue,
                resource="nvidia.com/gpu",
                allocated=[row[queue][0] for row in run.queue_rows],
                fair_share=[row[queue][1] for row in run.queue_rows],
            )
            for queue in QUEUES
        ),
        heat=DomainHeat(
            level="rack",
            domains=[f"rack-{i:02d}" for i in range(len(run.capacity))],
            at_seconds=run.heat_times,
            used_gpus=run.heat_used,
            capacity_gpus=run.heat_capacity,
        ),
        longest_waits=_longest(run),
    )


def _figures(run: ToyRun) -> tuple[HeadlineFigure, ...]:
    waits = sorted(run.seconds - gang.arrived if gang.first_wait is None else gang.first_wait for gang in run.load)
    capacity = sum(row["capacity"] for row in run.rows)
    finished = sum(gang.finished is not None for gang in run.load)
    idle = sum(row["idle_gpus"] for row in run.rows)
    return (
        HeadlineFigure(
            name="GPU allocation",
            amount=sum(row["allocated"] for row in run.rows) / capacity,
            unit="share",
            better="higher",
            detail="of capacity, over time",
        ),
        HeadlineFigure(name="Median wait", amount=waits[len(waits) // 2], unit="seconds", better="lower"),
        HeadlineFigure(
            name="95 % wait at most",
            amount=waits[int(len(waits) * 0.95)],
            unit="seconds",
            better="lower",
            detail="from arrival to the first start",
        ),
        HeadlineFigure(
            name="Gangs finished", amount=finished, better="higher", detail=f"of {len(run.load)} that arrived"
        ),
        HeadlineFigure(
            name="Lost to evictions",
            amount=sum(gang.lost for gang in run.load),
            unit="gpu_seconds",
            better="lower",
            detail=f"{sum(gang.evicted for gang in run.load)} pods evicted",
        ),
        HeadlineFigure(
            name="Stranded GPUs",
            amount=sum(row["stranded_gpus"] for row in run.rows) / idle if idle else None,
            unit="share",
            better="lower",
            detail="of idle GPUs no waiting gang can use",
        ),
    )


def _timeline(run: ToyRun) -> TimelineColumns:
    def column(name: str) -> list[float]:
        return [row[name] for row in run.rows]

    return TimelineColumns(
        at_seconds=column("at_seconds"),
        resources=tuple(
            ResourceColumns(
                resource=resource,
                allocated=[each * value * (1 if resource.endswith("gpu") else 0.8) for value in column("allocated")],
                working=[each * value * (1 if resource.endswith("gpu") else 0.8) for value in column("working")],
                capacity=[each * value for value in column("capacity")],
            )
            for resource, each in PER_GPU.items()
        ),
        waiting_gangs=column("waiting_gangs"),
        working_gangs=column("working_gangs"),
        idle_gpus=column("idle_gpus"),
        stranded_gpus=column("stranded_gpus"),
        largest_free_node_gpus=column("largest_free_node_gpus"),
        largest_free_domain_gpus=column("largest_free_domain_gpus"),
    )


def _gangs(run: ToyRun) -> GangColumns:
    load = run.load
    return GangColumns(
        name=[gang.name for gang in load],
        queue=[gang.queue for gang in load],
        class_name=[gang.class_name for gang in load],
        size=[gang.size for gang in load],
        gpus=[gang.gpus for gang in load],
        arrived_seconds=[gang.arrived for gang in load],
        first_wait_seconds=[gang.first_wait for gang in load],
        finished_seconds=[gang.finished for gang in load],
        waited_seconds=[_waited(gang) for gang in load],
        starts=[gang.starts for gang in load],
        evicted_pods=[gang.evicted for gang in load],
        moved_pods=[gang.moved for gang in load],
        lost_gpu_seconds=[gang.lost for gang in load],
        domains=[gang.domains for gang in load],
        least_domains=[gang.least_domains for gang in load],
        verdict=["Scheduled" if gang.first_wait is not None else "Unschedulable" for gang in load],
        reason=[gang.reason for gang in load],
    )


def _longest(run: ToyRun) -> list[LongWait]:
    longest = sorted((gang for gang in run.load if gang.stretches), key=lambda gang: -_waited(gang))[:10]
    return [
        LongWait(
            gang=gang.name,
            queue=gang.queue,
            size=gang.size,
            gpus=gang.gpus,
            waited_seconds=_waited(gang),
            stretches=[WaitStretch(from_seconds=a, to_seconds=b, reason=reason) for a, b, reason in gang.stretches],
            is_waiting=gang in run.waiting,
        )
        for gang in longest
    ]


def _waited(gang: ToyGang) -> float:
    return sum(until - since for since, until, _ in gang.stretches)


def main() -> None:
    """Writes a made-up report to look at."""
    parser = argparse.ArgumentParser(description="Write a made-up report.")
    parser.add_argument("path", type=Path)
    for name, default in (("seed", 7), ("gangs", 600), ("variants", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    chosen.path.write_text(render(make_report(chosen.seed, chosen.gangs, variants=chosen.variants)), encoding="utf-8")


if __name__ == "__main__":
    main()

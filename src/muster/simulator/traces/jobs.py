"""Gangs of a CSV file: a row each, or rows that name the same gang.

Rule 1: rows are read one at a time, and only what a gang needs of them is kept; gangs that are alike share it, and
their number has a limit. Rule 2: a resource that no node states is not requested: a node list without memory says
nothing about it.
"""

import heapq
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from muster.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
)
from muster.api.objects import Objects
from muster.api.podgroup import PodGroupSpec, SubGroup
from muster.api.quantity import Resources
from muster.errors import InputError
from muster.simulator.datacenter import GPU
from muster.simulator.scenario.daily_scaling import scaling_of
from muster.simulator.scenario.durations import LONGEST_MS
from muster.simulator.scenario.gang_template import (
    GangArrival,
    GangTemplate,
    PodTemplate,
    constraint,
    pod_spec,
)
from muster.simulator.scenario.types import JobColumns, Trace, Units
from muster.simulator.traces.csv_table import CsvRow, read_rows
from muster.simulator.traces.formats import BYTES, CPU_MILLI, GPU_MODEL, MILLISECONDS, job_columns
from muster.simulator.traces.naming import Namer, as_name

MOST_GANGS = 1_000_000
Demand = tuple[str, tuple[tuple[str, int], ...], str]  # role, requests and GPU models


class CollectedJob(Struct, gc=False):
    """A gang while its rows are read."""

    label: str  # its name in the file
    line: int  # of its first row
    at_ms: int
    end_ms: int | None
    duration_ms: int | None
    class_name: str
    queue: str
    demands: Mapping[Demand, int]  # shared by jobs that are alike


def read_jobs(trace: Trace, folder: Path, objects: Objects, seed: int) -> list[GangArrival]:
    """The gangs of a trace in the order of time."""
    builder, namer = _JobBuilder(trace, objects, seed), Namer(trace.name)
    collected = _collect(trace, folder)
    if trace.limit is not None:
        collected = heapq.nsmallest(trace.limit, collected, key=lambda job: (job.at_ms, job.line))
    jobs = [builder.build(namer.name(job.label), job) for job in sorted(collected, key=lambda job: job.line)]
    jobs.sort(key=lambda job: (job.at_ms, job.name))
    return jobs


# reading --------------------------------------------------------------------------------------------------------------


def _collect(trace: Trace, folder: Path) -> Iterable[CollectedJob]:
    """Every gang; where each row is one, they come one at a time."""
    columns, units = job_columns(trace)
    shared: dict[tuple[Demand, int], Mapping[Demand, int]] = {}
    rows = read_rows(folder / trace.file, asdict(columns).values())
    jobs = ((row, _read(row, columns, units, shared)) for row in rows)
    if columns.gang:
        return _merged(jobs, columns.gang)
    return (job for _, job in (jobs if trace.limit is not None else _bounded(jobs)))


def _merged(jobs: Iterable[tuple[CsvRow, CollectedJob]], column: str) -> list[CollectedJob]:
    """Rows that name the same gang are one."""
    collected: list[CollectedJob] = []
    by_gang: dict[str, CollectedJob] = {}
    for row, job in jobs:
        gang = row.text(column)
        if gang and gang in by_gang:
            _merge(by_gang[gang], job)
            continue
        job.label = gang or job.label
        by_gang[gang] = job
        collected.append(job)
        _check_number(row, len(collected))
    return collected


def _bounded(jobs: Iterable[tuple[CsvRow, CollectedJob]]) -> Iterator[tuple[CsvRow, CollectedJob]]:
    for number, (row, job) in enumerate(jobs, 1):
        _check_number(row, number)
        yield row, job


def _check_number(row: CsvRow, number: int) -> None:
    if number > MOST_GANGS:
        raise InputError(
            f"{row.source}, line {row.line}: there are more than {MOST_GANGS:,} gangs",
            hint="`limit: 100000` takes the first of them, in the order of time",
        )


def _read(
    row: CsvRow, columns: JobColumns, units: Units, shared: dict[tuple[Demand, int], Mapping[Demand, int]]
) -> CollectedJob:
    per = MILLISECONDS[units.time]
    at_ms, start_ms, end_ms, duration_ms = (
        None if (number := row.number(column)) is None else min(round(number * per), LONGEST_MS)
        for column in (columns.arrival, columns.start, columns.end, columns.duration)
    )
    begin_ms = start_ms if start_ms is not None else at_ms or 0
    if end_ms is not None and end_ms < begin_ms:
        raise row.error(columns.end, "is before the start: the duration would be negative")
    if duration_ms is None and end_ms is not None:
        duration_ms = end_ms - begin_ms
    pods = row.number(columns.pods)
    if pods is not None and (pods < 1 or pods != int(pods)):
        raise row.error(columns.pods, f"`{row.text(columns.pods)[:40]}` is no number of pods")
    demand = (as_name(row.text(columns.role)), tuple(_requests(row, columns, units)), row.text(columns.model))
    number = int(pods or 1)
    return CollectedJob(
        label=row.text(columns.name),
        line=row.line,
        at_ms=at_ms or 0,
        end_ms=end_ms,
        duration_ms=duration_ms,
        class_name=sys.intern(row.text(columns.class_name)),
        queue=sys.intern(row.text(columns.queue)),
        demands=shared.setdefault((demand, number), {demand: number}),
    )


def _requests(row: CsvRow, columns: JobColumns, units: Units) -> Iterator[tuple[str, int]]:
    factors = {
        "cpu": (columns.cpu, CPU_MILLI[units.cpu]),
        "memory": (columns.memory, BYTES[units.memory]),
        GPU: (columns.gpu, 1),
    }
    for resource, (column, per) in factors.items():
        if amount := row.number(column):
            yield resource, ceil(amount * per)


def _merge(job: CollectedJob, row: CollectedJob) -> None:
    """One more row of a gang: it arrives with its first row, and ends with its last."""
    demands = job.demands if isinstance(job.demands, Counter) else Counter(job.demands)
    demands.update(row.demands)
    job.demands = demands
    job.end_ms = None if job.end_ms is None or row.end_ms is None else max(job.end_ms, row.end_ms)
    job.at_ms = min(job.at_ms, row.at_ms)
    if job.end_ms is not None:
        job.duration_ms = job.end_ms - job.at_ms
    elif job.duration_ms is None or row.duration_ms is None:
        job.duration_ms = None
    else:
        job.duration_ms = max(job.duration_ms, row.duration_ms)


# building -------------------------------------------------------------------------------------------------------------


class _JobBuilder:
    """Gangs from what was read; equal pods share one spec."""

    def __init__(self, trace: Trace, objects: Objects, seed: int) -> None:
        self._trace, self._seed = trace, seed
        self._stated = {name for node in objects.nodes for name in node.status.allocatable or node.status.capacity}
        self._specs: dict[Demand, PodSpec] = {}
        self._templates: dict[object, GangTemplate] = {}  # gangs that are alike have the same

    def build(self, name: str, job: CollectedJob) -> GangArrival:
        trace = self._trace
        return GangArrival(
            name=name,
            at_ms=min(round(job.at_ms * trace.arrival_scale), LONGEST_MS),
            duration_ms=self._duration(job),
            template=self._template(job),
            class_name=job.class_name or trace.name,
            is_resumed=trace.on_eviction == "resume",
            is_linear=trace.speed == "linear",
            scaling=scaling_of(trace.scaling, self._seed, name),
        )

    @staticmethod
    def _duration(job: CollectedJob) -> int | None:
        return None if job.duration_ms is None else max(job.duration_ms, 1)

    def _template(self, job: CollectedJob) -> GangTemplate:
        alike = (tuple(sorted(job.demands.items())), job.queue, job.class_name)
        if alike not in self._templates:
            self._templates[alike] = self._make_template(job)
        return self._templates[alike]

    def _make_template(self, job: CollectedJob) -> GangTemplate:
        trace = self._trace
        roles = sorted({role for role, _, _ in job.demands})
        pods = Counter[str]()
        for (role, _, _), number in job.demands.items():
            pods[role] += number
        is_flat = len(roles) == 1
        base = PodGroupSpec(
            queue=job.queue or trace.queue,
            priority_class_name=trace.priority_classes.get(job.class_name, trace.priority_class),
            preemptibility=trace.preemptibility,
            min_member=self._least(pods[roles[0]]) if is_flat else None,
            topology_constraint=constraint(trace.level, trace.preferred_level),
            sub_groups=()
            if is_flat
            else tuple(SubGroup(name=role or "pods", min_member=self._least(pods[role])) for role in roles),
        )
        templates = (
            PodTemplate("" if is_flat else demand[0] or "pods", number, self._spec(demand))
            for demand, number in sorted(job.demands.items())
        )
        return GangTemplate(base, tuple(templates))

    def _least(self, pods: int) -> int:
        return max(1, ceil(pods * self._trace.min_share))

    def _spec(self, demand: Demand) -> PodSpec:
        if demand not in self._specs:
            _, requests, models = demand
            amounts = Resources({name: amount for name, amount in requests if name in self._stated})
            self._specs[demand] = pod_spec(amounts, _affinity(models))
        return self._specs[demand]


def _affinity(models: str) -> Affinity | None:
    if not models:
        return None
    rule = NodeSelectorRequirement(key=GPU_MODEL, operator="In", values=tuple(models.split("|")))
    selector = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(rule,)),))
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=selector))

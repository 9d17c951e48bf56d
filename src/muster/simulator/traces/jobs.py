"""Gangs of a CSV file: a row each, or rows that name the same gang.

Rule 1: rows are read one at a time, and only what a gang needs of them is kept. Rule 2: a resource that no node states
is not requested: a node list without memory says nothing about it.
"""

from collections import Counter
from collections.abc import Iterator
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
from muster.simulator.datacenter import GPU
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

Demand = tuple[str, tuple[tuple[str, int], ...], str]  # role, requests and GPU models


class CollectedJob(Struct):
    """A gang while its rows are read."""

    at_ms: int
    end_ms: int | None
    duration_ms: int | None
    class_name: str
    queue: str
    demands: Counter[Demand]


def read_jobs(trace: Trace, folder: Path, objects: Objects) -> list[GangArrival]:
    """The gangs of a trace in the order of time."""
    builder = _JobBuilder(trace, objects)
    jobs = [builder.build(name, job) for name, job in _collect(trace, folder).items()]
    jobs.sort(key=lambda job: (job.at_ms, job.name))
    return jobs[: trace.limit]


# reading --------------------------------------------------------------------------------------------------------------


def _collect(trace: Trace, folder: Path) -> dict[str, CollectedJob]:
    columns, units = job_columns(trace)
    namer, known = Namer(trace.name), dict[str, str]()  # gang of the file -> its name here
    jobs: dict[str, CollectedJob] = {}
    for row in read_rows(folder / trace.file, asdict(columns).values()):
        gang = row.text(columns.gang)
        if gang and gang in known:
            _merge(jobs[known[gang]], _read(row, columns, units))
            continue
        name = namer.name(gang or row.text(columns.name))
        known[gang] = name
        jobs[name] = _read(row, columns, units)
    return jobs


def _read(row: CsvRow, columns: JobColumns, units: Units) -> CollectedJob:
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
    return CollectedJob(
        at_ms=at_ms or 0,
        end_ms=end_ms,
        duration_ms=duration_ms,
        class_name=row.text(columns.class_name),
        queue=row.text(columns.queue),
        demands=Counter({demand: int(pods or 1)}),
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
    job.demands += row.demands
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

    def __init__(self, trace: Trace, objects: Objects) -> None:
        self._trace = trace
        self._stated = {name for node in objects.nodes for name in node.status.allocatable or node.status.capacity}
        self._specs: dict[Demand, PodSpec] = {}

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
        )

    @staticmethod
    def _duration(job: CollectedJob) -> int | None:
        return None if job.duration_ms is None else max(job.duration_ms, 1)

    def _template(self, job: CollectedJob) -> GangTemplate:
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

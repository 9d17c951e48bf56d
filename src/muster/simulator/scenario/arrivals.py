"""Which gangs arrive when: generated ones and those of traces, in the order of time."""

import heapq
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from muster.api.decoding import encode
from muster.api.objects import Objects
from muster.api.podgroup import PodGroup, PodGroupSpec
from muster.api.resources import POD_GROUPS
from muster.errors import InputError
from muster.reporting.problems import lines
from muster.reporting.text import plain
from muster.simulator.scenario.daily_scaling import scaling_of
from muster.simulator.scenario.durations import draw_ms, stream, to_ms
from muster.simulator.scenario.gang_template import GangArrival, GangTemplate, template_of
from muster.simulator.scenario.types import Scenario, SimulatedWorkload
from muster.simulator.traces.jobs import read_jobs
from muster.validation.check import check, errors
from muster.validation.context import ValidationContext


def plan_arrivals(scenario: Scenario, folder: Path, objects: Objects) -> Iterator[GangArrival]:
    """All arrivals in the order of time. InputError: a gang breaks a rule, or a trace cannot be read."""
    context = ValidationContext(objects)
    horizon = None if scenario.horizon is None else to_ms(scenario.horizon)
    sources: list[Iterator[GangArrival]] = []
    for i, workload in enumerate(scenario.workloads):
        template = template_of(workload.gang, _base_of(workload))
        _check_gang(f"workloads[{i}] ({workload.name})", template, context)
        sources.append(_generated(workload, template, scenario.seed, horizon))
    for i, trace in enumerate(scenario.traces):
        arrivals = read_jobs(trace, folder, objects, scenario.seed)
        for template in {_rules_of(arrival.template.spec): arrival.template for arrival in arrivals}.values():
            _check_gang(f"traces[{i}] ({trace.name})", template, context)
        sources.append(iter(arrivals))
    return heapq.merge(*sources, key=lambda arrival: (arrival.at_ms, arrival.name))


def _rules_of(spec: PodGroupSpec) -> tuple[object, ...]:
    """What of a PodGroup can break a rule, minimums of its own apart: few gangs of a trace differ in it."""
    return (spec.queue, spec.priority_class_name, spec.topology_constraint, len(spec.sub_groups))


def _base_of(workload: SimulatedWorkload) -> PodGroupSpec:
    return PodGroupSpec(
        queue=workload.queue,
        priority_class_name=workload.priority_class,
        preemptibility=workload.preemptibility,
        staleness_grace_period=workload.staleness_grace_period or None,
    )


def _generated(
    workload: SimulatedWorkload, template: GangTemplate, seed: int, horizon_ms: int | None
) -> Iterator[GangArrival]:
    arrivals = workload.arrivals
    at_ms = to_ms(arrivals.first)
    for number in count() if arrivals.count is None else range(arrivals.count):
        if arrivals.interval.kind:
            at_ms += draw_ms(arrivals.interval, stream(seed, workload.name, number, "interval"))
        if horizon_ms is not None and at_ms >= horizon_ms:
            return
        duration = stream(seed, workload.name, number, "duration")
        yield GangArrival(
            name=f"{workload.name}-{number}",
            at_ms=at_ms,
            duration_ms=draw_ms(workload.duration, duration) if workload.duration.kind else None,
            template=template,
            class_name=workload.name,
            is_resumed=workload.on_eviction == "resume",
            is_linear=workload.speed == "linear",
            scaling=scaling_of(workload.scaling, seed, f"{workload.name}-{number}"),
        )


def _check_gang(at: str, template: GangTemplate, context: ValidationContext) -> None:
    """The rules of PodGroups: levels that exist, minimums that can be met."""
    group = encode(PodGroup(spec=template.spec)) | {"metadata": {"name": "gang", "namespace": "simulated"}}
    kind = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
    if problems := errors(check(kind | group, context=context)):
        raise InputError(f"{at}: its gangs are invalid\n{plain(lines(problems))}")

"""What a recorder has recorded, as values that can be written to a file and read back."""

from array import array
from typing import Any

from msgspec import Struct

from muster.simulator.engine.histories import WaitReason
from muster.simulator.engine.recorder import Recorder
from muster.simulator.engine.timeline import Frame


class SavedRecorder(Struct, frozen=True):
    """A recorder between two moments."""

    at_ms: int
    begun_seconds: float
    events: Frame
    timeline: Frame
    cycles: Frame
    cycle_seconds: list[float]
    plans_per_row: int
    plan_seconds: list[float]
    scale_up_ms: list[int]
    working: dict[str, int]
    working_gangs: int
    waiting_gangs: int
    integrals: dict[str, float]
    fair: dict[str, dict[str, int]]
    queue_integrals: list[tuple[str, str, str, float]]
    is_infeasible: bool
    waits: dict[str, list[WaitReason]]
    longest: list[tuple[int, str]]
    queue_allocated: dict[str, list[int]]
    queue_fair_share: dict[str, list[int]]
    domain_samples: dict[str, Any]


def save_recorder(recorder: Recorder) -> SavedRecorder:
    """Everything that was recorded."""
    return SavedRecorder(
        at_ms=recorder.at_ms,
        begun_seconds=recorder.begun_seconds,
        events=recorder.events,
        timeline=recorder.timeline.frame,
        cycles=recorder.cycles.frame,
        cycle_seconds=recorder.cycles.cpu_seconds,
        plans_per_row=recorder.cycles.plans_per_row,
        plan_seconds=recorder.plan_seconds.tolist(),
        scale_up_ms=recorder.scale_up_ms.tolist(),
        working=dict(recorder.working),
        working_gangs=recorder.working_gangs,
        waiting_gangs=recorder.waiting_gangs,
        integrals=dict(recorder.integrals),
        fair={queue: dict(amounts) for queue, amounts in recorder.fair.items()},
        queue_integrals=[(*names, amount) for names, amount in recorder.queue_integrals.items()],
        is_infeasible=recorder.is_infeasible,
        waits=recorder.waits.by_gang,
        longest=recorder.waits.longest,
        queue_allocated=recorder.queues.allocated,
        queue_fair_share=recorder.queues.fair_share,
        domain_samples=recorder.domains.save(),
    )


def restore_recorder(recorder: Recorder, saved: SavedRecorder) -> None:
    """A new recorder goes on from there."""
    recorder.at_ms, recorder.begun_seconds = saved.at_ms, saved.begun_seconds
    recorder.events, recorder.timeline.frame = saved.events, saved.timeline
    recorder.cycles.frame, recorder.cycles.cpu_seconds = saved.cycles, saved.cycle_seconds
    recorder.cycles.plans_per_row = saved.plans_per_row
    recorder.plan_seconds = array("d", saved.plan_seconds)
    recorder.scale_up_ms = array("q", saved.scale_up_ms)
    recorder.working.update(saved.working)
    recorder.working_gangs, recorder.waiting_gangs = saved.working_gangs, saved.waiting_gangs
    recorder.integrals.update(saved.integrals)
    recorder.fair, recorder.is_infeasible = saved.fair, saved.is_infeasible
    for queue, resource, what, amount in saved.queue_integrals:
        recorder.queue_integrals[queue, resource, what] = amount
    recorder.waits.restore(saved.waits, saved.longest)
    recorder.queues.allocated, recorder.queues.fair_share = saved.queue_allocated, saved.queue_fair_share
    recorder.domains.restore(saved.domain_samples)

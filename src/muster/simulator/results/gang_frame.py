"""One row a gang, as plain columns."""

from collections.abc import Iterable

from muster.simulator.engine.gang_run import GangRun
from muster.simulator.engine.recorder import seconds
from muster.simulator.engine.timeline import Frame, new_frame

HOUR_MS = 3_600_000
GANG_COLUMNS = (
    "gang",
    "queue",
    "class",
    "pods",
    "gpus",
    "is_elastic",
    "state",
    "arrived_seconds",
    "wait_seconds",
    "waited_seconds",
    "full_size_seconds",
    "finished_seconds",
    "starts",
    "evicted_pods",
    "moved_pods",
    "failed_pods",
    "gpu_hours_lost_to_evictions",
    "gpu_hours_lost_to_failures",
    "domains",
    "least_domains",
    "verdict",
    "reason",
)


def gang_frame(runs: Iterable[GangRun], now_ms: int) -> Frame:
    """Every gang in the order of arrival; what has not happened is None."""
    frame = new_frame(*GANG_COLUMNS)
    for run in runs:
        for name, value in zip(GANG_COLUMNS, _row(run, now_ms), strict=True):
            frame[name].append(value)
    return frame


def _row(run: GangRun, now_ms: int) -> tuple[object, ...]:
    state = _state(run)
    current = 0 if run.waits_since_ms is None or run.finished_ms is not None else now_ms - run.waits_since_ms
    return (
        run.name,
        run.queue,
        run.class_name,
        run.size,
        run.gpus,
        run.arrival is not None and run.arrival.template.is_elastic,
        state,
        seconds(run.arrived_ms),
        None if run.first_wait_ms is None else seconds(run.first_wait_ms),
        seconds(run.waited_ms + current),
        None if run.full_ms is None else seconds(run.full_ms - run.arrived_ms),
        None if run.finished_ms is None else seconds(run.finished_ms),
        run.starts,
        run.evicted_pods - run.moved_pods,
        run.moved_pods,
        run.failed_pods,
        round(run.lost_to_evictions / HOUR_MS, 6),
        round(run.lost_to_failures / HOUR_MS, 6),
        run.domains or None,
        run.least_domains or None,
        "Finished" if state == "finished" else run.verdict,
        run.reason if state == "waiting" else "",
    )


def _state(run: GangRun) -> str:
    """finished; working: its core runs; starting: it is bound; waiting: it is not."""
    if run.finished_ms is not None:
        return "finished"
    if run.works_since_ms is not None:
        return "working"
    return "waiting" if run.waits_since_ms is not None else "starting"

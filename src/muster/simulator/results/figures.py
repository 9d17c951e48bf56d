"""The figures of a simulation: waits, allocation, evictions, fairness, fragmentation, domains, and the planner's work.

Rule 1: a figure over time is weighted by time, from the first event to the end. Rule 2: a gang that never started has
no wait; it is counted beside the percentiles, never in them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from muster.api.names import GPU
from muster.simulator.engine.recorder import Recorder
from muster.simulator.engine.timeline import Frame

Figures = dict[str, Any]
SIZES = ((1, "1 pod"), (4, "2-4 pods"), (16, "5-16 pods"), (64, "17-64 pods"))
LARGE = "65 pods or more"
PERCENTILES = (50, 95, 99)


def make_figures(gangs: Frame, recorder: Recorder, end_seconds: float) -> Figures:
    """All figures, as JSON values."""
    integrals = recorder.integrals
    passed = max(end_seconds - recorder.begun_seconds, 0.0)
    return {
        "gangs": _states(gangs),
        "waitSeconds": _waits(gangs),
        "fullSizeSeconds": _full_sizes(gangs),
        "scaleUpSeconds": spread(milliseconds / 1000 for milliseconds in recorder.scale_up_ms),
        "resources": {name: _resource(integrals, name) for name in _resources(recorder)},
        "evictions": _evictions(gangs),
        "fairness": _fairness(recorder, passed),
        "fragmentation": _fragmentation(integrals, passed),
        "domains": _domains(gangs),
        "planner": _planner(recorder),
    }


def mean_columns(recorder: Recorder, end_seconds: float) -> dict[str, float]:
    """By column of the timeline, its mean over the whole time; empty: no time passed."""
    passed = end_seconds - recorder.begun_seconds
    return {name: amount / passed for name, amount in recorder.integrals.items()} if passed > 0 else {}


# waits ----------------------------------------------------------------------------------------------------------------


def percentile(values: Sequence[float], percent: int) -> float:
    """By nearest rank, of sorted values: the smallest that so many percent of them do not exceed."""
    return values[max(-(-percent * len(values) // 100) - 1, 0)]


def spread(values: Iterable[float | None]) -> Figures:
    """How many there are, how many are missing, mean and percentiles."""
    listed = list(values)
    known = sorted(value for value in listed if value is not None)
    figures: Figures = {"count": len(known), "never": len(listed) - len(known)}
    if known:
        figures["mean"] = round(sum(known) / len(known), 3)
        figures |= {f"p{percent}": round(percentile(known, percent), 3) for percent in PERCENTILES}
    return figures


def size_of(pods: int) -> str:
    """The class of a gang by its size."""
    return next((name for most, name in SIZES if pods <= most), LARGE)


def _states(gangs: Frame) -> Figures:
    states = Counter(gangs["state"])
    refused = Counter(
        reason for state, reason in zip(gangs["state"], gangs["reason"], strict=True) if state == "waiting"
    )
    return {
        "arrived": len(gangs["gang"]),
        "started": sum(wait is not None for wait in gangs["wait_seconds"]),
        "finished": states["finished"],
        "running": states["working"] + states["starting"],
        "waiting": states["waiting"],
        "waitingBecause": {reason or "NotPlanned": count for reason, count in sorted(refused.items())},
    }


def _waits(gangs: Frame) -> Figures:
    sizes = [size_of(pods) for pods in gangs["pods"]]
    return {
        "all": spread(gangs["wait_seconds"]),
        "bySize": _grouped(sizes, gangs["wait_seconds"]),
        "byClass": _grouped(gangs["class"], gangs["wait_seconds"]),
        "byQueue": _grouped(gangs["queue"], gangs["wait_seconds"]),
    }


def _grouped(names: Iterable[str], values: Iterable[float | None]) -> Figures:
    groups: dict[str, list[float | None]] = defaultdict(list)
    for name, value in zip(names, values, strict=True):
        groups[name].append(value)
    order = {name: i for i, (_, name) in enumerate(SIZES)}
    return {name: spread(groups[name]) for name in sorted(groups, key=lambda name: (order.get(name, 99), name))}


def _full_sizes(gangs: Frame) -> Figures:
    """How long elastic gangs took from their arrival until all of their pods were bound."""
    rows = zip(gangs["is_elastic"], gangs["full_size_seconds"], strict=True)
    return spread(full for is_elastic, full in rows if is_elastic)


# resources ------------------------------------------------------------------------------------------------------------


def _resources(recorder: Recorder) -> list[str]:
    """Resources that the cluster has."""
    columns = (name.removeprefix("capacity_") for name in recorder.timeline.frame if name.startswith("capacity_"))
    return [name for name in columns if recorder.integrals[f"capacity_{name}"]]


def _resource(integrals: dict[str, float], name: str) -> Figures:
    """Allocated: held by pods, until they are gone. Utilised: by running pods of gangs whose core runs."""
    capacity = integrals[f"capacity_{name}"]
    return {
        "allocated": share(integrals[f"allocated_{name}"], capacity),
        "utilised": share(integrals[f"working_{name}"], capacity),
    }


def share(part: float, whole: float) -> float:
    """A part of a whole, from 0 to 1; of nothing, 0."""
    return round(part / whole, 6) if whole else 0.0


def _evictions(gangs: Frame) -> Figures:
    return {
        "evictedPods": sum(gangs["evicted_pods"]),
        "movedPods": sum(gangs["moved_pods"]),
        "failedPods": sum(gangs["failed_pods"]),
        "gpuHoursLostToEvictions": round(sum(gangs["gpu_hours_lost_to_evictions"]), 3),
        "gpuHoursLostToFailures": round(sum(gangs["gpu_hours_lost_to_failures"]), 3),
    }


def _fairness(recorder: Recorder, passed: float) -> Figures:
    """By queue: what it held and its fair share on average, and how much of the share it lacked while gangs waited."""
    sums = recorder.queue_integrals
    queues = sorted({queue for queue, _, _ in sums})
    resource = GPU if any(name == GPU for _, name, _ in sums) else "cpu"
    return {
        "resource": resource,
        "queues": {
            queue: {
                "allocated": round(sums[queue, resource, "allocated"] / passed, 3) if passed else 0.0,
                "fairShare": round(sums[queue, resource, "fair_share"] / passed, 3) if passed else 0.0,
                "lacked": share(sums[queue, resource, "below"], sums[queue, resource, "fair_share"]),
            }
            for queue in queues
        },
    }


def _fragmentation(integrals: dict[str, float], passed: float) -> Figures:
    """Stranded: idle GPUs while some gang waits that fits nowhere."""
    return {
        "idleGpus": round(integrals["idle_gpus"] / passed, 3) if passed else 0.0,
        "strandedGpuHours": round(integrals["stranded_gpus"] / 3600, 3),
        "stranded": share(integrals["stranded_gpus"], integrals[f"capacity_{GPU}"]),
        "largestFreeNodeGpus": round(integrals["largest_free_node_gpus"] / passed, 3) if passed else 0.0,
        "largestFreeDomainGpus": round(integrals["largest_free_domain_gpus"] / passed, 3) if passed else 0.0,
    }


def _domains(gangs: Frame) -> Figures:
    """In how many domains of the finest level gangs started, against the least that could hold them."""
    rows = [row for row in zip(gangs["domains"], gangs["least_domains"], strict=True) if row[0] is not None]
    if not rows:
        return {"count": 0}
    return {
        "count": len(rows),
        "mean": round(sum(domains for domains, _ in rows) / len(rows), 3),
        "leastMean": round(sum(least for _, least in rows) / len(rows), 3),
        "least": share(sum(domains <= least for domains, least in rows), len(rows)),
    }


# the planner ----------------------------------------------------------------------------------------------------------


def _planner(recorder: Recorder) -> Figures:
    cycles = recorder.cycles.frame
    return {
        "cycles": sum(cycles["plans"]),
        "searches": sum(cycles["searches"]),
        "steps": sum(cycles["steps"]),
        "unknown": share(sum(cycles["unknown"]), sum(cycles["waiting"])),
    }


def planner_times(recorder: Recorder) -> Figures:
    """CPU of the planner, which differs from run to run: in all, a cycle, and in the first and the last tenth."""
    times = recorder.plan_seconds
    if not times:
        return {"cpuSeconds": 0.0}
    ordered, tenth = sorted(times), max(len(times) // 10, 1)
    return {
        "cpuSeconds": round(sum(times), 3),
        **{f"p{percent}Milliseconds": round(percentile(ordered, percent) * 1000, 3) for percent in PERCENTILES},
        "firstTenthMilliseconds": round(sum(times[:tenth]) / tenth * 1000, 3),
        "lastTenthMilliseconds": round(sum(times[-tenth:]) / tenth * 1000, 3),
    }

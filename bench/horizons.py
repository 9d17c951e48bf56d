"""`python -m bench.horizons [DAYS]`: what an event of a simulation costs as its horizon grows: CPU, and memory.

The load is steady: a cluster of 128 GPUs at about 80 %, with gangs that wait, grow, are preempted and lose nodes. Each
horizon runs in a process of its own, whose peak of memory is that of the run, between two runs of one day: the cost of
an event in these is the reference, so that other work of the machine cancels. Memory above the shortest horizon is
divided by the events above it: what one more event keeps.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from bench.cluster import say
from muster.simulator.results.result import Result
from muster.simulator.scenario.loading import read_scenario
from muster.simulator.simulate import simulate

FACTORS = (1, 2, 4, 8)
DAYS = 3.0  # of the shortest horizon
REFERENCE_DAYS = 1.0


def scenario(days: float) -> dict[str, Any]:
    """Steady load for so many days."""
    return {
        "name": f"{days:g} days",
        "seed": 3,
        "horizon": f"{days * 24:g}h",
        "cluster": {"nodes": 16, "gpus": 8, "topology": "rack=4"},
        "priorityClasses": {"low": 40, "high": 90},
        "workloads": [
            _workload("train", "8m", {"pods": 4, "requests": {"nvidia.com/gpu": 2}, "level": "rack"}),
            _workload("sweep", "12m", {"pods": 6, "minPods": 2, "requests": {"nvidia.com/gpu": 1}}),
            _workload("urgent", "60m", {"pods": 8, "requests": {"nvidia.com/gpu": 2}}, priorityClass="high"),
        ],
        "randomFailures": {
            "interval": {"kind": "exponential", "mean": "300h"},
            "repair": {"kind": "constant", "value": "1h"},
        },
    }


def _workload(name: str, every: str, gang: dict[str, Any], **more: Any) -> dict[str, Any]:
    arrivals = {"interval": {"kind": "exponential", "mean": every}}
    duration = {"kind": "lognormal", "median": "40m", "sigma": 0.7, "most": "6h"}
    return {"name": name, "priorityClass": "low", "arrivals": arrivals, "duration": duration, "gang": gang, **more}


def measure(days: float) -> dict[str, float]:
    """One run in this process."""
    before = cost_of(REFERENCE_DAYS)[0]
    cost, result = cost_of(days)
    after = cost_of(REFERENCE_DAYS)[0]
    return {
        "days": days,
        "gangs": len(result.gangs["gang"]),
        "events": len(result.events["event"]),
        "cycles": sum(result.cycles["plans"]),
        "timeline": len(result.timeline["at_seconds"]),
        "cost": cost,
        "reference": (before + after) / 2,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def cost_of(days: float) -> tuple[float, Result]:
    """CPU seconds of an event, and the result."""
    loaded = read_scenario(msgspec.json.encode(scenario(days)), "bench")
    begin = time.process_time()
    result = simulate(loaded, Path())
    return (time.process_time() - begin) / len(result.events["event"]), result


def run_apart(days: float) -> dict[str, float]:
    """One run in a process of its own."""
    say(f"measuring: {days:g} days")
    command = [sys.executable, "-m", "bench.horizons", "--one", str(days)]
    measured: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return measured


def row(one: dict[str, float], first: dict[str, float]) -> str:
    """One line of the guide."""
    events = one["events"] - first["events"]
    kept = f"{(one['mib'] - first['mib']) * 2**20 / events:,.0f} B" if events else ""
    return (
        f"| {one['days']:g} | {one['gangs']:,} | {one['events']:,} | {one['cycles']:,} "
        f"| {one['cost'] * 1e6:,.0f} µs | {one['cost'] / one['reference']:.2f} "
        f"| {one['timeline']:,} | {one['mib']:.0f} MiB | {kept} |"
    )


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(float(sys.argv[2]))))
        return
    days = float(sys.argv[1]) if len(sys.argv) > 1 else DAYS
    measured = [run_apart(days * factor) for factor in FACTORS]
    print("| days | gangs | events | cycles | CPU an event | ÷ reference | timeline rows | memory | an event keeps |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for one in measured:
        print(row(one, measured[0]))


if __name__ == "__main__":
    main()

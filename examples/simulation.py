"""A simulation from Python: `python examples/simulation.py`, or cell by cell in a notebook.

Frames are plain lists by column, so that `pandas.DataFrame(result.gangs)` works, and needs not.
"""

# %% A day of training on 64 GPUs: what if half of the pods were enough to start?
import statistics

import muster

DAY = {
    "name": "whole gangs",
    "seed": 7,
    "horizon": "24h",
    "cluster": {"nodes": 8, "gpus": 8, "topology": "rack=2"},
    "workloads": [
        {
            "name": "train",
            "arrivals": {"interval": {"kind": "exponential", "mean": "20m"}},
            "duration": {"kind": "lognormal", "median": "1h", "sigma": 0.6},
            "gang": {"pods": 8, "requests": {"nvidia.com/gpu": 2}},
        }
    ],
}
ELASTIC = {
    **DAY,
    "name": "elastic gangs",
    "workloads": [{**DAY["workloads"][0], "gang": {**DAY["workloads"][0]["gang"], "minPods": 4}}],
}

# %% The same arrivals under both; the same seed gives the same result, byte for byte.
results = {scenario["name"]: muster.simulate(scenario) for scenario in (DAY, ELASTIC)}
for name, result in results.items():
    waits = result.figures["waitSeconds"]["all"]
    print(f"{name}: {waits['count']} gangs started, after {waits['p50']:,.0f} s (p50) and {waits['p95']:,.0f} s (p95)")

# %% Gang by gang: what comes from chance cancels out.
before, after = (dict(zip(one.gangs["gang"], one.gangs["wait_seconds"], strict=True)) for one in results.values())
saved = [before[gang] - after[gang] for gang in before if None not in (before[gang], after.get(gang))]
print(f"a gang starts {statistics.mean(saved):,.0f} s sooner on average; {sum(one < 0 for one in saved)} start later")

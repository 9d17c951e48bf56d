"""Promises from cycle to cycle, over small worlds of chance: P6-P8, Q4, N6, X7, and every promise of a single plan.

A world is up to eight cycles of plan and apply. What is found in a slice of worlds is found once; each promise is then
a test of its own, so that one that is broken does not hide another.
"""

import os
from functools import lru_cache

import pytest

from tests.oracles.promises import EVERY, Finding, Promises
from tests.support.random_cluster import CYCLES, RandomCluster

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE", "") == "nightly"
WORLDS = 10_000 if NIGHTLY else 500
SLICES = 10
QUIET_WORLDS, MOST_QUIET = WORLDS // 10, 40  # cycles until a world that nothing happens to has to be at rest
SHOWN = 3
BROKEN_BEFORE = (5_213,)  # T1: an extra took a place that was kept with others of its leaf, which had come elsewhere


@lru_cache(maxsize=2)
def findings(part: int) -> list[Finding]:
    """Every broken promise of a slice of worlds, with the line that replays it."""
    broken: list[Finding] = []
    for seed in range(part, WORLDS, SLICES):
        cluster, promises = RandomCluster(seed), Promises()
        for _ in range(CYCLES):
            cycle = cluster.cycle()
            replay = f"world {seed}, cycle {cycle.number} (python -m tests.support.random_cluster {seed})"
            broken += [(promise, f"{replay}: {text}") for promise, text in promises.look(cycle)]
    return broken


@pytest.mark.parametrize(("part", "promise"), [(part, promise) for part in range(SLICES) for promise in EVERY])
def test_a_promise_is_kept_from_cycle_to_cycle(part: int, promise: str) -> None:
    """See `tests/oracles/promises.py` for each."""
    broken = [text for name, text in findings(part) if name == promise]
    assert not broken, f"{len(broken)} times: " + "\n".join(broken[:SHOWN])


@pytest.mark.parametrize("seed", BROKEN_BEFORE)
def test_worlds_in_which_a_promise_was_broken_once(seed: int) -> None:
    cluster, promises = RandomCluster(seed), Promises()
    assert [finding for _ in range(CYCLES) for finding in promises.look(cluster.cycle())] == []


@pytest.mark.parametrize("part", range(SLICES))
def test_a_world_that_nothing_happens_to_comes_to_rest(part: int) -> None:
    """No livelock: once terminations are over, plans become empty; nothing is evicted and bound in turns for ever."""
    for seed in range(part, QUIET_WORLDS, SLICES):
        cluster = RandomCluster(seed)
        for _ in range(CYCLES // 2):
            cluster.cycle()
        cluster.is_quiet = True
        idle = 0
        for _ in range(MOST_QUIET):
            plan = cluster.cycle().plan
            active = plan["bindings"] or plan["nominations"] or plan["evictions"] or not cluster.is_settled
            idle = 0 if active else idle + 1
            if idle > 8:  # longer than the grace of S2
                break
        assert idle > 8, f"world {seed} is still busy after {MOST_QUIET} quiet cycles: {plan['evictions']}"

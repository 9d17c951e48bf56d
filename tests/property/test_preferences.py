"""Preferred levels against an oracle (T2)."""

import os

import pytest

import muster
from tests.oracles.checker import broken
from tests.oracles.preferences import best, manifests, wishes, worth

SEEDS = {"nightly": 5_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 200)
SLICES = 20


@pytest.mark.parametrize("part", range(SLICES))
def test_no_placement_of_the_core_is_closer_to_what_is_preferred(part: int) -> None:
    """T2: the tightest level, then the fewest domains, for one group after the other from the root down."""
    for seed in range(part, SEEDS, SLICES):
        given = wishes(seed)
        objects = manifests(given)
        plan = muster.plan(muster.objects(objects)).to_dict()
        assert broken(objects, plan) == [], f"seed {seed}"
        wanted = best(given)
        verdict = plan["podGroups"][0]["verdict"]
        assert verdict == ("Infeasible" if wanted is None else "Scheduled"), f"seed {seed}"
        if wanted is not None:
            core = [(one["subGroup"], one["node"]) for one in plan["bindings"] if one["role"] == "core"]
            assert worth(given, core) == wanted, f"seed {seed}"

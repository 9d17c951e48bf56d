"""The search against an oracle and an independent judge."""

import os

import pytest

import muster
from tests.oracles.checker import broken
from tests.oracles.placement import feasible
from tests.support.puzzles import manifests, puzzle

SEEDS = {"nightly": 20_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 500)
SLICES = 20


@pytest.mark.parametrize("part", range(SLICES))
def test_the_verdict_is_the_oracles(part: int) -> None:
    """X1, X2: what fits is placed, what does not is proved not to; at this size nothing is unknown."""
    for seed in range(part, SEEDS, SLICES):
        given = puzzle(seed)
        objects = manifests(given)
        plan = muster.plan(muster.objects(objects)).to_dict()
        verdict = plan["podGroups"][0]["verdict"]
        assert verdict == ("Scheduled" if feasible(given) else "Infeasible"), f"seed {seed}"
        assert broken(objects, plan) == [], f"seed {seed}"

"""A core sits where most of its gang's own extras can follow, against an oracle (X4, G3)."""

import os

import pytest

import muster
from tests.oracles.checker import broken
from tests.oracles.growth import Growth, puzzle
from tests.support.puzzles import manifests

SEEDS = {"nightly": 10_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 300)
SLICES = 10


@pytest.mark.parametrize("part", range(SLICES))
def test_no_place_of_the_core_lets_more_extras_follow(part: int) -> None:
    """X4: as many pods are bound as could be from the best place of the core, extras in the order of G3."""
    for seed in range(part, SEEDS, SLICES):
        given = puzzle(seed)
        objects = manifests(given)
        plan = muster.plan(muster.objects(objects)).to_dict()
        most = Growth(given).most()
        verdict = plan["podGroups"][0]["verdict"]
        assert verdict == ("Infeasible" if most is None else "Scheduled"), f"seed {seed}"
        assert broken(objects, plan) == [], f"seed {seed}"
        bound = len(plan["bindings"])
        assert bound >= (most or 0), f"seed {seed}: {bound} pods are bound, {most} could be: {given}"

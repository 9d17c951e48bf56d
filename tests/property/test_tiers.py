"""Every tier of the search against the oracle: bounds exclude nothing that fits, the exact tier decides alone (X1)."""

import os

import pytest

import muster
from muster.model.snapshot import take
from muster.placement.bounds import Bounds
from muster.placement.goal import Goal, Goals, Kinds
from muster.placement.ledger import Ledger, Shapes
from muster.placement.search import Search, State
from tests.checker import broken
from tests.oracle import feasible
from tests.puzzles import manifests, puzzle

SEEDS = {"nightly": 10_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 200)
SLICES = 10


@pytest.fixture
def exact_tier_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_search: Search, _goal: Goal) -> tuple[State | None, bool]:
        return None, False

    monkeypatch.setattr(Search, "_constructed", nothing)


@pytest.mark.usefixtures("exact_tier_alone")
@pytest.mark.parametrize("part", range(SLICES))
def test_the_exact_tier_alone_gives_the_oracles_verdict(part: int) -> None:
    """What the constructive search leaves open is placed or proved impossible by the integer program."""
    for seed in range(part, SEEDS, SLICES):
        given = puzzle(seed)
        objects = manifests(given)
        plan = muster.plan(muster.objects(objects)).to_dict()
        verdict = plan["podGroups"][0]["verdict"]
        assert verdict == ("Scheduled" if feasible(given) else "Infeasible"), f"seed {seed}"
        assert broken(objects, plan) == [], f"seed {seed}"


@pytest.mark.parametrize("part", range(SLICES))
def test_bounds_exclude_only_what_is_impossible(part: int) -> None:
    """A bound is a proof: whatever fits passes it."""
    for seed in range(part, SEEDS * 2, SLICES):
        given = puzzle(seed)
        if not feasible(given):
            continue
        snapshot = take(muster.objects(manifests(given)))
        ledger = Ledger(Shapes(snapshot), snapshot.free)
        for goal in Goals(snapshot.gangs[0], snapshot, Kinds()).cores():
            assert isinstance(goal, Goal)
            assert Bounds(ledger, snapshot.topologies).is_possible(goal), f"seed {seed}"

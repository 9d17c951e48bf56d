"""Every tier of the search against the oracle: bounds exclude nothing that fits, the exact tier decides alone (X1)."""

import os
import random
from typing import Any

import numpy as np
import pytest

import muster
from muster.model.snapshot import take
from muster.placement.bounds import Bounds
from muster.placement.budget import Budget
from muster.placement.capacity import Capacity, PodClasses, SupposedCapacity
from muster.placement.packing.packing import Demand, NodeSet, assign_tightly
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.types import Requirement, RequirementKinds
from muster.placement.search import flat
from muster.placement.search.nested_search import Search
from muster.placement.search.preferences import find
from muster.placement.search.search_state import SearchState
from tests.oracles.checker import broken
from tests.oracles.placement import feasible
from tests.support.drawing import draw_node, worker
from tests.support.factories import group, podgroup, topology
from tests.support.puzzles import manifests, puzzle

SEEDS = {"nightly": 10_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 200)
SLICES = 10


@pytest.fixture
def exact_tier_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_search: Search, _requirement: Requirement) -> tuple[SearchState | None, bool]:
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
        capacity = Capacity(PodClasses(snapshot), snapshot.free)
        for requirement in Requirements(snapshot.gangs[0], snapshot, RequirementKinds()).core_requirements():
            assert isinstance(requirement, Requirement)
            assert Bounds(capacity, snapshot.topologies).is_possible(requirement), f"seed {seed}"


@pytest.mark.parametrize("seed", range(50))
def test_the_index_of_seats_finds_what_the_search_finds(seed: int) -> None:
    """The fast path for flat gangs is the slow one, also after pods were put and taken away."""
    rng = random.Random(seed)
    nodes = [draw_node(f"n{i:02}", rng.randint(0, 8)) for i in range(rng.randint(1, 12))]
    snapshot = take(muster.objects([*nodes, podgroup(), worker("p", gpus=rng.randint(1, 2))]))
    capacity = Capacity(PodClasses(snapshot), snapshot.free)
    everywhere = NodeSet((), np.arange(len(nodes)))
    for _ in range(30):
        pods = rng.randint(1, 10)
        slow = assign_tightly(SupposedCapacity(capacity), Demand(0, 0, pods, everywhere))
        fast = capacity.fit_index(0).tightest(pods)
        assert fast == slow
        for at, count in fast or ():
            capacity.put(at, 0, count)
        if fast is None or rng.random() < 0.3:
            capacity.put(rng.randrange(len(nodes)), 0, -rng.randint(1, 3))


@pytest.mark.parametrize("seed", range(60))
def test_a_flat_gang_in_one_domain_sits_where_the_search_would_put_it(seed: int) -> None:
    """The tightest domain and its tightest nodes, without a search."""
    rng = random.Random(seed)
    racks = rng.randint(1, 4)
    nodes = [draw_node(f"n{i:02}", rng.randint(0, 6), f"z1/r{rng.randrange(racks)}") for i in range(rng.randint(1, 10))]
    pods = [worker(f"p{i}", gpus=rng.choice((1, 1, 2)) if not i else 1) for i in range(rng.randint(1, 6))]
    group = podgroup(minMember=len(pods), topologyConstraint={"requiredTopologyLevel": "rack"})
    snapshot = take(muster.objects([topology("topology/zone", "topology/rack"), *nodes, group, *pods]))
    capacity, kinds = Capacity(PodClasses(snapshot), snapshot.free), RequirementKinds()
    for requirement in Requirements(snapshot.gangs[0], snapshot, kinds).core_requirements():
        assert isinstance(requirement, Requirement)
        if flat.applies(capacity, requirement):
            searched = find(Search(capacity, snapshot.topologies, kinds, Budget(100_000)), requirement)
            assert flat.assign_nodes(capacity, requirement, snapshot.topologies) == searched


@pytest.mark.parametrize("seed", range(150))
def test_a_tree_of_one_class_that_needs_all_its_pods_fits_where_the_search_finds_a_place(seed: int) -> None:
    """Leader and workers are one gang of equal pods, unless a group below the root has a choice or a constraint."""
    rng = random.Random(seed)
    nodes = [draw_node(f"n{i:02}", rng.randint(0, 4), f"z1/r{rng.randrange(3)}") for i in range(rng.randint(1, 8))]
    sizes = {f"leaf-{i}": rng.randint(1, 4) for i in range(rng.randint(2, 4))}
    parents = {leaf: rng.choice(("", "branch")) for leaf in sizes}
    groups = [group(leaf, need, parent=parents[leaf]) for leaf, need in sizes.items()]
    groups += [group("branch")] if "branch" in parents.values() else []
    required: Any = {"topologyConstraint": {"requiredTopologyLevel": "rack"}} if rng.random() < 0.5 else {}
    pods = [worker(f"{leaf}-p{i}", leaf=leaf) for leaf, need in sizes.items() for i in range(need)]
    objects = [topology("topology/zone", "topology/rack"), *nodes, podgroup(*groups, **required), *pods]
    snapshot = take(muster.objects(objects))
    capacity, kinds = Capacity(PodClasses(snapshot), snapshot.free), RequirementKinds()
    (requirement,) = Requirements(snapshot.gangs[0], snapshot, kinds).core_requirements()
    assert isinstance(requirement, Requirement)
    assert flat.applies(capacity, requirement, growing=True)
    searched = find(Search(capacity, snapshot.topologies, kinds, Budget(100_000)), requirement)
    assert (flat.assign_nodes(capacity, requirement, snapshot.topologies) is None) == (searched is None)
    plan = muster.plan(muster.objects(objects))
    assert (plan.verdict("team/gang") == "Scheduled") == (searched is not None)
    assert broken(objects, plan.to_dict()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"minSubGroup": 1},
        {"subGroups": [group("a", 1), group("b", 2, topologyConstraint={"requiredTopologyLevel": "rack"})]},
        {"subGroups": [group("a", 1), group("b", 2, topologyConstraint={"preferredTopologyLevel": "rack"})]},
        {"subGroups": [group("a", 1), group("b", 1)]},
        {"minMember": 3},
    ],
    ids=["a choice of children", "a required level", "a preferred level", "an extra", "a total (M5)"],
)
def test_a_tree_with_choices_or_constraints_below_its_root_is_left_to_the_search(change: dict[str, object]) -> None:
    nodes = [draw_node("n1", 4, "z1/r1")]
    raw = podgroup(group("a", 1), group("b", 2))
    raw["spec"] |= change
    pods = [worker("p1", leaf="a"), worker("p2", leaf="b"), worker("p3", leaf="b")]
    snapshot = take(muster.objects([topology("topology/zone", "topology/rack"), *nodes, raw, *pods]))
    capacity = Capacity(PodClasses(snapshot), snapshot.free)
    requirement = next(Requirements(snapshot.gangs[0], snapshot, RequirementKinds()).core_requirements())
    assert isinstance(requirement, Requirement)
    assert not flat.applies(capacity, requirement)

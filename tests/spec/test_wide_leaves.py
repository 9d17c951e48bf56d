"""Leaves of very many pods cost what they are large (X7): counted in calls, not in seconds."""

import muster
from muster.model.snapshot import take
from muster.placement.budget import Budget
from muster.placement.capacity import Capacity, PodClasses
from muster.placement.requirements.builder import Requirements
from muster.placement.requirements.types import Requirement, RequirementKinds
from muster.placement.search.growth import Placement
from muster.placement.search.nested_search import Search
from muster.placement.search.preferences import find_with_growth
from tests.spec.test_deep_chains import calls
from tests.spec.test_hard_gangs import gpu_node
from tests.support.factories import Raw, pod, podgroup


def leaf(pods: int) -> list[Raw]:
    """A tenth of its pods is needed; five classes take turns, on nodes that hold about half of them."""
    nodes = [gpu_node(f"n{i:03}", cpu="60") for i in range(pods // 40)]
    return [*nodes, podgroup(minMember=pods // 10), *(pod(f"p{i:05}", cpu=1 + i % 5) for i in range(pods))]


def grown(raws: list[Raw]) -> Placement | None:
    snapshot, kinds = take(muster.objects(raws)), RequirementKinds()
    requirement = next(Requirements(snapshot.gangs[0], snapshot, kinds).core_requirements())
    assert isinstance(requirement, Requirement)
    ledger = Capacity(PodClasses(snapshot), snapshot.free)
    return find_with_growth(Search(ledger, snapshot.topologies, kinds, Budget(200_000)), requirement)


def test_growth_of_a_leaf_four_times_as_large_costs_four_times_as_much() -> None:
    """X4: every extra is added at the cost of one pod; a look at all pods for each would be a square."""
    small, large = leaf(450), leaf(1_800)
    grown(small)  # imports and caches
    steps = grown(large)
    assert steps is not None
    assert sum(seat.pods for seat in steps.extras) > 500
    assert calls(grown, large) < 6 * calls(grown, small)

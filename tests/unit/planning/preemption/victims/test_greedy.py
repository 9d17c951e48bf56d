"""The greedy set of victims starts from the domain where the fewest pods would be evicted."""

import pytest

import muster
from muster.placement.capacity import Capacity
from muster.placement.search.search_state import PodsOnNode
from muster.planning.preemption.candidates import Units
from muster.planning.preemption.victims import greedy
from muster.planning.preemption.victims.eviction_cost import CostCapacity
from muster.planning.preemption.victims.question import Question
from tests.spec.test_preemption import CLASSES, gang
from tests.support.drawing import draw

ADDED = {"costs", "_count_costs", "__init__", "__module__", "__doc__"}


def test_the_greedy_set_is_in_the_domain_of_the_lowest_eviction_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """In r1 four pods would be evicted, in r2 one; r1 comes first by name and is as tight."""
    seen: list[tuple[PodsOnNode, ...] | None] = []
    assign = greedy.cheapest_assignment

    def noted(question: Question, among: Units) -> tuple[PodsOnNode, ...] | None:
        seen.append(assign(question, among))
        return seen[-1]

    monkeypatch.setattr(greedy, "cheapest_assignment", noted)
    small = [raw for i in range(4) for raw in gang(f"small{i}", on="a", priorityClassName="low")]
    large = gang("large", on="b", gpus=4, priorityClassName="low")
    high = gang("high", 4, priorityClassName="high", topologyConstraint={"requiredTopologyLevel": "rack"})
    plan = muster.plan(muster.objects([*CLASSES, *draw("r1 a:4\nr2 b:4"), *small, *large, *high]))
    assert [eviction.pod for eviction in plan.evictions] == ["large-0"]
    assert [{assigned.node for assigned in assignment or ()} for assignment in seen] == [{1}]


def test_every_method_of_the_cost_capacity_overrides_one_of_the_capacity() -> None:
    """The search knows `Capacity` only: a method that overrides nothing would never be called."""
    own = set(vars(CostCapacity)) - ADDED
    assert {name for name in own if not hasattr(Capacity, name)} == set()

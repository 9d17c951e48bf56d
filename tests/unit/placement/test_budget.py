"""Budgets of steps (X7): parts, granted budgets, and where steps are counted."""

import pytest

from muster.placement.budget import Budget, OutOfSteps


def test_a_part_is_limited_by_the_budget_above_it() -> None:
    cycle = Budget(10)
    part = cycle.part(100)
    assert part.left == 10
    with pytest.raises(OutOfSteps):
        part.spend(11)
    assert (part.spent, cycle.spent) == (10, 10)


def test_a_granted_budget_counts_above_but_is_not_limited_by_it() -> None:
    cycle = Budget(10)
    gang = cycle.grant(100)
    part = gang.part(60)
    part.spend(40)
    assert (part.left, gang.left, cycle.left) == (20, 60, 0)
    assert cycle.is_used_up
    with pytest.raises(OutOfSteps):
        part.spend(30)
    assert (part.spent, gang.spent, cycle.spent) == (60, 60, 60)


def test_keep_never_adds_steps() -> None:
    gang = Budget(10).grant(100)
    gang.spend(30)
    gang.keep(20)
    assert gang.left == 20
    gang.keep(50)
    assert gang.left == 20

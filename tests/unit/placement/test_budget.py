"""Budgets of steps (X7): parts, what is granted, and what is counted where."""

import pytest

from muster.placement.budget import Budget, OutOfSteps


def test_a_part_is_bound_by_what_is_above_it() -> None:
    cycle = Budget(10)
    part = cycle.part(100)
    assert part.left == 10
    with pytest.raises(OutOfSteps):
        part.spend(11)
    assert (part.spent, cycle.spent) == (10, 10)


def test_what_is_granted_counts_above_and_can_be_finished() -> None:
    cycle = Budget(10)
    gang = cycle.grant(100)
    part = gang.part(60)
    part.spend(40)
    assert (part.left, gang.left, cycle.left) == (20, 60, 0)
    assert cycle.is_used_up
    with pytest.raises(OutOfSteps):
        part.spend(30)
    assert (part.spent, gang.spent, cycle.spent) == (60, 60, 60)


def test_no_more_steps_are_kept_than_there_are() -> None:
    gang = Budget(10).grant(100)
    gang.spend(30)
    gang.keep(20)
    assert gang.left == 20
    gang.keep(50)
    assert gang.left == 20

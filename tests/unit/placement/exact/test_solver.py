"""The solver: integers in, integers out, within a budget of steps."""

import gc
import random
from contextlib import suppress
from weakref import WeakSet

import highspy
import pytest

from muster.placement.budget import Budget, Cancelled, OutOfSteps
from muster.placement.exact.solver import LARGEST, Model
from muster.placement.packing.patterns import mixes


def knapsack(weights: list[int], total: int) -> Model:
    model = Model()
    variables = [model.add_variable(1) for _ in weights]
    model.add_row(list(zip(variables, weights, strict=True)), total, total)
    return model


def covers(variables: int) -> Model:
    """A model that the solver does not solve before its first checkpoint."""
    rng, model = random.Random(variables), Model()
    chosen = [model.add_variable(5, rng.randint(1, 9)) for _ in range(variables)]
    for _ in range(40):
        model.add_row([(variable, rng.randint(1, 9)) for variable in rng.sample(chosen, 20)], least=60)
    return model


class CancelledAfter:
    """An `is_cancelled` that returns True after so many checks."""

    def __init__(self, checks: int) -> None:
        self.checks = checks

    def __call__(self) -> bool:
        self.checks -= 1
        return self.checks < 0


def test_a_solution_meets_every_row_exactly() -> None:
    """X6: values are integers, and checked as such."""
    model = Model()
    first, second = model.add_variable(5), model.add_variable(5)
    model.add_row([(first, 3), (second, 5)], least=19, most=19)
    solution = model.solve(Budget(100_000))
    assert solution is not None
    assert solution.values == (3, 2)
    assert model.holds(solution.values)
    assert not model.holds((3, 3))


def test_a_variable_may_occur_twice_in_a_row() -> None:
    """Rows are built from parts; the solver itself crashes on such a row."""
    model = Model()
    variable = model.add_variable(5)
    model.add_row([(variable, 1), (variable, 2)], 6, 6)
    model.add_row([(variable, 1), (variable, -1)], 0, 0)
    solution = model.solve(Budget(100_000))
    assert solution is not None
    assert solution.values == (2,)


def test_an_infeasible_model_is_proved_infeasible() -> None:
    """Even numbers never add up to an odd one."""
    assert knapsack([2, 4, 6, 8, 10], 13).solve(Budget(100_000)) is None


def test_the_solution_of_least_cost_is_found_and_proven() -> None:
    """The smallest set of victims relies on it (P6)."""
    model = Model()
    variables = [model.add_variable(1, cost) for cost in (3, 2, 2)]
    model.add_row([(variables[0], 4), (variables[1], 2), (variables[2], 2)], least=4)
    solution = model.solve(Budget(100_000))
    assert solution is not None
    assert solution.values == (1, 0, 0)
    assert solution.is_proven


def test_a_model_without_variables_is_decided_by_its_rows() -> None:
    """A group that has no domain at all is impossible, not unknown (X2)."""
    model = Model()
    model.add_row([], least=1)
    assert model.solve(Budget(1_000)) is None
    assert Model().solve(Budget(1_000)) is not None


def test_without_enough_steps_the_result_is_unknown() -> None:
    """X7: a model that is not started, or not finished, is never reported infeasible."""
    with pytest.raises(OutOfSteps):
        knapsack([2, 4, 6], 13).solve(Budget(1))
    large = Model()
    large.add_row([(large.add_variable(1), 1) for _ in range(LARGEST + 1)], least=1)
    with pytest.raises(OutOfSteps):
        large.solve(Budget(10**9))


def test_cancelling_the_plan_stops_the_solver() -> None:
    """A running cycle must not block a shutdown (X7)."""
    model = knapsack([2 * number for number in range(20_000, 20_060)], 600_001)
    with pytest.raises(Cancelled):
        model.solve(Budget(10**9, is_cancelled=lambda: True))


@pytest.mark.parametrize("steps", [100_000_000, 6_000], ids=["solved", "cut short"])
@pytest.mark.parametrize("checks", [10**9, 3], ids=["to the end", "cancelled"])
def test_a_solver_is_freed_once_it_has_returned(steps: int, checks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """X7: the garbage collector cannot see its memory, and a scheduler runs cycles for months."""
    solvers: WeakSet[highspy.Highs] = WeakSet()
    started = 0

    class RecordedHighs(highspy.Highs):  # type: ignore[misc]
        def __init__(self) -> None:
            nonlocal started
            super().__init__()
            started += 1
            solvers.add(self)

    monkeypatch.setattr(highspy, "Highs", RecordedHighs)
    with suppress(OutOfSteps, Cancelled):
        covers(60).solve(Budget(steps, is_cancelled=CancelledAfter(checks)))
    assert started == 1
    gc.collect()
    assert not solvers


def test_the_same_model_takes_the_same_steps() -> None:
    """X3: no clock decides when the solver stops."""
    spent = []
    for _ in range(2):
        budget = Budget(10**9)
        knapsack([17, 31, 45, 59, 73, 87, 101, 113, 131, 149], 389).solve(budget)
        spent.append(budget.spent)
    assert spent[0] == spent[1]


def test_pods_that_all_fit_are_one_pattern() -> None:
    """X7: thirty classes that all fit on a node are one mix, not 2^30 of them."""
    budget = Budget(1_000)
    assert list(mixes([(1,)] * 30, [1] * 30, (100,), budget)) == [(1,) * 30]
    assert budget.spent == 1


def test_every_maximal_mix_is_listed_once() -> None:
    """Against mixes listed by hand: two pods of 3 and three of 2 on a node of 7."""
    assert sorted(mixes([(3,), (2,)], [2, 3], (7,), Budget(1_000))) == [(0, 3), (1, 2), (2, 0)]


def test_listing_mixes_counts_every_step() -> None:
    """X7: also steps that lead to no pattern."""
    rows = [(1, 1000 + i) for i in range(40)]
    with pytest.raises(OutOfSteps):
        list(mixes(rows, [1] * 40, (20, 10**6), Budget(500)))

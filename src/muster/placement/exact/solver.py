"""An integer program, solved by HiGHS within a budget of steps.

Rule 1: deterministic: one thread, no clock; the budget interrupts the solver at its own checkpoints. Rule 2: solutions
are rounded and checked here in whole numbers (X6); one that does not hold exactly is rejected. Rule 3: the library is
imported with the first model that is solved: most plans never need it. It solves without the interpreter lock.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from muster.placement.budget import Budget, Cancelled, OutOfSteps

Term = tuple[int, int]  # a variable and its coefficient
CHECKPOINT = 100  # steps per checkpoint of the solver, plus a part by the size of the model
BEGIN = 2  # steps per coefficient before the first checkpoint: to build, presolve and relax the model
LARGEST = 400_000  # coefficients; larger models are not solved
EXACT = 2**52  # whole numbers above this are not exact in the solver


class Model:
    """Integer variables from zero to a bound, rows over them, and costs to minimise."""

    def __init__(self) -> None:
        self.upper: list[int] = []
        self.cost: list[int] = []
        self._index: list[int] = []
        self._value: list[int] = []
        self._start: list[int] = [0]
        self._least: list[int | None] = []
        self._most: list[int | None] = []

    def add_variable(self, upper: int, cost: int = 0) -> int:
        """Add an integer variable from zero to a bound; returns its index."""
        self.upper.append(upper)
        self.cost.append(cost)
        return len(self.upper) - 1

    def add_row(self, terms: Iterable[Term], least: int | None = None, most: int | None = None) -> None:
        """Add a sum that must stay within bounds; None: no bound on that side."""
        merged: dict[int, int] = {}  # the solver crashes on a variable that occurs twice in a row
        for variable, value in terms:
            merged[variable] = merged.get(variable, 0) + value
        for variable, value in merged.items():
            if value:
                self._index.append(variable)
                self._value.append(value)
        self._start.append(len(self._index))
        self._least.append(least)
        self._most.append(most)

    def copy(self) -> "Model":
        """A copy to add other rows to."""
        duplicate = Model()
        for name, value in vars(self).items():
            setattr(duplicate, name, list(value))
        return duplicate

    @property
    def size(self) -> int:
        """The number of coefficients."""
        return len(self._index)

    def solve(self, budget: Budget, hint: Sequence[int] | None = None) -> "Solution | None":
        """Values of all variables; None: infeasible. OutOfSteps: unknown."""
        if self.size > LARGEST or max(map(abs, self._value), default=0) > EXACT:
            raise OutOfSteps
        budget.check()
        budget.begin(CHECKPOINT + BEGIN * self.size)
        if not self.upper:
            return Solution((), is_proven=True) if self.holds(()) else None
        return _Run(self, budget).solution(hint)

    def holds(self, values: Sequence[int]) -> bool:
        """Whether values meet every bound and every row, exactly."""
        if any(not 0 <= value <= upper for value, upper in zip(values, self.upper, strict=True)):
            return False
        for row, (least, most) in enumerate(zip(self._least, self._most, strict=True)):
            inside = range(self._start[row], self._start[row + 1])
            total = sum(self._value[i] * values[self._index[i]] for i in inside)
            if (least is not None and total < least) or (most is not None and total > most):
                return False
        return True


class Solution(Struct, frozen=True):
    """Values of all variables."""

    values: tuple[int, ...]
    is_proven: bool  # no solution costs less


class _Checkpoints:
    """Interrupts the solver at a checkpoint when the budget ends.

    Rule: it holds no reference to the solver. The solver keeps its callback alive; with a reference back, the garbage
    collector could never free either of them.
    """

    def __init__(self, budget: Budget, steps: int) -> None:
        self.budget, self.steps = budget, steps
        self.stopped: type[Exception] | None = None  # never the exception itself: its frames lead to the solver

    def pass_one(self, _kind: Any, _text: str, _output: Any, answer: Any, _data: Any) -> None:
        """The callback of the solver: spend the steps of one checkpoint."""
        if self.stopped is not None:
            answer.user_interrupt = True
            return
        try:
            self.budget.check()
            self.budget.spend(min(self.steps, self.budget.left + 1))
        except (OutOfSteps, Cancelled) as stopped:  # raised again once the solver has returned
            self.stopped = type(stopped)
            answer.user_interrupt = True


class _Run:
    """One call of the solver."""

    def __init__(self, model: Model, budget: Budget) -> None:
        import highspy

        self.highspy, self.model = highspy, model
        self.checkpoints = _Checkpoints(budget, CHECKPOINT + model.size // 2)
        self.highs = highs = highspy.Highs()
        options = {"output_flag": False, "threads": 1, "random_seed": 0, "parallel": "off"}
        if not any(model.cost):
            options["mip_max_improving_sols"] = 1
        else:
            options |= {"mip_rel_gap": 0.0, "mip_abs_gap": 0.999}
        for name, value in options.items():
            highs.setOptionValue(name, value)
        highs.setCallback(self.checkpoints.pass_one, None)
        highs.startCallback(highspy.cb.HighsCallbackType.kCallbackMipInterrupt)
        highs.passModel(self._program())

    def _program(self) -> Any:
        model, infinite = self.model, self.highspy.kHighsInf
        lp = self.highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(model.upper), len(model._least)
        lp.col_cost_ = np.array(model.cost, dtype=np.float64)
        lp.col_lower_ = np.zeros(len(model.upper))
        lp.col_upper_ = np.array(model.upper, dtype=np.float64)
        lp.row_lower_ = np.array([-infinite if bound is None else bound for bound in model._least], dtype=np.float64)
        lp.row_upper_ = np.array([infinite if bound is None else bound for bound in model._most], dtype=np.float64)
        lp.a_matrix_.format_ = self.highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(model._start)
        lp.a_matrix_.index_ = np.array(model._index)
        lp.a_matrix_.value_ = np.array(model._value, dtype=np.float64)
        lp.integrality_ = [self.highspy.HighsVarType.kInteger] * len(model.upper)
        return lp

    def solution(self, hint: Sequence[int] | None) -> Solution | None:
        """The best solution found; None: infeasible."""
        if hint is not None:
            self._begin_with(hint)
        self.highs.run()
        if self.checkpoints.stopped is Cancelled:
            raise Cancelled
        status, known = self.highs.getModelStatus(), self.highspy.HighsModelStatus
        if status == known.kInfeasible:
            return None
        values = tuple(round(value) for value in self.highs.getSolution().col_value)
        if len(values) != len(self.model.upper) or not self.model.holds(values):
            raise OutOfSteps
        return Solution(values, is_proven=status == known.kOptimal or not any(self.model.cost))

    def _begin_with(self, hint: Sequence[int]) -> None:
        solution = self.highspy.HighsSolution()
        solution.col_value = [float(value) for value in hint]
        self.highs.setSolution(solution)

"""Steps that searches may take (X1, X7). Rule: a budget counts steps, never seconds: same input, same result."""

from collections.abc import Callable
from contextlib import suppress


class OutOfSteps(Exception):
    """The budget is used up: the answer is unknown."""


class Cancelled(Exception):
    """The caller cancelled the plan; decisions made before stand."""


def _never() -> bool:
    return False


class Budget:
    """Steps for one purpose. Every step also counts in the budgets above it.

    The cycle has one, every gang one below it, and a part of a gang's work may have one below that.
    """

    __slots__ = ("_is_cancelled", "_is_granted", "_unchecked", "above", "spent", "steps")
    CHECK = 256  # steps between two checks for cancellation

    def __init__(
        self, steps: int, above: "Budget | None" = None, is_cancelled: Callable[[], bool] | None = None
    ) -> None:
        self.steps = steps
        self.spent = 0
        self.above = above
        self._is_granted = False
        self._is_cancelled: Callable[[], bool] = is_cancelled or (_never if above is None else above._is_cancelled)
        self._unchecked = 0

    @property
    def left(self) -> int:
        """Steps that may still be taken; budgets above limit it, unless it was granted."""
        own = max(self.steps - self.spent, 0)
        return own if self.above is None or self._is_granted else min(own, self.above.left)

    @property
    def is_used_up(self) -> bool:
        """Whether its own steps are spent, whatever the budgets above it have."""
        return self.spent >= self.steps

    def part(self, steps: int) -> "Budget":
        """A smaller budget for a part of the work."""
        return Budget(steps, self)

    def grant(self, steps: int) -> "Budget":
        """A budget that counts here but is not limited by what is left here: work that has begun can finish.

        So the result for a gang does not depend on the gangs before it (X7).
        """
        granted = Budget(steps, self)
        granted._is_granted = True
        return granted

    def check(self) -> None:
        """Raise Cancelled if the caller cancelled: for work between steps."""
        if self._is_cancelled():
            raise Cancelled

    def forgo(self, steps: int) -> None:
        """Remove steps that an earlier cycle spent on the same question, without spending them here (X7)."""
        self.steps = max(self.steps - steps, self.spent)

    def keep(self, steps: int) -> None:
        """Leave at most so many steps."""
        self.steps = min(self.steps, self.spent + steps)

    def begin(self, steps: int) -> None:
        """Spend the steps of work that needs them all; OutOfSteps, with none spent, if too few are left."""
        if steps > self.left:
            raise OutOfSteps
        self.spend(steps)

    def charge(self, steps: int) -> None:
        """Spend steps of work that is done already; it stands even if too few were left."""
        with suppress(OutOfSteps):
            self.spend(steps)

    def spend(self, steps: int = 1) -> None:
        """Spend steps. OutOfSteps if too few are left: those are spent then. Cancelled if the caller cancelled."""
        budget, above, is_bound = self, self.above, not self._is_granted
        budget.spent += steps
        exhausted = budget.spent > budget.steps
        while above is not None:
            budget, above = above, above.above
            budget.spent += steps
            exhausted = exhausted or (is_bound and budget.spent > budget.steps)
            is_bound = is_bound and not budget._is_granted
        budget._unchecked += steps  # in the topmost budget: small parts add up
        if budget._unchecked >= self.CHECK:
            budget._unchecked = 0
            budget.check()
        if exhausted:
            self._cut()
            raise OutOfSteps

    def _cut(self) -> None:
        """Take back steps beyond the limit, so that no limiting budget counts more than it has."""
        chain, bounds, is_bound = [self], [self], not self._is_granted
        while (above := chain[-1].above) is not None:
            chain.append(above)
            bounds += [above] if is_bound else []
            is_bound = is_bound and not above._is_granted
        excess = max(budget.spent - budget.steps for budget in bounds)
        for budget in chain:
            budget.spent -= excess

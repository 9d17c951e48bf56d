"""Steps that searches may take (X1, X7). Rule: a budget counts steps, never seconds, so the same input ends alike."""

from collections.abc import Callable
from contextlib import suppress


class OutOfSteps(Exception):
    """The budget is used up: the answer is unknown."""


class Cancelled(Exception):
    """The caller gave the plan up; what was decided until then stands."""


def _never() -> bool:
    return False


class Budget:
    """Steps for one purpose. What is spent here is spent from the budgets above it, too.

    The cycle has one, every gang has one below it, and a part of the work for a gang may have one below that.
    """

    __slots__ = ("_is_cancelled", "_is_granted", "_unchecked", "above", "spent", "steps")
    CHECK = 256  # steps between two questions whether the plan was cancelled

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
        """Steps that may still be taken: no more than any budget above has left that is a bound to it."""
        own = max(self.steps - self.spent, 0)
        return own if self.above is None or self._is_granted else min(own, self.above.left)

    @property
    def is_used_up(self) -> bool:
        """Whether it has no steps left of its own, whatever the budgets above it have."""
        return self.spent >= self.steps

    def part(self, steps: int) -> "Budget":
        """A smaller budget for a part of the work."""
        return Budget(steps, self)

    def grant(self, steps: int) -> "Budget":
        """A budget of its own that is counted here, too: what is begun with it can be finished.

        What a gang finds out then depends on no other gang: an answer stands whoever else was asked before (X7).
        """
        granted = Budget(steps, self)
        granted._is_granted = True
        return granted

    def check(self) -> None:
        """Cancelled where the caller gave up: for work between steps."""
        if self._is_cancelled():
            raise Cancelled

    def forgo(self, steps: int) -> None:
        """Steps that an earlier cycle has taken for the same answer: not to be had again, and not spent (X7)."""
        self.steps = max(self.steps - steps, self.spent)

    def keep(self, steps: int) -> None:
        """No more than so many steps are left from here on."""
        self.steps = min(self.steps, self.spent + steps)

    def begin(self, steps: int) -> None:
        """Steps of work that is begun only where there are enough for it; OutOfSteps, and none are spent, otherwise."""
        if steps > self.left:
            raise OutOfSteps
        self.spend(steps)

    def charge(self, steps: int) -> None:
        """Steps of work that is done already, and stands whether or not there were any left."""
        with suppress(OutOfSteps):
            self.spend(steps)

    def spend(self, steps: int = 1) -> None:
        """OutOfSteps where there are not enough left: what is left is gone then. Cancelled where the caller gave up."""
        budget, above, is_bound = self, self.above, not self._is_granted
        budget.spent += steps
        exhausted = budget.spent > budget.steps
        while above is not None:
            budget, above = above, above.above
            budget.spent += steps
            exhausted = exhausted or (is_bound and budget.spent > budget.steps)
            is_bound = is_bound and not budget._is_granted
        budget._unchecked += steps  # of the topmost: small parts add up
        if budget._unchecked >= self.CHECK:
            budget._unchecked = 0
            budget.check()
        if exhausted:
            self._cut()
            raise OutOfSteps

    def _cut(self) -> None:
        """Steps beyond a budget are not taken: none that is a bound counts more than it has."""
        chain, bounds, is_bound = [self], [self], not self._is_granted
        while (above := chain[-1].above) is not None:
            chain.append(above)
            bounds += [above] if is_bound else []
            is_bound = is_bound and not above._is_granted
        excess = max(budget.spent - budget.steps for budget in bounds)
        for budget in chain:
            budget.spent -= excess

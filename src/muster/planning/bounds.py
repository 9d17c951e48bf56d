"""Bounds on what a goal asks for, before anything is searched."""

from muster.placement import flat
from muster.placement.bounds import least
from muster.placement.goal import Goal, every, merged
from muster.placement.ledger import Ledger

__all__ = ["hopeful", "least"]


def hopeful(goal: Goal, ledger: Ledger) -> bool:
    """Whether every group by itself has enough seats somewhere, by counts alone: a bound."""
    if goal.required is None and flat.applies(ledger, goal):
        return ledger.seats(goal.pods[0][0]).total >= goal.need
    made: dict[int, bool] = {}
    totals: dict[int, int] = {}  # by class
    for one in reversed(list(every(goal))):
        if one.is_leaf:
            offered = merged(one.pods)
            for shape in offered.keys() - totals.keys():
                totals[shape] = int(ledger.fits(shape).sum())
            made[id(one)] = sum(min(totals[shape], most) for shape, most in offered.items()) >= one.need
        else:
            made[id(one)] = sum(made[id(child)] for child in one.children) >= one.need
    return made[id(goal)]

"""Bounds on what a goal asks for, before anything is searched."""

from muster.placement.bounds import least
from muster.placement.capacity import Ledger
from muster.placement.requirements import Goal, merged
from muster.placement.search import flat

__all__ = ["hopeful", "least"]


def hopeful(goal: Goal, ledger: Ledger, known: dict[int, bool] | None = None) -> bool:
    """Whether every group by itself has enough seats somewhere, by counts alone: a bound.

    `known` keeps the answers by kind, for as long as the ledger stays as it is.
    """
    if goal.required is None and flat.applies(ledger, goal):
        return ledger.seats(goal.pods[0][0]).total >= goal.need
    known = {} if known is None else known
    ahead, asked = [goal], []
    while ahead:
        one = ahead.pop()
        if one.kind not in known:
            asked.append(one)
            ahead += one.children
    totals: dict[int, int] = {}  # by class
    for one in reversed(asked):
        if one.is_leaf:
            offered = merged(one.pods)
            for shape in offered.keys() - totals.keys():
                totals[shape] = int(ledger.fits(shape).sum())
            known[one.kind] = sum(min(totals[shape], most) for shape, most in offered.items()) >= one.need
        else:
            known[one.kind] = sum(known[child.kind] for child in one.children) >= one.need
    return known[goal.kind]

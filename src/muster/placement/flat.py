"""Gangs of one pod class that may be anywhere: most of them. An index of nodes answers, without a search.

Rule: the same seats as the search finds (`packing.tightly`); a property holds the two equal.
"""

import numpy as np
from numpy.typing import NDArray

from muster.placement.goal import Goal
from muster.placement.ledger import Ledger
from muster.placement.search import Seat


def applies(ledger: Ledger, goal: Goal) -> bool:
    """Whether a goal has one class of pods, no level, no wishes, and no rules between pods."""
    if goal.children or not goal.need or len(goal.pods) != 1:
        return False
    if goal.required is not None or goal.preferred is not None or goal.tight is not None:
        return False
    shape = goal.pods[0][0]
    return shape not in ledger.company.touched and ledger.tiers(shape) is None


def seats(ledger: Ledger, goal: Goal, allowance: NDArray[np.int64] | None = None) -> tuple[Seat, ...] | None:
    """Seats on the tightest nodes (X4); None: there is no room."""
    shape = goal.pods[0][0]
    if allowance is not None and (ledger.shapes.asks[shape] * goal.need > allowance).any():
        return None
    found = ledger.seats(shape).tightest(goal.need)
    return None if found is None else tuple(Seat(goal.name, shape, node, pods) for node, pods in found)

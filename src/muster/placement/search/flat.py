"""Gangs of one pod class that may be anywhere, or in any one domain of a level: most of them. No search is needed.

Rule: the same seats as the search finds, tight domains and nodes first (X4); a property holds the two equal.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from muster.model.topology import TopologyTree
from muster.placement.capacity import Ledger
from muster.placement.packing.seat_index import DomainIndex, SeatIndex
from muster.placement.requirements import Goal
from muster.placement.search.nested_search import Seat

Ints = NDArray[np.int64]


def applies(ledger: Ledger, goal: Goal, growing: bool = False) -> bool:
    """Whether a goal has one class of pods, no preferred level, no wishes, and no rules between pods.

    `growing`: the domain is to be chosen such that extras can follow, which is a matter for the search.
    """
    if goal.children or not goal.need or len(goal.pods) != 1:
        return False
    if goal.preferred is not None or goal.tight is not None:
        return False
    shape, there = goal.pods[0]
    if growing and goal.required is not None and goal.required.pinned is None and there > goal.need:
        return False
    return shape not in ledger.company.touched and ledger.tiers(shape) is None


def seats(
    ledger: Ledger, goal: Goal, topologies: Mapping[str, TopologyTree], allowance: Ints | None = None
) -> tuple[Seat, ...] | None:
    """Seats on the tightest nodes of the tightest domain; None: there is no room."""
    shape = goal.pods[0][0]
    if allowance is not None and (ledger.shapes.asks[shape] * goal.need > allowance).any():
        return None
    index = seat_index(ledger, goal, topologies)
    found = None if index is None else index.tightest(goal.need)
    return None if found is None else tuple(Seat(goal.name, shape, node, pods) for node, pods in found)


def seat_index(ledger: Ledger, goal: Goal, topologies: Mapping[str, TopologyTree]) -> SeatIndex | DomainIndex | None:
    """Seats anywhere, in any one domain, or in the one where its other pods are (T3); None: nowhere."""
    shape, spot = goal.pods[0][0], goal.required
    if spot is None:
        return ledger.seats(shape)
    index = ledger.seats_by_domain(shape, topologies[spot.topology].levels[spot.level])
    if spot.pinned is None:
        return index
    return index.inside(spot.pinned) if spot.pinned >= 0 else None

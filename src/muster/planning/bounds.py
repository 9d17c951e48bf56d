"""Bounds on what a goal asks for, before anything is searched."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from muster.placement.goal import Goal, every, merged
from muster.placement.ledger import Ledger

Ints = NDArray[np.int64]


def least(goal: Goal, asks: Sequence[Ints]) -> Ints:
    """By column the least that any choice of children and pods asks for, given what each class asks."""
    made: dict[int, Ints] = {}
    for one in reversed(list(every(goal))):
        if len(one.pods) == 1:
            made[id(one)] = asks[one.pods[0][0]] * one.need
            continue
        if one.is_leaf:
            rows = np.concatenate([np.tile(asks[shape], (min(n, one.need), 1)) for shape, n in one.pods])
        else:
            rows = np.array([made[id(child)] for child in one.children])
        made[id(one)] = np.sort(rows, axis=0)[: one.need].sum(axis=0)
    return made[id(goal)]


def hopeful(goal: Goal, ledger: Ledger) -> bool:
    """Whether every group by itself has enough seats somewhere, by counts alone: a bound."""
    made: dict[int, bool] = {}
    for one in reversed(list(every(goal))):
        if one.is_leaf:
            seats = (min(int(ledger.fits(shape).sum()), most) for shape, most in merged(one.pods).items())
            made[id(one)] = sum(seats) >= one.need
        else:
            made[id(one)] = sum(made[id(child)] for child in one.children) >= one.need
    return made[id(goal)]

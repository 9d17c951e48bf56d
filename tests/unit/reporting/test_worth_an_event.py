"""Which reasons of waiting are events: those that somebody has to know of."""

import pytest

from muster.model.shortage import Shortage
from muster.planning.refusal import NotEnoughPods
from muster.reporting.explain import is_worth_an_event


@pytest.mark.parametrize(
    ("shortages", "is_worth"),
    [
        ((Shortage("a", need=2, exist=0, gated=2),), False),
        ((Shortage("a", need=2, exist=1, gated=3), Shortage("b", need=1, exist=0, gated=1)), False),
        ((Shortage("a", need=2, exist=0, gated=1),), True),
        ((Shortage("a", need=2, exist=0, gated=2), Shortage("b", need=1, exist=0)), True),
        ((), True),
    ],
)
def test_pods_behind_gates_are_no_event_and_missing_ones_are(shortages: tuple[Shortage, ...], is_worth: bool) -> None:
    """A scaled gang of a PodCliqueSet waits for its base: nothing is wrong with it."""
    assert is_worth_an_event(NotEnoughPods(shortages=shortages)) == is_worth

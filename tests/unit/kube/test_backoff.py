"""Waits between attempts."""

import pytest

from muster.kube.backoff import Backoff


def waits(backoff: Backoff, count: int) -> list[float]:
    return [backoff.next_seconds() for _ in range(count)]


def test_each_failure_in_a_row_doubles_the_wait_up_to_the_longest() -> None:
    assert waits(Backoff(1.0, 5.0), 5) == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_success_starts_over() -> None:
    backoff = Backoff(1.0, 60.0)
    waits(backoff, 3)
    backoff.reset()
    assert waits(backoff, 2) == [1.0, 2.0]


@pytest.mark.parametrize(("chance", "wait"), [(0.0, 1.0), (0.5, 1.5), (1.0, 2.0)])
def test_chance_spreads_a_wait_over_its_upper_half(chance: float, wait: float) -> None:
    assert Backoff(2.0, 60.0, lambda: chance).next_seconds() == wait


def test_each_wait_takes_a_new_chance() -> None:
    chances = iter((0.0, 1.0))
    assert waits(Backoff(2.0, 60.0, lambda: next(chances)), 2) == [1.0, 4.0]


def test_the_wait_after_a_number_of_failures_can_be_read_without_counting_one() -> None:
    backoff = Backoff(1.0, 60.0)
    assert [backoff.seconds_after(failures) for failures in (0, 1, 2, 3)] == [0.0, 1.0, 2.0, 4.0]
    assert backoff.failures == 0


def test_failures_without_end_stay_at_the_longest_wait() -> None:
    """Not an overflow after a thousand of them."""
    assert Backoff(0.2, 30.0).seconds_after(10_000) == 30.0

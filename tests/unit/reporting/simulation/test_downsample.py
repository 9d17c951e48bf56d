"""Lines with few samples that look as they did with many."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.reporting.simulation.downsample import StepLine, downsample, plain_numbers


def at(line: StepLine, time: float) -> float | None:
    """The value that holds at a time."""
    return line["v"][int(np.searchsorted(_known(line["t"]), time, side="right")) - 1]


def test_a_line_of_few_samples_stays_as_it_is() -> None:
    assert downsample([0, 1, 2], [5, 7, 6], intervals=10) == {"t": [0, 1, 2], "v": [5, 7, 6]}


def test_a_line_without_samples_is_empty() -> None:
    assert downsample([], [], intervals=10) == {"t": [], "v": []}


def test_repeated_values_are_dropped_but_for_the_last() -> None:
    """The value holds until the next sample, so a repetition says nothing; the last one says how far it holds."""
    assert downsample([0, 1, 2, 3, 4], [5, 5, 5, 6, 6], intervals=10) == {"t": [0, 3, 4], "v": [5, 6, 6]}


def test_one_peak_among_a_hundred_thousand_samples_is_kept() -> None:
    chance = random.Random(1)
    values = [10 + chance.random() for _ in range(100_000)]
    values[61_803], values[31_415] = 99, -5
    line = downsample(range(100_000), values, intervals=200)
    assert len(line["t"]) <= 4 * 200
    assert (at(line, 61_803), at(line, 31_415)) == (99, -5)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=300), st.integers(1, 12))
def test_every_interval_keeps_its_extremes_and_its_end(values: list[int], intervals: int) -> None:
    """The promise of the module, checked by the slow definition."""
    times = list(range(len(values)))
    line = downsample(times, values, intervals)
    kept = [times[int(time)] for time in _known(line["t"])]
    assert kept == sorted(set(kept))
    assert [values[time] for time in kept] == line["v"]
    assert (min(values), max(values), values[-1]) == (min(_numbers(line)), max(_numbers(line)), line["v"][-1])
    if len(line["t"]) < len(values) and len(values) > 1:
        interval = [min(int(time / (times[-1] / intervals)), intervals - 1) for time in times]
        for i in set(interval):
            inside = [time for time in times if interval[time] == i]
            held = _known([at(line, time) for time in inside])
            assert {min(held), max(held)} == {
                min(values[time] for time in inside),
                max(values[time] for time in inside),
            }


def _numbers(line: StepLine) -> list[float]:
    return _known(line["v"])


def _known(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def test_what_is_not_a_number_is_none_and_whole_numbers_have_no_point() -> None:
    assert repr(plain_numbers(np.array([1.0, 2.5, np.nan, np.inf, 1.23456]), 3)) == "[1, 2.5, None, None, 1.235]"


def test_samples_at_one_moment_are_one_interval() -> None:
    line = downsample([3.0] * 100, list(range(100)), intervals=5)
    assert (line["v"][0], line["v"][-1]) == (0, 99)

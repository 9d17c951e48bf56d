"""Waits by group."""

import pytest

from muster.reporting.simulation.report import GangColumns
from muster.reporting.simulation.waits import (
    MOST_GROUPS,
    Wait,
    collect_waits,
    group_waits,
    size_label,
    size_order,
    summarize,
)


def over(*seconds: float) -> list[Wait]:
    return [Wait(value, is_over=True) for value in seconds]


def test_percentiles_are_waits_of_gangs() -> None:
    group = summarize("all", over(*range(1, 101)))
    assert (group.p50, group.p95, group.p99, group.longest) == (50, 95, 99, 100)
    assert group.curve == list(range(1, 101))


def test_without_gangs_there_are_no_percentiles() -> None:
    group = summarize("none", [])
    assert (group.gangs, group.p50, group.p99, group.longest, group.curve) == (0, None, None, None, [])


def test_a_gang_that_never_started_counts_with_its_time_up_to_the_horizon() -> None:
    """Left out, it would make a scheduler look good that starts nothing; its wait is a lower bound."""
    gangs = GangColumns(arrived_seconds=[10, 40], first_wait_seconds=[5, None])
    waits = collect_waits(gangs, horizon_seconds=100)
    assert waits == [Wait(5, is_over=True), Wait(60, is_over=False)]
    group = summarize("all", waits)
    assert (group.never_started, group.bounded_from, group.longest) == (1, 60, 60)


@pytest.mark.parametrize(
    ("size", "label"), [(1, "1"), (2, "2"), (3, "3–4"), (4, "3–4"), (5, "5–8"), (32, "17–32"), (33, "33–64")]
)
def test_sizes_are_grouped_by_powers_of_two(size: int, label: str) -> None:
    assert size_label(size) == label


def test_sizes_are_in_the_order_of_numbers() -> None:
    labels = [size_label(size) for size in (100, 1, 9, 3)]
    assert [group.label for group in group_waits(over(1, 2, 3, 4), labels, size_order)] == [
        "1",
        "3–4",
        "9–16",
        "65–128",
    ]


def test_beyond_the_limit_small_groups_are_merged_and_no_gang_is_lost() -> None:
    labels = [f"queue-{i:02d}" for i in range(MOST_GROUPS + 5)] + ["queue-44"] * 3
    groups = group_waits(over(*range(len(labels))), labels)
    assert (len(groups), groups[-1].label) == (MOST_GROUPS + 1, "5 others")
    assert sum(group.gangs for group in groups) == len(labels)
    assert "queue-44" in [group.label for group in groups]


def test_a_curve_of_many_gangs_has_few_points_and_both_ends() -> None:
    curve = summarize("all", over(*range(10_000))).curve
    assert (len(curve), curve[0], curve[-1]) == (100, 0, 9_999)

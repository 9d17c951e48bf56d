"""Indexes as text, and back."""

from hypothesis import given
from hypothesis import strategies as st

from muster.workloads.batch.job_indexes import format_indexes, parse_indexes


def test_pairs_are_listed_and_longer_runs_are_ranges() -> None:
    assert format_indexes({1, 3, 4, 5, 7, 8}) == "1,3-5,7,8"


def test_what_cannot_be_read_is_left_out() -> None:
    assert parse_indexes("1,x,3-,-4,5-7,9-8,,12", 7) == {1, 3, 5, 6}


@given(st.sets(st.integers(0, 300)))
def test_indexes_are_read_back(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes), 301) == indexes

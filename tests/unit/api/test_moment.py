"""Moments as text: what is written reads back, and what says no zone names no moment."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.moment import format_time, parse_time


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1), timezones=st.just(UTC)))
def test_a_moment_reads_back_exactly(when: datetime) -> None:
    assert parse_time(format_time(when)) == when


@pytest.mark.parametrize(
    ("when", "text"),
    [
        (datetime(2026, 5, 1, 12, tzinfo=UTC), "2026-05-01T12:00:00Z"),
        (datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2))), "2026-05-01T12:00:00Z"),
        (datetime(2026, 5, 1, 12, 0, 0, 5, tzinfo=UTC), "2026-05-01T12:00:00.000005Z"),
    ],
)
def test_moments_are_written_in_utc(when: datetime, text: str) -> None:
    assert format_time(when) == text


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-05-01", "2026-05-01T12:00:00", "1777636800", "2026-13-01T00:00:00Z"]
)
def test_what_is_no_moment_is_none(text: str) -> None:
    assert parse_time(text) is None

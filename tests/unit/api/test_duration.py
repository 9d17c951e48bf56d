"""Tables for durations: Go's form, or whole seconds."""

import pytest

from muster.api.duration import parse_nanoseconds

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("0", 0), ("0s", 0), ("60s", 60 * SECOND), ("1m", 60 * SECOND), ("1h", 3600 * SECOND), ("1ns", 1)),
        *(("1us", 10**3), ("1µs", 10**3), ("1μs", 10**3), ("250ms", SECOND // 4), ("1h30m", 5400 * SECOND)),
        *(
            ("1h2m3.5s", 3723 * SECOND + SECOND // 2),
            ("1.5h", 5400 * SECOND),
            (".5s", SECOND // 2),
            ("5.s", 5 * SECOND),
        ),
        *(("-1s", -SECOND), ("+1s", SECOND), ("-1h30m", -5400 * SECOND), ("-0", 0), ("1m1m", 120 * SECOND)),
        *(("0.1s", SECOND // 10), ("0.000000001s", 1), ("0.0000000001s", 0), ("1s1h", 3601 * SECOND)),
        *(("90", 90 * SECOND), ("-1", -SECOND), ("+5", 5 * SECOND), ("007", 7 * SECOND)),
    ],
)
def test_a_duration_is_read_as_whole_nanoseconds(text: str, value: int) -> None:
    """As Go's `time.ParseDuration` reads it; a plain number is seconds."""
    assert parse_nanoseconds(text) == value


@pytest.mark.parametrize(("number", "value"), [(0, 0), (60, 60 * SECOND), (-1, -SECOND), (10**12, 10**21)])
def test_a_number_is_seconds(number: int, value: int) -> None:
    """`stalenessGracePeriod: 60` means what it looks like."""
    assert parse_nanoseconds(number) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "s", "-", "+", ".s", "1d", "1w", "1 s", "1s ", " 1s", "1h 30m", "1hour", "1.5", "1e3s", "1,5s"),
        *("--1s", "+-1s", "1s-1s", "0x1s", "forever", "never", "1m30", "٣s", "３", "1" * 200 + "s", "1\n", "1s\n"),
        "1" * 30,
    ],
    ids=lambda text: repr(text)[:20],
)
def test_a_text_that_is_no_duration_is_reported(text: str) -> None:
    """Go refuses each of these too, or they have no unit."""
    with pytest.raises(ValueError, match="is not a duration"):
        parse_nanoseconds(text)


def test_a_long_text_is_shown_in_part() -> None:
    """A message is one line, whatever was given."""
    with pytest.raises(ValueError, match="is not a duration") as wrong:
        parse_nanoseconds("x" * 10_000)
    assert len(str(wrong.value)) < 100

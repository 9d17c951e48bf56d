"""How the report writes numbers, durations, moments and ticks."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from muster.reporting.simulation.render import read_part

MARCH_2 = 1_772_409_600
DAY = 86_400


@pytest.fixture(scope="module")
def words(chromium: Browser) -> Page:
    """A page that has the functions and nothing else."""
    page = chromium.new_page()
    page.add_script_tag(content=read_part("format.js"))
    return page


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("duration(0)", "0 s"),
        ("duration(0.25)", "0.25 s"),
        ("duration(9.96)", "10 s"),
        ("duration(59.6)", "1 min"),
        ("duration(200)", "3 min 20 s"),
        ("duration(3599.9)", "1 h"),
        ("duration(3600 * 23.999)", "1 d"),
        ("duration(86400 * 2 + 3600 * 4)", "2 d 4 h"),
        ("duration(86400 * 400)", "400 d"),
        ("duration(-90)", "−1 min 30 s"),
        ("duration(null)", "–"),
        ("duration(NaN)", "–"),
        ("signedDuration(90)", "+1 min 30 s"),
        ("number(1234567)", "1,234,567"),
        ("number(0.12345)", "0.123"),
        ("number(null)", "–"),
        ("percent(0.5)", "50 %"),
        ("percent(0.0123)", "1.2 %"),
        ("percent(0)", "0 %"),
        ("percent(NaN)", "–"),
        ("figureText(7200, 'gpu_seconds')", "2 GPU h"),
        ("figureText(null, 'share')", "–"),
        ("plural(1, 'gang')", "1 gang"),
        ("plural(2, 'gang')", "2 gangs"),
        ("moment(86400 + 3600, null)", "day 2, 01:00 after its start"),
        (f"moment(0, {MARCH_2})", "Monday 2 March 2026, 00:00 UTC, day 1"),
        (f"shortMoment(3660, {MARCH_2})", "Mon 2 Mar, 01:01"),
    ],
)
def test_values_are_written_for_people(words: Page, call: str, text: str) -> None:
    assert words.evaluate(call) == text


@pytest.mark.parametrize(
    ("call", "ticks"),
    [
        ("roundTicks(640, 4, true)", [0, 200, 400, 600, 800]),
        ("roundTicks(3, 4, true)", [0, 1, 2, 3]),
        ("roundTicks(0, 4, true)", [0, 1]),
        ("roundTicks(1, 4, false)", [0, 0.25, 0.5, 0.75, 1]),
        ("roundTicks(9999, 4, true)", [0, 2500, 5000, 7500, 10_000]),
    ],
)
def test_axes_have_round_ticks_that_hold_the_largest_value(words: Page, call: str, ticks: list[float]) -> None:
    assert words.evaluate(call) == ticks


@pytest.mark.parametrize("largest", [0, 1, 2, 7, 13, 99, 101, 640, 12_345, 1e9, 0.003])
@pytest.mark.parametrize("is_whole", [True, False])
def test_no_value_is_above_its_axis_and_ticks_are_few(words: Page, largest: float, is_whole: bool) -> None:
    ticks = words.evaluate(f"roundTicks({largest}, 4, {str(is_whole).lower()})")
    assert ticks[-1] >= largest
    assert 2 <= len(ticks) <= 6
    assert not is_whole or all(tick == int(tick) for tick in ticks)


def test_days_begin_at_midnight_even_where_the_simulation_does_not(words: Page) -> None:
    ticks: list[Any] = words.evaluate(f"timeTicks({2 * DAY}, {MARCH_2 + 6 * 3600}, 5)")
    assert ticks[:3] == [[6 * 3600, "12:00"], [18 * 3600, "Tue 3 Mar"], [30 * 3600, "12:00"]]


@pytest.mark.parametrize("horizon", [1, 45, 600, 7200, DAY, 9 * DAY, 400 * DAY, 5000 * DAY])
def test_any_horizon_has_a_few_ticks(words: Page, horizon: int) -> None:
    for begins in ("null", MARCH_2):
        assert 1 <= len(words.evaluate(f"timeTicks({horizon}, {begins}, 10)")) <= 11


def test_waits_have_ticks_that_are_apart(words: Page) -> None:
    assert words.evaluate("waitTicks(86400, 0.13).map((tick) => tick[1])") == [
        "0",
        "1 min",
        "10 min",
        "1 h",
        "6 h",
        "1 d",
    ]
    assert words.evaluate("waitTicks(0, 0.13)") == [[0, "0"]]

"""What a soak calls uneven: bindings, memory, file descriptors and latency that change while the load does not."""

from collections.abc import Mapping

import pytest

from tests.support.soak_figures import MOST_GROWTH, WARM_SECONDS, Figures

TICKS = 300
Change = Mapping[str, float]  # figures of the last third
NONE: Change = {}
STEADY = {"rss": 200, "descriptors": 40, "latency": 0.2}


def figures(
    bound_a_tick: tuple[int, int, int] = (5, 5, 5), seconds: float = 2 * WARM_SECONDS, last_third: Change = NONE
) -> Figures:
    """Pods bound a tick in each third of the time; other figures stay, but for those that are given."""
    rss, descriptors, latencies = ([STEADY[name]] * TICKS for name in STEADY)
    last = TICKS * 2 // 3
    rss[last:] = [last_third.get("rss", STEADY["rss"])] * (TICKS - last)
    descriptors[last:] = [last_third.get("descriptors", STEADY["descriptors"])] * (TICKS - last)
    latencies[last:] = [last_third.get("latency", STEADY["latency"])] * (TICKS - last)
    progress, bound = [], 0
    for tick in range(TICKS):
        progress.append(bound)
        bound += bound_a_tick[tick * 3 // TICKS]
    return Figures(
        seconds=seconds,
        rss=[int(value) for value in rss],
        descriptors=[int(value) for value in descriptors],
        latencies=list(latencies),
        progress=progress,
    )


def test_what_stays_the_same_is_even() -> None:
    assert figures().uneven() == []


def test_warming_up_is_no_change() -> None:
    """The first third is not compared: caches fill, and the first gangs come."""
    assert figures(bound_a_tick=(50, 5, 5)).uneven() == []
    assert figures(bound_a_tick=(1, 5, 5)).uneven() == []


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"rss": 300}, "RSS in MiB went from 200 to 300"),
        ({"descriptors": 70}, "file descriptors went from 40 to 70"),
        ({"latency": 1.4}, "p99 in seconds went from 0.2 to 1.4"),
    ],
)
def test_what_grows_is_found(change: Change, finding: str) -> None:
    """Each alone, and by the figure that the operator would look at."""
    assert figures(last_third=change).uneven() == [finding]


@pytest.mark.parametrize("change", [{"rss": 200 * MOST_GROWTH}, {"descriptors": 56}, {"latency": 1.2}])
def test_what_grows_a_little_is_even(change: Change) -> None:
    """A small figure changes by chance: a share of it and a fixed amount are allowed."""
    assert figures(last_third=change).uneven() == []


def test_a_rate_that_halves_is_found_and_one_that_rises_is_not() -> None:
    (finding,) = figures(bound_a_tick=(5, 5, 2)).uneven()
    assert finding.startswith("pods bound went from ")
    assert figures(bound_a_tick=(5, 5, 9)).uneven() == []


def test_all_that_changed_is_found_at_once() -> None:
    assert (
        len(figures(bound_a_tick=(5, 5, 1), last_third={"rss": 999, "descriptors": 999, "latency": 9.0}).uneven()) == 4
    )


def test_a_short_run_is_not_judged() -> None:
    assert figures(seconds=WARM_SECONDS - 1, last_third={"rss": 9_999}).uneven() == []

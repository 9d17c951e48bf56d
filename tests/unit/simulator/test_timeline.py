"""Timelines and cycles stay bounded, and lose neither peaks nor sums."""

from muster.simulator.engine.histories import (
    FEWEST_MOMENTS,
    LONGEST_WAITS,
    MOST_QUEUE_SAMPLES,
    QueueHistory,
    WaitHistory,
)
from muster.simulator.engine.timeline import MOST_CYCLE_ROWS, MOST_ROWS, ROWS_PER_INTERVAL, CycleHistory, Timeline

COLUMNS = ("waiting_gangs", "pending_pods", "idle_gpus", "stranded_gpus")
PEAK = 777_777


def test_a_long_timeline_keeps_its_ends_and_every_peak() -> None:
    timeline = Timeline(*COLUMNS)
    for i in range(5 * MOST_ROWS):
        amounts = dict.fromkeys(COLUMNS, PEAK if i == 12345 else i % 100)
        timeline.put({"at_seconds": float(i), **amounts})
        timeline.thin()
        assert len(timeline) <= MOST_ROWS
    frame = timeline.frame
    assert (frame["at_seconds"][0], frame["at_seconds"][-1]) == (0.0, 5.0 * MOST_ROWS - 1)
    assert frame["at_seconds"] == sorted(frame["at_seconds"])
    assert frame["at_seconds"][frame["idle_gpus"].index(PEAK)] == 12_345
    assert {len(column) for column in frame.values()} == {len(timeline)}


def test_thinning_says_which_rows_stay() -> None:
    timeline = Timeline(*COLUMNS)
    for i in range(MOST_ROWS + 1):
        timeline.put({"at_seconds": float(i), **dict.fromkeys(COLUMNS, 0)})
    kept = timeline.thin()
    assert kept is not None
    assert [float(row) for row in kept] == timeline.frame["at_seconds"]
    assert len(kept) <= 2 * len(COLUMNS) * MOST_ROWS // ROWS_PER_INTERVAL
    assert timeline.thin() is None


def test_many_queues_have_fewer_moments() -> None:
    """A thousand queues at 20,000 moments would be 40 million numbers."""
    history = QueueHistory(["cpu"])
    assert history.most_moments > MOST_ROWS
    history.sample(0, {f"q{i}": {"cpu": 1} for i in range(1000)}, {})
    assert history.most_moments == MOST_QUEUE_SAMPLES // 1000
    history.sample(1, {f"q{i}": {"cpu": 1} for i in range(9000)}, {})
    assert history.most_moments == FEWEST_MOMENTS


def test_a_timeline_of_fewer_rows_keeps_its_peak() -> None:
    timeline = Timeline(*COLUMNS)
    for i in range(3 * FEWEST_MOMENTS):
        timeline.put({"at_seconds": float(i), **dict.fromkeys(COLUMNS, PEAK if i == 1234 else i % 100)})
        timeline.thin(FEWEST_MOMENTS)
        assert len(timeline) <= FEWEST_MOMENTS
    assert timeline.frame["at_seconds"][timeline.frame["idle_gpus"].index(PEAK)] == 1234


def test_a_second_state_of_a_moment_replaces_the_first() -> None:
    timeline = Timeline(*COLUMNS)
    for amount in (1, 2):
        timeline.put({"at_seconds": 5.0, **dict.fromkeys(COLUMNS, amount)})
    assert timeline.frame["idle_gpus"] == [2]


def test_many_cycles_are_added_up_in_few_rows() -> None:
    """Few cycles have a row each."""
    history, number = CycleHistory(), 10 * MOST_CYCLE_ROWS + 3
    for i in range(number):
        history.put(
            float(i), gangs=i % 7, cpu_seconds=0.5, waiting=1, bindings=2, evictions=0, searches=1, steps=i, unknown=0
        )
        if i == 3:
            assert history.frame["plans"] == [1, 1, 1, 1]
    assert len(history.frame["plans"]) <= MOST_CYCLE_ROWS + 1
    assert sum(history.frame["plans"]) == number
    assert sum(history.frame["steps"]) == number * (number - 1) // 2
    assert sum(history.cpu_seconds) == number / 2
    assert max(history.frame["gangs"]) == 6


def test_reasons_of_finished_gangs_are_kept_for_the_longest_waits_only() -> None:
    history = WaitHistory()
    for i in range(100):
        history.note(f"g{i}", 0, i, "NoRoom")
        history.end(f"g{i}", i)
        history.finish(f"g{i}", i)
    assert sorted(history.by_gang) == [f"g{i}" for i in range(100 - LONGEST_WAITS, 100)]

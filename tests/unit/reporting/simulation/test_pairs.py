"""The same gangs in two variants."""

from muster.reporting.simulation.pairs import BIN_EDGES, compare_variants, count_bins
from muster.reporting.simulation.report import GangColumns, ReportVariant


def variant(name: str, **waits: float | None) -> ReportVariant:
    gangs = GangColumns(
        name=list(waits),
        queue=["queue-a" if gang < "c" else "queue-b" for gang in waits],
        class_name=["train"] * len(waits),
        arrived_seconds=[100.0] * len(waits),
        first_wait_seconds=list(waits.values()),
        finished_seconds=[None if wait is None else 200 + wait for wait in waits.values()],
    )
    return ReportVariant(name=name, seed="1", horizon_seconds=1000, gangs=gangs)


def test_one_variant_has_nothing_to_compare_with() -> None:
    assert compare_variants([variant("only", a=1)]) == []


def test_gangs_are_paired_by_name_whatever_their_order() -> None:
    wait, turnaround = compare_variants([variant("old", a=100, b=50, c=7), variant("new", c=7, b=80, a=20)])
    assert (wait.measure, turnaround.measure) == ("wait", "turnaround")
    assert (wait.all.gangs, wait.all.shorter, wait.all.same, wait.all.longer) == (3, 1, 1, 1)
    assert (wait.all.mean, wait.all.p50) == (-50 / 3, 0)
    assert [(pair.gang, pair.difference) for pair in wait.gained] == [("a", -80)]
    assert [(pair.gang, pair.difference) for pair in wait.lost] == [("b", 30)]
    assert [(group.label, group.gangs) for group in wait.by_queue] == [("queue-a", 2), ("queue-b", 1)]
    assert turnaround.all.mean == wait.all.mean


def test_gangs_that_started_in_one_variant_only_are_counted_and_not_paired() -> None:
    """A missing wait is no wait of 0; to pair it would hide that the gang never started."""
    wait, _ = compare_variants([variant("old", a=1, b=None, c=None), variant("new", a=1, b=5, d=4)])
    assert (wait.all.gangs, wait.only_baseline, wait.only_variant, wait.neither) == (1, 0, 2, 1)


def test_every_variant_is_compared_with_the_first() -> None:
    pairs = compare_variants([variant("old", a=9), variant("new", a=5), variant("newer", a=1)])
    assert [(pair.variant, pair.all.mean) for pair in pairs if pair.measure == "wait"] == [("new", -4), ("newer", -8)]


def test_variants_without_a_common_gang_have_empty_differences() -> None:
    wait, _ = compare_variants([variant("old", a=9), variant("new", b=5)])
    assert (wait.all.gangs, wait.all.mean, wait.gained, wait.lost) == (0, None, [], [])


def test_bins_are_the_same_to_both_sides_and_hold_every_difference() -> None:
    bins = count_bins([-1e9, -30, -0.5, 0, 1, 30, 1e9])
    assert len(bins) == 2 * len(BIN_EDGES) + 1
    counted = {(one.above, one.up_to): one.gangs for one in bins if one.gangs}
    week = 7 * 86400
    assert counted == {(None, -week): 1, (-60, -10): 1, (-1, 1): 3, (10, 60): 1, (week, None): 1}

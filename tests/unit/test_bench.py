"""Growth, not seconds: ten times the size may take ten times as long, with room for chance, but no hundred times."""

from collections.abc import Callable, Iterator

import pytest
from bench import queues
from bench.__main__ import rows, shown
from bench.model import BUILD, ROLES, SUBJECTS, VALIDATE, Point, Raw, Subject, growth, measure
from bench.placement import Shape, figure, hopeless, many, nested, running

LIMIT = 30  # for ten times the size: 10 is linear, 13 is n log n, 100 is quadratic
BY_NAME = {subject.name: subject for subject in SUBJECTS}


@pytest.mark.parametrize("subject", [VALIDATE, BUILD, ROLES], ids=lambda subject: subject.name)
def test_the_largest_podgroup_takes_no_more_than_its_share(subject: Subject) -> None:
    """From 1,000 to the 10,000 SubGroups that the CRD admits."""
    assert growth(measure(subject, (1_000, 10_000)))[0] < LIMIT


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_every_figure_grows_with_its_size_only(name: str) -> None:
    """Whatever is measured is linear, depth, older forms and pods among it."""
    assert growth(measure(BY_NAME[name], (100, 1_000), runs=2))[0] < LIMIT


PLACEMENT = {
    "nodes": (lambda: nested(1), lambda: nested(10)),
    "gangs": (lambda: many(90, 4, "rack", 40), lambda: many(900, 4, "rack", 40)),
    "pods": (lambda: many(1, 1_000, "zone"), lambda: many(1, 10_000, "zone")),
    "running pods": (lambda: running(400, 1_400), lambda: running(400, 14_000)),
}


@pytest.mark.parametrize("what", sorted(PLACEMENT))
def test_placement_grows_with_nodes_gangs_and_pods_only(what: str) -> None:
    """Ten times as many take about ten times as long, from objects to the plan."""
    small, large = (figure(Shape(what, objects, "")) for objects in PLACEMENT[what])
    assert (large.taken + large.snapshot) / (small.taken + small.snapshot) < LIMIT


@pytest.mark.parametrize("many", [queues.reclaim, queues.full], ids=["one big job", "many small jobs"])
def test_a_cycle_that_evicts_grows_with_the_cluster_only(many: Callable[[int], Iterator[Raw]]) -> None:
    """Eight times the nodes, pods and victims take about eight times as long."""
    small, large = (queues.figure(queues.Crowd("", lambda n=n: many(n), "")) for n in (20, 160))  # type: ignore[misc]
    assert large.evicted == 8 * small.evicted > 0
    assert large.taken / small.taken < LIMIT


def test_a_proof_and_a_hypothesis_cost_a_few_looks_at_the_nodes() -> None:
    """Ratios to one pass over the same nodes, with room for chance: seen are about 30 and 1."""
    found = figure(Shape("", hopeless, ""))
    assert found.taken / found.reference < 300
    assert found.supposed / found.reference < 20


def test_figures_are_rows_of_a_table() -> None:
    """Size, time, ratio to the reference and growth: what docs/performance.md shows."""
    points = [Point(10, 0.001, 0.0005), Point(100, 0.0103, 0.005)]
    assert list(rows(Subject("something", lambda _: lambda: None), points)) == [
        "| something | 10 | 1 ms | 2.0 |  |",
        "|  | 100 | 10.3 ms | 2.1 | ×10 size → ×10.3 time |",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.0, "2 s"), (0.0123, "12.3 ms"), (0.00005, "50 µs"), (0.0000005, "0.5 µs"), (123.4, "123 s")],
)
def test_times_are_shown_with_their_unit(seconds: float, text: str) -> None:
    """Three digits are as many as mean something."""
    assert shown(seconds) == text

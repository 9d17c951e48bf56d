"""Growth, not seconds: ten times the size may take ten times as long, with room for chance, but no hundred times."""

from collections.abc import Callable, Iterator

import pytest
from bench import busy, queues
from bench.__main__ import rows, shown
from bench.model import BUILD, ROLES, SUBJECTS, VALIDATE, Point, Raw, Subject, growth, measure, seconds
from bench.placement import BenchCase, chain, figure, hopeless, many, nested, running

import muster
from muster.planning.policy import Policy

LITTLE = Policy(steps=300)  # enough to see growth, whatever the engine does with more
COUNTED = ("verdicts", "bound", "nominated", "evicted", "moved", "steps", "most_steps", "idle", "looked")
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
    small, large = (figure(BenchCase(what, objects, "")) for objects in PLACEMENT[what])
    assert (large.taken + large.snapshot) / (small.taken + small.snapshot) < LIMIT


def test_a_chain_of_subgroups_grows_with_its_depth_only() -> None:
    """Eight times the depth takes about eight times as long; 64 times is quadratic."""
    small, large = (seconds(plan_of(chain(depth)), runs=2) for depth in (100, 800))
    assert large / small < LIMIT


def plan_of(raws: Iterator[Raw]) -> Callable[[], object]:
    """From objects to the plan as it is printed."""
    objects = muster.objects(raws)
    return lambda: muster.plan(objects).to_dict()


@pytest.mark.parametrize("many", [queues.reclaim, queues.full], ids=["one big job", "many small jobs"])
def test_a_cycle_that_evicts_grows_with_the_cluster_only(many: Callable[[int], Iterator[Raw]]) -> None:
    """Eight times the nodes, pods and victims take about eight times as long."""
    small, large = (queues.figure(queues.QueueCase("", lambda n=n: many(n), "")) for n in (20, 160))  # type: ignore[misc]
    assert large.evicted == 8 * small.evicted > 0
    assert large.taken / small.taken < LIMIT


def test_a_proof_and_a_hypothesis_cost_a_few_looks_at_the_nodes() -> None:
    """Ratios to one pass over the same nodes, with room for chance: seen are about 30 and 1."""
    measured = figure(BenchCase("", hopeless, ""))
    assert measured.taken / measured.reference < 300
    assert measured.supposed / measured.reference < 20


def test_a_busy_cluster_is_the_same_from_the_same_seed() -> None:
    """Whatever is counted in a run of cycles is counted again; only the seconds differ."""
    first, again = (busy.run(8, 6, seed=3, policy=LITTLE).tally for _ in range(2))
    assert [getattr(first, name) for name in COUNTED] == [getattr(again, name) for name in COUNTED]
    assert first.bound > 0


def test_a_single_plan_on_a_full_cluster_grows_with_the_cluster_only() -> None:
    """Four times the nodes, running pods and waiting gangs, each with its own budget: no sixteen times the steps."""
    small, large = (busy.once(nodes, seed=1, policy=LITTLE) for nodes in (25, 100))
    assert (small.running, large.running, large.waiting) == (125, 500, 25)
    assert large.steps < 16 * max(small.steps, 100)
    assert large.bound > 0


def test_a_busy_run_is_a_row_of_a_table() -> None:
    """As many columns as the heading has."""
    tally = busy.Tally(cycles=[0.1], takes=[0.05], bound=10, evicted=5)
    for heading, line in (
        (busy.RUNS, busy.row(busy.Figure(64, 1, 0.05, 2.0, 2.0, 2.0, 1.0, 0.4, 0.6, 0.0, 0.0, 0.5, tally))),
        (busy.PLANS, busy.plan_row(busy.SinglePlan(100, 500, 25, 276, 38, 75, 32, 0, 0, 100, 0.5, 0.1))),
    ):
        assert len({part.count("|") for part in (*heading.splitlines(), line)}) == 1


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

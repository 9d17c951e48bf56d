"""Names of other namespaces in sentences, and counts of cycles for viewers of some namespaces."""

from datetime import UTC, datetime

import pytest

from muster.planning.decision import Binding, CyclePlan, Eviction
from muster.reporting.dashboard.cycles import LISTED, FinishedPlan, cycle_record, cycle_row
from muster.reporting.dashboard.visibility import ELSEWHERE, NamespaceFilter

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FILTER = NamespaceFilter({"amber"}, {"amber", "birch", "z1"}, {"x", "z1", "z9"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("room for `birch/train`", f"room for `{ELSEWHERE}`"),
        ("behind birch/a.b-c, amber/b", f"behind {ELSEWHERE}, amber/b"),
        ("needs `nvidia.com/gpu`, 3/4 placed", "needs `nvidia.com/gpu`, 3/4 placed"),
        ("best is `z9/r1`", "best is `z9/r1`"),
        ("the domain `x/birch/r1`", "the domain `x/birch/r1`"),
        ("room for `gone/train`", f"room for `{ELSEWHERE}`"),
        ("room for `z1/train`", f"room for `{ELSEWHERE}`"),
    ],
)
def test_a_sentence_names_no_gang_of_another_namespace(text: str, expected: str) -> None:
    assert FILTER.redact(text) == expected


def test_a_cycle_shows_what_it_did_to_the_namespaces_of_a_viewer() -> None:
    """Lists are cut for each namespace, so that a busy one hides nothing; counts are exact."""
    bindings = [Binding("birch", f"p{i:04}", "n", "g", "", "core") for i in range(200)]
    bindings += [Binding("amber", f"p{i:04}", "n", "g", "", "core") for i in range(60)]
    evictions = (Eviction("amber", "old", "n", "g", "", "Preempt", "birch/big"),)
    record = cycle_record(FinishedPlan(7, NOW, 0.1234, CyclePlan(bindings=tuple(bindings), evictions=evictions)))
    whole, own = cycle_row(record), FILTER.cycle(record)
    assert (len(whole.bound), whole.counts["bound"], whole.milliseconds) == (LISTED, 260, 123.4)
    assert (len(own.bound), own.counts["bound"]) == (LISTED, 60)
    assert {act.pod.partition("/")[0] for act in own.bound} == {"amber"}
    assert (whole.evicted[0].preemptor, own.evicted[0].preemptor) == ("birch/big", "")


def test_nominations_are_listed_once() -> None:
    plan = CyclePlan(nominations=(Binding("amber", "p", "n", "g", "", "core"),))
    assert cycle_row(cycle_record(FinishedPlan(1, NOW, 0, plan))).counts["nominated"] == 1
    assert cycle_row(cycle_record(FinishedPlan(2, NOW, 0, plan), {"amber/p"})).counts["nominated"] == 0


def test_evictions_are_listed_by_their_kind() -> None:
    evictions = (
        Eviction("amber", "a", "n", "g", "", "Consolidate", "amber/h", move_to="m"),
        Eviction("amber", "b", "n", "g", "", "Stale", "amber/g"),
        Eviction("amber", "c", "n", "g", "", "Reclaim", "amber/h"),
    )
    row = cycle_row(cycle_record(FinishedPlan(1, NOW, 0, CyclePlan(evictions=evictions), failures=2)))
    assert [(act.pod, act.to) for act in row.moved] == [("amber/a", "m")]
    assert [(act.pod, act.preemptor) for act in row.released] == [("amber/b", "")]
    assert [(act.pod, act.preemptor, act.reason) for act in row.evicted] == [("amber/c", "amber/h", "Reclaim")]
    assert row.failures == 2

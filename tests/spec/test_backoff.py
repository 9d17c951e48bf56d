"""One attempt and no more, until something changes (S4): remembered on the PodGroup alone."""

from datetime import UTC, datetime
from typing import Any

import muster
from muster.api.names import BACKED_OFF
from muster.model.snapshot import take
from muster.planning.cycle import plan
from muster.reporting.annotations import stale_annotations
from muster.reporting.outcome import outcomes
from tests.support.factories import node, pod, podgroup

Raw = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def gpu_node(name: str, gpus: int = 1) -> Raw:
    return node(name, allocatable={"gpu": gpus})


def gang(mark: str = "", generation: int = 1, backoff: int = 1) -> Raw:
    raw = podgroup(minMember=2, schedulingBackoff=backoff)
    raw["metadata"] |= {"generation": generation, "annotations": {BACKED_OFF: mark} if mark else {}}
    return raw


def tried(*objects: Raw) -> tuple[str, str, str | None]:
    """Verdict, reason, and the mark that the attempt leaves, if it changes."""
    snapshot = take(muster.objects([*objects, *(pod(f"p{i}", gpu=1) for i in range(2))]), NOW)
    decided = plan(snapshot)
    outcome = outcomes(snapshot, decided)["team/gang"]
    (gang_plan,) = decided.gangs
    notes = stale_annotations(outcome, snapshot.gangs[0].source, NOW)
    return gang_plan.verdict, gang_plan.refusals[0].reason if gang_plan.refusals else "", notes.get(BACKED_OFF)


def test_after_one_failed_attempt_a_gang_is_not_tried_again() -> None:
    """S4: `schedulingBackoff: 1` stops after one failed attempt."""
    verdict, reason, mark = tried(gpu_node("a"), gang())
    assert (verdict, reason) == ("Infeasible", "NoRoom")
    assert mark
    assert tried(gpu_node("a"), gang(mark)) == ("Waiting", "BackedOff", None)


def test_a_change_of_the_podgroup_or_of_the_capacity_gives_it_another() -> None:
    """S4: until the PodGroup or the cluster's capacity changes."""
    _, _, mark = tried(gpu_node("a"), gang())
    assert mark
    assert tried(gpu_node("a"), gang(mark, generation=2))[:2] == ("Infeasible", "NoRoom")
    verdict, _, cleared = tried(gpu_node("a"), gpu_node("b"), gang(mark))
    assert (verdict, cleared) == ("Scheduled", None)


def test_without_it_every_cycle_is_an_attempt() -> None:
    """S4 is a wish of the PodGroup: others are tried again and again, and nothing is noted."""
    assert tried(gpu_node("a"), gang(backoff=-1)) == ("Infeasible", "NoRoom", None)


def test_a_label_that_changes_what_the_gang_may_do_gives_it_another() -> None:
    """S4: labels are no new generation, but another queue or preemptibility is another question."""
    _, _, mark = tried(gpu_node("a"), gang())
    assert mark
    changed = gang(mark)
    changed["metadata"]["labels"] = {"kai.scheduler/preemptibility": "non-preemptible"}
    assert tried(gpu_node("a"), changed)[:2] == ("Infeasible", "NoRoom")

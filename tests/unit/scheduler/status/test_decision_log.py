"""The log of what was decided: whose, what and why, once."""

from datetime import UTC, datetime
from typing import Any

from structlog.testing import capture_logs

import muster
from muster.model.snapshot import take
from muster.planning.cycle import plan
from muster.planning.decision import CyclePlan, Eviction, Failure
from muster.scheduler.status.decision_log import DecisionLog
from tests.support.factories import Raw, pod, podgroup

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": 4, "pods": 9}}}


def decided(*objects: Raw) -> CyclePlan:
    return plan(take(muster.objects([NODE, *objects]), NOW))


def gang(name: str, minimum: int, pods: int) -> list[Raw]:
    return [podgroup(name=name, minMember=minimum), *(pod(f"{name}-{i}", gang=name, cpu="1") for i in range(pods))]


def lines(decision_log: DecisionLog, *plans: CyclePlan, level: str = "info") -> list[Any]:
    with capture_logs() as captured:
        for one in plans:
            decision_log.write(one)
    return [line for line in captured if line["log_level"] == level]


def test_a_gang_that_is_bound_is_one_line() -> None:
    (line,) = lines(DecisionLog(), decided(*gang("g", 2, 3)))
    assert line == {
        "event": "decided", "log_level": "info", "gang": "team/g", "verdict": "Scheduled", "bind": 3, "nodes": 1,
    }  # fmt: skip


def test_a_gang_that_waits_says_why() -> None:
    (line,) = lines(DecisionLog(), decided(*gang("g", 5, 5)))
    assert (line["gang"], line["verdict"], line["reason"]) == ("team/g", "Infeasible", "NoRoom")
    assert "cpu" in line["why"]


def test_an_unchanged_decision_is_logged_once() -> None:
    """In a dry run every plan decides the same again."""
    waits, bound = decided(*gang("g", 5, 5)), decided(*gang("g", 2, 2))
    logged = lines(DecisionLog(), waits, waits, bound, bound, waits)
    assert [(line["verdict"], line.get("was")) for line in logged] == [
        ("Infeasible", None), ("Scheduled", "Infeasible"), ("Infeasible", "Scheduled"),
    ]  # fmt: skip


def test_a_gang_that_runs_already_is_no_news() -> None:
    """After a restart a thousand of them would hide what is new."""
    runs = [podgroup(name="g", minMember=1), pod("g-0", gang="g", cpu="1", on="a")]
    assert lines(DecisionLog(), decided(*runs)) == []


def test_evictions_name_the_gang_that_they_are_for() -> None:
    """The victim's key is the gang's, whom it makes room for is named."""
    before = decided(podgroup(name="low", minMember=1), pod("low-0", gang="low", on="a"))
    victims = tuple(Eviction("team", f"low-{i}", "a", "low", "", "Preempt", "team/high") for i in range(2))
    made = CyclePlan(evictions=victims, gangs=before.gangs)
    (line,) = lines(DecisionLog(), made)
    assert line == {
        "event": "evict pods", "log_level": "info", "gang": "team/low", "pods": 2, "reason": "Preempt",
        "whom": "team/high",
    }  # fmt: skip
    assert [line["pod"] for line in lines(DecisionLog(), made, level="debug")] == ["low-0", "low-1"]


def test_every_binding_is_logged_at_debug() -> None:
    logged = lines(DecisionLog(), decided(*gang("g", 2, 3)), level="debug")
    assert [(line["gang"], line["pod"], line["node"], line["role"]) for line in logged] == [
        ("team/g", f"g-{i}", "a", "core" if i < 2 else "extra") for i in range(3)
    ]


def test_a_dry_run_says_that_it_is_one() -> None:
    assert all(line["dry_run"] for line in lines(DecisionLog(dry_run=True), decided(*gang("g", 2, 3))))


def test_an_internal_error_is_logged_once_with_its_traceback() -> None:
    """As long as it is the same; the gang is named, and the status has no traceback."""
    first = CyclePlan(failures=(Failure("team/g", "KeyError", "'x'", "Traceback …"),))
    other = CyclePlan(failures=(Failure("team/g", "ValueError", "y", "Traceback …"),))
    logged = lines(DecisionLog(), first, first, other, CyclePlan(), first, level="error")
    assert [(line["gang"], line["error"]) for line in logged] == [
        ("team/g", "KeyError"), ("team/g", "ValueError"), ("team/g", "KeyError"),
    ]  # fmt: skip
    assert all(line["traceback"] for line in logged)

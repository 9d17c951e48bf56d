"""Nothing that one gang brings ends a cycle: a failure is its verdict; a plan that is given up ends soon (X7)."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import muster
from muster.model.snapshot import Snapshot, take
from muster.placement.budget import Budget, Cancelled
from muster.placement.requirements.tree import subtree
from muster.placement.requirements.types import Requirement
from muster.placement.search import flat, preferences
from muster.planning import cycle_state as cycle_states
from muster.planning import stale, staleness
from muster.planning.cycle import plan
from muster.planning.cycle_state import CycleState
from muster.planning.decision import Binding, CyclePlan
from muster.planning.policy import Policy
from muster.planning.refusal import InternalError
from muster.reporting import plans
from muster.reporting.explain import sentence
from tests.oracles.checker import broken
from tests.support.factories import Raw, group, node, pod, podgroup, queue

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def gang(name: str, number: int = 2, cpu: int = 1, **spec: Any) -> list[Raw]:
    """A gang with one leaf that is called like it."""
    members = [pod(f"{name}-{i}", name, gang=name, cpu=str(cpu)) for i in range(number)]
    return [podgroup(group(name, number), name=name, **spec), *members]


def running(name: str, on: str, number: int = 2, cpu: int = 1, **spec: Any) -> list[Raw]:
    members = [pod(f"{name}-{i}", name, gang=name, on=on, cpu=str(cpu)) for i in range(number)]
    return [podgroup(group(name, number), name=name, **spec), *members]


def snapshot(*objects: list[Raw]) -> Snapshot:
    return take(muster.objects([raw for some in objects for raw in some]), NOW)


def fails_for(name: str, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every search for a goal with a group of that name; flat gangs are searched for like others."""
    monkeypatch.setattr(flat, "applies", lambda *_, **__: False)
    for way in ("find", "find_with_growth"):
        monkeypatch.setattr(cycle_states, way, partial(_failing, getattr(preferences, way), name, error))


def _failing(
    search: Callable[..., Any], name: str, error: BaseException, searched: Any, requirement: Requirement
) -> Any:
    if any(one.name == name for one in subtree(requirement)):
        raise error
    return search(searched, requirement)


def promises(objects: list[Raw], planned: CyclePlan, but: str) -> list[str]:
    """What the judge says, but for the gang that failed."""
    return [problem for problem in broken(objects, plans.data(planned), NOW) if not problem.startswith(f"team/{but}:")]


@pytest.mark.parametrize("error", [RecursionError("too deep"), KeyError("lost"), AssertionError()])
def test_a_failure_in_the_search_for_one_gang_is_its_verdict_and_no_other(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are bound as if it were not there, and the whole keeps its promises."""
    objects = [node("a", cpu=4), *gang("before"), *gang("broken"), *gang("later")]
    without = plan(snapshot([raw for raw in objects if "broken" not in raw["metadata"]["name"]]))
    fails_for("broken", error, monkeypatch)
    planned = plan(snapshot(objects))
    assert planned.bindings == without.bindings
    assert planned.verdict("team/broken") == "Unknown"
    (refusal,) = planned.gang("team/broken").refusals
    assert isinstance(refusal, InternalError)
    assert refusal.error == type(error).__name__
    assert type(error).__name__ in sentence(refusal)
    assert "Traceback" not in str(plans.data(planned))
    assert promises(objects, planned, but="broken") == []


def test_a_failure_comes_with_the_plan_for_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_for("broken", RecursionError("too deep"), monkeypatch)
    (failure,) = plan(snapshot([node("a")], gang("broken"))).failures
    assert (failure.gang, failure.error, failure.message) == ("team/broken", "RecursionError", "too deep")
    assert failure.traceback.startswith("Traceback")
    assert "find" in failure.traceback


def test_no_memory_is_not_a_failure_of_one_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that goes on without memory fails somewhere else, half done."""
    fails_for("broken", MemoryError(), monkeypatch)
    with pytest.raises(MemoryError):
        plan(snapshot([node("a")], gang("broken")))


def test_a_gang_that_has_its_core_keeps_it_when_its_extras_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """G3: an extra is worth less than what is there."""
    grown = [podgroup(group("broken", 1), name="broken"), *gang("broken", 2)[1:]]
    grown[1]["spec"]["nodeName"] = "a"
    fails_for("broken", KeyError("lost"), monkeypatch)
    planned = plan(snapshot([node("a", cpu=4)], grown))
    assert planned.verdict("team/broken") == "Scheduled"
    assert [one.reason for one in planned.gang("team/broken").refusals] == ["InternalError"]


def busy(cpu: int = 4) -> list[Raw]:
    """A full node: `high` waits for the pods of `low`, and `small` for one free core."""
    low = running("low", "a", 3, priorityClassName="low", preemptibility="preemptible")
    high = gang("high", 3, priorityClassName="high")
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 10), ("high", 90))
    ]
    return [node("a", cpu=cpu), *classes, *low, *high, *gang("small", 1)]


def test_a_failure_between_two_writes_leaves_nothing_half_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Victims were written already when it fails: they stay, and their room is not given to others."""
    assert len(plan(snapshot(busy())).evictions) == 3, "else this tests nothing"
    nominate = CycleState.nominate

    def fails(cycle_state: CycleState, gang_state: Any, seats: Any) -> Any:
        if gang_state.gang.name == "high":
            raise KeyError("lost")
        return nominate(cycle_state, gang_state, seats)

    monkeypatch.setattr(CycleState, "nominate", fails)
    planned = plan(snapshot(busy()))
    assert planned.evictions == ()
    assert planned.nominations == ()
    assert [one.pod for one in planned.bindings] == ["small-0"]
    assert (planned.verdict("team/low"), planned.verdict("team/high")) == ("Scheduled", "Unknown")
    assert promises(busy(), planned, but="high") == []


def test_what_queues_hold_is_as_before_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q4: else the next gang would get what was never given back, or pass a limit."""
    limited = [queue("default", cpu={"limit": 4_000, "quota": 4_000})]
    assert len(plan(snapshot(busy(8), limited)).evictions) == 3, "else this tests nothing"

    def fails(_cycle_state: CycleState, _gang_state: Any, _assignment: Any) -> Any:
        raise KeyError("lost")

    monkeypatch.setattr(CycleState, "nominate", fails)
    planned = plan(snapshot(busy(8), limited))
    assert [one.pod for one in planned.bindings] == ["small-0"]
    assert promises([*busy(8), *limited], planned, but="high") == []


def test_a_place_that_is_kept_for_a_gang_stays_kept_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """P7: it was freed for it."""
    kept = gang("kept", 1, cpu=2, priorityClassName="high")
    kept[1]["status"] = {"nominatedNodeName": "a"}
    gone = [
        podgroup(group("gone", 1), name="gone"),
        pod("gone", "gone", gang="gone", on="a", terminating=True, cpu="1"),
    ]
    scene = [[node("a", cpu=2)], busy()[1:3], gone, kept, gang("other", 1)]
    assert [one.pod for one in plan(snapshot(*scene)).nominations] == ["kept-0"]
    fails_for("kept", KeyError("lost"), monkeypatch)
    assert plan(snapshot(*scene)).bindings == ()


def test_a_failure_while_stale_gangs_are_released_is_one_gangs(monkeypatch: pytest.MonkeyPatch) -> None:
    since = {"kai.scheduler/stale-podgroup-timestamp": "2026-05-01T11:00:00Z"}
    gangs = []
    for name in ("one", "two"):
        stale_gang = running(name, "a", 1)
        stale_gang[0]["spec"]["subGroups"][0]["minMember"] = 2
        stale_gang[0]["metadata"]["annotations"] = since
        gangs.append(stale_gang)
    grace_period = staleness.grace_period

    def fails(given: Any) -> Any:
        if given.name == "one":
            raise KeyError("lost")
        return grace_period(given)

    monkeypatch.setattr(stale, "grace_period", fails)
    planned = plan(snapshot([node("a")], *gangs))
    assert [one.key for one in planned.evictions] == ["team/two-0"]
    assert [one.gang for one in planned.failures] == ["team/one"]


# giving up ------------------------------------------------------------------------------------------------------------


def endless(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Every search for such a goal does nothing but spend."""

    def find(searched: Any, requirement: Requirement) -> Any:
        while any(one.name == name for one in subtree(requirement)):
            searched.budget.spend()
        return preferences.find_with_growth(searched, requirement)

    monkeypatch.setattr(flat, "applies", lambda *_, **__: False)  # flat gangs are searched for like others
    monkeypatch.setattr(cycle_states, "find_with_growth", find)


def after(calls: int) -> Callable[[], bool]:
    """Cancelled at the n-th check."""
    left = iter(range(calls))
    return lambda: next(left, None) is None


def test_a_plan_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within as many steps as lie between two looks; what was granted before stands."""
    endless(monkeypatch, "endless")
    bound: list[Binding] = []
    first, second = gang("aaa", 1), gang("endless")
    second[0]["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"  # those without an age are older
    patient = Policy(steps=10**15, cycle_steps=10**15)
    with pytest.raises(Cancelled):
        plan(snapshot([node("a")], first, second), patient, bound.extend, after(50))
    assert [one.pod for one in bound] == ["aaa-0"]


def test_gangs_that_cost_no_step_are_looked_at_one_by_one() -> None:
    """Ten thousand cheap turns are a long time, too."""
    many = [raw for i in range(50) for raw in gang(f"g{i}", 1, cpu=100)]
    with pytest.raises(Cancelled):
        plan(snapshot([node("a")], many), None, None, after(20))


def test_the_look_is_not_put_off_by_parts_of_budgets() -> None:
    budget = Budget(10**9, is_cancelled=lambda: True)
    for _ in range(Budget.CHECK - 1):
        budget.part(10).spend()
    with pytest.raises(Cancelled):
        budget.part(10).spend()

"""Elastic gangs with very many extras: what a turn costs does not grow with the gang (G3, G4, X7)."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import muster
from muster.model.gang import state as gang_states
from muster.planning.allocation.scheduling_queue import SchedulingQueue
from muster.planning.cycle_state import CycleState
from muster.planning.policy import Policy
from tests.support.factories import Raw, group, node, pod, podgroup


def elastic(name: str, pods: int, **spec: Any) -> list[Raw]:
    """A gang of one leaf that needs two pods."""
    return [podgroup(name=name, minMember=2, **spec), *(pod(f"{name}-{i:04}", gang=name, cpu=1) for i in range(pods))]


def test_extras_of_one_leaf_are_bound_without_a_walk_over_the_gang_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four gangs take 300 turns each: they share what is free by turns, and each gang is looked at a few times only."""
    walks: Counter[str] = Counter()
    ask = CycleState.requirements

    def counting(self: CycleState, gang: Any) -> Any:
        walks[gang.key] += 1
        return ask(self, gang)

    monkeypatch.setattr(CycleState, "requirements", counting)
    nodes = [node(f"n{i:03}", cpu=10) for i in range(90)]  # three of four pods
    gangs = [one for name in "abcd" for one in elastic(name, 300)]
    plan = muster.plan(muster.objects([*nodes, *gangs]))
    bound = Counter(binding.pod_group for binding in plan.bindings)
    assert bound == dict.fromkeys("abcd", 225)
    assert max(walks.values()) < 10


def test_a_turn_of_a_nested_gang_looks_at_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """G4: beside the groups that a grant changed, no standing is worked out again; no queue is looked up again."""
    counts: Counter[str] = Counter()

    def counted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*rest: Any) -> Any:
            counts[name] += 1
            return work(*rest)

        return counting

    monkeypatch.setattr(gang_states, "leaf_standing", counted("leaves", gang_states.leaf_standing))
    monkeypatch.setattr(SchedulingQueue, "_place", counted("places", SchedulingQueue._place))
    replicas = [group(f"r{i:03}", 1) for i in range(100)]
    members = [pod(f"p{i:03}", f"r{i:03}", cpu=1) for i in range(100)]
    objects = [*(node(f"n{i}", cpu=10) for i in range(10)), podgroup(*replicas, minSubGroup=1), *members]
    plan = muster.plan(muster.objects(objects))
    assert len(plan.bindings) == 100
    assert counts["leaves"] < 5 * 100
    assert counts["places"] < 5 * 100


def test_extras_whose_turns_walk_over_the_gang_are_paid_for_in_steps() -> None:
    """X7: a gang of many replicas grows as far as its steps go, keeps what it has, and holds up no other gang."""
    replicas = [group(f"r{i:03}", 2) for i in range(200)]
    members = [pod(f"r{i:03}-{j}", f"r{i:03}", cpu=1) for i in range(200) for j in range(2)]
    nodes = [node(f"n{i:03}", cpu=10) for i in range(60)]
    objects = [*nodes, podgroup(*replicas, minSubGroup=1), *members, *elastic("small", 20)]
    plan = muster.plan(muster.objects(objects), Policy(steps=10_000))
    assert (plan.verdict("team/gang"), plan.verdict("team/small")) == ("Scheduled", "Scheduled")
    bound = Counter(binding.pod_group for binding in plan.bindings)
    assert bound["small"] == 20
    assert 20 < bound["gang"] < 400
    assert max(plan.decided.searches) <= 10_000
    reasons = {reason.reason for reason in plan.decided.gang("team/gang").refusals}
    assert "SearchCutShort" in reasons


@pytest.mark.parametrize("kind", ["preemptible", "semi-preemptible", "non-preemptible"])
def test_extras_of_every_kind_of_gang_are_plain(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P3: extras behind the core leave it as it is, so nothing of it has to be worked out for each of them."""
    calls: Counter[str] = Counter()
    protected_increase = CycleState.protected_increase

    def counting(self: CycleState, before: Any, *rest: Any) -> Any:
        calls[before.key] += 1
        return protected_increase(self, before, *rest)

    monkeypatch.setattr(CycleState, "protected_increase", counting)
    nodes = [node(f"n{i:03}", cpu=10) for i in range(10)]
    plan = muster.plan(muster.objects([*nodes, *elastic("a", 90, preemptibility=kind)]))
    assert len(plan.bindings) == 90
    assert calls["team/a"] < 5

"""Bounded work (X7): one gang's budget, the cycle's budget, and the gangs behind."""

from typing import Any

import muster
from tests.support.drawing import GPU, draw
from tests.support.factories import Raw, group, pod, podgroup

IN_A_RACK: Raw = {"topologyConstraint": {"requiredTopologyLevel": "rack"}}


def cluster(racks: int) -> list[Raw]:
    """One node of eight GPUs a rack."""
    return draw("\n".join(f"r{i} n{i}:8" for i in range(racks)))


def gang(name: str, groups: int, pods: int) -> list[Raw]:
    """Groups of several pods, each group in one rack."""
    leaves = [group(f"g{i}", pods, **IN_A_RACK) for i in range(groups)]
    requests: Any = {GPU: 1}
    members = [pod(f"{name}-{i}-{j}", f"g{i}", gang=name, **requests) for i in range(groups) for j in range(pods)]
    return [podgroup(*leaves, name=name), *members]


def test_a_gang_without_budget_is_unknown_and_the_others_are_placed() -> None:
    """X7: a gang that has no budget left holds up no other."""
    objects = muster.objects([*cluster(12), *gang("a-hard", 10, 3), *gang("b-easy", 1, 2)])
    plan = muster.plan(objects, muster.Policy(steps=100))
    assert (plan.verdict("team/a-hard"), plan.verdict("team/b-easy")) == ("Unknown", "Scheduled")


def test_the_steps_of_a_cycle_run_out_for_hard_gangs_first() -> None:
    """X7: an easy gang behind hard ones is placed in the same cycle, however many hard ones there are."""
    hard = [raw for number in range(10) for raw in gang(f"a-hard-{number}", 80, 1)]
    objects = muster.objects([*cluster(110), *hard, *gang("b-easy", 1, 2)])
    plan = muster.plan(objects, muster.Policy(steps=10_000, cycle_steps=10_000))
    assert plan.verdict("team/b-easy") == "Scheduled"
    assert plan.verdict("team/a-hard-9") == "Unknown"
    assert sum(plan.decided.searches) < 10_000 * 2
    assert muster.plan(objects).verdict("team/a-hard-9") == "Scheduled"

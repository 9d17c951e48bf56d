"""Bounded work (X7): one gang's budget, the cycle's budget, and the gangs behind."""

import muster
from tests.spec.test_placement import IN_A_RACK, TOPOLOGY, node, pod, podgroup
from tests.support.factories import Raw


def named(raw: Raw, name: str, gang: str) -> Raw:
    raw["metadata"]["name"] = name
    if raw["kind"] == "Pod":
        raw["metadata"]["annotations"]["pod-group-name"] = gang
    return raw


def gang(name: str, groups: int, pods: int) -> list[Raw]:
    """Groups of several pods, each group in one rack."""
    leaves = [{"name": f"g{i}", "minMember": pods, "topologyConstraint": IN_A_RACK} for i in range(groups)]
    members = [named(pod("", leaf=f"g{i}"), f"{name}-{i}-{j}", name) for i in range(groups) for j in range(pods)]
    return [named(podgroup(subGroups=leaves), name, name), *members]


def test_a_gang_without_budget_is_unknown_and_the_others_are_placed() -> None:
    """X7: whoever has no budget left holds up nobody."""
    nodes = [node(f"n{i}", 8, f"r{i}") for i in range(12)]
    objects = muster.objects([TOPOLOGY, *nodes, *gang("a-hard", 10, 3), *gang("b-easy", 1, 2)])
    plan = muster.plan(objects, muster.Policy(steps=100))
    assert (plan.verdict("d/a-hard"), plan.verdict("d/b-easy")) == ("Unknown", "Scheduled")


def test_the_steps_of_a_cycle_run_out_for_hard_gangs_first() -> None:
    """X7: an easy gang behind hard ones is placed in the same cycle, however many hard ones there are."""
    nodes = [node(f"n{i}", 8, f"r{i}") for i in range(110)]
    hard = [one for number in range(10) for one in gang(f"a-hard-{number}", 80, 1)]
    objects = muster.objects([TOPOLOGY, *nodes, *hard, *gang("b-easy", 1, 2)])
    plan = muster.plan(objects, muster.Policy(steps=10_000, cycle_steps=10_000))
    assert plan.verdict("d/b-easy") == "Scheduled"
    assert plan.verdict("d/a-hard-9") == "Unknown"
    assert sum(plan.decided.searches) < 10_000 * 2
    assert muster.plan(objects).verdict("d/a-hard-9") == "Scheduled"

"""G1-G4: a gang starts whole, a SubGroup comes whole, extras follow, and gangs come in order; drawn."""

from typing import Any

import muster
from tests.support.drawing import GPU, bindings, draw, placement, roles, running, waiting
from tests.support.factories import Raw, group, pod, podgroup, priority_class


def test_no_pod_is_bound_unless_the_whole_gang_is_satisfied() -> None:
    """G1: three of four pods fit; with one more GPU all four are bound."""
    gang = roles(leader=1, workers=3)
    assert placement(draw("r1 a:3"), gang) == {}
    assert placement(draw("r1 a:4"), gang) == {"leader": "r1", "workers": "r1"}


def test_pods_that_run_count_for_the_gang_that_is_completed() -> None:
    """G1: what is placed and what is bound now satisfy the root together."""
    gang = [podgroup(minMember=3), *running("a", 2), *waiting(**{"": 1})]
    assert bindings(draw("r1 a:3"), gang) == {"pod-0": "a"}


def test_no_pod_of_a_subgroup_is_bound_unless_the_subgroup_is_satisfied() -> None:
    """G2: one replica of two pods is enough; the GPU that is left is too little for the second one."""
    gang = roles(at_least=1, first=2, second=2)
    assert placement(draw("r1 a:3"), gang) == {"first": "r1"}
    assert placement(draw("r1 a:4"), gang) == {"first": "r1", "second": "r1"}


def test_further_subgroups_come_before_further_pods_of_a_leaf() -> None:
    """G3: of three GPUs the core takes one; the second replica takes both of the others, not an extra of the first."""
    gang = [podgroup(group("first", 1), group("second", 2), minSubGroup=1), *waiting(first=2, second=2)]
    assert sorted(bindings(draw("r1 a:3"), gang)) == ["first-0", "second-0", "second-1"]


def test_extras_go_to_the_emptiest_leaf_first() -> None:
    """G3: one of one is fuller than two of four; the two extras that fit go to the leaf of two."""
    gang = [podgroup(group("one", 1), group("two", 2)), *waiting(one=3, two=4)]
    assert sorted(bindings(draw("r1 a:5"), gang)) == ["one-0", "one-1", "two-0", "two-1", "two-2"]


def test_an_extra_that_cannot_be_placed_blocks_no_other() -> None:
    """G3: the first extra asks for more than any node has; the second one fits."""
    requests: Any = {GPU: 9}
    extras = [pod("pod-1", **requests), *waiting(**{"": 3})[2:]]
    assert sorted(bindings(draw("r1 a:2"), podgroup(minMember=1), waiting(**{"": 1}), extras)) == ["pod-0", "pod-2"]


def named(name: str, number: int, minimum: int, priority: str = "", created: str = "") -> list[Raw]:
    """A gang of so many pods of one GPU."""
    requests: Any = {GPU: 1}
    made = podgroup(name=name, minMember=minimum, **({"priorityClassName": priority} if priority else {}))
    made["metadata"]["creationTimestamp"] = created or "2026-01-01T00:00:00Z"
    return [made, *(pod(f"{name}-{i}", gang=name, **requests) for i in range(number))]


def test_gangs_of_one_queue_come_by_priority_then_minimum_then_age() -> None:
    """G4: each rule decides where those before it are equal."""
    cluster = [*draw("r1 a:2"), priority_class("high", 80), priority_class("low", 10)]
    young = "2026-01-02T00:00:00Z"
    assert set(bindings(cluster, named("a", 2, 2, "low"), named("b", 2, 2, "high", young))) == {"b-0", "b-1"}
    assert set(bindings(cluster, named("a", 2, 1, "low"), named("b", 1, 1, "low", young))) == {"a-0", "b-0"}
    assert set(bindings(cluster, named("a", 2, 2, "low", young), named("b", 2, 2, "low"))) == {"b-0", "b-1"}


def test_gangs_with_extras_take_turns() -> None:
    """G4: after each grant a gang goes back into the order, so both have one extra, and not one of them two."""
    bound = bindings(draw("r1 a:4"), named("a", 3, 1), named("b", 3, 1))
    assert set(bound) == {"a-0", "a-1", "b-0", "b-1"}


def test_a_gang_that_does_not_fit_blocks_none_that_does() -> None:
    """G4, X7: the large gang comes first and waits; the small one behind it is bound."""
    objects = [*draw("r1 a:2"), *named("a", 3, 3), *named("b", 2, 2, created="2026-01-02T00:00:00Z")]
    assert set(bindings(objects)) == {"b-0", "b-1"}
    assert muster.plan(muster.objects(objects)).verdict("team/a") == "Infeasible"

"""M: how much is enough, and who is preferred."""

from typing import Any

import pytest

from muster.model.gang.state import count_missing, has_enough_pods, is_satisfied, standings
from tests.spec.scene import candidates, core_of, wanted
from tests.support.factories import Raw, gang, group, pod, podgroup, pods


def placed(**leaves: int) -> list[Raw]:
    """So many placed pods of each leaf."""
    return [one for leaf, number in leaves.items() for one in pods(number, leaf, on="n")]


def pending(**leaves: int) -> list[Raw]:
    """So many further pods of each leaf that could be placed."""
    return [one for leaf, number in leaves.items() for one in pods(number, leaf, first=100)]


def holds(manifest: Raw, **leaves: int) -> bool:
    """Whether so many placed pods of each leaf satisfy the gang."""
    return is_satisfied(gang(manifest, placed(**leaves)).root)


# M1 -----------------------------------------------------------------------------------------------------------------


def test_a_leaf_needs_as_many_pods_as_it_says() -> None:
    """One short is not enough, one more does no harm (M1)."""
    manifest = podgroup(group("a", 3))
    assert [holds(manifest, a=number) for number in (2, 3, 4)] == [False, True, True]


def test_a_branch_that_states_no_minimum_needs_all_its_children() -> None:
    """Unset means what it meant before the field existed (M1)."""
    manifest = podgroup(group("a", 1), group("b", 1), group("c", 1))
    assert not holds(manifest, a=1, b=1)
    assert holds(manifest, a=1, b=1, c=1)


def test_a_subgroup_that_states_no_minimum_needs_all_its_children() -> None:
    """Unset means all at every level, whatever the level above needs (M1)."""
    manifest = podgroup(group("x"), group("a", 1, parent="x"), group("b", 1, parent="x"), group("y", 1), minSubGroup=1)
    assert not holds(manifest, a=9)
    assert holds(manifest, a=1, b=1)


def test_a_branch_counts_its_direct_children_only() -> None:
    """Three satisfied grandchildren below one child are one child (M1)."""
    inner = [group(name, 1, parent="x") for name in ("a", "b", "c")]
    manifest = podgroup(group("x"), *inner, group("y", 1), minSubGroup=2)
    assert not holds(manifest, a=1, b=1, c=1)
    assert holds(manifest, a=1, b=1, c=1, y=1)


def test_a_stored_leaf_without_a_minimum_counts_as_one() -> None:
    """What is already stored keeps working (M1, V2)."""
    manifest = podgroup(group("a"), group("b"))
    assert not holds(manifest, a=2)
    assert holds(manifest, a=1, b=1)


# M2 -----------------------------------------------------------------------------------------------------------------


def test_pods_of_a_child_below_its_minimum_do_not_help_its_parent() -> None:
    """Seven of eight pods make no replica: a branch counts satisfied children, not pods (M2)."""
    manifest = podgroup(group("a", 8), group("b", 8), minSubGroup=1)
    assert not holds(manifest, a=7, b=7)
    assert holds(manifest, a=8)


def test_surplus_pods_of_one_leaf_do_not_help_another() -> None:
    """Every leaf states its own minimum (M2)."""
    manifest = podgroup(group("leader", 1), group("workers", 4))
    assert not holds(manifest, workers=50)
    assert holds(manifest, leader=1, workers=4)


def test_pods_that_only_exist_satisfy_nothing() -> None:
    """Satisfied is about what is placed (M2)."""
    manifest = podgroup(group("a", 1))
    waiting = gang(manifest, pods(5, "a"))
    assert not is_satisfied(waiting.root)
    assert has_enough_pods(waiting.root)


DEEP = podgroup(
    group("zone"),
    group("pool", parent="zone", of=2),
    *(part for i in range(3) for part in (group(f"r{i}", parent="pool"), group(f"w{i}", 2, parent=f"r{i}"))),
    group("gate", 1, parent="zone"),
)


def test_every_level_states_its_own_minimum_at_any_depth() -> None:
    """All of the zone, two of three replicas of the pool, two pods of each replica (M2)."""
    assert holds(DEEP, gate=1, w0=2, w1=2)
    assert holds(DEEP, gate=1, w1=2, w2=2)
    assert not holds(DEEP, gate=1, w0=2, w1=1, w2=1)
    assert not holds(DEEP, w0=2, w1=2, w2=2)


def test_each_level_tells_whether_it_is_satisfied() -> None:
    """A level that holds stays visible below one that does not (M2)."""
    now = standings(gang(DEEP, placed(w0=2, w2=2)).root)
    held = {name for name, standing in now.items() if standing.satisfied}
    assert held == {"pool", "r0", "w0", "r2", "w2"}


def test_missing_is_the_fewest_pods_that_would_do() -> None:
    """The cheapest children are the ones still to be filled, at every level (M2)."""
    manifest = podgroup(group("a", 8), group("b", 8), group("c", 8), minSubGroup=2)
    assert count_missing(gang(manifest, placed(a=1, b=6, c=7)).root) == 3
    assert count_missing(gang(DEEP, placed(gate=1, w1=1)).root) == 3


# M3 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [("a", "b"), ("a", "c"), ("b", "c")])
def test_any_two_of_three_children_satisfy_a_branch_that_needs_two(there: tuple[str, ...]) -> None:
    """Any k children will do, not the first k (M3)."""
    manifest = podgroup(group("a", 2), group("b", 2), group("c", 2), minSubGroup=2)
    assert holds(manifest, **dict.fromkeys(there, 2))
    assert has_enough_pods(gang(manifest, pending(**dict.fromkeys(there, 2))).root)


@pytest.mark.parametrize("there", [("p0", "p1"), ("p0", "p2"), ("p1", "p2")])
def test_any_two_of_three_nested_children_satisfy_their_branch(there: tuple[str, ...]) -> None:
    """The same below the top (M3)."""
    replicas = [group(f"p{i}", 2, parent="prefill") for i in range(3)]
    manifest = podgroup(group("prefill", of=2), *replicas, group("router", 1))
    assert holds(manifest, router=1, **dict.fromkeys(there, 2))


def test_the_partly_placed_child_with_the_fewest_pods_missing_comes_first() -> None:
    """What is nearly there is completed before what has hardly begun (M3)."""
    manifest = podgroup(group("a", 4), group("b", 4), group("c", 4), minSubGroup=1)
    assert wanted(gang(manifest, placed(a=1, b=3, c=2) + pending(a=9, b=9, c=9))) == {"b": 1}


def test_equal_children_come_in_spec_order() -> None:
    """Of children with the same number missing the one that was written first goes first (M3)."""
    manifest = podgroup(group("zeta", 4), group("alpha", 4), group("mid", 4), minSubGroup=2)
    assert wanted(gang(manifest, pending(zeta=4, alpha=4, mid=4))) == {"zeta": 4, "alpha": 4}
    assert wanted(gang(manifest, placed(zeta=1, alpha=1, mid=1) + pending(zeta=4, alpha=4, mid=4))) == {
        "zeta": 3,
        "alpha": 3,
    }


def test_a_partly_placed_child_comes_before_an_empty_one_that_is_smaller() -> None:
    """Partly placed goes first: pods that run are not left alone for the sake of a smaller replica (M3)."""
    manifest = podgroup(group("small", 2), group("large", 8), minSubGroup=1)
    assert wanted(gang(manifest, placed(large=4) + pending(small=2, large=4))) == {"large": 4}


def test_empty_children_of_different_size_come_in_spec_order() -> None:
    """Nothing is placed, so no child is partly placed: only spec order is left to decide (M3)."""
    manifest = podgroup(group("large", 8), group("small", 2), minSubGroup=1)
    assert wanted(gang(manifest, pending(large=8, small=2))) == {"large": 8}


def test_a_child_that_lacks_pods_never_blocks_one_that_has_them() -> None:
    """The first replica has one pod of eight; the second is complete and goes ahead (M3)."""
    manifest = podgroup(group("a", 8), group("b", 8), minSubGroup=1)
    some = gang(manifest, pending(a=1, b=8))
    assert has_enough_pods(some.root)
    assert wanted(some) == {"b": 8}


def test_a_partly_placed_child_that_lacks_pods_never_blocks_one_that_has_them() -> None:
    """Nearly there is not enough when the last pod does not exist (M3)."""
    manifest = podgroup(group("a", 8), group("b", 8), minSubGroup=1)
    some = gang(manifest, placed(a=7) + pending(b=8))
    assert has_enough_pods(some.root)
    assert wanted(some) == {"b": 8}


def test_a_child_whose_pods_are_gated_never_blocks_one_whose_pods_are_free() -> None:
    """Pods that cannot be placed yet are pods that are lacking (M3, N5)."""
    manifest = podgroup(group("a", 2), group("b", 2), minSubGroup=1)
    some = gang(manifest, pods(2, "a", gated=True) + pending(b=2))
    assert has_enough_pods(some.root)
    assert wanted(some) == {"b": 2}


def test_a_branch_that_lacks_pods_never_blocks_a_branch_that_has_them() -> None:
    """The choice among children is made at every level (M3)."""
    manifest = podgroup(
        *(
            part
            for i in range(2)
            for part in (
                group(f"r{i}"),
                group(f"leader{i}", 1, parent=f"r{i}"),
                group(f"workers{i}", 3, parent=f"r{i}"),
            )
        ),
        minSubGroup=1,
    )
    some = gang(manifest, pending(leader0=1, workers0=2, leader1=1, workers1=3))
    assert has_enough_pods(some.root)
    assert wanted(some) == {"leader1": 1, "workers1": 3}


def test_satisfied_children_count_before_any_other_is_asked_for() -> None:
    """Of two needed one is there: only one more is wanted, and it may come from anywhere (M3)."""
    manifest = podgroup(group("a", 2), group("b", 2), group("c", 2), minSubGroup=2)
    assert wanted(gang(manifest, placed(c=2) + pending(a=2, b=2))) == {"a": 2}


def test_nothing_is_wanted_where_nothing_is_missing() -> None:
    """Further children are extras, not part of what is needed (M3)."""
    manifest = podgroup(group("a", 2), group("b", 2), minSubGroup=1)
    assert wanted(gang(manifest, placed(b=2) + pending(a=2))) == {}


# M4 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [(0, 1), (0, 2), (1, 2)])
def test_any_two_of_three_pods_satisfy_a_leaf_that_needs_two(there: tuple[int, ...]) -> None:
    """Any pods will do, not the first ones (M4)."""
    some = [pod(f"p{i}", "a", on="n" if i in there else "") for i in range(3)]
    assert is_satisfied(gang(podgroup(group("a", 2)), some).root)


def pending_in(order: list[dict[str, Any]]) -> list[str]:
    """The order in which pods that wait would be placed; they are given in reverse."""
    some = [pod(**{"leaf": "a", **keywords}) for keywords in reversed(order)]
    return candidates(gang(podgroup(group("a", len(order))), some), "a")


def test_pods_of_higher_task_priority_come_first() -> None:
    """As numbers, not as text: 10 goes before 9, and what says nothing before what is below zero (M4)."""
    order: list[dict[str, Any]] = [
        {"name": "d", "priority": 100},
        {"name": "c", "priority": 10},
        {"name": "b", "priority": 9},
        {"name": "a"},
        {"name": "0", "priority": -5},
    ]
    assert pending_in(order) == ["d", "c", "b", "a", "0"]


def test_of_equal_task_priority_the_older_pod_comes_first() -> None:
    """Age goes before name (M4)."""
    order = [
        {"name": "z", "created": "2026-01-01T00:00:00Z"},
        {"name": "y", "created": "2026-01-01T00:00:01Z"},
        {"name": "a", "created": "2026-02-01T00:00:00Z"},
    ]
    assert pending_in(order) == ["z", "y", "a"]


def test_task_priority_goes_before_age() -> None:
    """A younger pod that matters more is placed first (M4)."""
    order: list[dict[str, Any]] = [
        {"name": "young", "created": "2026-02-01T00:00:00Z", "priority": 1},
        {"name": "old", "created": "2026-01-01T00:00:00Z"},
    ]
    assert pending_in(order) == ["young", "old"]


def test_of_equal_age_the_name_decides() -> None:
    """So that the same input gives the same answer (M4)."""
    same = "2026-01-01T00:00:00Z"
    assert pending_in([{"name": name, "created": same} for name in ("a", "b", "c")]) == ["a", "b", "c"]


def test_only_as_many_pods_are_candidates_as_are_missing() -> None:
    """The minimum is filled by the preferred pods; the rest are extras (M4)."""
    some = [pod("p0", "a", on="n"), pod("low", "a"), pod("high", "a", priority=3)]
    assert candidates(gang(podgroup(group("a", 2)), some), "a") == ["high"]


# M5 -----------------------------------------------------------------------------------------------------------------

STORED = podgroup(group("a", 1), group("b", 1), minMember=5)


def test_a_stored_pod_count_on_a_branch_needs_every_child() -> None:
    """Enough pods in all do not make up for a child that has none (M5)."""
    assert not holds(STORED, a=5)
    assert not holds(STORED, a=50)


def test_a_stored_pod_count_on_a_branch_needs_that_many_pods_in_all() -> None:
    """Every child holds, and still the total is short (M5)."""
    assert not holds(STORED, a=1, b=1)
    assert not holds(STORED, a=2, b=2)


@pytest.mark.parametrize(("a", "b"), [(1, 4), (4, 1), (2, 3), (3, 3)])
def test_a_stored_pod_count_is_met_by_pods_of_any_child(a: int, b: int) -> None:
    """Both conditions are met, however the pods are spread (M5)."""
    assert holds(STORED, a=a, b=b)


def test_a_stored_pod_count_below_what_the_children_need_makes_nothing_weaker() -> None:
    """`minMember: 1` above two children of four still needs all eight (M5)."""
    manifest = podgroup(group("a", 4), group("b", 4), minMember=1)
    assert not holds(manifest, a=4)
    assert not holds(manifest, a=4, b=3)
    assert holds(manifest, a=4, b=4)


def test_a_stored_pod_count_is_not_a_count_of_children() -> None:
    """Two of three children were never enough for a stored `minMember: 2` (M5)."""
    manifest = podgroup(group("a", 1), group("b", 1), group("c", 1), minMember=2)
    assert not holds(manifest, a=1, b=1)
    assert holds(manifest, a=1, b=1, c=1)


def test_a_stored_pod_count_holds_on_an_inner_branch() -> None:
    """Each level that states it, counts what is below it and nothing beside it (M5)."""
    inner = (group("x", minMember=4), group("a", 1, parent="x"), group("b", 1, parent="x"))
    manifest = podgroup(*inner, group("y", 1))
    assert not holds(manifest, a=1, b=1, y=9)
    assert not holds(manifest, a=4, y=1)
    assert holds(manifest, a=3, b=1, y=1)


def test_a_stored_pod_count_reaches_all_levels_below_it() -> None:
    """Pods in total below it, grandchildren among them (M5)."""
    manifest = podgroup(group("x"), group("a", 1, parent="x"), group("b", 1, parent="x"), minMember=4)
    assert not holds(manifest, a=2, b=1)
    assert holds(manifest, a=2, b=2)


def test_pods_of_a_stored_gang_that_have_succeeded_count_for_its_total() -> None:
    """They have done their part here as well (M5, N5)."""
    some = placed(a=1, b=1) + pods(3, "a", first=50, phase="Succeeded")
    assert is_satisfied(gang(STORED, some).root)


@pytest.mark.parametrize(("a", "b", "lacks"), [(0, 0, 5), (1, 1, 3), (5, 0, 1), (4, 0, 1), (2, 0, 3), (4, 1, 0)])
def test_a_stored_gang_lacks_whichever_is_more(a: int, b: int, lacks: int) -> None:
    """A pod of an empty child counts for both conditions at once (M5)."""
    assert count_missing(gang(STORED, placed(a=a, b=b)).root) == lacks


def test_a_stored_gang_is_ready_only_with_enough_pods_in_all() -> None:
    """One pod for each child is not yet a reason to try (M5, N5)."""
    assert not has_enough_pods(gang(STORED, pending(a=1, b=1)).root)
    assert not has_enough_pods(gang(STORED, pending(a=5)).root)
    assert has_enough_pods(gang(STORED, pending(a=1, b=4)).root)


def test_a_stored_gang_wants_its_total_and_not_only_its_children() -> None:
    """What is to be placed satisfies the gang, so it is five pods with one of each (M5)."""
    want = wanted(gang(STORED, pending(a=4, b=4)))
    assert sum(want.values()) == 5
    assert set(want) == {"a", "b"}


def test_the_total_is_taken_from_children_that_have_pods() -> None:
    """The first child has a single pod; the rest come from the second (M5, M3)."""
    assert wanted(gang(STORED, pending(a=1, b=9))) == {"a": 1, "b": 4}


def test_an_optional_stored_branch_asks_for_nothing_once_the_gang_is_satisfied() -> None:
    """One of two children is needed and there; the pod count on the other is its own affair (M5, M3)."""
    manifest = podgroup(group("a", 1), group("old", minMember=8), group("b", 3, parent="old"), minSubGroup=1)
    some = gang(manifest, placed(a=1) + pending(b=1))
    assert is_satisfied(some.root)
    assert wanted(some) == {}


def test_an_optional_stored_branch_that_lacks_pods_never_blocks_a_child_that_has_them() -> None:
    """Only what is chosen is wanted: every wanted pod exists where the gang is ready to try (M5, M3)."""
    manifest = podgroup(group("old", minMember=5), group("c", 1, parent="old"), group("a", 2), minSubGroup=1)
    some = gang(manifest, placed(a=1) + pending(a=1, c=1))
    assert has_enough_pods(some.root)
    assert wanted(some) == {"a": 1}


def test_the_core_of_a_stored_gang_keeps_its_total() -> None:
    """Five of its seven pods stay together, as they had to (M5, P2)."""
    core = core_of(gang(STORED, placed(a=6, b=1)))
    assert len(core) == 5
    assert "b-0" in core

"""P2, P3 and P4: who is core, who is extra, and in which order extras leave."""

import pytest

from muster.model.gang.state import is_satisfied, standings
from muster.model.roles import non_preemptible, resources, roles
from tests.spec.scene import called, core_of, eviction_order
from tests.support.factories import Raw, gang, group, pod, podgroup, pods


def placed(**leaves: int) -> list[Raw]:
    """So many placed pods of each leaf."""
    return [one for leaf, number in leaves.items() for one in pods(number, leaf, on="n")]


def core(manifest: Raw, *some: Raw) -> set[str]:
    return set(core_of(gang(manifest, some)))


# P2: of a leaf ------------------------------------------------------------------------------------------------------


def test_the_core_of_a_leaf_is_as_many_pods_as_it_needs() -> None:
    """Two of four are core; the others are extra (P2)."""
    assert core_of(gang(podgroup(minMember=2), pods(4, on="n"))) == ["pod-0", "pod-1"]


def test_the_core_of_a_leaf_is_its_pods_of_highest_task_priority() -> None:
    """In the order of M4, as numbers (P2)."""
    some = [
        pod("a", on="n"),
        pod("b", on="n", priority=9),
        pod("c", on="n", priority=10),
        pod("d", on="n", priority=-1),
    ]
    assert core_of(gang(podgroup(minMember=3), some)) == ["c", "b", "a"]


def test_the_core_of_a_leaf_is_its_oldest_pods_where_priority_is_equal() -> None:
    """Then age, and only then the name (P2, M4)."""
    some = [
        pod("a", on="n", created="2026-03-01T00:00:00Z"),
        pod("c", on="n", created="2026-01-01T00:00:00Z"),
        pod("b", on="n", created="2026-02-01T00:00:00Z"),
        pod("d", on="n", created="2026-01-01T00:00:00Z"),
    ]
    assert core_of(gang(podgroup(minMember=3), some)) == ["c", "d", "b"]


def test_only_placed_pods_are_core() -> None:
    """A pod that matters more but is not placed protects nothing (P2)."""
    some = [pod("high", priority=9), pod("gated", gated=True, priority=9), pod("up", on="n"), pod("also", on="n")]
    assert core_of(gang(podgroup(minMember=1), some)) == ["also"]


def test_there_is_a_core_below_the_minimum_too() -> None:
    """It is computed from what is placed, so it always exists (P2)."""
    assigned = roles(gang(podgroup(minMember=5), pods(2, on="n")).root)
    assert called(assigned.core) == ["pod-0", "pod-1"]
    assert assigned.surplus == ()


def test_the_core_of_a_gang_without_placed_pods_is_empty() -> None:
    """Nothing is placed, nothing is protected (P2)."""
    assert core_of(gang(podgroup(group("a", 1), group("b", 1)), pods(3, "a"))) == []


# P2: of a branch ----------------------------------------------------------------------------------------------------


def test_the_core_of_a_branch_is_its_first_satisfied_children_in_spec_order() -> None:
    """Declared first, not first in the alphabet and not the fullest (P2)."""
    manifest = podgroup(group("zeta", 1), group("mid", 1), group("alpha", 1), minSubGroup=2)
    assert core(manifest, *placed(alpha=3, mid=1, zeta=1)) == {"zeta-0", "mid-0"}


def test_a_child_below_its_minimum_is_passed_over() -> None:
    """Only satisfied children carry the core (P2)."""
    manifest = podgroup(group("a", 2), group("b", 2), group("c", 2), minSubGroup=1)
    assert core(manifest, *placed(a=1, b=2, c=2)) == {"b-0", "b-1"}


def test_the_core_moves_on_when_a_child_falls_below_its_minimum() -> None:
    """It is computed from what is placed now, not remembered (P2)."""
    manifest = podgroup(group("a", 2), group("b", 2), minSubGroup=1)
    assert core(manifest, *placed(a=2, b=2)) == {"a-0", "a-1"}
    assert core(manifest, *placed(a=1, b=2)) == {"b-0", "b-1"}


def test_the_core_of_a_branch_that_needs_all_is_the_core_of_every_child() -> None:
    """And no pod above their minimums (P2)."""
    manifest = podgroup(group("leader", 1), group("workers", 2))
    assert core(manifest, *placed(leader=2, workers=5)) == {"leader-0", "workers-0", "workers-1"}


def test_the_core_of_a_broken_gang_is_that_of_its_satisfied_children() -> None:
    """One of the two that are needed still stands, and is the core there is (P2)."""
    manifest = podgroup(group("a", 2), group("b", 2))
    assert core(manifest, *placed(a=2, b=1)) == {"a-0", "a-1"}


NESTED = (
    group("p1", 2, parent="prefill"),
    group("decode-a", 1, parent="decode"),
    group("p0", 2, parent="prefill"),
    group("prefill", of=1),
    group("p2", 2, parent="prefill"),
    group("router", 1),
    group("decode", of=1),
    group("decode-b", 1, parent="decode"),
)


def test_the_core_is_found_recursively_in_a_list_of_odd_order() -> None:
    """Parents after children, families mixed: siblings still come in the order of the list (P2, N1)."""
    some = placed(router=1, p0=2, p1=2, p2=2) + placed(**{"decode-a": 1, "decode-b": 1})
    assert core(podgroup(*NESTED), *some) == {"router-0", "p1-0", "p1-1", "decode-a-0"}


def test_a_branch_chooses_among_its_children_whatever_its_parent_chooses() -> None:
    """The first of the list is `p1`, but it is not satisfied (P2)."""
    some = placed(router=1, p0=2, p1=1, p2=2) + placed(**{"decode-b": 1})
    assert core(podgroup(*NESTED), *some) == {"router-0", "p0-0", "p0-1", "decode-b-0"}


def test_of_branches_the_first_satisfied_ones_are_core() -> None:
    """Spec order of branches is the order of the branches in the list, not of their leaves (P2)."""
    manifest = podgroup(
        group("late", 1, parent="second"),
        group("early", 1, parent="first"),
        group("first"),
        group("second"),
        minSubGroup=1,
    )
    assert core(manifest, *placed(late=1, early=1)) == {"early-0"}


def test_the_core_is_as_large_as_the_minimums_say() -> None:
    """(1 + 4) + (1 + 4): the number that is protected of a gang of two roles (P2)."""
    manifest = podgroup(
        group("decode", of=2),
        group("decode-leaders", 1, parent="decode"),
        group("decode-workers", 4, parent="decode"),
        group("prefill", of=2),
        group("prefill-leaders", 1, parent="prefill"),
        group("prefill-workers", 4, parent="prefill"),
        minSubGroup=2,
    )
    leaves = ("decode-leaders", "decode-workers", "prefill-leaders", "prefill-workers")
    assert len(core(manifest, *placed(**dict.fromkeys(leaves, 6)))) == 10


def test_core_and_succeeded_pods_together_meet_the_minimum() -> None:
    """What has done its part need not be protected again, and what is left must be enough (P2, N5)."""
    some = [*pods(3, on="n"), pod("done", phase="Succeeded")]
    assigned = roles(gang(podgroup(minMember=2), some).root)
    assert "done" not in called(assigned.core)
    assert len(assigned.core) + 1 >= 2


# P3 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "protected", "cpu"),
    [("semi-preemptible", ["a-0", "a-1"], 4000), ("non-preemptible", ["a-0", "a-1", "a-2", "b-0"], 8000)],
)
def test_the_protected_part_is_the_core_or_everything(word: str, protected: list[str], cpu: int) -> None:
    """The core of a semi-preemptible gang, all that is placed of a non-preemptible one (P3)."""
    manifest = podgroup(group("a", 2), group("b", 1), minSubGroup=1, preemptibility=word)
    some = gang(manifest, [*pods(3, "a", on="n", cpu="2"), *pods(1, "b", on="n", cpu="2"), pod("b-9", "b", cpu="2")])
    assert sorted(called(non_preemptible(some))) == protected
    assert resources(non_preemptible(some)) == {"cpu": cpu}


def test_of_a_preemptible_gang_every_pod_may_be_evicted() -> None:
    """Its core goes as a whole, but it goes (P3)."""
    some = gang(podgroup(group("a", 2), preemptibility="preemptible"), placed(a=3))
    assert non_preemptible(some) == ()
    assert core_of(some) == ["a-0", "a-1"]


# P4: pods one by one ------------------------------------------------------------------------------------------------


def test_surplus_pods_leave_one_by_one_the_last_first() -> None:
    """In reverse of the order in which they came (P4, M4)."""
    assert eviction_order(gang(podgroup(minMember=2), pods(5, on="n"))) == [["pod-4"], ["pod-3"], ["pod-2"]]


def test_the_surplus_pod_of_lowest_task_priority_leaves_first() -> None:
    """Then the youngest: M4 from behind (P4)."""
    some = [
        pod("a", on="n", priority=5),
        pod("b", on="n", created="2026-01-01T00:00:00Z"),
        pod("c", on="n", created="2026-02-01T00:00:00Z"),
        pod("d", on="n", priority=-5, created="2025-01-01T00:00:00Z"),
    ]
    assert eviction_order(gang(podgroup(), some)) == [["d"], ["c"], ["b"]]


def test_the_fullest_leaf_gives_a_pod_first() -> None:
    """Extras went to the emptiest leaf, placed over minimum; they leave from the fullest (P4, G3)."""
    manifest = podgroup(group("a", 3), group("b", 2))
    assert eviction_order(gang(manifest, placed(a=5, b=3))) == [["a-4"], ["b-2"], ["a-3"]]


def test_fullest_is_a_share_of_the_minimum_and_not_a_number_of_pods() -> None:
    """Three of one is fuller than seven of five (P4, G3)."""
    manifest = podgroup(group("large", 5), group("small", 1))
    assert eviction_order(gang(manifest, placed(large=7, small=3))) == [
        ["small-2"],
        ["small-1"],
        ["large-6"],
        ["large-5"],
    ]


# P4: SubGroups as a whole -------------------------------------------------------------------------------------------


def test_surplus_subgroups_leave_as_a_whole_the_last_in_the_spec_first() -> None:
    """An elastic replica goes whole or not at all (P4, G2)."""
    manifest = podgroup(*(group(name, 2) for name in ("zeta", "beta", "alpha", "mid")), minSubGroup=2)
    assert eviction_order(gang(manifest, placed(zeta=2, beta=2, alpha=2, mid=2))) == [
        ["mid-0", "mid-1"],
        ["alpha-0", "alpha-1"],
    ]


def test_surplus_pods_leave_before_any_surplus_subgroup() -> None:
    """SubGroups came first, so pods leave first, wherever they are (P4, G3)."""
    manifest = podgroup(group("a", 2), group("b", 2), minSubGroup=1)
    units = eviction_order(gang(manifest, placed(a=3, b=4)))
    assert units == [["b-3"], ["a-2"], ["b-2"], ["b-0", "b-1"]] or units == [["b-3"], ["b-2"], ["a-2"], ["b-0", "b-1"]]


def test_a_surplus_branch_leaves_with_all_that_it_needs() -> None:
    """Leader and workers of a replica are one unit (P4)."""
    manifest = podgroup(
        *(
            part
            for i in range(3)
            for part in (group(f"r{i}"), group(f"leader{i}", 1, parent=f"r{i}"), group(f"work{i}", 2, parent=f"r{i}"))
        ),
        minSubGroup=1,
    )
    some = placed(leader0=1, work0=2, leader1=1, work1=2, leader2=1, work2=2)
    assert [sorted(unit) for unit in eviction_order(gang(manifest, some))] == [
        ["leader2-0", "work2-0", "work2-1"],
        ["leader1-0", "work1-0", "work1-1"],
    ]


def test_surplus_inside_surplus_leaves_before_what_it_is_part_of() -> None:
    """A replica's own optional part came after the replica, and leaves before it (P4)."""
    manifest = podgroup(
        *(
            part
            for name in ("a", "b")
            for part in (group(name, of=1), group(f"{name}0", 1, parent=name), group(f"{name}1", 1, parent=name))
        ),
        minSubGroup=1,
    )
    assert eviction_order(gang(manifest, placed(a0=1, a1=1, b0=1, b1=1))) == [["b1-0"], ["b0-0"], ["a1-0"]]


def test_surplus_inside_surplus_leaves_first_though_it_is_declared_first() -> None:
    """In a list with parents after children too: no part stays behind its whole (P4, N1)."""
    manifest = podgroup(
        group("b1", 1, parent="b"),
        group("b0", 1, parent="b"),
        group("a0", 1, parent="a"),
        group("a", of=1),
        group("b", of=1),
        minSubGroup=1,
    )
    assert eviction_order(gang(manifest, placed(a0=1, b0=1, b1=1))) == [["b0-0"], ["b1-0"]]


def test_what_a_broken_subgroup_still_has_leaves_together() -> None:
    """Its pods are no core and no replica, but they are placed, so they are extra (P4)."""
    manifest = podgroup(group("a", 2), group("b", 3), minSubGroup=1)
    assert eviction_order(gang(manifest, placed(a=2, b=2))) == [["b-0", "b-1"]]


# P4: what must hold for every gang ----------------------------------------------------------------------------------

REPLICAS = tuple(
    part
    for i in range(3)
    for part in (
        group(f"r{i}"),
        group(f"leader{i}", 1, parent=f"r{i}"),
        group(f"pool{i}", parent=f"r{i}", of=1),
        group(f"x{i}", 2, parent=f"pool{i}"),
        group(f"y{i}", 1, parent=f"pool{i}"),
    )
)
TREES: dict[str, tuple[Raw, list[Raw]]] = {
    "a leaf": (podgroup(minMember=2), pods(6, on="n")),
    "leaves": (podgroup(group("a", 3), group("b", 2)), placed(a=6, b=5)),
    "children to choose from": (
        podgroup(*(group(f"p{i}", 2) for i in range(4)), minSubGroup=2),
        placed(p0=1, p1=3, p2=4, p3=2),
    ),
    "nested choices": (
        podgroup(*REPLICAS, minSubGroup=1),
        placed(
            **{f"{leaf}{i}": number for i in range(3) for leaf, number in {"leader": 2, "x": 3, "y": 2}.items()},
        ),
    ),
    "a list of odd order": (
        podgroup(*NESTED),
        placed(router=2, p0=3, p1=2, p2=2) + placed(**{"decode-a": 2, "decode-b": 2}),
    ),
    "succeeded pods": (
        podgroup(group("a", 3), group("b", 2), minSubGroup=1),
        [*placed(a=3, b=3), *pods(2, "a", first=50, phase="Succeeded")],
    ),
    "a stored pod count": (podgroup(group("a", 1), group("b", 1), minMember=5), placed(a=6, b=2)),
    "a stored pod count inside": (
        podgroup(group("old", 4), group("a", 1, parent="old"), group("b", 1, parent="old"), group("c", 2)),
        placed(a=4, b=3, c=3),
    ),
    "a stored pod count over a choice": (
        podgroup(group("pool", of=1), group("a", 3, parent="pool"), group("b", 1, parent="pool"), minMember=6),
        placed(a=3, b=3),
    ),
    "stored pod counts inside each other": (
        podgroup(
            group("d", 1, parent="b"),
            group("a", of=1),
            group("e", 1, parent="a"),
            group("c", 2, parent="b"),
            group("b", 3, parent="a", of=1),
            minMember=5,
        ),
        placed(d=1, e=3, c=2),
    ),
    "stored pod counts of both kinds": (
        podgroup(group("a", 1), group("b", 1), minMember=5, minSubGroup=1),
        placed(a=4, b=3),
    ),
}


@pytest.mark.parametrize(("manifest", "some"), TREES.values(), ids=TREES)
def test_every_placed_pod_is_core_or_extra_and_never_both(manifest: Raw, some: list[Raw]) -> None:
    """No pod is forgotten, and none is evicted twice (P2, P4)."""
    tree = gang(manifest, some)
    assigned = roles(tree.root)
    everyone = [*called(assigned.core), *(name for unit in assigned.surplus for name in called(unit))]
    assert len(everyone) == len(set(everyone)) == standings(tree.root)[""].placed


@pytest.mark.parametrize(("manifest", "some"), TREES.values(), ids=TREES)
def test_the_gang_stays_satisfied_whichever_of_its_extras_has_left(manifest: Raw, some: list[Raw]) -> None:
    """One unit after the other, and after each of them every minimum still holds (P4, M5)."""
    assert is_satisfied(gang(manifest, some).root)
    units = eviction_order(gang(manifest, some))
    for unit in units:
        some = without(some, unit)
        assert is_satisfied(gang(manifest, some).root), f"{unit} of {units} breaks it"


@pytest.mark.parametrize(("manifest", "some"), TREES.values(), ids=TREES)
def test_without_its_extras_a_gang_is_its_core(manifest: Raw, some: list[Raw]) -> None:
    """What is left at the end is what was called core at the beginning (P2, P4)."""
    tree = gang(manifest, some)
    left = gang(manifest, without(some, [name for unit in eviction_order(tree) for name in unit]))
    assert sorted(core_of(left)) == sorted(core_of(tree))
    assert eviction_order(left) == []


def without(some: list[Raw], gone: list[str]) -> list[Raw]:
    """The pods that stay when these have left."""
    return [one for one in some if one["metadata"]["name"] not in gone]

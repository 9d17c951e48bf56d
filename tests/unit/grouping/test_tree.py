"""Trees of groups: names, order and bounds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.grouping.naming import pod_group_name, sub_group_name
from muster.grouping.presence import settle
from muster.grouping.tree import MOST_SUB_GROUPS, Part, WorkloadTree, build_tree
from muster.grouping.types import GangTree, Ungrouped

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def built(*parts: Part, need: int | None = None) -> WorkloadTree:
    tree = build_tree(parts, need)
    assert isinstance(tree, WorkloadTree)
    return tree


def leaf(name: str, need: int = 1, *, is_needed: bool = True, is_late: bool = False) -> Part:
    return Part(name=name, need=need, source="test", is_needed=is_needed, is_late=is_late)


def gang(tree: WorkloadTree) -> GangTree:
    return GangTree(
        name="g",
        owner=None,
        min_sub_group=tree.min_sub_group,
        sub_groups=tree.sub_groups,
        late=tree.late,
        minimums=tree.minimums,
    )


def test_what_is_needed_comes_before_what_is_not() -> None:
    """Of siblings that fit, the first ones are placed first (M3)."""
    tree = built(leaf("extra", is_needed=False), leaf("a"), leaf("b"))
    assert [part.name for part in tree.sub_groups] == ["a", "b", "extra"]
    assert tree.min_sub_group == 2


def test_a_branch_that_needs_all_says_so_by_saying_nothing() -> None:
    assert built(leaf("a"), leaf("b")).min_sub_group is None
    assert built(leaf("a"), leaf("b"), need=1).min_sub_group == 1
    assert built(leaf("a"), leaf("b"), need=9).min_sub_group is None


def test_parents_stand_before_their_children_and_empty_branches_are_left_out() -> None:
    tree = built(Part(name="none", parts=()), Part(name="outer", parts=(Part(name="inner", parts=(leaf("x"),)),)))
    assert [(part.name, part.parent) for part in tree.sub_groups] == [("outer", ""), ("inner", "outer"), ("x", "inner")]
    assert tree.leaves == {("outer", "inner", "x"): "x"}


def test_every_group_has_a_minimum_with_a_source() -> None:
    tree = built(Part(name="outer", parts=(leaf("x", 3),)), leaf("y"))
    assert [(each.group, each.value) for each in tree.minimums] == [("", 2), ("outer", 1), ("x", 3), ("y", 1)]
    assert all(each.source for each in tree.minimums)


def test_groups_of_one_name_stay_apart_by_their_path() -> None:
    tree = built(Part(name="a", parts=(leaf("x"),)), Part(name="b", parts=(leaf("x"),)))
    assert len(set(tree.leaves.values())) == 2


def test_one_path_is_one_group() -> None:
    assert len(built(leaf("a", 2), leaf("a", 3)).sub_groups) == 1


def test_a_tree_may_be_as_large_as_the_crd_allows_and_no_larger() -> None:
    assert len(built(*(leaf(f"w-{i}") for i in range(MOST_SUB_GROUPS))).sub_groups) == MOST_SUB_GROUPS
    endless = (leaf(f"w-{i}") for i in range(10**12))
    problem = build_tree(endless)
    assert isinstance(problem, Ungrouped)
    assert "more than 10000 groups" in problem.message


@pytest.mark.parametrize("is_needed", [True, False])
def test_a_minimum_beyond_what_a_podgroup_may_state_is_said(is_needed: bool) -> None:
    assert isinstance(build_tree([leaf("a", 2**31, is_needed=is_needed)]), Ungrouped)


@given(st.text(max_size=300))
def test_the_name_of_a_subgroup_is_a_label(text: str) -> None:
    assert LABEL.fullmatch(sub_group_name(text))


@given(st.lists(st.text(max_size=300), max_size=3))
def test_the_name_of_a_podgroup_is_one_that_kubernetes_accepts(parts: list[str]) -> None:
    name = pod_group_name(*parts)
    assert len(name) <= 253
    assert NAME.fullmatch(name)


def test_long_names_that_differ_at_their_end_stay_apart() -> None:
    first, second = "w" * 70 + "1", "w" * 70 + "2"
    assert sub_group_name(first) != sub_group_name(second)
    assert sub_group_name("Worker") == "worker"


# presence ------------------------------------------------------------------------------------------------------------


def test_a_late_leaf_counts_once_it_has_pods() -> None:
    late = gang(built(leaf("first"), leaf("then", is_late=True)))
    assert settle(late, {"first"}).min_sub_group == 1
    assert settle(late, ()).min_sub_group == 1
    assert settle(late, {"first", "then"}).min_sub_group is None


def test_a_minimum_that_late_leaves_lower_says_so() -> None:
    settled = settle(gang(built(leaf("first"), leaf("then", is_late=True))), ())
    assert settled.minimums[0].value == 1
    assert "once they exist" in settled.minimums[0].source


def test_a_branch_of_late_leaves_alone_is_not_counted_above() -> None:
    branch = Part(name="later", parts=(leaf("x", is_late=True), leaf("y", is_late=True)))
    late = gang(built(leaf("first"), branch))
    assert settle(late, ()).min_sub_group == 1
    some = settle(late, {"x"})
    assert some.min_sub_group is None
    assert next(part for part in some.sub_groups if part.name == "later").min_sub_group == 1


def test_a_lower_minimum_than_all_stays_as_it_is() -> None:
    late = gang(built(leaf("a"), leaf("b"), leaf("c", is_late=True), need=2))
    assert settle(late, ()).min_sub_group == 2


def test_nothing_is_lowered_where_nothing_is_late() -> None:
    plain = gang(built(leaf("a"), leaf("b")))
    assert settle(plain, ()) is plain


def test_a_branch_that_has_pods_is_a_leaf_that_needs_what_its_children_need() -> None:
    branch = Part(name="g", parts=(leaf("g-0", 4), leaf("g-1", 4), leaf("g-2", 4)), need=2, may_hold_pods=True)
    tree = built(leaf("head"), branch)
    assert tree.leaves["g",] == "g"
    flat = settle(gang(tree), {"head", "g"})
    assert [(part.name, part.min_member) for part in flat.sub_groups] == [("head", 1), ("g", 8)]
    assert [(each.group, each.value) for each in flat.minimums] == [("", 2), ("head", 1), ("g", 8)]

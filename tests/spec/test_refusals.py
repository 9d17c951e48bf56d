"""V1, V2, V3 and the values of a PodGroup: what is refused, where, and with which way out."""

import json
from typing import Any

import pytest

import muster
from muster.reporting.views import needs
from tests.spec.scene import errors, places, problems, run
from tests.support.factories import Raw, gang, group, podgroup

LARGEST = 2**31 - 1

# V1 -----------------------------------------------------------------------------------------------------------------


def test_a_podgroup_with_both_minimums_is_refused() -> None:
    """Which of the two would count? The message shows both numbers (V1)."""
    all_errors = errors(podgroup(group("a", 8), group("b", 8), minMember=16, minSubGroup=2))
    assert [(problem.rule, problem.at) for problem in all_errors] == [("V1", "spec.minMember")]
    assert "16" in all_errors[0].says
    assert "2" in all_errors[0].says


def test_a_branch_with_both_minimums_is_refused() -> None:
    """The same on each SubGroup (V1)."""
    all_errors = errors(podgroup(group("x", 16, of=2), group("a", 8, parent="x"), group("b", 8, parent="x")))
    assert [(problem.rule, problem.at) for problem in all_errors] == [("V1", "spec.subGroups[0].minMember")]


def test_a_leaf_with_both_minimums_is_refused() -> None:
    """It has no children, so the other field is the one too many (V1)."""
    all_errors = errors(podgroup(group("a", 8, of=1)))
    assert [(problem.rule, problem.at) for problem in all_errors] == [("V1", "spec.subGroups[0].minSubGroup")]


def test_a_podgroup_without_subgroups_with_both_minimums_is_refused() -> None:
    """The rule is about the PodGroup, with children or without (V1)."""
    assert "V1" in {problem.rule for problem in errors(podgroup(minMember=2, minSubGroup=1))}


@pytest.mark.parametrize("value", [0, -1, -LARGEST])
@pytest.mark.parametrize(
    ("at", "manifest"),
    [
        ("spec.minMember", lambda n: podgroup(minMember=n)),
        ("spec.minSubGroup", lambda n: podgroup(group("a", 1), minSubGroup=n)),
        ("spec.subGroups[0].minMember", lambda n: podgroup(group("a", n))),
        ("spec.subGroups[0].minSubGroup", lambda n: podgroup(group("x", of=n), group("a", 1, parent="x"))),
        ("spec.minMember", lambda n: podgroup(group("a", 1), minMember=n)),
    ],
    ids=["PodGroup", "PodGroup over SubGroups", "leaf", "branch", "PodGroup over SubGroups, pods"],
)
def test_a_minimum_must_be_greater_than_nothing(value: int, at: str, manifest: Any) -> None:
    """A gang without pods is not a gang (V1)."""
    all_errors = errors(manifest(value))
    assert places(all_errors, "V1") == [at]
    assert str(value) in all_errors[0].says


@pytest.mark.parametrize("value", [1, LARGEST])
def test_every_number_of_pods_from_one_up_is_a_minimum(value: int) -> None:
    """The field is a 32-bit number, and all of it may be used (V1)."""
    assert errors(podgroup(minMember=value)) == []
    assert errors(podgroup(group("a", value))) == []


def test_a_minimum_beyond_the_field_is_refused_and_not_wrapped_round() -> None:
    """2³¹ would be negative in the API server (V1)."""
    assert places(errors(podgroup(minMember=LARGEST + 1))) == ["spec.minMember"]
    assert places(errors(podgroup(minMember=10**400))) == ["spec.minMember"]


@pytest.mark.parametrize(
    "manifest",
    [
        podgroup(group("a", 1), group("b", 1), minMember=0, minSubGroup=1),
        podgroup(group("x", 0, of=1), group("a", 1, parent="x"), group("b", 1, parent="x")),
        podgroup(group("a", 1, of=0)),
        podgroup(minMember=2, minSubGroup=0),
    ],
    ids=["PodGroup", "branch", "leaf", "PodGroup without SubGroups"],
)
def test_a_zero_beside_the_other_minimum_counts_as_unset(manifest: Raw) -> None:
    """Typed clients write out what was not set (V1)."""
    assert problems(manifest) == []
    assert muster.plan(muster.objects([manifest])).verdict("team/gang") == "Waiting", "and not Invalid"


def test_two_zeros_are_no_minimum() -> None:
    """Neither of them says anything that the other could be beside (V1)."""
    assert len(places(errors(podgroup(group("a", 1), minMember=0, minSubGroup=0)), "V1")) == 2


def test_a_zero_beside_a_count_of_children_does_not_make_a_leaf_a_branch() -> None:
    """What is left is what is wrong with it (V2)."""
    assert places(errors(podgroup(group("a", 0, of=2)))) == ["spec.subGroups[0].minSubGroup"]


# V2 -----------------------------------------------------------------------------------------------------------------


def test_a_podgroup_cannot_need_more_children_than_it_has() -> None:
    """Five of four never come; the message has both numbers (V2)."""
    all_errors = errors(podgroup(*(group(f"p-{i}", 8) for i in range(4)), minSubGroup=5))
    assert [(problem.rule, problem.at) for problem in all_errors] == [("V2", "spec.minSubGroup")]
    assert "5" in all_errors[0].says
    assert "4" in all_errors[0].says


def test_a_branch_cannot_need_more_children_than_it_has() -> None:
    """The same on each SubGroup (V2)."""
    all_errors = errors(podgroup(group("x", of=2), group("a", 1, parent="x"), group("y", 1)))
    assert [(problem.rule, problem.at) for problem in all_errors] == [("V2", "spec.subGroups[0].minSubGroup")]


def test_grandchildren_are_not_children() -> None:
    """`minSubGroup` counts direct children: one, though three groups lie below (V2)."""
    manifest = podgroup(group("x"), group("a", 1, parent="x"), group("b", 1, parent="x"), minSubGroup=2)
    assert places(errors(manifest), "V2") == ["spec.minSubGroup"]


@pytest.mark.parametrize("need", [1, 2, 3])
def test_a_branch_may_need_any_number_of_the_children_it_has(need: int) -> None:
    """From one up to all of them (V2)."""
    children = [group(f"w-{i}", 1, parent="x") for i in range(3)]
    assert errors(podgroup(group("x", of=need), *children)) == []
    assert errors(podgroup(*(group(f"w-{i}", 1) for i in range(3)), minSubGroup=need)) == []


def test_a_leaf_cannot_count_children() -> None:
    """There are none to count (V2)."""
    all_errors = errors(podgroup(group("a", of=1)))
    assert places(all_errors, "V2") == ["spec.subGroups[0].minSubGroup"]


def test_a_podgroup_without_subgroups_cannot_count_children() -> None:
    """Only where there are children (V2)."""
    assert places(errors(podgroup(minSubGroup=1)), "V2") == ["spec.minSubGroup"]


def test_a_leaf_must_say_how_many_pods_it_needs() -> None:
    """A new one says it; only a stored one without it counts as 1 (V2)."""
    all_errors = errors(podgroup(group("a"), group("b", 1)))
    assert [(problem.rule, problem.at) for problem in all_errors] == [("V2", "spec.subGroups[0].minMember")]


def test_a_branch_cannot_count_pods() -> None:
    """Branches use `minSubGroup` (V2)."""
    all_errors = errors(podgroup(group("x", 4), group("a", 2, parent="x"), group("b", 2, parent="x")))
    assert [(problem.rule, problem.at) for problem in all_errors] == [("V2", "spec.subGroups[0].minMember")]


def test_a_podgroup_with_subgroups_may_count_pods_in_all() -> None:
    """As other controllers write it: accepted with a warning that says how it is read (V2, M5)."""
    manifest = podgroup(group("a", 2), group("b", 2), minMember=5)
    (warning,) = problems(manifest)
    assert (warning.severity, warning.rule, warning.at) == ("warning", "V2", "spec.minMember")
    assert warning.says == "all 2 top subGroups are needed, and 5 pods in all (M5)"
    assert needs(gang(manifest).root) == "all 2 groups and 5 pods"
    assert problems(manifest, old=manifest) == [warning], "an update of it has the same warning"


def test_a_branch_may_leave_its_minimum_out() -> None:
    """Unset means all (V2)."""
    manifest = podgroup(group("x"), group("a", 1, parent="x"), group("b", 1, parent="x"))
    assert problems(manifest) == []


# V3 -----------------------------------------------------------------------------------------------------------------


def test_two_subgroups_of_one_name_are_refused() -> None:
    """A pod that names it could be in either (V3)."""
    all_errors = errors(podgroup(group("a", 1), group("b", 1), group("a", 2)))
    assert [(problem.rule, problem.at) for problem in all_errors] == [("V3", "spec.subGroups[2].name")]


def test_two_subgroups_of_one_name_under_different_parents_are_refused() -> None:
    """Names are unique in the PodGroup, not among siblings (V3)."""
    manifest = podgroup(group("x"), group("y"), group("w", 1, parent="x"), group("w", 1, parent="y"))
    assert places(errors(manifest), "V3") == ["spec.subGroups[3].name"]


@pytest.mark.parametrize(
    "name", ["Prefill", "pre_fill", "pre.fill", "-a", "a-", "a" * 64, "a b", "a/b", "ä", "a\n", "٣", ""]
)
def test_a_name_that_is_no_dns_label_is_refused(name: str) -> None:
    """Pods carry the name in a label, objects may carry it in theirs (V3)."""
    assert places(errors(podgroup(group(name, 1), group("fine", 1))), "V3") == ["spec.subGroups[0].name"]


@pytest.mark.parametrize("name", ["a", "0", "a-b", "prefill-0", "0-a", "a--b", "a" * 63])
def test_every_dns_label_is_a_name(name: str) -> None:
    """Nothing is refused that Kubernetes accepts (V3)."""
    assert errors(podgroup(group(name, 1))) == []


def test_a_parent_that_does_not_exist_is_refused() -> None:
    """The message names it, and the hint those that exist (V3)."""
    all_errors = errors(podgroup(group("roles"), group("a", 1, parent="roles"), group("b", 1, parent="rolse")))
    assert [(problem.rule, problem.at) for problem in all_errors] == [("V3", "spec.subGroups[2].parent")]
    assert "rolse" in all_errors[0].says
    assert "roles" in all_errors[0].hint


def test_a_subgroup_cannot_be_its_own_parent() -> None:
    """No self-parent (V3)."""
    assert places(errors(podgroup(group("a", 1, parent="a"), group("b", 1))), "V3") == ["spec.subGroups[0].parent"]


@pytest.mark.parametrize("size", [2, 3, 50])
def test_subgroups_in_a_circle_are_refused(size: int) -> None:
    """No way leads from them to the PodGroup, so no pod of theirs would ever start (V3)."""
    ring = [group(f"r{i}", parent=f"r{(i + 1) % size}") for i in range(size)]
    cycles = [problem for problem in errors(podgroup(*ring, group("b", 1))) if problem.rule == "V3"]
    assert len(cycles) == 1
    assert cycles[0].at.endswith(".parent")


def test_each_cycle_is_reported() -> None:
    """All problems at once: the second is not hidden by the first (V3)."""
    manifest = podgroup(
        group("a", parent="b"), group("b", parent="a"), group("c", parent="d"), group("d", parent="c"), group("e", 1)
    )
    assert len(places(errors(manifest), "V3")) == 2


def test_a_branch_that_hangs_on_a_circle_does_not_hide_it() -> None:
    """A walk from the side arm still ends in the cycle (V3)."""
    manifest = podgroup(group("arm", 1, parent="a"), group("a", parent="b"), group("b", parent="a"), group("ok", 1))
    assert len(places(errors(manifest), "V3")) == 1


# values -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["preemptible", "non-preemptible", "semi-preemptible"])
def test_a_gang_is_one_of_three_ways_preemptible(word: str) -> None:
    """The three words of P1."""
    assert problems(podgroup(preemptibility=word)) == []


@pytest.mark.parametrize("word", ["Preemptible", "semi", "never"])
def test_another_word_for_preemptibility_is_refused(word: str) -> None:
    """A word that is not understood would protect no pod (P1)."""
    all_errors = errors(podgroup(preemptibility=word))
    assert places(all_errors) == ["spec.preemptibility"]
    assert "semi-preemptible" in all_errors[0].hint


@pytest.mark.parametrize("value", ["three", "3", 2.5, True, [3], {"is": 3}])
@pytest.mark.parametrize("at", ["spec.minMember", "spec.subGroups[0].minMember", "spec.minSubGroup"])
def test_a_minimum_that_is_no_whole_number_is_refused_where_it_stands(at: str, value: object) -> None:
    """Text, halves and truth are no counts, and none of them is taken for one (V1)."""
    manifest = podgroup(group("a", 1))
    holder = manifest["spec"]["subGroups"][0] if "subGroups" in at else manifest["spec"]
    holder[at.rsplit(".", 1)[-1]] = value
    assert at in places(errors(manifest))


@pytest.mark.parametrize("raw", [None, 7, "text", [], {}, {"spec": []}, {"spec": {"subGroups": {"a": 1}}}])
def test_any_value_is_judged_without_falling_over(raw: object) -> None:
    """A webhook gets what people send, and answers with problems (V1-V3)."""
    assert errors(raw)


# all at once --------------------------------------------------------------------------------------------------------

BROKEN = podgroup(
    group("roles", 3, of=1),
    group("a", parent="roles"),
    group("Bad", 0),
    group("a", 1),
    group("c", 1, parent="nobody"),
    group("d", of=4),
    minSubGroup=9,
    preemptibility="maybe",
)


def test_all_problems_are_reported_at_once() -> None:
    """Six rounds of mending one line each would be five too many (V1, V2, V3)."""
    assert set(places(errors(BROKEN))) >= {
        "spec.minSubGroup",
        "spec.preemptibility",
        "spec.subGroups[0].minMember",
        "spec.subGroups[2].minMember",
        "spec.subGroups[2].name",
        "spec.subGroups[3].name",
        "spec.subGroups[4].parent",
        "spec.subGroups[5].minSubGroup",
    }


def test_each_problem_says_where_what_and_what_would_be_right() -> None:
    """A path, a sentence and a way out, for every single one (V1, V2, V3)."""
    for problem in errors(BROKEN):
        assert problem.at.startswith("spec.")
        assert problem.says
        assert problem.hint
        assert problem.rule


def test_the_same_is_refused_on_update_as_on_create() -> None:
    """A valid stored object does not open the door for a broken one (V1, V2, V3)."""
    stored = podgroup(group("a", 1))
    assert places(errors(BROKEN, old=stored)) == places(errors(BROKEN))


@pytest.mark.parametrize(
    ("manifest", "code"),
    [(podgroup(group("a", 1)), 0), (podgroup(group("a", 0)), 1), (podgroup(group("a", minMember="one")), 2)],
    ids=["valid", "invalid", "unreadable"],
)
def test_the_exit_code_tells_valid_invalid_and_unreadable_apart(manifest: Raw, code: int) -> None:
    """Scripts ask by exit code: 0 valid, 1 the answer is no, 2 cannot be read (V1)."""
    ran = run("validate", "-", stdin=json.dumps(manifest))
    assert ran.code == code
    assert ("spec.subGroups[0].minMember" in ran.out) == (code > 0)

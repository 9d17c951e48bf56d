"""V4 and V5: what may become of an object that is stored."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.spec.scene import errors, places, problems, run, warnings
from tests.support.factories import Raw, group, podgroup

# V4 -----------------------------------------------------------------------------------------------------------------

BREAKAGES: dict[str, Raw] = {
    "both minimums on the PodGroup": podgroup(group("a", 8), group("b", 8), minMember=16, minSubGroup=2),
    "both minimums on a branch": podgroup(group("x", 2, of=1), group("a", 1, parent="x"), group("b", 1, parent="x")),
    "both minimums on a leaf": podgroup(group("a", 1, of=1)),
    "no pods on the PodGroup": podgroup(minMember=0),
    "no pods on a leaf": podgroup(group("a", 0)),
    "no children": podgroup(group("x", of=0), group("a", 1, parent="x")),
    "more children than there are": podgroup(group("a", 1), group("b", 1), minSubGroup=3),
    "children of a leaf": podgroup(group("a", of=1)),
    "a leaf that says nothing": podgroup(group("a"), group("b", 1)),
    "pods of a branch": podgroup(group("x", 4), group("a", 2, parent="x"), group("b", 2, parent="x")),
}


@pytest.mark.parametrize("stored", BREAKAGES.values(), ids=BREAKAGES)
def test_a_stored_object_that_is_broken_may_still_be_updated_with_a_warning(stored: Raw) -> None:
    """Rules that came later must not lock people out of what they have (V4)."""
    assert {problem.rule for problem in errors(stored)} <= {"V1", "V2"}
    changed = deepcopy(stored)
    changed["spec"]["queue"] = "research"
    assert errors(changed, old=stored) == []
    assert places(warnings(changed, old=stored)) == places(errors(stored))


@pytest.mark.parametrize("broken", BREAKAGES.values(), ids=BREAKAGES)
def test_an_object_that_was_sound_may_not_be_broken_by_an_update(broken: Raw) -> None:
    """New breakage is refused on update as on create (V4)."""
    sound = podgroup(group("a", 1), group("b", 1))
    assert places(errors(broken, old=sound)) == places(errors(broken))


@pytest.mark.parametrize("broken", BREAKAGES.values(), ids=BREAKAGES)
def test_a_new_object_may_not_be_broken(broken: Raw) -> None:
    """The ratchet is for stored objects alone (V4)."""
    assert errors(broken)


def test_a_second_breakage_beside_a_stored_one_is_refused() -> None:
    """What was broken is a warning; what is broken now is an error (V4)."""
    stored = podgroup(group("a"), group("b", 1))
    changed = podgroup(group("a"), group("b", 0))
    assert places(errors(changed, old=stored)) == ["spec.subGroups[1].minMember"]
    assert places(warnings(changed, old=stored)) == ["spec.subGroups[0].minMember"]


def test_the_same_breakage_on_another_group_is_refused() -> None:
    """That one leaf says nothing does not allow the next one to (V4)."""
    stored = podgroup(group("a"), group("b", 1))
    assert places(errors(podgroup(group("a"), group("b")), old=stored)) == ["spec.subGroups[1].minMember"]
    assert places(errors(podgroup(group("a", 1), group("b")), old=stored)) == ["spec.subGroups[1].minMember"]


def test_the_same_breakage_on_a_group_that_is_added_is_refused() -> None:
    """A new SubGroup is new (V4)."""
    stored = podgroup(group("a"))
    assert places(errors(podgroup(group("a"), group("b")), old=stored)) == ["spec.subGroups[1].minMember"]


def test_pods_in_all_on_the_podgroup_do_not_allow_them_on_a_branch() -> None:
    """The PodGroup is a place of its own (V4, V2)."""
    stored = podgroup(group("x"), group("a", 2, parent="x"), group("b", 2, parent="x"), minMember=4)
    changed = podgroup(group("x", 4), group("a", 2, parent="x"), group("b", 2, parent="x"))
    assert places(errors(changed, old=stored)) == ["spec.subGroups[0].minMember"]
    assert errors(stored, old=changed) == []


def test_another_breakage_of_the_same_group_is_refused() -> None:
    """Pods on a branch are as they were; a second minimum beside them is not (V4)."""
    stored = podgroup(group("x", 4), group("a", 2, parent="x"), group("b", 2, parent="x"))
    changed = podgroup(group("x", 4, of=1), group("a", 2, parent="x"), group("b", 2, parent="x"))
    assert [problem.rule for problem in errors(changed, old=stored)] == ["V1"]


def test_a_breakage_stays_the_same_when_its_group_moves_in_the_list() -> None:
    """A group is known by its name, not by its place (V4)."""
    stored = podgroup(group("a"), group("b", 1))
    changed = podgroup(group("c", 1), group("b", 1), group("a"))
    assert errors(changed, old=stored) == []
    assert places(warnings(changed, old=stored)) == ["spec.subGroups[2].minMember"]


def test_a_breakage_that_is_mended_is_not_spoken_of() -> None:
    """Only what is broken now is reported (V4)."""
    assert problems(podgroup(group("a", 1), group("b", 1)), old=podgroup(group("a"), group("b", 1))) == []


def test_a_breakage_that_was_mended_may_not_come_back() -> None:
    """The ratchet turns one way (V4)."""
    assert errors(podgroup(group("a")), old=podgroup(group("a", 1)))


TANGLED: dict[str, Raw] = {
    "a name twice": podgroup(group("a", 1), group("a", 1)),
    "a name that is no label": podgroup(group("A", 1)),
    "an unknown parent": podgroup(group("a", 1), group("b", 1, parent="nobody")),
    "its own parent": podgroup(group("a", parent="a"), group("b", 1)),
    "a circle": podgroup(group("a", parent="b"), group("b", parent="a"), group("c", 1)),
}


@pytest.mark.parametrize("stored", TANGLED.values(), ids=TANGLED)
def test_what_is_no_tree_is_refused_even_if_it_is_stored(stored: Raw) -> None:
    """The ratchet is for V1 and V2 only; what breaks V3 means nothing, stored or not (V4)."""
    assert places(errors(stored, old=stored), "V3") == places(errors(stored), "V3") != []


def test_an_unknown_word_is_refused_even_if_it_is_stored() -> None:
    """The ratchet is for V1 and V2 only (V4, P1)."""
    stored = podgroup(preemptibility="maybe")
    assert places(errors(stored, old=stored)) == ["spec.preemptibility"]


def test_the_command_line_judges_an_update_by_what_is_stored(tmp_path: Path) -> None:
    """`--old` lets the stored breakage pass with a warning; without it the same file is refused (V4)."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(podgroup(group("a"), group("b", 1))))
    new.write_text(json.dumps(podgroup(group("a"), group("b", 1), queue="research")))
    passed = run("validate", "--old", str(old), str(new))
    assert (passed.code, "warning: spec.subGroups[0].minMember" in passed.out) == (0, True)
    assert run("validate", str(new)).code == 1


# V5 -----------------------------------------------------------------------------------------------------------------


def running(*groups: Raw, preemptibility: str = "semi-preemptible", **spec: Any) -> Raw:
    """A stored PodGroup whose pods run."""
    raw = podgroup(*groups, preemptibility=preemptibility, **spec)
    return raw | {"status": {"phase": "Running", "running": 8, "satisfied": True}}


def deep(minimum: int, of: int | None = None) -> tuple[Raw, ...]:
    """A leaf five levels down, beside another."""
    above = [group(f"s{i}", parent=f"s{i - 1}" if i else "") for i in range(4)]
    branch = group("s4", parent="s3", of=of)
    return (*above, branch, group("leaf", minimum, parent="s4"), group("beside", 1, parent="s4"))


ABC = (group("a", 2), group("b", 2), group("c", 2))
NESTED = (group("a", 2, parent="x"), group("b", 2, parent="x"), group("c", 2, parent="x"))

RAISES: dict[str, tuple[Raw, Raw, str]] = {
    "pods of a PodGroup": (running(minMember=2), running(minMember=3), "spec.minMember"),
    "pods of a PodGroup that said nothing": (running(), running(minMember=2), "spec.minMember"),
    "children of the PodGroup": (running(*ABC, minSubGroup=1), running(*ABC, minSubGroup=2), "spec.minSubGroup"),
    "children of the PodGroup to all, unsaid": (running(*ABC, minSubGroup=2), running(*ABC), "spec.minSubGroup"),
    "children of the PodGroup, one more than all there were": (
        running(*ABC),
        running(*ABC, group("d", 2), minSubGroup=4),
        "spec.minSubGroup",
    ),
    "children of a branch": (
        running(group("x", of=1), *NESTED),
        running(group("x", of=3), *NESTED),
        "spec.subGroups[0].minSubGroup",
    ),
    "children of a branch to all, unsaid": (
        running(group("x", of=2), *NESTED),
        running(group("x"), *NESTED),
        "spec.subGroups[0].minSubGroup",
    ),
    "pods of a leaf": (
        running(group("a", 2), group("b", 2)),
        running(group("a", 2), group("b", 3)),
        "spec.subGroups[1].minMember",
    ),
    "pods of a stored leaf that said nothing": (
        running(group("a")),
        running(group("a", 2)),
        "spec.subGroups[0].minMember",
    ),
    "pods of a leaf that need not run": (
        running(*ABC, minSubGroup=2),
        running(*ABC[:2], group("c", 3), minSubGroup=2),
        "spec.subGroups[2].minMember",
    ),
    "pods of a deep leaf": (running(*deep(4)), running(*deep(5)), "spec.subGroups[5].minMember"),
    "children of a deep branch": (running(*deep(4, of=1)), running(*deep(4, of=2)), "spec.subGroups[4].minSubGroup"),
    "pods of a leaf that moves in the list": (
        running(group("a", 2), group("b", 2)),
        running(group("b", 3), group("a", 2)),
        "spec.subGroups[0].minMember",
    ),
    "stored pods of a branch": (
        running(group("x", 6), *NESTED),
        running(group("x", 7), *NESTED),
        "spec.subGroups[0].minMember",
    ),
    "stored pods of the PodGroup": (running(*ABC, minMember=6), running(*ABC, minMember=9), "spec.minMember"),
}


@pytest.mark.parametrize(("stored", "changed", "at"), RAISES.values(), ids=RAISES)
def test_raising_a_minimum_of_a_running_semi_preemptible_gang_is_refused(stored: Raw, changed: Raw, at: str) -> None:
    """Pods that others could count on to leave would become protected behind their backs (V5)."""
    assert places(errors(changed, old=stored), "V5") == [at]


@pytest.mark.parametrize(("raised", "lowered"), [(new, old) for old, new, _ in RAISES.values()], ids=RAISES)
def test_lowering_a_minimum_of_a_running_semi_preemptible_gang_is_allowed(raised: Raw, lowered: Raw) -> None:
    """The same steps the other way round protect fewer pods (V5)."""
    assert places(errors(lowered, old=raised), "V5") == []


@pytest.mark.parametrize("word", ["preemptible", "non-preemptible"])
@pytest.mark.parametrize(("stored", "changed", "_at"), RAISES.values(), ids=RAISES)
def test_other_gangs_may_raise_their_minimums(stored: Raw, changed: Raw, _at: str, word: str) -> None:
    """All or none of their pods are protected anyway (V5)."""
    stored, changed = deepcopy(stored), deepcopy(changed)
    stored["spec"]["preemptibility"] = changed["spec"]["preemptibility"] = word
    assert places(errors(changed, old=stored), "V5") == []


@pytest.mark.parametrize(("stored", "changed", "_at"), RAISES.values(), ids=RAISES)
def test_a_gang_that_does_not_run_may_raise_its_minimums(stored: Raw, changed: Raw, _at: str) -> None:
    """Nothing of it is placed, so no other gang loses anything (V5)."""
    waiting = deepcopy(stored) | {"status": {"phase": "Pending", "pending": 8}}
    assert places(errors(changed, old=waiting), "V5") == []


def test_a_gang_that_is_semi_preemptible_by_its_label_may_not_raise_either() -> None:
    """The label says what the spec leaves out (V5, P1)."""
    stored, changed = running(minMember=2, preemptibility=""), running(minMember=3, preemptibility="")
    for one in (stored, changed):
        one["metadata"]["labels"] = {"kai.scheduler/preemptibility": "semi-preemptible"}
    assert places(errors(changed, old=stored), "V5") == ["spec.minMember"]


def test_every_raised_minimum_is_reported_with_both_numbers() -> None:
    """All problems at once (V5)."""
    all_errors = errors(running(group("a", 5), group("b", 7)), old=running(group("a", 2), group("b", 3)))
    assert places(all_errors, "V5") == ["spec.subGroups[0].minMember", "spec.subGroups[1].minMember"]
    assert "2" in all_errors[0].says
    assert "5" in all_errors[0].says
    assert all(problem.hint for problem in all_errors)


ALLOWED: dict[str, tuple[Raw, Raw]] = {
    "nothing": (running(*ABC, minSubGroup=2), running(*ABC, minSubGroup=2)),
    "a child more among those that are all needed": (running(*ABC), running(*ABC, group("d", 2))),
    "a child more beside those that are needed": (
        running(*ABC, minSubGroup=2),
        running(*ABC, group("d", 9), minSubGroup=2),
    ),
    "a child more below a branch": (
        running(group("x"), *NESTED),
        running(group("x"), *NESTED, group("d", 2, parent="x")),
    ),
    "a child less among those that are all needed": (running(*ABC), running(*ABC[:2])),
    "a child less beside those that are needed": (running(*ABC, minSubGroup=2), running(*ABC[:2], minSubGroup=2)),
    "a branch more": (running(*ABC), running(*ABC, group("x"), group("y", 1, parent="x"))),
    "all, unsaid, said now": (running(*ABC), running(*ABC, minSubGroup=3)),
    "all of a branch, unsaid, said now": (running(group("x"), *NESTED), running(group("x", of=3), *NESTED)),
    "all, said, unsaid now": (running(*ABC, minSubGroup=3), running(*ABC)),
    "one pod, unsaid, said now": (running(), running(minMember=1)),
    "one pod of a stored leaf, unsaid, said now": (running(group("a")), running(group("a", 1))),
    "all there were, said, and a child more": (running(*ABC), running(*ABC, group("d", 2), minSubGroup=3)),
    "the queue": (running(*ABC), running(*ABC, queue="research")),
    "the order": (running(*ABC), running(*reversed(ABC))),
    "the stored pods of a branch for its children": (
        running(group("x", 6), *NESTED),
        running(group("x", of=3), *NESTED),
    ),
}


@pytest.mark.parametrize(("stored", "changed"), ALLOWED.values(), ids=ALLOWED)
def test_other_changes_of_a_running_semi_preemptible_gang_are_allowed(stored: Raw, changed: Raw) -> None:
    """Children come and go, and saying what was meant changes nothing (V5)."""
    assert errors(changed, old=stored) == []


def test_removing_children_is_allowed_only_while_the_result_is_valid() -> None:
    """Two of three cannot become two of one (V5, V2)."""
    changed = running(*ABC[:1], minSubGroup=2)
    assert places(errors(changed, old=running(*ABC, minSubGroup=2))) == ["spec.minSubGroup"]


def test_raising_a_stored_breakage_is_refused_though_the_breakage_passes() -> None:
    """The ratchet forgives the form, never the raise (V4, V5)."""
    stored, changed, _ = RAISES["stored pods of a branch"]
    assert [problem.rule for problem in errors(changed, old=stored)] == ["V5"]
    assert "V2" in {problem.rule for problem in warnings(changed, old=stored)}


def test_the_command_line_refuses_a_raised_minimum(tmp_path: Path) -> None:
    """The answer is no: exit code 1 (V5)."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(running(minMember=2)))
    new.write_text(json.dumps(running(minMember=3)))
    ran = run("validate", "--old", str(old), str(new))
    assert (ran.code, "spec.minMember" in ran.out) == (1, True)
    assert run("validate", str(new)).code == 0


def test_a_total_that_was_not_there_is_to_be_left_out() -> None:
    """V5: `at most 0` would be advice that V1 refuses."""
    stored = podgroup(group("a", 1), preemptibility="semi-preemptible")
    changed = podgroup(group("a", 1), preemptibility="semi-preemptible", minMember=5)
    (error,) = errors(changed, old=stored)
    assert error.hint.startswith("leave it out; ")

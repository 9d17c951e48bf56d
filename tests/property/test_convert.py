"""D1-D5: a converted gang means what its source meant, nothing is lost on the way, and once is enough."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import muster
from muster.api.codec import to_yaml
from muster.api.decoding import decode
from muster.api.podgroup import PodGroup
from muster.conversion.older_formats import READINGS, Reading
from muster.errors import Refused
from muster.model.gang.state import is_satisfied
from muster.validation.podgroup import FORM, judge
from tests.property.older import (
    asking_too_much,
    conversion,
    converted,
    counting_children,
    counting_pods,
    crossing,
    enough_children,
    expressible,
    older,
    said,
    spelt_otherwise,
    topology_of,
    unguaranteed,
    with_both_fields,
    with_constraint_sets,
    with_topologies,
)
from tests.property.trees import Dice, dice, fewer, invented, leaves, meets_minimums, part
from tests.support.factories import Raw, gang, group, podgroup

readings = st.sampled_from(READINGS)


def placements(drawn: Dice, manifest: Raw, number: int = 3) -> list[dict[str, int]]:
    """Pods by leaf: exactly what each needs, and some with a few more or less."""
    need = {leaf: part(manifest, leaf).get("minMember") or 1 for leaf in leaves(manifest)}
    return [{leaf: max(need[leaf] + drawn.one_of((0, 0, 0, 1, -1, -9)), 0) for leaf in need} for _ in range(number)]


def runs(manifest: Raw, have: dict[str, int]) -> bool:
    return is_satisfied(gang(manifest, [raw for leaf in have for raw in invented(leaf, have[leaf])]).root)


# minimums (D1, D2, M5) ----------------------------------------------------------------------------------------------


@given(dice().map(counting_children), dice(40))
def test_read_as_children_a_branch_needs_as_many_children_as_before(source: Raw, drawn: Dice) -> None:
    """D1: `minMember: 2` over three children is two of three, at every level."""
    result = converted(source, "children")
    for have in placements(drawn, source):
        assert runs(result, have) == enough_children(source, have)


@given(st.one_of(dice().map(with_both_fields), dice().map(counting_pods)), dice(40))
def test_a_number_of_pods_that_the_children_guarantee_is_dropped_in_peace(source: Raw, drawn: Dice) -> None:
    """D2 and M5: where so many pods run anyway, the number says nothing more; all other minimums stay."""
    result = converted(source, "pods")
    for have in placements(drawn, source):
        assert runs(result, have) == meets_minimums(source, have)


@given(dice().map(asking_too_much))
def test_a_number_of_pods_that_the_children_do_not_guarantee_is_refused_with_both_numbers(source: Raw) -> None:
    """D2: dropping it would let a smaller gang start; the message says how much is missing."""
    text = refusal(source, "pods")
    assert any(str(stated) in text and str(sure) in text for stated, sure in unguaranteed(source))


@given(dice().map(with_both_fields))
def test_a_file_that_knows_min_sub_group_counts_pods_with_min_member(source: Raw) -> None:
    """D5: both fields in one file leave no doubt what `minMember` counts."""
    if "minSubGroup" in str(source):
        assert answer(source, "auto") == answer(source, "pods")


@given(st.one_of(dice().map(counting_children), dice().map(counting_pods)))
def test_automatic_reading_chooses_one_of_the_two_or_shows_both(source: Raw) -> None:
    """D5: there is no third meaning, and where both are possible none is guessed."""
    both = answer(source, "children"), answer(source, "pods")
    if both == (None, None):
        assert answer(source, "auto") is None
    else:
        assert answer(source, "auto") in both or "--dialect children" in refusal(source)


def answer(source: Raw, reading: Reading) -> Raw | None:
    try:
        return converted(source, reading)
    except Refused:
        return None


def refusal(source: Raw, reading: Reading = "auto") -> str:
    with pytest.raises(Refused) as refused:
        converted(source, reading)
    return str(refused.value)


@given(dice().map(spelt_otherwise))
def test_the_older_spelling_is_nothing_but_a_spelling(source: Raw) -> None:
    """D4: `subgroups` converts to what `subGroups` says."""
    spec = {("subGroups" if key == "subgroups" else key): value for key, value in source["spec"].items()}
    assert converted(source) == converted(source | {"spec": spec})


# constraints (D3) ---------------------------------------------------------------------------------------------------


@fewer
@given(dice().map(with_constraint_sets), dice(40))
def test_the_same_leaves_sit_together_after_constraints_have_moved(source: Raw, drawn: Dice) -> None:
    """D3: a constraint holds exactly the pods together that it held before, none is lost, and no minimum changes."""
    result = answer(source, "auto")
    if result is None:
        return
    assert said(result) == said(source)
    for have in placements(drawn, source):
        assert runs(result, have) == meets_minimums(source, have)


@given(dice().map(with_topologies))
def test_a_level_is_still_meant_in_the_same_topology(source: Raw) -> None:
    """T4: a new branch must not hand its Topology down to a group that used to inherit another one."""
    result = answer(source, "auto")
    if result is None:
        return
    named = [raw["name"] for raw in source["spec"]["subGroups"] if raw.get("topologyConstraint")]
    for name in named:
        assert topology_of(source, name) in ("", topology_of(result, name)), name


@given(dice().map(with_constraint_sets))
def test_constraints_are_refused_only_where_no_group_could_carry_them(source: Raw) -> None:
    """D3: a set is refused if it is neither a group nor some siblings of a parent that needs them, or if two cross."""
    if answer(source, "auto") is None:
        sets = [together for together, _ in said(source)]
        assert crossing(sets) or not all(expressible(source, together) for together in sets)


@pytest.mark.parametrize("length", [1, 54, 55, 56, 63])
def test_a_name_of_any_length_leaves_room_for_the_name_of_a_new_branch(length: int) -> None:
    """The name of the branch is made from it, and must be a DNS label too."""
    name, level = "a" * length, "requiredTopologyLevel"
    source = podgroup(group(name, 1, topologyConstraint={level: "rack"}), group("b", 1))
    source["spec"]["topologyConstraints"] = {"subGroups": {name: {level: "zone"}}}
    assert said(converted(source)) == said(source)


def test_two_constraints_on_a_podgroup_without_groups_are_answered() -> None:
    """There is no group to wrap: the two are the same, or it is refused."""
    source = podgroup(minMember=2, topologyConstraint={"requiredTopologyLevel": "rack"})
    source["spec"]["topologyConstraints"] = {"global": {"requiredTopologyLevel": "zone"}}
    with pytest.raises(Refused):
        converted(source)


# every dialect ------------------------------------------------------------------------------------------------------


@given(dice().map(older), readings)
def test_converting_twice_is_converting_once(source: Raw, reading: Reading) -> None:
    """The form of record is recognised as such, whichever way it is read, and stays the same byte for byte."""
    result = answer(source, reading)
    if result is None:
        return
    for again in READINGS:
        second = conversion(copy.deepcopy(result), again)
        assert second.changes == ()
        assert to_yaml([second.raw]) == to_yaml([result])


@fewer
@given(dice().map(older), readings)
def test_what_was_converted_is_valid(source: Raw, reading: Reading) -> None:
    """V1-V3 hold for every result, and nothing of an older form is left in it."""
    result = answer(source, reading)
    if result is None:
        return
    assert list(judge(decode(result, PodGroup)[0].spec, FORM)) == []
    assert [problem for problem in muster.validate(result) if problem.severity == "error"] == []


@fewer
@given(dice().map(older), readings)
def test_fields_that_muster_does_not_know_survive(source: Raw, reading: Reading) -> None:
    """People keep their own notes in objects; a conversion is not a clean-up."""
    added = marked(source)
    result = answer(source, reading)
    if result is None:
        return
    assert marked_fields(result) == added


def marked(source: Raw) -> list[str]:
    """Puts a field of its own into every object that stays an object, and lists the values."""
    spec = source["spec"]
    holders = [source, source["metadata"], spec, *(spec.get("subGroups") or spec.get("subgroups") or ())]
    holders += [raw["topologyConstraint"] for raw in holders if "topologyConstraint" in raw]
    for i, holder in enumerate(holders):
        holder["x-note"] = f"mark-{i}"
    return sorted(f"mark-{i}" for i in range(len(holders)))


def marked_fields(value: Any) -> list[str]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [mark for _, inner in inside for mark in marked_fields(inner)]
    return sorted([*below, value["x-note"]] if isinstance(value, dict) and "x-note" in value else below)


@fewer
@given(dice().map(older), readings)
def test_a_null_is_not_set_in_older_dialects_too(source: Raw, reading: Reading) -> None:
    """Clients write `null` for what is not set; beside an older field it must not win over its new name."""
    nulled = copy.deepcopy(source)
    for raw in (nulled["spec"], *(nulled["spec"].get("subGroups") or ())):
        for field in ("minMember", "minSubGroup", "parent", "topologyConstraint"):
            raw.setdefault(field, None)
    assert settled(answer(nulled, reading)) == settled(answer(source, reading))


def test_an_older_field_that_is_null_is_not_there() -> None:
    """`topologyConstraints: null` says nothing that could be ignored, and nothing that would have to be converted."""
    source = podgroup(minMember=1, subgroups=None, topologyConstraints=None)
    assert muster.validate(source) == []
    assert muster.validate(converted(source)) == []


def settled(result: Any) -> Any:
    """Without what is null."""
    if isinstance(result, dict):
        return {key: settled(value) for key, value in result.items() if value is not None}
    return [settled(value) for value in result] if isinstance(result, list) else result


def test_random_constraints_are_often_converted_and_often_refused() -> None:
    """A generator that never converts, or never refuses, proves nothing."""
    outcomes: list[bool] = []

    @given(dice().map(with_constraint_sets))
    def look(source: Raw) -> None:
        outcomes.append(answer(source, "auto") is not None)

    look()
    assert 0.2 < sum(outcomes) / len(outcomes) < 0.95

"""Updates in older dialects (D1-D5): what is stored afterwards is what a new object of the same manifest would be."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.codec import Document
from muster.conversion.older_formats import convert, may_be_older
from muster.conversion.update_conversion import Managers, convert_update
from muster.errors import MusterError, Refused
from tests.property.applied import client_side, ever_set, managed, noted, server_side
from tests.property.older import (
    conversion,
    converted,
    counting_children,
    older,
    spelt_otherwise,
    with_both_fields,
    with_constraint_sets,
)
from tests.property.trees import Dice, children, dice
from tests.support.factories import Raw, group, podgroup

WAYS = {"server-side": server_side, "client-side": client_side}
FOUR = [group(name, 8) for name in "abcd"]
ZONE, RACK = {"requiredTopologyLevel": "zone"}, {"requiredTopologyLevel": "rack"}
either_way = pytest.mark.parametrize("way", list(WAYS))


def manifest(**spec: Any) -> Raw:
    """Four groups of eight, unless it says otherwise."""
    return podgroup() | {"spec": {"subGroups": FOUR} | spec}


def laid(stored: Raw, new: Raw, managers: Any) -> Raw:
    """The spec that is stored after an update."""
    done = convert_update(Document("request", podgroup() | {"spec": new}), {"spec": stored}, Managers(managers))
    spec: Raw = done.raw["spec"]
    return spec


def applied(way: str, before: Raw, now: Raw) -> Raw:
    """One manifest, and then another."""
    was, says = before["spec"], now["spec"]
    stored = converted(before)["spec"]
    new, old = podgroup() | {"spec": WAYS[way](stored, was, says)}, podgroup() | {"spec": stored}
    managers = Managers(managed(says), managed(was))
    if way == "client-side":
        managers = Managers(ever_set(was, says), ever_set(was))
        new, old = new | {"metadata": noted(says)}, old | {"metadata": noted(was)}
    spec: Raw = convert_update(Document("request", new), old, managers).raw["spec"]
    return spec


# every dialect, both ways ---------------------------------------------------------------------------------------------

EDITS = {
    "D1": (manifest(minMember=2), manifest(minMember=3)),
    "D1, lowered": (manifest(minMember=3), manifest(minMember=2)),
    "D2": (manifest(minMember=16, minSubGroup=2), manifest(minMember=24, minSubGroup=3)),
    "D2, only the pods": (manifest(minMember=3, minSubGroup=2), manifest(minMember=16, minSubGroup=2)),
    "D3": (
        manifest(topologyConstraints={"subGroupSets": [{"subGroups": ["a", "b"], "constraint": RACK}]}),
        manifest(topologyConstraints={"subGroupSets": [{"subGroups": ["b", "c"], "constraint": ZONE}]}),
    ),
    "D3, global": (manifest(topologyConstraints={"global": ZONE}), manifest(topologyConstraints={"global": RACK})),
    "D4": (
        podgroup() | {"spec": {"subgroups": FOUR}},
        podgroup() | {"spec": {"subgroups": [group("a", 9), group("e", 3)]}},
    ),
    "D1 and D4": (
        podgroup() | {"spec": {"minMember": 2, "subgroups": FOUR}},
        podgroup() | {"spec": {"minMember": 3, "subgroups": FOUR}},
    ),
    "M5 to D1": (manifest(minMember=32), manifest(minMember=3)),
    "D1, taken back": (manifest(minMember=2), manifest()),
    "D3, taken back": (
        manifest(topologyConstraints={"subGroupSets": [{"subGroups": ["a", "b"], "constraint": RACK}]}),
        manifest(),
    ),
    "D4, converted and shortened": (podgroup() | {"spec": {"subgroups": FOUR}}, manifest(subGroups=FOUR[:3])),
    "D4, taken back": (podgroup() | {"spec": {"subgroups": FOUR}}, podgroup(minMember=3)),
    "D1 to the form of record": (manifest(minMember=2), manifest(minSubGroup=3)),
}


@either_way
@pytest.mark.parametrize("dialect", list(EDITS))
def test_an_edit_of_a_manifest_is_stored(way: str, dialect: str) -> None:
    """What `kubectl apply` lays over the stored form of record is read as the manifest alone."""
    before, now = EDITS[dialect]
    assert applied(way, before, now) == converted(now)["spec"]
    assert applied(way, now, before) == converted(before)["spec"]


@either_way
@pytest.mark.parametrize("dialect", list(EDITS))
def test_the_same_manifest_again_changes_nothing(way: str, dialect: str) -> None:
    """GitOps applies what it has every few minutes."""
    for same in EDITS[dialect]:
        assert applied(way, same, same) == converted(same)["spec"]


@either_way
def test_branches_at_any_depth_are_edited(way: str) -> None:
    """D1 below the top: the API server merges SubGroups by name, field by field; a merge patch replaces the list."""

    def nested(of_root: int, of_role: int) -> Raw:
        leaves = [group(f"w{i}", 5, parent="role") for i in range(4)]
        role = group("role") | {"minMember": of_role}
        return podgroup() | {"spec": {"minMember": of_root, "subGroups": [role, *leaves, *FOUR[:2]]}}

    assert applied(way, nested(2, 2), nested(3, 4)) == converted(nested(3, 4))["spec"]


@st.composite
def edited(draw: st.DrawFn) -> tuple[Raw, Raw]:
    """A manifest of one dialect, and another one with other numbers or other sets."""
    source = draw(st.sampled_from((counting_children, with_both_fields, with_constraint_sets, spelt_otherwise)))
    before = draw(dice().map(source))
    now, dealt = copy.deepcopy(before), draw(dice(40))
    if source is with_constraint_sets:
        sets = with_constraint_sets(dealt)["spec"]["topologyConstraints"].get("global")
        now["spec"]["topologyConstraints"] |= {"global": sets} if sets else {}
        if not dealt.roll(4):
            del now["spec"]["topologyConstraints"]
    else:
        _renumber(now, dealt)
    return before, now


def _renumber(raw: Raw, dealt: Dice) -> None:
    for part in (raw["spec"], *raw["spec"].get("subGroups", ()), *raw["spec"].get("subgroups", ())):
        below = len(children(raw, part.get("name", ""))) if "subGroups" in raw["spec"] else 0
        for field, most in (("minMember", below or 5), ("minSubGroup", below)):
            if part.get(field) and most:
                part[field] = 1 + dealt.roll(most)
                if below and not dealt.roll(5):
                    del part[field]


@given(edited(), st.sampled_from(list(WAYS)))
def test_any_edit_is_stored_as_a_new_object_would_be(pair: tuple[Raw, Raw], way: str) -> None:
    """And refused where that would be refused."""
    before, now = pair
    try:
        converted(before)
    except Refused:
        return
    try:
        wanted = converted(now)["spec"]
    except Refused:
        with pytest.raises(Refused):
            applied(way, before, now)
        return
    assert applied(way, before, now) == wanted


# other ways of writing ------------------------------------------------------------------------------------------------

STORED = converted(manifest(minMember=2))["spec"]


def test_an_older_field_that_is_put_beside_an_unstated_number_replaces_it() -> None:
    """`kubectl edit` and `kubectl patch`: what stands there was made of an older field."""
    by_edit = [{"manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:minMember": {}}}}]
    assert laid(STORED, STORED | {"minMember": 3}, by_edit)["minSubGroup"] == 3


def test_without_word_of_managers_what_is_new_replaces_what_is_not() -> None:
    """Not every client keeps `managedFields`: what was there before the update is the older statement of the two."""
    assert laid(STORED, STORED | {"minMember": 3}, None) == STORED | {"minSubGroup": 3}
    assert laid(STORED, STORED | {"minMember": 3, "minSubGroup": 1}, None) == STORED | {"minSubGroup": 1}, "D2"


def test_a_manifest_that_is_forgotten_is_not_taken_back() -> None:
    """Its note is removed, or its manager is: nobody has said that the number should go."""
    stored, managers = podgroup() | {"spec": STORED}, managed({"queue": "q"})
    noting = stored | {"metadata": noted({"minMember": 2, "subGroups": FOUR})}
    for old, before, now in (
        (noting, None, managers),
        (noting, managers, managers),
        (stored, managed({"minMember": 2}, {"queue": "q"}), managed({"queue": "q"}, manager="other-0")),
    ):
        assert convert_update(Document("request", stored), old, Managers(now, before)).raw["spec"] == STORED


def test_an_object_that_was_written_whole_has_nothing_left_over() -> None:
    """`kubectl replace` of both fields: D2, whoever stated the same number before."""
    new = Document("request", manifest(minMember=16, minSubGroup=2))
    done = convert_update(new, {"spec": STORED}, Managers(managed({"minMember": 16})), whole=True)
    assert done.raw["spec"]["minSubGroup"] == 2


@pytest.mark.parametrize(("mine", "theirs"), [(2, 4), (3, 1)])
def test_two_managers_that_exclude_each_other_are_refused_with_both_numbers(mine: int, theirs: int) -> None:
    """One manager has edited the stored number, and another applies the older manifest: it is refused."""
    stored = STORED | {"minSubGroup": theirs}
    managers = managed({"minMember": mine, "subGroups": FOUR}, {"minSubGroup": theirs})
    with pytest.raises(Refused, match=f"minMember: {mine} of `kubectl` and spec.minSubGroup: {theirs} of `other-0`"):
        laid(stored, stored | {"minMember": mine}, managers)


def test_a_number_of_another_manager_does_not_change_what_a_manifest_counts() -> None:
    """D5: another manager's `minSubGroup` must not make pods of the children that the manifest counts."""
    role, leaves = group("role", of=1), [group(f"w{i}", 5, parent="role") for i in range(3)]
    stored = {"minSubGroup": 2, "subGroups": [role, *leaves, *FOUR[:2]]}
    manifest = {"minMember": 2, "subGroups": [group("role"), *leaves, *FOUR[:2]]}
    theirs = {"subGroups": [role]}
    with pytest.raises(Refused, match="exclude each other"):
        laid(stored, stored | {"minMember": 2}, managed(manifest, theirs))


def test_groups_that_another_manager_has_edited_are_not_dropped() -> None:
    """D4: the stored groups hold another manager's number; the older list beside them is refused."""
    stored = {"subGroups": FOUR}
    with pytest.raises(Refused, match="has both"):
        laid(stored, stored | {"subgroups": FOUR}, managed({"subgroups": FOUR}, {"subGroups": [FOUR[0]]}))


def test_a_branch_that_becomes_a_leaf_counts_its_pods() -> None:
    """What counted its children goes with them."""
    stored = converted(podgroup() | {"spec": {"subGroups": [group("r") | {"minMember": 2}, *below("r")]}})["spec"]
    now = {"subGroups": [group("r") | {"minMember": 5}]}
    new = {"subGroups": [{"name": "r", "minSubGroup": 2, "minMember": 5}]}
    assert laid(stored, new, managed(now)) == now


def test_a_leaf_that_becomes_a_branch_needs_all_its_children() -> None:
    """The 1 that a conversion wrote counted pods: it must not count children now."""
    stored = converted(podgroup() | {"spec": {"subGroups": [group("r")]}})["spec"]
    assert stored == {"subGroups": [{"name": "r", "minMember": 1}]}
    now = {"subGroups": [group("r"), *below("r")]}
    new = {"subGroups": [{"name": "r", "minMember": 1}, *below("r")]}
    assert laid(stored, new, managed(now)) == now


def below(parent: str) -> list[Raw]:
    return [group(f"{parent}-{i}", 8, parent=parent) for i in range(4)]


@pytest.mark.parametrize("managers", [None, 3, [], [3], [{}], [{"fieldsV1": 3}], [{"fieldsV1": {"f:spec": 3}}]])
def test_whatever_managed_fields_are_there_is_an_answer(managers: Any) -> None:
    """Any client may write them."""
    assert laid(STORED, STORED | {"queue": "q"}, managers) == STORED | {"queue": "q"}


@pytest.mark.parametrize("spec", [None, 3, [], {"subGroups": 3}, {"subGroups": [3]}, {"subGroups": [{"name": []}]}])
def test_whatever_a_spec_is_there_is_an_answer_or_a_refusal(spec: Any) -> None:
    for new, old in ((spec, STORED), (STORED | {"minMember": 3}, spec)):
        with contextlib.suppress(MusterError):
            managers = Managers(managed({"minMember": 3}), managed({"minMember": 2}))
            convert_update(Document("request", podgroup() | {"spec": new}), {"spec": old}, managers)


# the look before ------------------------------------------------------------------------------------------------------


@given(dice().map(older))
def test_whatever_can_be_converted_may_be_older(source: Raw) -> None:
    """A quick no is certain: the slow definition is `convert` itself."""
    try:
        done = conversion(source, "children")
    except Refused:
        return
    assert may_be_older(source["spec"]) or not done.changes
    assert not may_be_older(converted(done.raw)["spec"])
    assert convert(Document("here", done.raw)).changes == ()

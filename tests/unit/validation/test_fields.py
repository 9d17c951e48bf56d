"""Paths into a PodGroup's spec."""

from typing import Any

import pytest

from muster.api.podgroup import PodGroupSpec, SubGroup, TopologyConstraint
from muster.errors import InputError
from muster.validation.fields import Part, set_field, settable_paths, suggest

SPEC = PodGroupSpec(
    queue="q",
    sub_groups=(
        SubGroup(name="a", min_member=1),
        SubGroup(name="b", topology_constraint=TopologyConstraint(topology="t")),
    ),
)


@pytest.mark.parametrize("kind", [PodGroupSpec, SubGroup, TopologyConstraint])
def test_every_path_that_a_hint_lists_can_be_set(kind: type[Part]) -> None:
    """A hint that does not work is worse than none. An empty value unsets a field of any type."""
    front = {PodGroupSpec: "", SubGroup: "subGroups.a.", TopologyConstraint: "topologyConstraint."}[kind]
    for path in settable_paths(kind):
        if "NAME" not in path:
            assert set_field(SPEC, f"{front}{path}", "").now in (None, True, -1), path


@pytest.mark.parametrize(
    ("path", "value", "was", "now"),
    [
        ("queue", "r", "q", "r"),
        ("queue", "", "q", None),
        ("subGroups.a.minMember", "3", 1, 3),
        ("subGroups.a.parent", "b", None, "b"),
        ("subGroups.b.topologyConstraint.topology", "u", "t", "u"),
        ("subGroups.b.topologyConstraint", None, "set", None),
        ("schedulingBackoff", "1", -1, 1),
        ("markUnschedulable", "", True, True),
    ],
)
def test_a_change_has_the_values_before_and_after(path: str, value: Any, was: Any, now: Any) -> None:
    """Messages about a change print them; None: the field is not set."""
    change = set_field(SPEC, path, value)
    assert (change.was, change.now) == (was, now)


def test_setting_a_field_changes_no_other() -> None:
    """Neither in the same group nor in others."""
    spec = set_field(SPEC, "subGroups.b.minMember", 2).part
    assert spec.sub_groups[0] is SPEC.sub_groups[0]
    assert spec.sub_groups[1] == SubGroup(name="b", min_member=2, topology_constraint=TopologyConstraint(topology="t"))


@pytest.mark.parametrize(
    "path", ["", ".", "a.b.c", "subGroups", "subGroups.", "subGroups.a.", "queue.", "spec.queue", "…"]
)
def test_an_unknown_path_is_an_error_with_a_hint(path: str) -> None:
    """Never a traceback."""
    with pytest.raises(InputError) as raised:
        set_field(SPEC, path, "x")
    assert raised.value.hint


@pytest.mark.parametrize("path", ["queue", "minMember"])
def test_lone_surrogates_are_rejected(path: str) -> None:
    """A terminal with another encoding produces them, and they cannot be printed."""
    with pytest.raises(InputError, match="cannot be written out"):
        set_field(SPEC, path, "\udcff")


def test_similar_names_are_suggested_before_all_others() -> None:
    """The same name in another namespace first, then similar spellings, else the known names."""
    assert suggest("b/llama", ["a/llama", "a/lama", "b/bert"]) == "did you mean `a/llama` or `a/lama`?"
    assert suggest("zzz", ["a/llama", "b/bert"]) == "known: a/llama, b/bert"
    assert suggest("zzz", []) == "known: none"

"""D: older dialects in the form of record, or a refusal that says why."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.conversion.older_formats import Reading
from muster.errors import InputError
from muster.model.gang.state import is_satisfied
from tests.spec.scene import conversion, converted, named, problems, refusal, run
from tests.support.factories import Raw, gang, group, podgroup, pods

RACK = {"requiredTopologyLevel": "rack"}
BLOCK = {"requiredTopologyLevel": "block"}
ZONE = {"topology": "cluster", "requiredTopologyLevel": "zone"}


def minimums(spec: Raw) -> dict[str, tuple[int | None, int | None]]:
    """(`minMember`, `minSubGroup`) of every place, the PodGroup under the empty name."""
    places = {"": spec} | {part["name"]: part for part in spec.get("subGroups", ())}
    return {name: (place.get("minMember"), place.get("minSubGroup")) for name, place in places.items()}


def holds(spec: Raw, **leaves: int) -> bool:
    """Whether so many placed pods of each leaf satisfy a gang of this spec."""
    manifest = podgroup() | {"spec": spec}
    return is_satisfied(gang(manifest, [one for leaf, n in leaves.items() for one in pods(n, leaf, on="n")]).root)


# older files --------------------------------------------------------------------------------------------------------

REPLICAS = [group(f"prefill-{i}", 8) for i in range(4)]
SEMANTIC: dict[str, tuple[Raw, dict[str, int]]] = {
    "replicas": (podgroup(*REPLICAS, minMember=3), {"": 3}),
    "two roles": (podgroup(group("decode", 4), group("prefill", 1), minMember=2), {"": 2}),
    "leaders and workers": (
        podgroup(
            group("decode", 2),
            group("decode-workers", 4, parent="decode"),
            group("decode-leaders", 1, parent="decode"),
            group("prefill", 2),
            group("prefill-workers", 4, parent="prefill"),
            group("prefill-leaders", 1, parent="prefill"),
            minMember=2,
        ),
        {"": 2, "decode": 2, "prefill": 2},
    ),
    "leader-worker sets": (
        podgroup(
            *(
                part
                for i in range(4)
                for part in (
                    group(f"group-{i}", 2),
                    group(f"group-{i}-leader", 1, parent=f"group-{i}"),
                    group(f"group-{i}-workers", 5, parent=f"group-{i}"),
                )
            ),
            minMember=3,
        ),
        {"": 3, "group-0": 2, "group-1": 2, "group-2": 2, "group-3": 2},
    ),
    "replicas of each role": (
        podgroup(
            group("prefill", 3),
            *(group(f"prefill-{i}", 8, parent="prefill") for i in range(4)),
            group("decode", 1),
            *(group(f"decode-{i}", 4, parent="decode") for i in range(2)),
            minMember=2,
        ),
        {"": 2, "prefill": 3, "decode": 1},
    ),
    "one replica of two": (
        podgroup(
            *(
                part
                for i in (1, 2)
                for part in (
                    group(f"replica-{i}", 2),
                    group(f"leaders-{i}", 1, parent=f"replica-{i}"),
                    group(f"workers-{i}", 3, parent=f"replica-{i}"),
                )
            ),
            minMember=1,
        ),
        {"": 1, "replica-1": 2, "replica-2": 2},
    ),
    "a leader and two of three workers": (
        podgroup(group("leader", 1), *(group(f"workers-{i}", 4) for i in range(3)), minMember=3),
        {"": 3},
    ),
}


# D1 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "needs"), SEMANTIC.values(), ids=SEMANTIC)
@pytest.mark.parametrize("reading", ["auto", "children"])
def test_a_member_count_that_counts_children_becomes_min_sub_group(
    old: Raw, needs: dict[str, int], reading: Reading
) -> None:
    """On a branch it counted children, on a leaf it counts pods as before (D1)."""
    before, after = minimums(old["spec"]), minimums(converted(old, reading))
    assert {name: of for name, (_, of) in after.items() if of is not None} == needs
    assert {name: least for name, (least, _) in after.items() if least is not None} == {
        name: least for name, (least, _) in before.items() if name not in needs
    }


def test_a_converted_count_of_children_means_any_so_many_children() -> None:
    """Three of four replicas are enough now, as was meant (D1, M3)."""
    spec = converted(podgroup(*REPLICAS, minMember=3))
    assert holds(spec, **{"prefill-0": 8, "prefill-2": 8, "prefill-3": 8})
    assert not holds(spec, **{"prefill-0": 8, "prefill-1": 8, "prefill-2": 7})


def test_each_change_is_reported() -> None:
    """Who converts a file wants to know what became of it (D1)."""
    changes = conversion(podgroup(*REPLICAS, minMember=3)).changes
    assert len(changes) == 1
    assert "spec.minMember" in changes[0]
    assert "minSubGroup" in changes[0]


def test_a_count_of_children_beyond_the_children_is_refused() -> None:
    """Read as children, five of four breaks V2, and the result is checked (D1)."""
    assert "5" in refusal(podgroup(*REPLICAS, minMember=5), "children")


# D2 -----------------------------------------------------------------------------------------------------------------


def test_both_fields_keep_the_children_where_they_guarantee_the_pods() -> None:
    """Three replicas of eight are 24 pods anyway (D2)."""
    spec = converted(podgroup(*REPLICAS, minMember=24, minSubGroup=3))
    assert minimums(spec)[""] == (None, 3)


def test_both_fields_keep_the_children_where_they_guarantee_more_than_the_pods() -> None:
    """24 is more than the 10 that were asked for (D2)."""
    spec = converted(podgroup(*(group(f"replica-{i}", 8) for i in range(3)), minMember=10, minSubGroup=3))
    assert minimums(spec)[""] == (None, 3)


def test_both_fields_are_refused_with_the_two_numbers_where_the_children_do_not_guarantee_the_pods() -> None:
    """30 pods cannot come from a promise of 24; dropping the 30 would make it weaker (D2)."""
    why = refusal(podgroup(*(group(f"replica-{i}", 8) for i in range(3)), minMember=30, minSubGroup=3))
    assert "spec.minMember" in why
    assert "30" in why
    assert "24" in why


def test_the_smallest_children_are_what_is_guaranteed() -> None:
    """Any three of four may come: the leader and two workers are nine pods, and nine is what holds (D2, M3)."""
    roles = [group("leader", 1), *(group(f"workers-{i}", 4) for i in range(3))]
    assert minimums(converted(podgroup(*roles, minMember=9, minSubGroup=3)))[""] == (None, 3)
    why = refusal(podgroup(*roles, minMember=10, minSubGroup=3))
    assert "10" in why
    assert "9" in why


def test_an_inner_branch_that_does_not_guarantee_its_pods_is_refused_where_it_stands() -> None:
    """Two of leaders, workers and two more may be three pods, not five (D2)."""
    inner = [group("leaders", 1), group("workers", 4), group("workers-extra", 2)]
    why = refusal(podgroup(group("prefill", 5, of=2), *(part | {"parent": "prefill"} for part in inner)))
    assert "spec.subGroups[0].minMember" in why
    assert "5" in why
    assert "3" in why


def test_both_fields_are_kept_apart_at_every_level() -> None:
    """The guarantee of a branch rests on those below it: 3×8 and 1×4 make 28 (D2)."""
    old = podgroup(
        group("prefill", 24, of=3),
        *(group(f"prefill-{i}", 8, parent="prefill") for i in range(4)),
        group("decode", 4, of=1),
        *(group(f"decode-{i}", 4, parent="decode") for i in range(2)),
        minMember=28,
        minSubGroup=2,
    )
    after = minimums(converted(old))
    assert (after[""], after["prefill"], after["decode"]) == ((None, 2), (None, 3), (None, 1))
    assert after["prefill-0"] == (8, None)
    assert "29" in refusal(old | {"spec": old["spec"] | {"minMember": 29}})


@pytest.mark.parametrize("reading", ["auto", "children", "pods"])
def test_both_fields_have_one_meaning_whatever_the_reading(reading: Reading) -> None:
    """`minSubGroup` is there already, so `minMember` counts pods (D2)."""
    old = podgroup(*(group(f"replica-{i}", 1) for i in range(3)), minMember=2, minSubGroup=2)
    assert minimums(converted(old, reading))[""] == (None, 2)


# D3: SubGroups and sets over all children ---------------------------------------------------------------------------


def constrained(*groups: Raw, spec: Raw | None = None, **constraints: Any) -> Raw:
    """A PodGroup with the older `topologyConstraints`."""
    return podgroup(*groups, **(spec or {}), topologyConstraints=constraints)


def together(names: list[str], constraint: Raw) -> Raw:
    """A set of SubGroups that share a constraint."""
    return {"subGroups": names, "constraint": constraint}


def test_constraints_of_named_subgroups_stand_on_the_subgroups() -> None:
    """Each where it belongs, and the older field is gone (D3)."""
    old = constrained(
        group("decode", 4), group("prefill", 1), group("router", 1), subGroups={"decode": RACK, "prefill": BLOCK}
    )
    spec = converted(old)
    assert "topologyConstraints" not in spec
    assert named(spec, "decode")["topologyConstraint"] == RACK
    assert named(spec, "prefill")["topologyConstraint"] == BLOCK
    assert "topologyConstraint" not in named(spec, "router")
    assert "topologyConstraint" not in spec


def test_a_set_over_all_children_of_a_subgroup_is_the_subgroups_constraint() -> None:
    """Leaders and workers of a role together are the role (D3)."""
    old, _ = SEMANTIC["leaders and workers"]
    old = deepcopy(old)
    leaves = ["decode-workers", "decode-leaders", "prefill-workers", "prefill-leaders"]
    old["spec"]["topologyConstraints"] = {
        "subGroups": dict.fromkeys(leaves, RACK),
        "subGroupSets": [together(leaves[:2], BLOCK), together(leaves[2:], BLOCK)],
    }
    spec = converted(old)
    assert [named(spec, role)["topologyConstraint"] for role in ("decode", "prefill")] == [BLOCK, BLOCK]
    assert [named(spec, leaf)["topologyConstraint"] for leaf in leaves] == [RACK] * 4
    assert [part["name"] for part in spec["subGroups"]] == [part["name"] for part in old["spec"]["subGroups"]]
    assert "topologyConstraint" not in spec


def test_a_set_over_all_children_of_the_podgroup_is_the_podgroups_constraint() -> None:
    """The PodGroup is the parent of those without one (D3)."""
    spec = converted(constrained(group("a", 1), group("b", 1), subGroupSets=[together(["b", "a"], RACK)]))
    assert spec["topologyConstraint"] == RACK
    assert [part["name"] for part in spec["subGroups"]] == ["a", "b"]


def test_a_set_over_all_children_of_a_parent_that_needs_some_is_the_parents_constraint() -> None:
    """All of them sit together, however many come (D3)."""
    old = constrained(
        *REPLICAS, spec={"minSubGroup": 3}, subGroupSets=[together([part["name"] for part in REPLICAS], ZONE)]
    )
    spec = converted(old)
    assert (spec["topologyConstraint"], spec["minSubGroup"]) == (ZONE, 3)


# D3: sets over some siblings ----------------------------------------------------------------------------------------

TEAM = (group("router", 1), group("work-a", 2), group("work-b", 2))


@pytest.mark.parametrize("stated", [None, 3])
def test_a_set_over_some_siblings_of_a_parent_that_needs_all_is_a_new_branch(stated: int | None) -> None:
    """The branch holds exactly these pods, so the constraint does too; all are needed, said or unsaid (D3)."""
    old = constrained(
        *TEAM, spec={"minSubGroup": stated} if stated else {}, subGroupSets=[together(["work-a", "work-b"], RACK)]
    )
    spec = converted(old)
    parents = {part["name"]: part.get("parent", "") for part in spec["subGroups"]}
    (new,) = set(parents) - {"router", "work-a", "work-b"}
    assert parents == {"router": "", new: "", "work-a": new, "work-b": new}
    assert named(spec, new)["topologyConstraint"] == RACK
    assert "topologyConstraint" not in spec
    assert all("topologyConstraint" not in named(spec, name) for name in ("router", "work-a", "work-b"))


@pytest.mark.parametrize("stated", [None, 3])
def test_a_new_branch_makes_the_gang_neither_weaker_nor_stronger(stated: int | None) -> None:
    """What was satisfied before is satisfied after, and nothing else (D3)."""
    old = constrained(
        *TEAM, spec={"minSubGroup": stated} if stated else {}, subGroupSets=[together(["work-a", "work-b"], RACK)]
    )
    spec = converted(old)
    for router in range(2):
        for a in range(3):
            for b in range(3):
                some = {"router": router, "work-a": a, "work-b": b}
                assert holds(spec, **some) == holds(old["spec"], **some)


def test_a_new_branch_is_made_below_a_subgroup_too() -> None:
    """The parent of the siblings is the parent of the branch (D3)."""
    inner = [part | {"parent": "replica"} for part in TEAM]
    spec = converted(constrained(group("replica"), *inner, subGroupSets=[together(["work-a", "router"], RACK)]))
    parents = {part["name"]: part.get("parent", "") for part in spec["subGroups"]}
    (new,) = set(parents) - {"replica", "router", "work-a", "work-b"}
    assert parents == {"replica": "", new: "replica", "router": new, "work-a": new, "work-b": "replica"}
    assert named(spec, new)["topologyConstraint"] == RACK


def test_two_sets_of_siblings_are_two_new_branches() -> None:
    """Decode here, prefill there (D3)."""
    leaves = [
        group(name, 1) for name in ("decode-leaders", "decode-workers", "prefill-leaders", "prefill-workers", "x")
    ]
    spec = converted(
        constrained(
            *leaves,
            subGroupSets=[
                together(["decode-leaders", "decode-workers"], RACK),
                together(["prefill-leaders", "prefill-workers"], BLOCK),
            ],
        )
    )
    by_leaf = {part["name"]: part.get("parent", "") for part in spec["subGroups"]}
    assert by_leaf["decode-leaders"] == by_leaf["decode-workers"] != ""
    assert by_leaf["prefill-leaders"] == by_leaf["prefill-workers"] != ""
    assert by_leaf["x"] == ""
    assert named(spec, by_leaf["decode-leaders"])["topologyConstraint"] == RACK
    assert named(spec, by_leaf["prefill-leaders"])["topologyConstraint"] == BLOCK


def test_the_new_branch_gets_a_name_that_is_not_taken() -> None:
    """Whatever name suggests itself may be taken (D3, V3)."""
    groups = [group("work-a", 1), group("work-b", 1), group("work", 1), group("work-together", 1), group("together", 1)]
    spec = converted(constrained(*groups, subGroupSets=[together(["work-a", "work-b"], RACK)]))
    names = [part["name"] for part in spec["subGroups"]]
    assert len(names) == len(set(names)) == 6


def test_a_set_over_some_siblings_of_a_parent_that_needs_only_some_is_refused() -> None:
    """As a branch the two would count as one, and "2 of 3" would mean something else (D3)."""
    why = refusal(constrained(*TEAM, spec={"minSubGroup": 2}, subGroupSets=[together(["work-a", "work-b"], RACK)]))
    assert "subGroupSets[0]" in why
    assert "work-a" in why
    assert "2 of 3" in why


def test_a_set_over_some_siblings_of_a_parent_that_counts_children_the_older_way_is_refused() -> None:
    """D1 and D3 in one file: `minMember: 2` of three children is a choice as well (D3, D1)."""
    groups = [group(name, 4) for name in ("a", "b", "c")]
    assert "subGroupSets[0]" in refusal(
        constrained(*groups, spec={"minMember": 2}, subGroupSets=[together(["a", "b"], RACK)])
    )


def test_a_set_over_groups_of_different_parents_is_refused() -> None:
    """No group holds exactly these (D3)."""
    groups = [group("x"), group("a", 1, parent="x"), group("b", 1, parent="x"), group("y"), group("c", 1, parent="y")]
    groups += [group("d", 1, parent="y")]
    assert "subGroupSets[0]" in refusal(constrained(*groups, subGroupSets=[together(["a", "c"], RACK)]))


@pytest.mark.parametrize(
    "constraints", [{"subGroups": {"nobody": RACK}}, {"subGroupSets": [together(["a", "nobody"], RACK)]}]
)
def test_a_constraint_on_a_group_that_does_not_exist_is_refused(constraints: Raw) -> None:
    """It cannot be put anywhere, and is not dropped in silence (D3)."""
    assert "nobody" in refusal(constrained(group("a", 1), group("b", 1), **constraints))


# D3: global ---------------------------------------------------------------------------------------------------------


def test_a_global_constraint_of_a_podgroup_without_subgroups_is_its_own() -> None:
    """There is only one place for it (D3)."""
    assert converted(constrained(spec={"minMember": 4}, **{"global": ZONE})) == {
        "minMember": 4,
        "topologyConstraint": ZONE,
    }


def test_a_global_constraint_without_more_specific_ones_is_the_podgroups() -> None:
    """Everything is one set, and everything is the PodGroup (D3)."""
    spec = converted(constrained(*REPLICAS, spec={"minSubGroup": 3}, **{"global": ZONE}))
    assert (spec["topologyConstraint"], spec["minSubGroup"]) == (ZONE, 3)
    assert all("topologyConstraint" not in part for part in spec["subGroups"])


def test_a_global_constraint_is_one_set_of_all_that_have_no_more_specific_one() -> None:
    """The router has a constraint of its own and is free of the global one; the workers share it (D3)."""
    spec = converted(constrained(*TEAM, subGroups={"router": RACK}, **{"global": ZONE}))
    parents = {part["name"]: part.get("parent", "") for part in spec["subGroups"]}
    new = parents["work-a"]
    assert parents == {"router": "", new: "", "work-a": new, "work-b": new}
    assert named(spec, new)["topologyConstraint"] == ZONE
    assert named(spec, "router")["topologyConstraint"] == RACK
    assert "topologyConstraint" not in spec


def test_a_global_constraint_over_a_single_group_that_is_left_stands_on_it() -> None:
    """A set of one is that one (D3)."""
    spec = converted(constrained(*TEAM, subGroups={"work-a": RACK, "work-b": RACK}, **{"global": ZONE}))
    assert named(spec, "router")["topologyConstraint"] == ZONE
    assert len(spec["subGroups"]) == 3


def test_a_set_is_more_specific_than_a_global_constraint() -> None:
    """Workers sit as their set says; only the router is left for the global one (D3)."""
    spec = converted(constrained(*TEAM, subGroupSets=[together(["work-a", "work-b"], RACK)], **{"global": ZONE}))
    new = named(spec, "work-a")["parent"]
    assert named(spec, new)["topologyConstraint"] == RACK
    assert named(spec, "router")["topologyConstraint"] == ZONE
    assert "topologyConstraint" not in spec


def test_a_constraint_on_a_branch_is_more_specific_for_all_below_it() -> None:
    """The leaves of `x` have their constraint from `x` (D3)."""
    groups = [group("x"), group("a", 1, parent="x"), group("b", 1, parent="x"), group("c", 1)]
    spec = converted(constrained(*groups, subGroups={"x": RACK}, **{"global": ZONE}))
    assert {part["name"]: part.get("topologyConstraint") for part in spec["subGroups"]} == {
        "x": RACK,
        "a": None,
        "b": None,
        "c": ZONE,
    }


def test_a_global_constraint_over_no_group_is_removed_and_reported() -> None:
    """Every group has a more specific one (D3)."""
    done = conversion(
        constrained(*TEAM, subGroups=dict.fromkeys(("router", "work-a", "work-b"), RACK), **{"global": ZONE})
    )
    assert ZONE not in [part["topologyConstraint"] for part in done.raw["spec"]["subGroups"]]
    assert "topologyConstraint" not in done.raw["spec"]
    assert any("global" in change for change in done.changes)


def test_a_global_constraint_over_some_of_a_choice_is_refused() -> None:
    """It is a set like any other (D3)."""
    assert "global" in refusal(
        constrained(*TEAM, spec={"minSubGroup": 2}, subGroups={"router": RACK}, **{"global": ZONE})
    )


def test_a_global_constraint_over_parts_of_two_branches_is_refused() -> None:
    """No group holds exactly what is left (D3)."""
    groups = [group("x"), group("a", 1, parent="x"), group("b", 1, parent="x"), group("y"), group("c", 1, parent="y")]
    groups += [group("d", 1, parent="y")]
    assert "global" in refusal(constrained(*groups, subGroups={"a": RACK, "c": RACK}, **{"global": ZONE}))


# D4 -----------------------------------------------------------------------------------------------------------------

LOWER: dict[str, Any] = {
    "queue": "test",
    "priorityClassName": "inference",
    "topologyConstraint": ZONE,
    "subgroups": [
        group("api-server", 1),
        group("workers", topologyConstraint=BLOCK),
        group("prefill", 3, parent="workers", topologyConstraint=RACK),
        group("decode", 5, parent="workers", topologyConstraint=RACK),
    ],
}


def test_subgroups_in_lower_case_become_sub_groups() -> None:
    """Nothing else changes, not even the order of the fields (D4)."""
    spec = converted(podgroup(**LOWER))
    assert spec == {"subGroups" if field == "subgroups" else field: value for field, value in LOWER.items()}
    assert list(spec) == ["queue", "priorityClassName", "topologyConstraint", "subGroups"]


def test_subgroups_in_lower_case_are_not_ignored() -> None:
    """Unconverted they would be a gang of one pod; that is refused, not done (D4)."""
    assert [problem.rule for problem in problems(podgroup(**LOWER)) if problem.severity == "error"] == ["D4"]


def test_subgroups_in_lower_case_are_converted_with_all_that_is_in_them() -> None:
    """D1 is about their contents as well (D4, D1)."""
    old = podgroup(minMember=3, subgroups=[dict(part) for part in REPLICAS])
    assert minimums(converted(old))[""] == (None, 3)


def test_subgroups_under_both_names_are_refused() -> None:
    """Taking one would drop the other (D4)."""
    assert "subgroups" in refusal(podgroup(group("a", 1), subgroups=[group("b", 1)]))


# D5 -----------------------------------------------------------------------------------------------------------------

TWOFOLD: dict[str, Raw] = {
    "two of two children, or two pods": podgroup(group("a", 1), group("b", 1), minMember=2),
    "two of three children, or two pods": podgroup(group("a", 1), group("b", 1), group("c", 1), minMember=2),
    "four of four children, or four pods of the first": podgroup(
        group("a", 4), group("b", 1), group("c", 1), group("d", 1), minMember=4
    ),
    "inside": podgroup(group("x", 2), group("a", 1, parent="x"), group("b", 1, parent="x"), group("y", 9)),
}


@pytest.mark.parametrize("old", TWOFOLD.values(), ids=TWOFOLD)
def test_a_file_that_can_be_read_two_ways_is_refused_with_both_readings(old: Raw) -> None:
    """A count of children or of pods: only its author knows (D5)."""
    why = refusal(old)
    assert "minMember" in why
    assert "children" in why
    assert "pods" in why
    assert "minSubGroup" in why
    assert "--dialect" in why


def test_the_reading_children_resolves_it() -> None:
    """Said to count children, two of three will do (D5, D1)."""
    spec = converted(TWOFOLD["two of three children, or two pods"], "children")
    assert minimums(spec)[""] == (None, 2)
    assert holds(spec, a=1, c=1)


def test_the_reading_pods_resolves_it() -> None:
    """Said to count pods, all three are needed, which are more than two pods (D5, M5)."""
    old = TWOFOLD["two of three children, or two pods"]
    spec = converted(old, "pods")
    assert minimums(spec)[""] == (None, None)
    for some in ({"a": 2, "b": 1}, {"a": 1, "b": 1, "c": 1}):
        assert holds(spec, **some) == holds(old["spec"], **some)


def test_more_than_there_are_children_can_only_be_pods() -> None:
    """32 of four children is no count of children (D5, M5)."""
    old = podgroup(*REPLICAS, minMember=32)
    spec = converted(old)
    assert minimums(spec)[""] == (None, None)
    assert not holds(spec, **{f"prefill-{i}": 8 for i in range(3)})
    assert holds(spec, **{f"prefill-{i}": 8 for i in range(4)})


def test_more_pods_than_the_children_guarantee_are_refused_with_the_two_numbers() -> None:
    """The form of record cannot say it, and a weaker gang is not an answer (D5, D2, M5)."""
    why = refusal(podgroup(*REPLICAS, minMember=40))
    assert "40" in why
    assert "32" in why


@pytest.mark.parametrize(("old", "_needs"), SEMANTIC.values(), ids=SEMANTIC)
def test_read_as_pods_a_file_needs_all_its_children(old: Raw, _needs: dict[str, int]) -> None:
    """An explicit reading is obeyed where auto would have read it otherwise (D5, M5)."""
    assert all(of is None for _, of in minimums(converted(old, "pods")).values())


def test_the_command_line_refuses_what_can_be_read_two_ways_and_obeys_a_reading() -> None:
    """The answer is no, with nothing on stdout; said which, it is yes (D5)."""
    stdin = json.dumps(TWOFOLD["two of three children, or two pods"])
    refused = run("convert", "-", stdin=stdin)
    assert (refused.code, refused.out) == (1, "")
    assert "two ways" in refused.err
    children = run("convert", "--dialect", "children", "-", stdin=stdin)
    assert children.code == 0
    assert yaml.safe_load(children.out)["spec"]["minSubGroup"] == 2
    assert run("convert", "--dialect", "auto", "-", stdin=stdin).code == 1


def test_nothing_is_written_unless_every_file_can_be_converted(tmp_path: Path) -> None:
    """Half a folder in a new dialect is worse than none (D5)."""
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(podgroup(*REPLICAS, minMember=3)))
    bad.write_text(json.dumps(TWOFOLD["inside"]))
    before = good.read_text()
    assert run("convert", "--in-place", str(tmp_path)).code == 1
    assert good.read_text() == before
    assert run("convert", "--in-place", "--dialect", "children", str(tmp_path)).code == 0
    assert json.loads(good.read_text())["spec"]["minSubGroup"] == 3


# every conversion ---------------------------------------------------------------------------------------------------

OLD: dict[str, Raw] = {
    **{f"D1 {name}": old for name, (old, _) in SEMANTIC.items()},
    "D2": podgroup(*REPLICAS, minMember=24, minSubGroup=3),
    "D3 sets": constrained(*TEAM, subGroupSets=[together(["work-a", "work-b"], RACK)], subGroups={"work-a": RACK}),
    "D3 global": constrained(*TEAM, subGroups={"router": RACK}, **{"global": ZONE}),
    "D4": podgroup(**LOWER),
    "a stored leaf without a minimum": podgroup(group("a"), group("b", 1)),
    "the form of record": podgroup(
        group("x", of=1), group("a", 1, parent="x"), group("b", 2, parent="x"), minSubGroup=1
    ),
    "all of them": podgroup(
        minMember=2,
        subgroups=[group("x", 2), group("a", 4, parent="x"), group("b", 4, parent="x"), group("c", 4), group("d")],
        topologyConstraints={"subGroups": {"a": RACK}, "subGroupSets": [together(["a", "b"], BLOCK)]},
    ),
}


@pytest.mark.parametrize("old", OLD.values(), ids=OLD)
def test_to_convert_twice_is_to_convert_once(old: Raw) -> None:
    """The form of record is left alone (D1-D5)."""
    once = conversion(old)
    twice = conversion(once.raw)
    assert (twice.raw, twice.changes) == (once.raw, ())


@pytest.mark.parametrize("old", OLD.values(), ids=OLD)
def test_what_is_converted_is_valid(old: Raw) -> None:
    """The result is checked by V1-V3, and no older field is left in it (D1-D5)."""
    spec = converted(old)
    assert not {"subgroups", "topologyConstraints"} & set(spec)


@pytest.mark.parametrize("old", OLD.values(), ids=OLD)
def test_fields_that_muster_does_not_know_survive(old: Raw) -> None:
    """Other programs read the object too (D1-D5)."""
    marked = deepcopy(old)
    marked["metadata"]["labels"] = {"team": "red"}
    marked["status"] = {"ours": [1, {"x": None}]}
    marked["spec"]["vendor"] = {"deep": [1, 2]}
    for part in marked["spec"].get("subGroups", marked["spec"].get("subgroups")):
        part["vendor"] = part["name"]
    done = conversion(marked).raw
    assert (done["metadata"], done["status"]) == (marked["metadata"], marked["status"])
    assert done["spec"]["vendor"] == {"deep": [1, 2]}
    was = {part["name"] for part in marked["spec"].get("subGroups", marked["spec"].get("subgroups"))}
    assert {part["vendor"] for part in done["spec"]["subGroups"] if part["name"] in was} == was


def test_unknown_fields_of_a_constraint_survive() -> None:
    """They move with the constraint (D3)."""
    spec = converted(constrained(*TEAM, subGroups={"router": RACK | {"vendor": 7}}))
    assert named(spec, "router")["topologyConstraint"] == RACK | {"vendor": 7}


@pytest.mark.parametrize("old", OLD.values(), ids=OLD)
def test_the_object_that_is_converted_stays_as_it_was(old: Raw) -> None:
    """A new object comes out; the old one is not touched (D1-D5)."""
    before = deepcopy(old)
    conversion(old)
    assert old == before


@pytest.mark.parametrize(
    "old",
    [
        podgroup(group("a", 1), group("a", 1)),
        podgroup(group("a", 1, parent="nobody")),
        podgroup(group("a", parent="b"), group("b", parent="a"), group("c", 1)),
        podgroup(group("A", 1)),
        podgroup(group("a", 1), group("b", 1), minSubGroup=3),
        podgroup(group("a", of=1)),
        podgroup(group("a", -1)),
    ],
    ids=["names", "parents", "circle", "labels", "children", "leaf", "nothing"],
)
def test_what_would_not_be_valid_is_refused(old: Raw) -> None:
    """A conversion does not launder what V1-V3 refuse (D1-D5)."""
    assert "spec." in refusal(old)


def test_other_objects_pass_unchanged() -> None:
    """A file holds more than PodGroups (D1-D5)."""
    service: Raw = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"subgroups": [1]}}
    done = conversion(service)
    assert (done.raw, done.changes) == (service, ())


def test_podgroups_inside_a_list_are_converted() -> None:
    """`kubectl get -o yaml` gives a List, with everything in it (D1-D5)."""
    service: Raw = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    done = conversion({"apiVersion": "v1", "kind": "List", "items": [service, podgroup(*REPLICAS, minMember=3)]}).raw
    assert done["items"][0] == service
    assert minimums(done["items"][1]["spec"])[""] == (None, 3)


def test_ten_thousand_subgroups_of_an_older_dialect_are_converted() -> None:
    """Old files are not smaller than new ones (D1, N1)."""
    spec = converted(podgroup(*(group(f"replica-{i}", 8) for i in range(10_000)), minMember=9_999), "children")
    assert spec["minSubGroup"] == 9_999


def test_constraints_of_a_wrong_type_name_the_file_and_the_object() -> None:
    """D3: of a folder of files, the one to mend must be known."""
    old = podgroup(group("a", 1), topologyConstraints={"subGroups": [{"name": "a"}]})
    with pytest.raises(
        InputError, match=r"old\.yaml: podgroup `team/gang` cannot be read\n  spec\.topologyConstraints"
    ):
        conversion(old)

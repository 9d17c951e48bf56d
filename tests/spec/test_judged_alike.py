"""A plan and `validate` judge alike what makes no sense (V1, P1), and no hint advises what V refuses."""

from typing import Any

import pytest

import muster
from muster.planning.refusal import DoesNotFit, InvalidSpec, QueueExceeded
from muster.reporting.explain import helps
from tests.spec.scene import errors, places, warnings
from tests.support.factories import Raw, group, node, pod, podgroup, pods, topology

SENSELESS: dict[str, tuple[Raw, str]] = {
    "no pods": (podgroup(minMember=0), "spec.minMember"),
    "less than none": (podgroup(minMember=-3), "spec.minMember"),
    "no pods of a leaf": (podgroup(group("a", 0), group("b", 1)), "spec.subGroups[0].minMember"),
    "no pods over SubGroups": (podgroup(group("a", 1), minMember=0), "spec.minMember"),
    "no children": (podgroup(group("x", of=0), group("a", 1, parent="x")), "spec.subGroups[0].minSubGroup"),
    "a word without meaning": (podgroup(preemptibility="perhaps"), "spec.preemptibility"),
}


@pytest.mark.parametrize(("manifest", "at"), SENSELESS.values(), ids=SENSELESS)
def test_what_validate_refuses_to_understand_a_plan_does_not_guess(manifest: Raw, at: str) -> None:
    """The same place and the same words; nothing is placed."""
    (refused,) = errors(manifest)
    plan = muster.plan(muster.objects([node("n"), manifest, pod("p"), pod("q", "a"), pod("r", "b")]))
    (refusal,) = plan.decided.gang("team/gang").refusals
    assert (refused.at, plan.verdict("team/gang"), plan.bindings) == (at, "Invalid", ())
    assert refusal == InvalidSpec(f"{at}: {refused.says}")


def test_a_label_is_judged_like_the_spec() -> None:
    manifest = podgroup(minMember=1)
    manifest["metadata"]["labels"] = {"kai.scheduler/preemptibility": "perhaps"}
    assert places(errors(manifest)) == ["metadata.labels[kai.scheduler/preemptibility]"]
    assert muster.plan(muster.objects([node("n"), manifest, pod("p")])).verdict("team/gang") == "Invalid"


OLDER: dict[str, tuple[Raw, dict[str, int]]] = {
    "a leaf that says nothing": (podgroup(group("a"), group("b", 1)), {"a": 1, "b": 1}),
    "pods in all": (podgroup(group("a", 1), group("b", 1), minMember=3), {"a": 2, "b": 1}),
    "pods of a branch": (podgroup(group("x", 3), group("a", 1, parent="x")), {"a": 3}),
}


@pytest.mark.parametrize(("manifest", "there"), OLDER.values(), ids=OLDER)
def test_what_is_stored_in_an_older_form_still_runs(manifest: Raw, there: dict[str, int]) -> None:
    """It has a meaning (V2, V4, M5)."""
    members = [one for leaf, number in there.items() for one in pods(number, leaf)]
    plan = muster.plan(muster.objects([node("n"), manifest, *members]))
    assert (plan.verdict("team/gang"), len(plan.bindings)) == ("Scheduled", sum(there.values()))


# hints --------------------------------------------------------------------------------------------------------------


def advised(*raws: Raw) -> list[tuple[str, Any]]:
    """Fields and values that a refusal advises, each of which `validate` must accept."""
    made = muster.plan(muster.objects(raws)).decided.gang("team/gang")
    (refusal,) = made.refusals
    assert isinstance(refusal, DoesNotFit | QueueExceeded)
    changes = [(path(change.group, change.field), change.fits) for change in refusal.changes or ()]
    assert len(changes) <= len(list(helps(refusal)))
    return changes


def path(group: str, field: str) -> str:
    """As `--set` wants it."""
    inner = f"topologyConstraint.{field}" if field == "requiredTopologyLevel" else field
    return f"subGroups.{group}.{inner}" if group else inner


def test_less_is_advised_where_that_may_be_written() -> None:
    assert advised(node("n", cpu=2), podgroup(minMember=3), *pods(3, cpu=1)) == [("minMember", 2)]
    three = [one for leaf in "abc" for one in pods(1, leaf, cpu=1)]
    tree = podgroup(*(group(leaf, 1) for leaf in "abc"))
    assert advised(node("n", cpu=2), tree, *three) == [("minSubGroup", 2)]


def test_a_second_minimum_beside_pods_in_all_is_not_advised() -> None:
    """V1: two of three would fit, but `minSubGroup` beside `minMember` is refused."""
    three = [one for leaf in "abc" for one in pods(1, leaf, cpu=1)]
    tree = podgroup(*(group(leaf, 1) for leaf in "abc"), minMember=3)
    assert advised(node("n", cpu=2), tree, *three) == []


def test_less_of_a_leaf_is_not_advised_where_its_pods_count_in_all() -> None:
    """M5: the leaf states one pod; that four are wanted of it is not written there."""
    tree = podgroup(group("a", 1), minMember=4)
    assert advised(node("n", cpu=2), tree, *pods(4, "a", cpu=1)) == [("minMember", 2)], (
        "on the PodGroup, where it is stated"
    )


def test_what_is_advised_is_accepted() -> None:
    """As an update of the PodGroup, and it helps."""
    racks = [node(f"n{i}", cpu=2, rack=f"r{i}") for i in range(2)]
    where: Raw = {"topologyConstraint": {"requiredTopologyLevel": "rack"}}
    tree = podgroup(group("x", of=2, **where), *(group(leaf, 2, parent="x") for leaf in "ab"))
    scene = [topology("topology/rack"), *racks, tree, *pods(2, "a", cpu=1), *pods(2, "b", cpu=1)]
    objects = muster.objects(scene)
    changes = advised(*scene)
    assert changes
    for field, value in changes:
        assert muster.what_if(objects, set={f"team/gang.{field}": value}).after.verdict("team/gang") == "Scheduled"


ROLES: dict[str, tuple[list[Raw], list[Raw]]] = {
    "workers": (
        [group("leader", 1), *(group(f"workers-{i}", 1) for i in range(3))],
        [group("leader", 1), group("workers", of=2), *(group(f"workers-{i}", 1, parent="workers") for i in range(3))],
    ),
    "all different": ([group(name, 1) for name in ("leader", "ps", "chief", "web")],) * 2,
}


@pytest.mark.parametrize(("flat", "mended"), ROLES.values(), ids=ROLES)
def test_roles_that_are_nested_as_advised_are_not_refused(flat: list[Raw], mended: list[Raw]) -> None:
    """V6: the hint taken by its word, with `minSubGroup` left out above."""
    (warning,) = warnings(podgroup(*flat, minSubGroup=3))
    assert (warning.rule, "leave it out" in warning.hint) == ("V6", True)
    assert (errors(podgroup(*mended)), warnings(podgroup(*mended))) == ([], [])

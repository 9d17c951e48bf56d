"""Plain values to structs: every misfit at once with its exact path, and `null` as "not set"."""

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.api.core import Node, Pod, PodDisruptionBudget, PriorityClass
from muster.api.decoding import Misfit, decode, encode
from muster.api.meta import Wire
from muster.api.podgroup import PodGroup, TopologyConstraint
from muster.api.queue import Queue
from muster.api.topology import Topology
from tests.support.factories import Raw, group, pod, podgroup


def misfits(raw: Any, kind: type[Wire]) -> dict[str, str]:
    _, wrong = decode(raw, kind)
    assert len({misfit.at for misfit in wrong}) == len(wrong)
    return {misfit.at: misfit.says for misfit in wrong}


# misfits ------------------------------------------------------------------------------------------------------------


def test_every_misfit_of_a_podgroup_is_reported_with_its_path() -> None:
    """One run, all mistakes: people should not have to come back ten times."""
    raw = podgroup(
        minMember=True,
        queue={},
        preemptibility=1,
        markUnschedulable="no",
        schedulingBackoff="1",
        stalenessGracePeriod=[],
        topologyConstraint=[],
    )
    raw["spec"]["subGroups"] = [
        {"name": 1, "parent": [], "minMember": "two", "topologyConstraint": "rack"},
        7,
        group("fine", 1),
        {"name": "x", "minSubGroup": 1.5, "topologyConstraint": {"topology": 1, "requiredTopologyLevel": {}}},
        None,
    ]
    raw["metadata"] = {
        "name": None,
        "labels": {"a": 1, "b": "fine", "c": None, "d": []},
        "annotations": "none",
        "creationTimestamp": "yesterday",
        "deletionTimestamp": "2026-01-01",
        "generation": "3",
        "ownerReferences": [{"controller": "yes"}, "job"],
    }
    raw["status"] = {"running": None, "resourcesStatus": {"requested": {"cpu": "lots"}}, "levels": {}, "satisfied": 1}
    assert misfits(raw, PodGroup) == {
        "metadata.labels[a]": "expected text, got the number `1`",
        "metadata.labels[d]": "expected text, got a list",
        "metadata.annotations": "expected an object, got the text `none`",
        "metadata.creationTimestamp": "expected a time such as `2026-01-31T12:00:00Z`, got the text `yesterday`",
        "metadata.deletionTimestamp": "expected a time such as `2026-01-31T12:00:00Z`, got the text `2026-01-01`",
        "metadata.generation": "expected a whole number, got the text `3`",
        "metadata.ownerReferences[0].controller": "expected `true` or `false`, got the text `yes`",
        "metadata.ownerReferences[1]": "expected an object, got the text `job`",
        "spec.subGroups[0].name": "expected text, got the number `1`",
        "spec.subGroups[0].parent": "expected text, got a list",
        "spec.subGroups[0].minMember": "expected a whole number, got the text `two`",
        "spec.subGroups[0].topologyConstraint": "expected an object, got the text `rack`",
        "spec.subGroups[1]": "expected an object, got the number `7`",
        "spec.subGroups[3].minSubGroup": "expected a whole number, got the number `1.5`",
        "spec.subGroups[3].topologyConstraint.topology": "expected text, got the number `1`",
        "spec.subGroups[3].topologyConstraint.requiredTopologyLevel": "expected text, got an object",
        "spec.subGroups[4]": "expected an object, got nothing",
        "spec.minMember": "expected a whole number, got `true`",
        "spec.queue": "expected text, got an object",
        "spec.preemptibility": "expected text, got the number `1`",
        "spec.markUnschedulable": "expected `true` or `false`, got the text `no`",
        "spec.schedulingBackoff": "expected a whole number, got the text `1`",
        "spec.stalenessGracePeriod": "expected text or a whole number, got a list",
        "spec.topologyConstraint": "expected an object, got a list",
        "status.resourcesStatus.requested": "`cpu`: `lots` is not a quantity",
        "status.levels": "expected a list, got an object",
        "status.satisfied": "expected `true` or `false`, got the number `1`",
    }


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        (Queue, {"spec": {"resources": {"cpu": 1}}}, {"spec.resources[cpu]": "expected an object, got the number `1`"}),
        (
            Queue,
            {"spec": {"resources": {"cpu": {"quota": "1"}}, "priority": 1.5}},
            {
                "spec.resources[cpu].quota": "expected a whole number or a number, got the text `1`",
                "spec.priority": "expected a whole number, got the number `1.5`",
            },
        ),
        (
            Topology,
            {"spec": {"levels": [{"nodeLabel": 1}, "rack"]}},
            {
                "spec.levels[0].nodeLabel": "expected text, got the number `1`",
                "spec.levels[1]": "expected an object, got the text `rack`",
            },
        ),
        (
            Pod,
            {"spec": {"containers": [{"resources": {"requests": {"cpu": True}}}], "nodeName": 3}},
            {
                "spec.containers[0].resources.requests": "`cpu`: expected a quantity such as `500m` or `16Gi`",
                "spec.nodeName": "expected text, got the number `3`",
            },
        ),
        (
            Node,
            {"status": {"allocatable": [], "conditions": [[]]}},
            {
                "status.allocatable": "expected amounts by resource name",
                "status.conditions[0]": "expected an object, got a list",
            },
        ),
        (PriorityClass, {"value": "high"}, {"value": "expected a whole number, got the text `high`"}),
        (
            PodDisruptionBudget,
            {"spec": {"minAvailable": 1.5, "selector": {"matchLabels": {"a": 1}}}},
            {
                "spec.minAvailable": "expected a whole number or text, got the number `1.5`",
                "spec.selector.matchLabels[a]": "expected text, got the number `1`",
            },
        ),
    ],
)
def test_misfits_of_other_kinds(kind: type[Wire], raw: Raw, expected: dict[str, str]) -> None:
    """Lists, maps, quantities and values of two types, each with its path."""
    assert misfits(raw, kind) == expected


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        *((None, "nothing"), (True, "`true`"), (1, "the number `1`"), (1.5, "the number `1.5`"), ("a", "the text `a`")),
        *(([], "a list"), ((), "a list"), ("x" * 99, f"the text `{'x' * 40}`"), (10**50, "a huge number")),
    ],
)
def test_something_that_is_no_object_at_all(raw: Any, seen: str) -> None:
    """The path is empty: it is the whole."""
    assert decode(raw, PodGroup) == (PodGroup(), (Misfit("", f"expected an object, got {seen}"),))


def test_what_does_not_fit_is_left_at_its_default_and_the_rest_is_kept() -> None:
    """Rules can still judge everything else."""
    raw = podgroup(queue=1, minSubGroup=2)
    raw["spec"]["subGroups"] = [{"name": "a", "minMember": "two"}, 7, group("c", 3)]
    decoded, wrong = decode(raw, PodGroup)
    assert [misfit.at for misfit in wrong] == ["spec.queue", "spec.subGroups[0].minMember", "spec.subGroups[1]"]
    assert decoded.metadata.name == "gang"
    assert decoded.spec.queue == ""
    assert decoded.spec.min_sub_group == 2
    assert [(part.name, part.min_member) for part in decoded.spec.sub_groups] == [("a", None), ("", None), ("c", 3)]


# null ---------------------------------------------------------------------------------------------------------------


def nulled(raw: Any) -> Any:
    """The same value with a null for every field that it leaves out, one level deep at a time."""
    fields = ("labels", "annotations", "status", "queue", "minMember", "minSubGroup", "parent", "topologyConstraint")
    if isinstance(raw, list):
        return [nulled(value) for value in raw]
    if not isinstance(raw, dict):
        return raw
    return {key: nulled(value) for key, value in raw.items()} | {field: None for field in fields if field not in raw}


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (podgroup(group("a", of=1), group("b", 2, parent="a"), minSubGroup=1, queue="q"), PodGroup),
        (podgroup(minMember=2), PodGroup),
        (pod("p", "a", on="n"), Pod),
    ],
)
def test_a_null_is_not_set(raw: Raw, kind: type[Wire]) -> None:
    """Clients in Go write `null` for what is empty; it must not differ from leaving it out."""
    assert decode(nulled(raw), kind) == decode(raw, kind)
    assert decode(nulled(raw), kind)[1] == ()


@pytest.mark.parametrize(
    "raw",
    [
        *({"metadata": None}, {"spec": None}, {"status": None}, {"spec": {"subGroups": None}}),
        *(
            {"spec": {"topologyConstraint": None}},
            {"metadata": {"labels": None}},
            {"metadata": {"labels": {"a": None}}},
        ),
        *({"spec": {"minMember": None, "queue": None}}, {"metadata": {"creationTimestamp": None}}),
        {"status": {"resourcesStatus": {"requested": {"cpu": None}}}},
    ],
)
def test_a_null_anywhere_is_the_default(raw: Raw) -> None:
    """At every depth, for objects, lists, maps and words."""
    decoded, wrong = decode(raw, PodGroup)
    assert wrong == ()
    assert (decoded.metadata, decoded.spec) == (PodGroup().metadata, PodGroup().spec)


def test_a_null_in_a_list_is_a_misfit() -> None:
    """A list has no default for an item: something is missing there."""
    assert misfits({"spec": {"subGroups": [None]}}, PodGroup) == {
        "spec.subGroups[0]": "expected an object, got nothing"
    }


# what fits ----------------------------------------------------------------------------------------------------------


def test_unknown_fields_are_ignored() -> None:
    """Kubernetes objects carry more than muster reads."""
    raw = podgroup(group("a", 1, comment={"deep": [1]}), other=[{}]) | {"extra": {"managedFields": [1, {}]}}
    decoded, wrong = decode(raw, PodGroup)
    assert wrong == ()
    assert decoded.spec.sub_groups[0].min_member == 1


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00.5Z", datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-31T14:00:00+02:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_times_have_a_zone(text: str, moment: datetime) -> None:
    """RFC 3339, as Kubernetes writes them."""
    decoded, wrong = decode({"metadata": {"creationTimestamp": text}}, PodGroup)
    assert wrong == ()
    assert decoded.metadata.creation_timestamp == moment


def test_a_whole_number_with_a_point_is_reported() -> None:
    """`minMember: 2.0` is a float in YAML, and no count."""
    assert misfits({"spec": {"minMember": 2.0}}, PodGroup) == {
        "spec.minMember": "expected a whole number, got the number `2.0`"
    }


def test_constraints_are_read_as_they_are() -> None:
    """Empty is empty; whether a level exists is for the rules."""
    raw = {"spec": {"topologyConstraint": {"requiredTopologyLevel": "rack"}, "subGroups": [{"topologyConstraint": {}}]}}
    decoded, wrong = decode(raw, PodGroup)
    assert wrong == ()
    assert decoded.spec.topology_constraint == TopologyConstraint(required_topology_level="rack")
    assert decoded.spec.sub_groups[0].topology_constraint == TopologyConstraint()


# writing ------------------------------------------------------------------------------------------------------------


def test_amounts_are_written_the_way_that_they_are_read() -> None:
    """Base units inside: 4 cpu written as 4000 would come back as four thousand."""
    raw = {"allocatable": {"cpu": "4", "memory": "64Gi", "nvidia.com/gpu": "8"}}
    decoded, _ = decode({"status": raw}, Node)
    assert encode(decoded) == {"status": raw}


def test_what_is_left_out_stays_left_out() -> None:
    """Defaults are not written; a `false` that differs from its default is."""
    manifest = podgroup(group("a", 2), group("b", 1, parent="a"), markUnschedulable=False)
    manifest["metadata"] |= {"creationTimestamp": "2026-01-31T12:00:00Z", "labels": {"x": "y"}}
    decoded, _ = decode(manifest, PodGroup)
    assert encode(decoded) == {"metadata": manifest["metadata"], "spec": manifest["spec"]}
    assert decode(encode(decoded), PodGroup) == (decoded, ())

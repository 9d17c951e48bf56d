"""V6, T6 and Q2: what the names, the Topologies, the nodes and the queues around a PodGroup tell about it."""

import json
from typing import Any

import pytest

from tests.spec.scene import errors, places, problems, run, warnings
from tests.support.factories import Raw, group, node, pod, podgroup, pods, queue, topology

LEVELS = topology("topology/zone", "topology/block", "topology/rack")


def within(required: str = "", preferred: str = "", of: str = "") -> dict[str, Any]:
    """A topology constraint as keywords of a group."""
    fields = {"requiredTopologyLevel": required, "preferredTopologyLevel": preferred, "topology": of}
    return {"topologyConstraint": {field: value for field, value in fields.items() if value}}


# V6: roles ----------------------------------------------------------------------------------------------------------

WORKERS = [group(f"workers-{i}", 4) for i in range(3)]


def test_a_flat_minimum_over_a_leader_and_workers_is_warned_about() -> None:
    """Three workers would satisfy "3 of 4" without the leader (V6)."""
    all_problems = problems(podgroup(group("leader", 1), *WORKERS, minSubGroup=3))
    assert [(problem.severity, problem.rule, problem.at) for problem in all_problems] == [
        ("warning", "V6", "spec.minSubGroup")
    ]
    assert "leader" in all_problems[0].says
    assert "nest" in all_problems[0].hint


def test_a_flat_minimum_over_different_roles_is_warned_about_on_a_branch() -> None:
    """The same mistake is made one level down (V6)."""
    inner = [part | {"parent": "replica"} for part in (group("leader", 1), *WORKERS)]
    all_warnings = warnings(podgroup(group("replica", of=3), *inner, group("router", 1)))
    assert [(problem.rule, problem.at) for problem in all_warnings] == [("V6", "spec.subGroups[0].minSubGroup")]


def test_the_leader_may_be_declared_last() -> None:
    """It is the names that tell, not their order (V6)."""
    assert places(warnings(podgroup(*WORKERS, group("leader", 1), minSubGroup=3)), "V6") == ["spec.minSubGroup"]


SANE: dict[str, Raw] = {
    "replicas of one role": podgroup(*(group(f"prefill-{i}", 8) for i in range(4)), minSubGroup=3),
    "nested roles": podgroup(
        group("leader", 1), group("workers", of=2), *(part | {"parent": "workers"} for part in WORKERS), minSubGroup=2
    ),
    "all of different roles, said": podgroup(group("leader", 1), *WORKERS, minSubGroup=4),
    "all of different roles, unsaid": podgroup(group("leader", 1), *WORKERS),
    "one role alone": podgroup(group("leader", 1)),
    "leaders and workers inside replicas": podgroup(
        *(
            part
            for i in range(2)
            for part in (
                group(f"replica-{i}"),
                group(f"leaders-{i}", 1, parent=f"replica-{i}"),
                group(f"workers-{i}", 3, parent=f"replica-{i}"),
            )
        ),
        minSubGroup=1,
    ),
    "prefill and decode with replicas of each": podgroup(
        group("prefill", of=3),
        *(group(f"prefill-{i}", 8, parent="prefill") for i in range(4)),
        group("decode", of=1),
        *(group(f"decode-{i}", 4, parent="decode") for i in range(2)),
        minSubGroup=2,
    ),
}


@pytest.mark.parametrize("manifest", SANE.values(), ids=SANE)
def test_nothing_is_said_about_roles_that_are_nested_or_all_needed(manifest: Raw) -> None:
    """A warning that fires on sound files is soon not read any more (V6)."""
    assert problems(manifest) == []


def test_a_warning_refuses_nothing() -> None:
    """The file is valid, and the exit code says so (V6)."""
    ran = run("validate", "-", stdin=json.dumps(podgroup(group("leader", 1), *WORKERS, minSubGroup=3)))
    assert ran.code == 0
    assert "warning: spec.minSubGroup" in ran.out


# V6: levels ---------------------------------------------------------------------------------------------------------


def test_a_required_level_that_its_parent_cannot_contain_is_warned_about() -> None:
    """Inside one rack there is no zone to sit in (V6)."""
    manifest = podgroup(group("a", 1, **within("zone")), **within("rack"))
    all_warnings = warnings(manifest, around=[LEVELS])
    assert [(problem.rule, problem.at) for problem in all_warnings] == [
        ("V6", "spec.subGroups[0].topologyConstraint.requiredTopologyLevel")
    ]


def test_a_required_level_that_an_ancestor_further_up_cannot_contain_is_warned_about() -> None:
    """A SubGroup without a constraint in between changes nothing (V6)."""
    manifest = podgroup(
        group("x", **within("rack")),
        group("y", parent="x"),
        group("a", 1, parent="y", **within("block")),
    )
    all_warnings = warnings(manifest, around=[LEVELS])
    assert places(all_warnings, "V6") == ["spec.subGroups[2].topologyConstraint.requiredTopologyLevel"]


@pytest.mark.parametrize(("outer", "inner"), [("zone", "zone"), ("zone", "block"), ("zone", "rack"), ("block", "rack")])
def test_a_required_level_inside_its_parents_is_nothing_to_warn_about(outer: str, inner: str) -> None:
    """Coarse outside, fine inside, or the same, is how it should be (V6)."""
    manifest = podgroup(group("a", 1, **within(inner)), **within(outer))
    assert problems(manifest, around=[LEVELS]) == []


def test_siblings_do_not_contain_each_other() -> None:
    """One replica in a rack says nothing about its neighbour in a zone (V6)."""
    manifest = podgroup(group("a", 1, **within("rack")), group("b", 1, **within("zone")))
    assert problems(manifest, around=[LEVELS]) == []


def test_levels_of_different_topologies_are_not_compared() -> None:
    """Groups of one gang may use different Topologies; whose rack is finer is not known (V6, T4)."""
    network = topology("net/spine", "net/leaf", name="network")
    manifest = podgroup(group("a", 1, **within("zone", of="cluster")), **within("leaf", of="network"))
    assert problems(manifest, around=[LEVELS, network]) == []


# V6: room -----------------------------------------------------------------------------------------------------------


def test_a_minimum_that_no_node_could_ever_hold_is_warned_about() -> None:
    """Every pod asks for 16 cores and the largest node has 8: it would wait for ever (V6)."""
    manifest = podgroup(group("a", 2))
    all_warnings = warnings(manifest, around=[manifest, node("n1"), node("n2", cpu=4), *pods(2, "a", cpu="16")])
    assert [(problem.rule, problem.at) for problem in all_warnings] == [("V6", "spec.subGroups[0].minMember")]
    assert "16" in all_warnings[0].hint
    assert "8" in all_warnings[0].hint


def test_a_minimum_of_a_podgroup_that_no_node_could_ever_hold_is_warned_about() -> None:
    """The PodGroup as its own leaf has a minimum too (V6, N2)."""
    manifest = podgroup()
    assert places(warnings(manifest, around=[manifest, node("n"), pod("p", cpu="9")]), "V6") == ["spec.minMember"]


ROOMY: dict[str, list[Raw]] = {
    "a node that is large enough": [node("n1", cpu=4), node("n2", cpu=16), *pods(2, "a", cpu="16")],
    "enough pods that fit": [node("n", cpu=8), *pods(2, "a", cpu="8"), *pods(1, "a", first=2, cpu="16")],
    "no nodes to judge by": pods(2, "a", cpu="1000"),
    "no pods to judge by": [node("n", cpu=1)],
    "pods of another gang": [node("n"), *pods(2, "a", cpu="16", gang="other")],
    "pods that ask for nothing": [node("n", cpu=1), *pods(2, "a")],
    "pods that are done already": [
        node("n", cpu=8),
        *({**one, "status": {"phase": "Succeeded"}} for one in pods(2, "a", cpu="8")),
        *pods(2, "a", first=2, cpu="16"),
    ],
}


@pytest.mark.parametrize("around", ROOMY.values(), ids=ROOMY)
def test_nothing_is_said_about_room_where_the_minimum_could_be_held(around: list[Raw]) -> None:
    """Only what is certain is warned about (V6)."""
    manifest = podgroup(group("a", 2))
    assert problems(manifest, around=[manifest, *around]) == []


# T6 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["requiredTopologyLevel", "preferredTopologyLevel"])
def test_a_level_that_does_not_exist_makes_the_gang_invalid(field: str) -> None:
    """Never an ignored constraint: an error, with the levels that exist (T6)."""
    manifest = podgroup(topologyConstraint={field: "rakc"})
    all_errors = errors(manifest, around=[LEVELS])
    assert [(problem.rule, problem.at) for problem in all_errors] == [("T6", f"spec.topologyConstraint.{field}")]
    assert "rakc" in all_errors[0].says
    assert "topology/rack" in all_errors[0].hint


def test_a_level_that_does_not_exist_on_a_deep_subgroup_makes_the_gang_invalid() -> None:
    """Constraints may stand on every SubGroup, and each is judged (T6, T1)."""
    manifest = podgroup(
        group("x", **within("block")), group("y", parent="x"), group("a", 1, parent="y", **within("host"))
    )
    all_errors = errors(manifest, around=[LEVELS])
    assert places(all_errors, "T6") == ["spec.subGroups[2].topologyConstraint.requiredTopologyLevel"]


def test_a_topology_that_does_not_exist_makes_the_gang_invalid() -> None:
    """The hint names those that exist (T6)."""
    all_errors = errors(podgroup(group("a", 1, **within("rack", of="clutser"))), around=[LEVELS])
    assert [(problem.rule, problem.at) for problem in all_errors] == [
        ("T6", "spec.subGroups[0].topologyConstraint.topology")
    ]
    assert "clutser" in all_errors[0].says
    assert "cluster" in all_errors[0].hint


def test_a_topology_that_does_not_exist_makes_the_gang_invalid_even_where_no_level_is_asked_for() -> None:
    """The name is wrong already; that must not show only once a level is added (T6)."""
    assert places(errors(podgroup(**within(of="clutser")), around=[LEVELS]), "T6") == [
        "spec.topologyConstraint.topology"
    ]


def test_a_level_of_another_topology_does_not_exist_in_this_one() -> None:
    """A level belongs to the Topology that the group uses (T6)."""
    network = topology("net/spine", "net/leaf", name="network")
    manifest = podgroup(**within("leaf", of="cluster"))
    assert places(errors(manifest, around=[LEVELS, network]), "T6") == ["spec.topologyConstraint.requiredTopologyLevel"]


def test_a_level_that_could_be_two_makes_the_gang_invalid() -> None:
    """`rack` is ambiguous here, so it names no level (T6, T4)."""
    twofold = topology("power/rack", "net/rack")
    assert places(errors(podgroup(**within("rack")), around=[twofold]), "T6") == [
        "spec.topologyConstraint.requiredTopologyLevel"
    ]
    assert errors(podgroup(**within("net/rack")), around=[twofold]) == []


def test_a_constraint_in_an_annotation_is_judged_like_one_in_the_spec() -> None:
    """Annotations fill what the spec leaves out, and are not ignored either (T6)."""
    manifest = podgroup()
    manifest["metadata"]["annotations"] = {"kai.scheduler/topology-required-placement": "rakc"}
    assert [problem.rule for problem in errors(manifest, around=[LEVELS])] == ["T6"]


def test_without_a_name_the_only_topology_of_the_cluster_is_meant() -> None:
    """One Topology needs no naming (T4)."""
    assert problems(podgroup(**within("rack")), around=[LEVELS]) == []


def test_without_a_name_and_with_two_topologies_the_gang_is_invalid() -> None:
    """Which of the two would be a guess (T4, T6)."""
    all_errors = errors(podgroup(**within("rack")), around=[LEVELS, topology("topology/rack", name="other")])
    assert [problem.rule for problem in all_errors] == ["T6"]
    assert "cluster" in all_errors[0].hint
    assert "other" in all_errors[0].hint


def test_a_topology_named_by_an_ancestor_is_the_one_that_is_meant() -> None:
    """The nearest ancestor says which; its levels are the ones that exist (T4)."""
    network = topology("net/spine", "net/leaf", name="network")
    inner = (group("x", **within(of="network")), group("y", parent="x"))
    fits = podgroup(*inner, group("a", 1, parent="y", **within("leaf")), **within(of="cluster"))
    misses = podgroup(*inner, group("a", 1, parent="y", **within("rack")), **within(of="cluster"))
    assert errors(fits, around=[LEVELS, network]) == []
    assert places(errors(misses, around=[LEVELS, network]), "T6") == [
        "spec.subGroups[2].topologyConstraint.requiredTopologyLevel"
    ]


# Q2 -----------------------------------------------------------------------------------------------------------------


def test_a_queue_that_does_not_exist_is_warned_about() -> None:
    """The PodGroup will not be scheduled; the message names the queue, the hint those that exist (Q2)."""
    all_warnings = warnings(podgroup(queue="reserach"), around=[queue("research"), queue("default")])
    assert [(problem.rule, problem.at) for problem in all_warnings] == [("Q2", "spec.queue")]
    assert "reserach" in all_warnings[0].says
    assert "research" in all_warnings[0].hint


def test_a_queue_that_exists_is_nothing_to_warn_about() -> None:
    """Named in the spec, or by the label (Q2)."""
    labelled = podgroup()
    labelled["metadata"]["labels"] = {"kai.scheduler/queue": "research"}
    for manifest in (podgroup(queue="research"), labelled):
        assert problems(manifest, around=[queue("research")]) == []


def test_a_podgroup_without_a_queue_goes_to_default_which_must_exist_where_there_are_queues() -> None:
    """`default` exists by itself only while there is no Queue at all (Q2)."""
    assert places(warnings(podgroup(), around=[queue("research")]), "Q2") == ["spec.queue"]
    assert problems(podgroup(), around=[queue("research"), queue("default")]) == []


def test_while_there_is_no_queue_at_all_default_exists_by_itself() -> None:
    """A cluster without queues schedules what names none (Q2)."""
    assert problems(podgroup(), around=[node("n")]) == []
    assert problems(podgroup(queue="default"), around=[node("n")]) == []


def test_a_workload_in_a_queue_that_has_children_is_reported() -> None:
    """Workloads go to leaf queues, so this one would be nowhere (Q1)."""
    queues = [queue("department"), queue("team", "department")]
    assert places(problems(podgroup(queue="department"), around=queues)) == ["spec.queue"]
    assert problems(podgroup(queue="team"), around=queues) == []

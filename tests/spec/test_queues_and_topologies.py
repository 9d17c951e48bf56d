"""Q1, Q2, P1 and T4: queues, topologies, and what a PodGroup means where it is silent."""

import pytest

from muster.api.core import PriorityClass
from muster.api.decoding import decode
from muster.api.meta import ObjectMeta
from muster.api.podgroup import PodGroup
from muster.api.topology import Topology
from muster.validation.defaults import constraints, preemptibility, priority
from muster.validation.defaults import queue as queue_of
from muster.validation.topology import find_level
from tests.spec.scene import errors, gathered, places, problems
from tests.support.factories import Raw, group, node, podgroup, priority_class, queue, topology


def typed(raw: Raw) -> PodGroup:
    decoded, wrong = decode(raw, PodGroup)
    assert not wrong
    return decoded


# Q1: the tree of queues ---------------------------------------------------------------------------------------------


def test_queues_are_a_tree_by_parent_queue() -> None:
    """A department with two teams is in order, whichever of them is judged (Q1)."""
    tree = [queue("department"), queue("red", "department"), queue("blue", "department")]
    assert [problems(one, around=tree) for one in tree] == [[], [], []]


def test_a_parent_queue_that_does_not_exist_is_refused() -> None:
    """The hint names those that exist (Q1)."""
    all_errors = errors(queue("team", "deparment"), around=[queue("department")])
    assert [(problem.rule, problem.at) for problem in all_errors] == [("Q1", "spec.parentQueue")]
    assert "deparment" in all_errors[0].says
    assert "department" in all_errors[0].hint


def test_a_queue_cannot_be_its_own_parent() -> None:
    """That is the smallest circle (Q1)."""
    assert places(errors(queue("team", "team"))) == ["spec.parentQueue"]
    assert places(errors(queue("team", "team"), around=[queue("team", "team")])) == ["spec.parentQueue"]


@pytest.mark.parametrize("size", [2, 3, 30])
def test_queues_in_a_circle_are_refused(size: int) -> None:
    """None of them is below a top queue, so none has a share (Q1)."""
    ring = [queue(f"q{i}", f"q{(i + 1) % size}") for i in range(size)]
    for one in ring:
        assert places(errors(one, around=ring), "Q1") == ["spec.parentQueue"]


def test_an_update_that_closes_a_circle_is_refused() -> None:
    """What is stored of the queue itself does not count any more (Q1)."""
    stored = [queue("a"), queue("b", "a")]
    assert places(errors(queue("a", "b"), around=stored), "Q1") == ["spec.parentQueue"]


def test_a_queue_below_a_circle_is_refused() -> None:
    """Its way up never ends: it is in no tree (Q1)."""
    around = [queue("a", "b"), queue("b", "c"), queue("c", "b")]
    assert places(errors(around[0], around=around), "Q1") == ["spec.parentQueue"]


# Q1: shares ---------------------------------------------------------------------------------------------------------


def test_a_quota_above_the_limit_is_refused() -> None:
    """A promise that may not be kept; the message has both numbers (Q1)."""
    all_errors = errors(queue("team", gpu={"quota": 9, "limit": 8}))
    assert [(problem.rule, problem.at) for problem in all_errors] == [("Q1", "spec.resources.gpu.quota")]
    assert "9" in all_errors[0].says
    assert "8" in all_errors[0].says


def test_an_unlimited_quota_below_a_limit_is_refused() -> None:
    """−1 is unlimited, which is more than any limit (Q1)."""
    assert places(errors(queue("team", gpu={"quota": -1, "limit": 8})), "Q1") == ["spec.resources.gpu.quota"]


@pytest.mark.parametrize(
    "share",
    [
        {},
        {"quota": 8, "limit": 8},
        {"quota": 7, "limit": 8},
        {"quota": 8},
        {"limit": 8},
        {"limit": 0},
        {"quota": 8, "limit": -1},
        {"quota": -1},
        {"quota": -1, "limit": -1},
        {"quota": 0, "limit": 0, "overQuotaWeight": 0},
        {"overQuotaWeight": 2.5},
    ],
)
def test_a_quota_within_the_limit_is_in_order(share: Raw) -> None:
    """An omitted quota is 0, an omitted limit is unlimited, an omitted weight is 1 (Q1)."""
    assert problems(queue("team", gpu=share)) == []


@pytest.mark.parametrize("field", ["quota", "limit", "overQuotaWeight"])
def test_a_share_below_nothing_is_refused(field: str) -> None:
    """−1 says unlimited for quota and limit; anything else below zero says nothing (Q1)."""
    assert f"spec.resources.gpu.{field}" in places(errors(queue("team", gpu={field: -2})), "Q1")


@pytest.mark.parametrize("name", ["cpu", "memory", "gpu"])
def test_queues_share_cpu_memory_and_gpu(name: str) -> None:
    """The three resources of a queue (Q1)."""
    raw = queue("team")
    raw["spec"]["resources"] = {name: {"quota": 1}}
    assert problems(raw) == []


@pytest.mark.parametrize("name", ["gpus", "CPU", "ram", ""])
def test_a_resource_that_queues_do_not_know_is_refused(name: str) -> None:
    """A misspelt resource would be a share of nothing (Q1)."""
    raw = queue("team")
    raw["spec"]["resources"] = {name: {"quota": 1}}
    all_errors = errors(raw)
    assert [(problem.rule, problem.at) for problem in all_errors] == [("Q1", f"spec.resources.{name}")]
    assert "gpu" in all_errors[0].hint


def test_all_problems_of_a_queue_are_reported_at_once() -> None:
    """As for every object (Q1)."""
    raw = queue("team", "nobody", gpu={"quota": 9, "limit": 8}, gpus={"quota": 1})
    all_errors = errors(raw, around=[queue("somebody")])
    assert places(all_errors) == ["spec.parentQueue", "spec.resources.gpu.quota", "spec.resources.gpus"]
    assert all(problem.hint for problem in all_errors)


# Q2 -----------------------------------------------------------------------------------------------------------------


def test_a_podgroup_that_names_no_queue_goes_to_default() -> None:
    """Silence has a meaning (Q2)."""
    assert queue_of(typed(podgroup())) == "default"
    assert gathered(podgroup()).gangs[0].queue == "default"


def test_the_queue_is_the_one_of_the_spec_else_the_one_of_the_label() -> None:
    """The label stands in where the spec is silent, and only there (Q2)."""
    manifest = podgroup()
    manifest["metadata"]["labels"] = {"kai.scheduler/queue": "labelled"}
    assert queue_of(typed(manifest)) == "labelled"
    manifest["spec"]["queue"] = "stated"
    assert queue_of(typed(manifest)) == "stated"


# P1 -----------------------------------------------------------------------------------------------------------------

CLASSES = (priority_class("train", 70), priority_class("serve", 130))
USUAL = priority_class("usual", 99, default=True)


def ranked(*classes: Raw, **spec: str) -> tuple[int, str]:
    """Priority and preemptibility of a gang among these classes."""
    gang = gathered(podgroup(**spec), *classes).gangs[0]
    return gang.priority, gang.preemptibility


def test_priority_is_the_one_of_the_class_that_is_named() -> None:
    """The class beats every default (P1)."""
    assert ranked(*CLASSES, USUAL, priorityClassName="train")[0] == 70
    assert ranked(*CLASSES, USUAL, priorityClassName="serve")[0] == 130


def test_without_a_class_the_global_default_is_the_priority() -> None:
    """A class that is not the default is not taken, however it is ordered (P1)."""
    assert ranked(*CLASSES, USUAL)[0] == 99


def test_without_a_class_and_a_global_default_the_priority_is_fifty() -> None:
    """Where nothing is stated (P1)."""
    assert ranked(*CLASSES)[0] == 50
    assert ranked()[0] == 50


def test_the_label_names_the_class_where_the_spec_is_silent() -> None:
    """`priorityClassName` may be a label of the PodGroup (P1)."""
    manifest = podgroup()
    manifest["metadata"]["labels"] = {"priorityClassName": "serve"}
    assert gathered(manifest, *CLASSES).gangs[0].priority == 130


@pytest.mark.parametrize(
    ("value", "expected"),
    [(-5, "preemptible"), (50, "preemptible"), (99, "preemptible"), (100, "non-preemptible"), (130, "non-preemptible")],
)
def test_unset_a_gang_is_preemptible_where_its_priority_is_below_a_hundred(value: int, expected: str) -> None:
    """A hundred is not below a hundred (P1)."""
    assert ranked(priority_class("one", value), priorityClassName="one")[1] == expected
    assert ranked(priority_class("one", value, default=True))[1] == expected


def test_where_nothing_is_said_a_gang_is_preemptible() -> None:
    """Fifty is below a hundred (P1)."""
    assert ranked()[1] == "preemptible"


@pytest.mark.parametrize("word", ["preemptible", "non-preemptible", "semi-preemptible"])
@pytest.mark.parametrize("value", [10, 1000])
def test_what_is_stated_goes_before_the_priority(word: str, value: int) -> None:
    """The default is for silence only (P1)."""
    assert ranked(priority_class("one", value), priorityClassName="one", preemptibility=word)[1] == word


def test_priority_and_preemptibility_can_be_asked_with_any_iterable_of_classes() -> None:
    """A stream of classes says the same as a list of them (P1)."""
    usual = [PriorityClass(metadata=ObjectMeta(name="usual"), value=120, global_default=True)]
    assert priority(typed(podgroup()), iter(usual)) == 120
    assert preemptibility(typed(podgroup()), iter(usual)) == "non-preemptible"


# Topology -----------------------------------------------------------------------------------------------------------


def levels(*labels: str) -> Topology:
    decoded, wrong = decode(topology(*labels), Topology)
    assert not wrong
    return decoded


def test_a_topology_of_one_to_sixteen_levels_is_in_order() -> None:
    """From a single level to more than any cluster has (T4)."""
    assert problems(topology("topology/rack")) == []
    assert problems(topology(*(f"topology/level-{i}" for i in range(16)))) == []


@pytest.mark.parametrize("number", [0, 17, 40])
def test_a_topology_of_no_levels_or_too_many_is_refused(number: int) -> None:
    """Between 1 and 16 (T4)."""
    all_errors = errors(topology(*(f"topology/level-{i}" for i in range(number))))
    assert places(all_errors) == ["spec.levels"]
    assert "16" in all_errors[0].hint


def test_a_topology_without_a_spec_is_refused() -> None:
    """No levels is no topology, also where the field is missing (T4)."""
    raw = topology("topology/rack")
    del raw["spec"]
    assert places(errors(raw)) == ["spec.levels"]


def test_a_label_can_be_one_level_only() -> None:
    """The second would be the same domains once more (T4)."""
    all_errors = errors(topology("topology/zone", "topology/rack", "topology/zone"))
    assert places(all_errors) == ["spec.levels[2].nodeLabel"]


def test_the_finest_level_cannot_come_before_a_coarser_one() -> None:
    """Levels go from coarse to fine; a host contains nothing (T4)."""
    assert places(errors(topology("kubernetes.io/hostname", "topology/rack"))) == ["spec.levels[0].nodeLabel"]
    assert errors(topology("topology/rack", "kubernetes.io/hostname")) == []


def test_a_region_cannot_come_after_a_zone() -> None:
    """Levels go from coarse to fine; Kubernetes says which of these two is which (T4)."""
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    assert places(errors(topology(zone, region))) == ["spec.levels[1].nodeLabel"]
    assert errors(topology(region, zone)) == []


def test_levels_that_the_nodes_show_the_wrong_way_round_are_reported() -> None:
    """Two racks in each of two zones, and racks named first (T4)."""
    nodes = [node(f"n{i}", zone=f"z{i // 2}", rack=f"r{i}") for i in range(4)]
    assert places(problems(topology("topology/rack", "topology/zone"), around=nodes)) == ["spec.levels[1].nodeLabel"]
    assert problems(topology("topology/zone", "topology/rack"), around=nodes) == []


def test_racks_of_one_name_in_two_zones_are_two_racks_and_in_order() -> None:
    """A domain is the path of values from the top, so the name may come again (T4)."""
    nodes = [node(f"n{i}", zone=f"z{i // 2}", rack=f"r{i % 2}") for i in range(4)]
    assert problems(topology("topology/zone", "topology/rack"), around=nodes) == []


# T4: naming levels --------------------------------------------------------------------------------------------------


def test_a_level_is_named_by_its_node_label() -> None:
    """In full (T4)."""
    cluster = levels("topology/zone", "topology/block", "topology/rack")
    assert [find_level(cluster, f"topology/{word}") for word in ("zone", "block", "rack")] == [0, 1, 2]


def test_a_level_is_named_by_the_last_part_of_its_label() -> None:
    """`rack` for `topology/rack` (T4)."""
    cluster = levels("topology/zone", "topology/block", "topology/rack")
    assert [find_level(cluster, word) for word in ("zone", "block", "rack")] == [0, 1, 2]


def test_a_last_part_that_two_levels_share_names_neither() -> None:
    """Only where this is unambiguous; in full both can be named (T4)."""
    cluster = levels("power/rack", "net/rack", "net/leaf")
    assert find_level(cluster, "rack") is None
    assert [find_level(cluster, word) for word in ("power/rack", "net/rack", "leaf")] == [0, 1, 2]


@pytest.mark.parametrize("word", ["", "host", "topology", "RACK", "ack", "topology/", "other/rack", "zone/rack"])
def test_another_word_names_no_level(word: str) -> None:
    """Neither a part of the last part nor another prefix will do (T4)."""
    assert find_level(levels("topology/zone", "topology/rack"), word) is None


def test_a_label_without_a_prefix_is_its_own_last_part() -> None:
    """In full it is unambiguous, whatever other labels end with (T4)."""
    assert find_level(levels("zone", "rack"), "rack") == 1
    assert find_level(levels("topology/rack", "rack"), "rack") == 1


# T4: which Topology -------------------------------------------------------------------------------------------------


def test_a_group_that_names_no_topology_inherits_the_one_of_its_nearest_ancestor() -> None:
    """The PodGroup's, unless a SubGroup in between names another (T4)."""
    manifest = podgroup(
        group("a", 1, topologyConstraint={"requiredTopologyLevel": "rack"}),
        group("x", topologyConstraint={"topology": "inner"}),
        group("y", parent="x"),
        group("b", 1, parent="y", topologyConstraint={"preferredTopologyLevel": "rack"}),
        group("c", 1, parent="y", topologyConstraint={"topology": "own"}),
        topologyConstraint={"topology": "outer", "requiredTopologyLevel": "zone"},
    )
    named = {name: one.topology for name, one in constraints(typed(manifest)).items()}
    assert named == {"": "outer", "a": "outer", "x": "inner", "y": "inner", "b": "inner", "c": "own"}


def test_only_the_topology_is_inherited_and_not_the_level() -> None:
    """A child without a constraint is held by its parent's domain, not by one of its own (T4, T1)."""
    manifest = podgroup(group("a", 1), topologyConstraint={"topology": "outer", "requiredTopologyLevel": "zone"})
    assert constraints(typed(manifest))["a"].required_topology_level == ""


def test_a_child_declared_before_its_parent_inherits_all_the_same() -> None:
    """The list is flat (T4, N1)."""
    manifest = podgroup(group("a", 1, parent="x"), group("x", topologyConstraint={"topology": "inner"}))
    assert constraints(typed(manifest))["a"].topology == "inner"

"""What a PodCliqueSet becomes, and what becomes of it when it is scaled or deleted."""

from typing import Any

import pytest

from muster.api import names
from muster.api.resources import (
    AUTOSCALERS,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    SERVICES,
    Resource,
)
from muster.grove.naming import SET_FINALIZER
from muster.workloads.merge_patch import merged
from muster.workloads.types import Action, Create, Raw, Remove, Update
from tests.support.grove import (
    NAMESPACE,
    STRUCTURE,
    GroveCluster,
    clique,
    created_names,
    group,
    pod_clique_set,
    removed_names,
)

KINDS = (SERVICES, POD_CLIQUES, POD_CLIQUE_SCALING_GROUPS, POD_GANGS, AUTOSCALERS)


def cluster(raw: Raw) -> GroveCluster:
    new = GroveCluster(STRUCTURE)
    new.apply(raw)
    return new


def the_set(replicas: int = 1, **fields: Any) -> Raw:
    """A standalone clique, and a group of two cliques with one replica above its minimum."""
    cliques = clique("a", 2, 1), clique("b"), clique("c")
    return pod_clique_set(*cliques, groups=[group("sg", "b", "c", replicas=2)], replicas=replicas, **fields)


# expansion ----------------------------------------------------------------------------------------------------------


def test_a_set_makes_cliques_then_groups_then_autoscalers_then_services_and_gangs_once_pods_exist() -> None:
    scaled = clique("a", spec={"autoScalingConfig": {"maxReplicas": 3}})
    grove = cluster(pod_clique_set(scaled, clique("b"), groups=[group("sg", "b")], replicas=2))
    own = [action.resource for action in grove.changes() if isinstance(action, Create)]
    order = [kind for kind in dict.fromkeys(own) if kind in KINDS]
    assert order == [POD_CLIQUES, POD_CLIQUE_SCALING_GROUPS, AUTOSCALERS, SERVICES, POD_GANGS]


def test_a_set_that_is_as_wanted_is_left_alone() -> None:
    grove = cluster(the_set(2))
    grove.report_all()
    grove.changes()
    grove.patch(POD_CLIQUE_SETS, "w", {"metadata": {"annotations": {"note": "nothing that matters"}}})
    assert grove.changes() == []


def test_the_set_controls_services_standalone_cliques_groups_and_gangs_and_a_group_its_cliques() -> None:
    grove = cluster(the_set())
    for kind, name in (
        (SERVICES, "w-0"),
        (POD_CLIQUES, "w-0-a"),
        (POD_CLIQUE_SCALING_GROUPS, "w-0-sg"),
        (POD_GANGS, "w-0"),
    ):
        assert _controller(grove, kind, name) == ("PodCliqueSet", "w")
    assert _controller(grove, POD_CLIQUES, "w-0-sg-1-b") == ("PodCliqueScalingGroup", "w-0-sg")


def _controller(grove: GroveCluster, kind: Resource, name: str) -> tuple[str, str]:
    (owner,) = grove.named(kind, name)["metadata"]["ownerReferences"]
    assert owner["controller"]
    return owner["kind"], owner["name"]


def test_a_standalone_clique_says_where_it_belongs() -> None:
    labels = cluster(the_set()).labels(POD_CLIQUES, "w-0-a")
    hashes = {labels.pop(names.TEMPLATE_HASH), labels.pop(names.GENERATION_HASH)}
    assert all(hashes)
    assert labels == {
        names.MANAGED_BY: "grove-operator",
        names.PART_OF: "w",
        names.APP_NAME: "w-0-a",
        names.COMPONENT: "pcs-podclique",
        names.SET_REPLICA: "0",
        names.POD_GANG: "w-0",
    }


def test_a_clique_of_a_scaled_replica_names_its_group_its_gang_and_the_base_gang() -> None:
    labels = cluster(the_set()).labels(POD_CLIQUES, "w-0-sg-1-b")
    assert labels[names.COMPONENT] == "pcsg-podclique"
    assert (labels[names.SCALING_GROUP], labels[names.SCALING_GROUP_REPLICA]) == ("w-0-sg", "1")
    assert (labels[names.POD_GANG], labels[names.BASE_POD_GANG]) == ("w-0-sg-0", "w-0")
    assert names.BASE_POD_GANG not in cluster(the_set()).labels(POD_CLIQUES, "w-0-sg-0-b")


def test_labels_and_annotations_of_the_template_are_on_the_clique_and_never_win_over_those_of_the_operator() -> None:
    template = clique("a", labels={"team": "x", names.PART_OF: "mine"}, annotations={"note": "n"})
    grove = cluster(pod_clique_set(template))
    assert grove.labels(POD_CLIQUES, "w-0-a")["team"] == "x"
    assert grove.labels(POD_CLIQUES, "w-0-a")[names.PART_OF] == "w"
    assert grove.named(POD_CLIQUES, "w-0-a")["metadata"]["annotations"] == {"note": "n"}


def test_the_minimum_of_a_clique_is_always_said() -> None:
    assert cluster(pod_clique_set(clique("a", 3))).spec(POD_CLIQUES, "w-0-a")["minAvailable"] == 3


def test_cliques_that_start_first_are_said_by_their_full_names() -> None:
    grove = cluster(the_set(cliqueStartupType="CliqueStartupTypeInOrder"))
    assert grove.spec(POD_CLIQUES, "w-0-sg-0-b")["startsAfter"] == ["w-0-a"]
    assert grove.spec(POD_CLIQUES, "w-0-sg-1-c")["startsAfter"] == ["w-0-sg-1-b"]


def test_a_headless_service_selects_the_pods_of_its_replica_ready_or_not() -> None:
    spec = cluster(the_set()).spec(SERVICES, "w-0")
    assert spec == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {names.MANAGED_BY: "grove-operator", names.PART_OF: "w", names.SET_REPLICA: "0"},
    }


def test_a_set_may_hide_pods_that_are_not_ready_from_its_service() -> None:
    grove = cluster(the_set())
    grove.apply(the_set(headlessServiceConfig={"publishNotReadyAddresses": False}))
    assert grove.spec(SERVICES, "w-0")["publishNotReadyAddresses"] is False


# gangs --------------------------------------------------------------------------------------------------------------


def test_a_gang_lists_its_cliques_with_their_minimums_and_no_pods_yet() -> None:
    grove = cluster(the_set(priorityClassName="high"))
    assert grove.spec(POD_GANGS, "w-0") == {
        "podgroups": [
            {"name": "w-0-a", "podReferences": [], "minReplicas": 1},
            {"name": "w-0-sg-0-b", "podReferences": [], "minReplicas": 1},
            {"name": "w-0-sg-0-c", "podReferences": [], "minReplicas": 1},
        ],
        "priorityClassName": "high",
    }
    labels = grove.labels(POD_GANGS, "w-0-sg-0")
    assert (labels[names.COMPONENT], labels[names.BASE_POD_GANG]) == ("podgang", "w-0")


def test_references_to_pods_that_a_gang_has_stay_when_its_structure_changes() -> None:
    grove = cluster(the_set())
    reference = {"namespace": "team", "name": "w-0-a-x7k2p"}
    filled = [{**one, "podReferences": [reference]} for one in grove.spec(POD_GANGS, "w-0")["podgroups"]]
    grove.patch(POD_GANGS, "w-0", {"spec": {"podgroups": filled}})
    grove.apply(the_set(priorityClassName="high"))
    assert grove.spec(POD_GANGS, "w-0")["podgroups"] == filled
    assert grove.spec(POD_GANGS, "w-0")["priorityClassName"] == "high"


def versioned(grove: GroveCluster, resource: Resource, name: str) -> None:
    raw = grove.named(resource, name)
    grove.objects[resource, NAMESPACE, name] = merged(raw, {"metadata": {"resourceVersion": "7"}})


def updates(grove: GroveCluster) -> list[Raw]:
    """The patches of the next reconciliation of the set."""
    result = STRUCTURE[POD_CLIQUE_SETS].reconcile(grove.named(POD_CLIQUE_SETS), grove, grove.now)
    return [action.patch for action in result.actions if isinstance(action, Update)]


def test_the_structure_of_a_gang_is_written_only_on_the_version_whose_references_were_read() -> None:
    """Otherwise references that were filled in meanwhile would be lost."""
    grove = cluster(pod_clique_set(clique("a")))
    grove.objects[POD_GANGS, NAMESPACE, "w-0"]["spec"]["podgroups"] = []
    versioned(grove, POD_GANGS, "w-0")
    (patch,) = updates(grove)
    assert patch["metadata"] == {"resourceVersion": "7"}


@pytest.mark.parametrize("goes", [False, True])
def test_finalizers_are_written_only_on_the_version_that_was_read(goes: bool) -> None:
    grove = cluster(pod_clique_set(clique("a")))
    versioned(grove, POD_CLIQUE_SETS, "w")
    raw = grove.named(POD_CLIQUE_SETS)
    other = ["example.com/other"]
    metadata = {"finalizers": [*other, SET_FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    changed = merged(raw, {"metadata": metadata if goes else {"finalizers": other}})
    grove.objects[POD_CLIQUE_SETS, NAMESPACE, "w"] = changed
    (patch,) = updates(grove)
    wanted = other if goes else [*other, SET_FINALIZER]
    assert patch == {"metadata": {"finalizers": wanted, "resourceVersion": "7"}}


def test_a_clique_that_is_scaled_to_zero_leaves_its_gang_and_comes_back() -> None:
    grove = cluster(the_set())
    grove.scale(POD_CLIQUES, "w-0-a", 0)
    assert _groups(grove, "w-0") == ["w-0-sg-0-b", "w-0-sg-0-c"]
    grove.scale(POD_CLIQUES, "w-0-a", 2)
    assert _groups(grove, "w-0") == ["w-0-a", "w-0-sg-0-b", "w-0-sg-0-c"]


def test_a_gang_without_cliques_does_not_exist() -> None:
    grove = cluster(pod_clique_set(clique("a")))
    grove.scale(POD_CLIQUES, "w-0-a", 0)
    assert grove.names(POD_GANGS) == []


def _groups(grove: GroveCluster, gang: str) -> list[str]:
    return [one["name"] for one in grove.spec(POD_GANGS, gang)["podgroups"]]


# scale --------------------------------------------------------------------------------------------------------------


def test_replicas_of_cliques_and_groups_are_copied_at_creation_only() -> None:
    grove = cluster(the_set())
    grove.scale(POD_CLIQUES, "w-0-a", 5)
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 4)
    cliques = clique("a", 3, 1), clique("b"), clique("c")
    grove.apply(pod_clique_set(*cliques, groups=[group("sg", "b", "c", replicas=1)]))
    assert grove.spec(POD_CLIQUES, "w-0-a")["replicas"] == 5
    assert grove.spec(POD_CLIQUE_SCALING_GROUPS, "w-0-sg")["replicas"] == 4


def test_scaling_out_a_group_adds_cliques_and_scaled_gangs() -> None:
    grove = cluster(the_set())
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 3)
    assert grove.names(POD_GANGS) == ["w-0", "w-0-sg-0", "w-0-sg-1"]
    assert "w-0-sg-2-c" in grove.names(POD_CLIQUES)


def test_scaling_in_a_group_removes_the_highest_replicas_and_their_gangs() -> None:
    grove = cluster(the_set())
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 1)
    assert grove.names(POD_GANGS) == ["w-0"]
    assert grove.names(POD_CLIQUES) == ["w-0-a", "w-0-sg-0-b", "w-0-sg-0-c"]


def test_scaling_in_a_set_removes_the_highest_index_first() -> None:
    grove = cluster(the_set(4))
    grove.changes()
    grove.scale(POD_CLIQUE_SETS, "w", 1)
    actions = grove.changes()
    assert removed_names(actions, SERVICES) == ["w-3", "w-2", "w-1"]
    assert removed_names(actions, POD_CLIQUE_SCALING_GROUPS) == ["w-3-sg", "w-2-sg", "w-1-sg"]
    assert [name for kind in KINDS for name in grove.names(kind) if not name.startswith("w-0")] == []


def test_a_set_is_scaled_to_zero_and_back() -> None:
    grove = cluster(the_set(2))
    before = {kind: grove.names(kind) for kind in KINDS}
    grove.scale(POD_CLIQUE_SETS, "w", 0)
    assert [name for kind in KINDS for name in grove.names(kind)] == []
    assert grove.status(POD_CLIQUE_SETS)["replicas"] == 0
    grove.scale(POD_CLIQUE_SETS, "w", 2)
    assert {kind: grove.names(kind) for kind in KINDS} == before


def test_a_group_is_scaled_to_zero_and_the_set_is_available_without_it() -> None:
    grove = cluster(the_set())
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 0)
    grove.report_all()
    assert grove.names(POD_CLIQUES) == ["w-0-a"]
    assert _groups(grove, "w-0") == ["w-0-a"]
    assert grove.status(POD_CLIQUE_SETS)["availableReplicas"] == 1


def test_what_a_user_deletes_is_made_again() -> None:
    grove = cluster(the_set())
    before = {kind: grove.names(kind) for kind in KINDS}
    for kind, name in (
        (SERVICES, "w-0"),
        (POD_CLIQUES, "w-0-a"),
        (POD_CLIQUE_SCALING_GROUPS, "w-0-sg"),
        (POD_GANGS, "w-0"),
    ):
        grove.delete(kind, name)
    assert {kind: grove.names(kind) for kind in KINDS} == before


def test_five_hundred_replicas_take_a_few_reconciliations() -> None:
    grove = GroveCluster(STRUCTURE)
    grove.apply(pod_clique_set(clique("a", 2), replicas=500))
    assert len(grove.names(POD_GANGS)) == 500
    assert len(created_names(grove.changes(), POD_CLIQUES)) == 500


# autoscalers --------------------------------------------------------------------------------------------------------


METRICS = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}
]


def test_an_autoscaler_scales_each_standalone_clique_that_says_how() -> None:
    config = {"minReplicas": 2, "maxReplicas": 5, "metrics": METRICS}
    grove = cluster(pod_clique_set(clique("a", 2, spec={"autoScalingConfig": config}), replicas=2))
    assert grove.names(AUTOSCALERS) == ["w-0-a", "w-1-a"]
    assert grove.spec(AUTOSCALERS, "w-0-a") == {
        "scaleTargetRef": {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "w-0-a"},
        **config,
    }


def test_an_autoscaler_scales_each_group_that_says_how_from_its_own_replicas() -> None:
    sg = group("sg", "b", replicas=2, scaleConfig={"maxReplicas": 4})
    grove = cluster(pod_clique_set(clique("b"), groups=[sg]))
    spec = grove.spec(AUTOSCALERS, "w-0-sg")
    assert (spec["scaleTargetRef"]["kind"], spec["minReplicas"], spec["maxReplicas"]) == ("PodCliqueScalingGroup", 2, 4)
    assert grove.labels(AUTOSCALERS, "w-0-sg")[names.COMPONENT] == "pcs-hpa"


def test_an_autoscaler_follows_its_configuration_and_goes_with_it() -> None:
    grove = cluster(pod_clique_set(clique("a", spec={"autoScalingConfig": {"maxReplicas": 5}})))
    grove.apply(pod_clique_set(clique("a", spec={"autoScalingConfig": {"maxReplicas": 9}})))
    assert grove.spec(AUTOSCALERS, "w-0-a")["maxReplicas"] == 9
    assert grove.spec(POD_CLIQUES, "w-0-a")["autoScalingConfig"] == {"maxReplicas": 9}
    grove.apply(pod_clique_set(clique("a")))
    assert grove.names(AUTOSCALERS) == []


def test_fields_that_an_api_server_adds_to_services_and_autoscalers_are_left_alone() -> None:
    grove = cluster(pod_clique_set(clique("a", spec={"autoScalingConfig": {"maxReplicas": 5}})))
    grove.patch(SERVICES, "w-0", {"spec": {"clusterIPs": ["None"], "type": "ClusterIP"}})
    grove.patch(AUTOSCALERS, "w-0-a", {"spec": {"behavior": {"scaleUp": {"selectPolicy": "Max"}}}})
    grove.changes()
    grove.patch(POD_CLIQUE_SETS, "w", {"metadata": {"annotations": {"x": "y"}}})
    assert grove.changes() == []


def stored(grove: GroveCluster, resource: Resource, spec: Raw) -> list[Action]:
    """What the set does about its children after an API server has stored them with this spec."""
    for raw in grove.every(resource):
        grove.objects[resource, NAMESPACE, raw["metadata"]["name"]] = {**raw, "spec": spec}
    result = STRUCTURE[POD_CLIQUE_SETS].reconcile(grove.named(POD_CLIQUE_SETS), grove, grove.now)
    return [*result.actions]


def test_a_service_from_which_an_api_server_left_out_what_is_false_is_left_alone() -> None:
    grove = cluster(pod_clique_set(clique("a"), headlessServiceConfig={"publishNotReadyAddresses": False}))
    spec = {name: value for name, value in grove.spec(SERVICES, "w-0").items() if name != "publishNotReadyAddresses"}
    assert stored(grove, SERVICES, spec) == []
    assert len(stored(grove, SERVICES, {**spec, "publishNotReadyAddresses": True})) == 1


def queue_metric(target: Raw, **metric: Any) -> list[Raw]:
    return [{"type": "Pods", "pods": {"metric": {"name": "q", **metric}, "target": {"type": "AverageValue", **target}}}]


@pytest.mark.parametrize(
    ("written", "canonical"),
    [("1000m", "1"), ("1.5", "1500m"), (10, "10"), ("16384Mi", "16Gi"), ("0.0001", "100u"), ("1e3", "1e3")],
)
def test_an_autoscaler_whose_quantities_an_api_server_wrote_in_its_way_is_left_alone(
    written: Any, canonical: str
) -> None:
    metrics = queue_metric({"averageValue": written}, selector=None)
    grove = cluster(pod_clique_set(clique("a", spec={"autoScalingConfig": {"maxReplicas": 3, "metrics": metrics}})))
    spec = grove.spec(AUTOSCALERS, "w-0-a")
    assert stored(grove, AUTOSCALERS, {**spec, "metrics": queue_metric({"averageValue": canonical})}) == []


@pytest.mark.parametrize(("written", "other"), [("1", "2"), ("16Gi", "17Gi"), ("1.0001", "1.0002"), ("many", "few")])
def test_an_autoscaler_with_another_quantity_is_corrected(written: str, other: str) -> None:
    metrics = queue_metric({"averageValue": written})
    grove = cluster(pod_clique_set(clique("a", spec={"autoScalingConfig": {"maxReplicas": 3, "metrics": metrics}})))
    spec = grove.spec(AUTOSCALERS, "w-0-a")
    (update,) = stored(grove, AUTOSCALERS, {**spec, "metrics": queue_metric({"averageValue": other})})
    assert isinstance(update, Update)
    assert update.patch == {"spec": {"metrics": metrics}}


# deletion -----------------------------------------------------------------------------------------------------------


def test_a_set_has_groves_finalizer_beside_those_of_others() -> None:
    grove = cluster(the_set(metadata={"finalizers": ["other/one"]}))
    assert grove.named(POD_CLIQUE_SETS)["metadata"]["finalizers"] == ["other/one", SET_FINALIZER]


def test_deletion_removes_direct_children_then_the_finalizer_and_leaves_nothing() -> None:
    grove = cluster(the_set(2))
    grove.changes()
    grove.delete(POD_CLIQUE_SETS, "w")
    actions = grove.changes()
    assert isinstance(actions[-1], Update)
    assert actions[-1].patch == {"metadata": {"finalizers": []}}
    assert all(isinstance(action, Remove) for action in actions[:-1])
    assert grove.objects == {}


def test_deletion_does_not_wait_for_children_that_do_not_go() -> None:
    """A clique that a finalizer of others keeps must not keep the set."""
    grove = cluster(the_set())
    grove.patch(POD_CLIQUES, "w-0-a", {"metadata": {"finalizers": ["other/one"]}})
    grove.delete(POD_CLIQUE_SETS, "w")
    assert not grove.has(POD_CLIQUE_SETS, "w")
    assert grove.names(POD_CLIQUES) == ["w-0-a"]


def test_deletion_that_orphans_children_leaves_them_alone() -> None:
    grove = cluster(the_set())
    grove.patch(POD_CLIQUE_SETS, "w", {"metadata": {"finalizers": ["orphan", SET_FINALIZER]}})
    grove.changes()
    grove.delete(POD_CLIQUE_SETS, "w")
    assert removed_names(grove.changes(), POD_CLIQUES) == []
    assert grove.named(POD_CLIQUE_SETS)["metadata"]["finalizers"] == ["orphan"]


def test_a_set_that_is_being_deleted_makes_nothing() -> None:
    grove = cluster(the_set(metadata={"finalizers": ["other/one"]}))
    grove.delete(POD_CLIQUE_SETS, "w")
    assert [name for kind in KINDS for name in grove.names(kind)] == []


@pytest.mark.parametrize("broken", [{}, {"cliques": None}, {"cliques": [{"name": "a"}]}, {"cliques": "a"}])
def test_a_set_that_nothing_has_validated_does_no_harm(broken: Raw) -> None:
    raw = pod_clique_set()
    cluster({**raw, "spec": {"replicas": 1, "template": broken}})

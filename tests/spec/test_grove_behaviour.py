"""What users of Grove rely on, sentence by sentence: names, labels, gates, and what becomes of a PodCliqueSet.

Words on the wire are written out here: a constant that changes must not change a promise.
"""

import re
from typing import Any

import pytest

from muster.api.resources import (
    AUTOSCALERS,
    CLUSTER_TOPOLOGY_BINDINGS,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    SERVICES,
    Resource,
)
from muster.workloads.types import Create
from tests.support.factories import Raw
from tests.support.grove import GroveCluster, clique, group, pod_clique_set, removed_names

GATE = "grove.io/podgang-pending-creation"
LEVELS = [{"domain": "zone", "key": "zone"}, {"domain": "block", "key": "block"}, {"domain": "rack", "key": "rack"}]


def submitted(*cliques: Raw, **fields: Any) -> GroveCluster:
    """A set `w`: by default clique `a`, and three replicas of a group `sg` of clique `b`."""
    grove = GroveCluster()
    if not cliques:
        cliques = clique("a", 2), clique("b")
        fields.setdefault("groups", [group("sg", "b", replicas=3)])
    grove.apply(pod_clique_set(*cliques, **fields))
    return grove


def pods_of(grove: GroveCluster, name: str) -> list[Raw]:
    return list(grove.of(grove.named(POD_CLIQUES, name), PODS))


def environment(pod: Raw) -> dict[str, str]:
    """Variables of the first container; where one is a label of the pod, that."""
    labels = pod["metadata"]["labels"]
    paths = {f"metadata.labels['{name}']": value for name, value in labels.items()}
    return {
        one["name"]: one["value"] if "value" in one else paths[one["valueFrom"]["fieldRef"]["fieldPath"]]
        for one in pod["spec"]["containers"][0]["env"]
    }


def packed(**levels: str) -> dict[str, Any]:
    return {"topologyConstraint": {"topologyName": "dc", "pack": levels}}


def bind_topology(grove: GroveCluster) -> None:
    grove.apply({"metadata": {"name": "dc"}, "spec": {"levels": LEVELS}}, CLUSTER_TOPOLOGY_BINDINGS)


# names ----------------------------------------------------------------------------------------------------------------


def test_a_standalone_clique_is_named_by_set_replica_and_clique_and_a_member_by_its_group_and_its_replica() -> None:
    grove = submitted(replicas=2)
    own = {"w-0-a", "w-0-sg-0-b", "w-0-sg-1-b", "w-0-sg-2-b"}
    assert set(grove.names(POD_CLIQUES)) == own | {name.replace("w-0", "w-1") for name in own}
    assert grove.names(POD_CLIQUE_SCALING_GROUPS) == ["w-0-sg", "w-1-sg"]


def test_a_base_gang_is_named_by_set_and_replica_and_a_scaled_one_counts_from_the_minimum() -> None:
    """The gang `w-0-sg-0` is that of replica 1 where the minimum is 1."""
    grove = submitted()
    assert grove.names(POD_GANGS) == ["w-0", "w-0-sg-0", "w-0-sg-1"]
    cliques = {raw["metadata"]["name"]: raw["metadata"]["labels"] for raw in grove.every(POD_CLIQUES)}
    assert cliques["w-0-sg-1-b"]["grove.io/podgang"] == "w-0-sg-0"
    assert cliques["w-0-sg-2-b"]["grove.io/podgang"] == "w-0-sg-1"


def test_a_pod_is_named_after_its_clique_with_its_index_as_host_name_in_the_domain_of_its_replica() -> None:
    grove = submitted()
    pods = pods_of(grove, "w-0-a")
    assert {pod["metadata"]["generateName"] for pod in pods} == {"w-0-a-"}
    assert sorted((pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods) == [
        ("w-0-a-0", "w-0"),
        ("w-0-a-1", "w-0"),
    ]


def test_a_headless_service_is_named_like_its_replica_and_an_autoscaler_like_its_target() -> None:
    scaling = {"minReplicas": 1, "maxReplicas": 4, "metrics": []}
    cliques = clique("a", spec={"autoScalingConfig": scaling}), clique("b")
    grove = submitted(*cliques, groups=[group("sg", "b", scaleConfig=scaling)])
    assert grove.names(SERVICES) == ["w-0"]
    assert grove.spec(SERVICES, "w-0")["clusterIP"] == "None"
    assert grove.spec(SERVICES, "w-0")["publishNotReadyAddresses"] is True
    assert grove.names(AUTOSCALERS) == ["w-0-a", "w-0-sg"]
    assert grove.named(AUTOSCALERS, "w-0-sg")["apiVersion"] == "autoscaling/v2"
    assert grove.spec(AUTOSCALERS, "w-0-sg")["scaleTargetRef"]["kind"] == "PodCliqueScalingGroup"
    assert grove.spec(AUTOSCALERS, "w-0-a")["scaleTargetRef"]["name"] == "w-0-a"


# labels, gates, environment, owners -----------------------------------------------------------------------------------

COMPONENTS: list[tuple[Resource, str, str]] = [
    (POD_CLIQUES, "w-0-a", "pcs-podclique"),
    (POD_CLIQUES, "w-0-sg-0-b", "pcsg-podclique"),
    (POD_CLIQUE_SCALING_GROUPS, "w-0-sg", "pcs-podcliquescalinggroup"),
    (POD_GANGS, "w-0-sg-0", "podgang"),
    (SERVICES, "w-0", "pcs-headless-service"),
    (AUTOSCALERS, "w-0-sg", "pcs-hpa"),
]


@pytest.mark.parametrize(("resource", "name", "component"), COMPONENTS)
def test_everything_says_what_it_is_and_to_which_set_it_belongs(resource: Resource, name: str, component: str) -> None:
    scaling = {"minReplicas": 1, "maxReplicas": 4}
    grove = submitted(clique("a"), clique("b"), groups=[group("sg", "b", replicas=2, scaleConfig=scaling)])
    labels = grove.labels(resource, name)
    assert labels["app.kubernetes.io/managed-by"] == "grove-operator"
    assert labels["app.kubernetes.io/part-of"] == "w"
    assert labels["app.kubernetes.io/component"] == component
    assert labels["grove.io/podcliqueset-replica-index"] == "0"


def test_pods_say_their_clique_their_gang_their_places_and_their_template() -> None:
    grove = submitted()
    (scaled,) = pods_of(grove, "w-0-sg-1-b")
    labels = scaled["metadata"]["labels"]
    assert {name: labels[name] for name in labels if name.startswith("grove.io/") and "hash" not in name} == {
        "grove.io/podclique": "w-0-sg-1-b",
        "grove.io/podgang": "w-0-sg-0",
        "grove.io/base-podgang": "w-0",
        "grove.io/podcliqueset-replica-index": "0",
        "grove.io/podcliquescalinggroup": "w-0-sg",
        "grove.io/podcliquescalinggroup-replica-index": "1",
        "grove.io/podclique-pod-index": "0",
    }
    assert re.fullmatch(r"[a-z0-9]+", labels["grove.io/pod-template-hash"])
    for pod in pods_of(grove, "w-0-a"):
        assert "grove.io/base-podgang" not in pod["metadata"]["labels"]
        assert "grove.io/podcliquescalinggroup" not in pod["metadata"]["labels"]


def test_a_base_gang_is_not_named_on_cliques_of_the_base() -> None:
    grove = submitted()
    bases = {name: grove.labels(POD_CLIQUES, name).get("grove.io/base-podgang") for name in grove.names(POD_CLIQUES)}
    assert bases == {"w-0-a": None, "w-0-sg-0-b": None, "w-0-sg-1-b": "w-0", "w-0-sg-2-b": "w-0"}


def test_pods_are_made_with_the_gate_beside_those_of_others() -> None:
    other = {"name": "example.com/x"}
    grove = submitted(clique("a", spec={"podSpec": {"schedulingGates": [other], "containers": []}}))
    (made,) = [one.object for one in grove.changes() if isinstance(one, Create) and one.resource == PODS]
    assert made["spec"]["schedulingGates"] == [other, {"name": GATE}]
    assert pods_of(grove, "w-0-a")[0]["spec"]["schedulingGates"] == [other], "only the gate of the gang is lifted"


def test_every_container_gets_its_place_in_its_environment() -> None:
    grove = submitted(clique("a"), clique("b", 2), clique("c", 3), groups=[group("sg", "b", "c", replicas=2)])
    (first,) = pods_of(grove, "w-0-a")
    assert environment(first) == {
        "GROVE_PCS_NAME": "w",
        "GROVE_PCS_INDEX": "0",
        "GROVE_PCLQ_NAME": "w-0-a",
        "GROVE_HEADLESS_SERVICE": "w-0.team.svc.cluster.local",
        "GROVE_PCLQ_POD_INDEX": "0",
    }
    member = next(pod for pod in pods_of(grove, "w-0-sg-1-b") if pod["spec"]["hostname"].endswith("-1"))
    values = environment(member)
    assert (values["GROVE_PCSG_NAME"], values["GROVE_PCSG_INDEX"]) == ("w-0-sg", "1")
    assert values["GROVE_PCSG_TEMPLATE_NUM_PODS"] == "5"
    assert values["GROVE_PCLQ_POD_INDEX"] == "1"


def test_owners_are_set_then_group_then_clique_then_pod_and_gang_then_podgroup() -> None:
    grove = submitted()
    pod = pods_of(grove, "w-0-a")[0]["metadata"]["name"]
    of_set = [(POD_CLIQUE_SCALING_GROUPS, "w-0-sg"), (POD_CLIQUES, "w-0-a"), (POD_GANGS, "w-0"), (SERVICES, "w-0")]
    expected = dict.fromkeys(of_set, ("PodCliqueSet", "w")) | {
        (POD_CLIQUES, "w-0-sg-1-b"): ("PodCliqueScalingGroup", "w-0-sg"),
        (PODS, pod): ("PodClique", "w-0-a"),
        (POD_GROUPS, "w-0"): ("PodGang", "w-0"),
    }
    for (resource, name), owner in expected.items():
        (reference,) = grove.named(resource, name)["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["name"]) == owner
        assert reference["controller"] is True


# gangs and scale ------------------------------------------------------------------------------------------------------


def test_the_base_gang_lists_standalone_cliques_in_order_then_members_by_group_replica_and_name() -> None:
    cliques = clique("z"), clique("b"), clique("c"), clique("a")
    grove = submitted(*cliques, groups=[group("sg", "c", "b", replicas=3, minimum=2)])
    entries = grove.spec(POD_GANGS, "w-0")["podgroups"]
    assert [one["name"] for one in entries] == [
        *("w-0-z", "w-0-a"),
        *("w-0-sg-0-c", "w-0-sg-0-b", "w-0-sg-1-c", "w-0-sg-1-b"),
    ]
    assert [one["name"] for one in grove.spec(POD_GANGS, "w-0-sg-0")["podgroups"]] == ["w-0-sg-2-c", "w-0-sg-2-b"]


def test_pods_above_the_minimum_are_listed_too() -> None:
    grove = submitted(clique("a", 4, 2))
    (entry,) = grove.spec(POD_GANGS, "w-0")["podgroups"]
    assert entry["minReplicas"] == 2
    names = [one["name"] for one in entry["podReferences"]]
    assert names == sorted(names)
    assert len(names) == 4


def test_replicas_are_copied_at_creation_and_then_the_scale_of_the_child_rules() -> None:
    grove = submitted()
    grove.scale(POD_CLIQUES, "w-0-a", 5)
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 1)
    grove.patch(POD_CLIQUE_SETS, "w", {"spec": {"template": {"cliques": [clique("a", 9, 2), clique("b")]}}})
    assert (len(pods_of(grove, "w-0-a")), grove.names(POD_GANGS)) == (5, ["w-0"])
    grove.scale(POD_CLIQUE_SETS, "w", 2)
    assert len(pods_of(grove, "w-1-a")) == 9, "what is new is copied"


def test_scale_in_removes_the_highest_index_first() -> None:
    grove = submitted(replicas=2)
    grove.changes()
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 2)
    grove.scale(POD_CLIQUE_SETS, "w", 1)
    assert removed_names(grove.changes(), POD_CLIQUES)[0] == "w-0-sg-2-b"
    assert {name[:3] for name in grove.names(POD_CLIQUES)} == {"w-0"}


def test_a_new_pod_takes_the_lowest_free_index() -> None:
    grove = submitted(clique("a", 4, 1))
    middle = next(pod for pod in pods_of(grove, "w-0-a") if pod["spec"]["hostname"] == "w-0-a-1")
    grove.delete(PODS, middle["metadata"]["name"])
    assert sorted(pod["spec"]["hostname"] for pod in pods_of(grove, "w-0-a")) == [f"w-0-a-{i}" for i in range(4)]


# termination and updates ----------------------------------------------------------------------------------------------


def lose(grove: GroveCluster, name: str) -> None:
    """All pods of a clique go, and the new ones find no node."""
    for pod in pods_of(grove, name):
        grove.delete(PODS, pod["metadata"]["name"])


def test_the_delay_is_four_hours_and_what_was_never_healthy_is_not_terminated() -> None:
    grove = submitted(clique("a", 2))
    before = grove.pods()
    grove.advance(5 * 3600)
    assert grove.pods() == before, "it never ran"
    grove.run_pods()
    lose(grove, "w-0-a")
    replaced = grove.pods()
    grove.advance(4 * 3600 - 60)
    assert grove.pods() == replaced
    grove.advance(120)
    assert not set(grove.pods()) & set(replaced)


def test_a_breached_replica_of_a_group_goes_alone_while_the_others_make_the_minimum() -> None:
    grove = submitted()
    grove.run_pods()
    kept = {name for name in grove.pods() if not name.startswith("w-0-sg-2")}
    lose(grove, "w-0-sg-2-b")
    lost = set(grove.pods()) - kept
    grove.advance(4 * 3600 + 60)
    assert kept <= set(grove.pods())
    assert not lost & set(grove.pods())


def test_an_update_takes_one_replica_of_the_set_at_a_time_by_index() -> None:
    grove = submitted(clique("a", 2, 1), replicas=2)
    grove.run_pods()
    grove.changes()
    grove.update_image("image:2")
    assert [name[:5] for name in removed_names(grove.changes(), PODS)] == ["w-0-a"]
    (progress,) = grove.status(POD_CLIQUE_SETS)["updateProgress"]["currentlyUpdating"]
    assert progress.get("replicaIndex", 0) == 0


def test_on_delete_the_new_template_applies_when_a_pod_is_deleted() -> None:
    grove = submitted(clique("a", 2, 1), update_strategy="OnDelete")
    grove.run_pods()
    before = grove.pods()
    grove.update_image("image:2")
    assert grove.pods() == before
    grove.delete(PODS, before[0])
    assert sorted(pod["spec"]["containers"][0]["image"] for pod in pods_of(grove, "w-0-a")) == ["image:1", "image:2"]


# topology and the bridge ----------------------------------------------------------------------------------------------


def constrained(**binding: bool) -> GroveCluster:
    """A set in a block, its group in racks, and a clique in a rack."""
    grove = GroveCluster()
    if binding.get("is_bound", True):
        bind_topology(grove)
    cliques = clique("a", **packed(required="rack")), clique("b")
    groups = [group("sg", "b", replicas=2, **packed(required="rack"))]
    metadata = {"labels": {"kai.scheduler/queue": "red"}}
    grove.apply(pod_clique_set(*cliques, groups=groups, metadata=metadata, **packed(required="block")))
    return grove


def test_constraints_are_the_top_of_the_base_gang_a_group_config_a_podgroup_and_the_top_of_a_scaled_gang() -> None:
    grove = constrained()
    base, scaled = grove.spec(POD_GANGS, "w-0"), grove.spec(POD_GANGS, "w-0-sg-0")
    assert base["topologyConstraint"] == {"packConstraint": {"required": "block"}}
    (config,) = base["topologyConstraintGroupConfigs"]
    assert (config["name"], config["podGroupNames"]) == ("w-0-sg-0", ["w-0-sg-0-b"])
    assert config["topologyConstraint"] == {"packConstraint": {"required": "rack"}}
    assert base["podgroups"][0]["topologyConstraint"] == {"packConstraint": {"required": "rack"}}
    assert scaled["topologyConstraint"] == {"packConstraint": {"required": "rack"}}
    assert grove.named(POD_GANGS, "w-0")["metadata"]["annotations"]["grove.io/topology-name"] == "dc"


def test_without_the_binding_pods_run_and_the_set_says_so() -> None:
    grove = constrained(is_bound=False)
    assert grove.gated() == [name for name in grove.pods() if name.startswith("w-0-sg-1")]
    assert "topologyConstraint" not in grove.spec(POD_GANGS, "w-0")
    assert grove.condition(POD_CLIQUE_SETS, "w", "TopologyLevelsUnavailable")[0] in ("True", "Unknown")


def test_a_gang_is_one_podgroup_of_its_name_with_a_leaf_for_each_clique_and_a_branch_for_each_config() -> None:
    grove = constrained()
    spec = grove.spec(POD_GROUPS, "w-0")
    subgroups = {one["name"]: one for one in spec["subGroups"]}
    assert (subgroups["w-0-a"]["minMember"], subgroups["w-0-sg-0-b"]["parent"]) == (1, "w-0-sg-0")
    assert spec["queue"] == "red"
    assert spec["topologyConstraint"] == {"topology": "dc", "requiredTopologyLevel": "block"}


def test_pods_join_their_podgroup_at_their_leaf_and_no_grouper_touches_them() -> None:
    grove = constrained()
    (pod,) = pods_of(grove, "w-0-a")
    assert pod["metadata"]["annotations"]["pod-group-name"] == "w-0"
    assert pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "w-0-a"
    assert pod["metadata"]["labels"]["kai.scheduler/skip-podgrouper"] == "true"
    assert pod["metadata"]["labels"]["kai.scheduler/queue"] == "red"


def test_a_set_has_the_finalizer_of_grove_and_its_deletion_leaves_nothing() -> None:
    grove = submitted()
    assert "grove.io/podcliqueset.grove.io" in grove.named(POD_CLIQUE_SETS)["metadata"]["finalizers"]
    grove.delete(POD_CLIQUE_SETS, "w")
    assert grove.objects == {}

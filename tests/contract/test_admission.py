"""Admission: schemas, validation and rules."""

from typing import Any

import pytest

from muster.api.resources import (
    BUDGETS,
    CONFIG_MAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    SECRETS,
    TOPOLOGIES,
)
from muster.kube.cluster import Cluster, Raw
from tests.contract.given import api_error_of, config_map, kind_of, plain_pod, pod_group


async def test_unknown_fields_are_pruned(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1, unheardOf=True))
    assert made["spec"]["minMember"] == 1
    assert "unheardOf" not in made["spec"]


async def test_values_of_the_wrong_type_are_rejected(cluster: Cluster, namespace: str) -> None:
    problem = await api_error_of(cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember="many")))
    assert (problem.status, problem.reason) == (422, "Invalid")
    assert problem.details["causes"][0]["field"] == "spec.minMember"


async def test_values_out_of_bounds_are_rejected(cluster: Cluster, namespace: str) -> None:
    for spec in ({"minMember": 0}, {"preemptibility": "perhaps"}):
        problem = await api_error_of(cluster.create(POD_GROUPS, pod_group(namespace, "g", **spec)))
        assert (problem.status, problem.reason) == (422, "Invalid")


async def test_podgroups_are_validated_on_create(cluster: Cluster, namespace: str) -> None:
    """V1: pods or SubGroups are counted, not both."""
    problem = await api_error_of(cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1, minSubGroup=1)))
    assert (problem.status, problem.reason) == (422, "Invalid")


async def test_podgroups_are_validated_on_update(cluster: Cluster, namespace: str) -> None:
    await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1))
    problem = await api_error_of(cluster.patch(POD_GROUPS, namespace, "g", {"spec": {"minSubGroup": 1}}))
    assert (problem.status, problem.reason) == (422, "Invalid")


async def test_queues_are_validated(cluster: Cluster, unique: str) -> None:
    spec = {"resources": {"gpu": {"quota": 4, "limit": 2}}}
    problem = await api_error_of(
        cluster.create(QUEUES, {**kind_of(QUEUES), "metadata": {"name": unique}, "spec": spec})
    )
    assert (problem.status, problem.reason) == (422, "Invalid")


async def test_topologies_are_validated(cluster: Cluster, unique: str) -> None:
    levels = [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "example.com/rack"}]
    raw = {**kind_of(TOPOLOGIES), "metadata": {"name": unique}, "spec": {"levels": levels}}
    problem = await api_error_of(cluster.create(TOPOLOGIES, raw))
    assert (problem.status, problem.reason) == (422, "Invalid")


async def test_api_version_and_kind_may_be_left_out(cluster: Cluster, namespace: str) -> None:
    """The Cluster adds them; an API server alone would reject custom kinds without them."""
    made = await cluster.create(POD_GROUPS, {"metadata": {"name": "g", "namespace": namespace}, "spec": {}})
    assert (made["apiVersion"], made["kind"]) == (POD_GROUPS.api_version, "PodGroup")
    del made["kind"]
    assert (await cluster.replace(POD_GROUPS, made))["kind"] == "PodGroup"


async def test_a_pod_needs_a_container(cluster: Cluster, namespace: str) -> None:
    raw = {"metadata": {"name": "a", "namespace": namespace}, "spec": {"containers": []}}
    assert (await api_error_of(cluster.create(PODS, raw))).status == 422


async def test_labels_are_validated(cluster: Cluster, namespace: str) -> None:
    raw = pod_group(namespace, "g")
    raw["metadata"]["labels"] = {"a": "not a label value"}
    problem = await api_error_of(cluster.create(POD_GROUPS, raw))
    assert (problem.status, problem.reason) == (422, "Invalid")


GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("requests", "limits", "at"),
    [
        ({"cpu": "2"}, {"cpu": "1"}, "requests"),
        ({"memory": "1025Mi"}, {"memory": "1Gi"}, "requests"),
        ({"cpu": "-1"}, {}, "requests[cpu]"),
        ({}, {GPU: "0.5"}, f"limits[{GPU}]"),
        ({GPU: "1"}, {GPU: "2"}, "requests"),
    ],
)
async def test_invalid_requests_and_limits_are_rejected(
    cluster: Cluster, namespace: str, requests: Raw, limits: Raw, at: str
) -> None:
    """Requests are at most the limit; devices are whole, and equal to the limit."""
    container = {"name": "main", "image": "x", "resources": {"requests": requests, "limits": limits}}
    problem = await api_error_of(cluster.create(PODS, plain_pod(namespace, "a", containers=[container])))
    assert (problem.status, problem.reason) == (422, "Invalid")
    assert problem.details["causes"][0]["field"] == f"spec.containers[0].resources.{at}"


async def test_devices_may_be_written_in_milli_units(cluster: Cluster, namespace: str) -> None:
    container = {"name": "main", "image": "x", "resources": {"limits": {GPU: "2000m"}}}
    assert await cluster.create(PODS, plain_pod(namespace, "a", containers=[container]))


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": [{"key": "a", "operator": "Resembles"}]},
        {"tolerations": [{"key": "a", "effect": "Sometimes"}]},
        {"tolerations": [{"operator": "Equal"}]},
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
        {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
        {"schedulingGates": [{"name": "a"}], "nodeName": "n"},
    ],
)
async def test_invalid_tolerations_and_gates_are_rejected(cluster: Cluster, namespace: str, spec: Any) -> None:
    problem = await api_error_of(cluster.create(PODS, plain_pod(namespace, "a", **spec)))
    assert (problem.status, problem.reason) == (422, "Invalid")


async def test_a_pods_priority_is_that_of_its_class(cluster: Cluster, namespace: str, unique: str) -> None:
    await cluster.create(PRIORITY_CLASSES, {"metadata": {"name": unique}, "value": 5})
    agreed = await cluster.create(PODS, plain_pod(namespace, "a", priorityClassName=unique, priority=5))
    assert agreed["spec"]["priority"] == 5
    for spec in ({"priority": 6}, {"preemptionPolicy": "Never"}):
        problem = await api_error_of(cluster.create(PODS, plain_pod(namespace, "b", priorityClassName=unique, **spec)))
        assert (problem.status, problem.reason) == (403, "Forbidden")
    assert (await api_error_of(cluster.create(PODS, plain_pod(namespace, "b", priority=1)))).status == 403


@pytest.mark.parametrize("effect", ["", "Sometimes"])
async def test_taints_have_a_supported_effect(cluster: Cluster, unique: str, effect: str) -> None:
    taints = [{"key": "a", "effect": effect}]
    problem = await api_error_of(cluster.create(NODES, {"metadata": {"name": unique}, "spec": {"taints": taints}}))
    assert (problem.status, problem.details["causes"][0]["field"]) == (422, "metadata.taints[0].effect")


@pytest.mark.parametrize(
    "spec",
    [
        {"minAvailable": "abc"},
        {"minAvailable": "150%"},
        {"maxUnavailable": -1},
        {"minAvailable": 1, "maxUnavailable": 1},
        {"minAvailable": 1, "unhealthyPodEvictionPolicy": "Perhaps"},
    ],
)
async def test_invalid_budgets_are_rejected(cluster: Cluster, namespace: str, spec: Any) -> None:
    raw = {"metadata": {"name": "a", "namespace": namespace}, "spec": {"selector": {}, **spec}}
    assert (await api_error_of(cluster.create(BUDGETS, raw))).status == 422


async def test_the_value_of_a_priority_class_is_immutable(cluster: Cluster, unique: str) -> None:
    made = await cluster.create(PRIORITY_CLASSES, {"metadata": {"name": unique}, "value": 1_000_000_000})
    assert made["preemptionPolicy"] == "PreemptLowerPriority"
    for change in ({"value": 2}, {"preemptionPolicy": "Never"}):
        assert (await api_error_of(cluster.patch(PRIORITY_CLASSES, "", unique, change))).status == 422
    assert (await cluster.patch(PRIORITY_CLASSES, "", unique, {"description": "new"}))["description"] == "new"


async def test_high_priorities_are_reserved_for_the_system(cluster: Cluster, unique: str) -> None:
    for name, value in ((unique, 1_000_000_001), ("system-custom", 1)):
        raw = {"metadata": {"name": name}, "value": value}
        assert (await api_error_of(cluster.create(PRIORITY_CLASSES, raw))).status == 422
    problem = await api_error_of(cluster.delete(PRIORITY_CLASSES, "", "system-node-critical"))
    assert (problem.status, problem.reason) == (403, "Forbidden")


async def test_immutable_objects_and_secret_types_do_not_change(cluster: Cluster, namespace: str) -> None:
    await cluster.create(CONFIG_MAPS, {**config_map(namespace, "a", x="1"), "immutable": True})
    for change in ({"data": {"x": "2"}}, {"binaryData": {"y": "YQ=="}}, {"immutable": False}):
        assert (await api_error_of(cluster.patch(CONFIG_MAPS, namespace, "a", change))).status == 422
    assert await cluster.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"labels": {"a": "b"}}})
    secret = {"metadata": {"name": "a", "namespace": namespace}, "data": {"x": "YQ=="}, "immutable": True}
    await cluster.create(SECRETS, secret)
    for other in ({"stringData": {"x": "2"}}, {"type": "example.com/other"}):
        assert (await api_error_of(cluster.patch(SECRETS, namespace, "a", other))).status == 422


async def test_the_selector_of_a_deployment_is_immutable(cluster: Cluster, namespace: str) -> None:
    labels = {"app": "a", "tier": "b"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    await cluster.create(DEPLOYMENTS, {"metadata": {"name": "a", "namespace": namespace}, "spec": spec})
    for change in ({"selector": {"matchLabels": {"tier": "b"}}}, {"replicas": -1}):
        assert (await api_error_of(cluster.patch(DEPLOYMENTS, namespace, "a", {"spec": change}))).status == 422


async def test_an_event_is_in_the_namespace_of_its_object(cluster: Cluster, namespace: str) -> None:
    about = {"kind": "Pod", "name": "a", "namespace": "elsewhere"}
    raw = {"metadata": {"name": "a", "namespace": namespace}, "involvedObject": about}
    assert (await api_error_of(cluster.create(EVENTS, raw))).status == 422
    assert await cluster.create(EVENTS, {**raw, "involvedObject": {**about, "namespace": namespace}})


@pytest.mark.parametrize("schema", [None, {}, {"openAPIV3Schema": {}}])
async def test_a_definition_needs_a_schema(cluster: Cluster, schema: Any) -> None:
    version = {"name": "v1", "served": True, "storage": True, **({} if schema is None else {"schema": schema})}
    names = {"plural": "gears", "kind": "Gear"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    problem = await api_error_of(cluster.create(DEFINITIONS, {"metadata": {"name": "gears.example.com"}, "spec": spec}))
    assert (problem.status, problem.reason) == (422, "Invalid")

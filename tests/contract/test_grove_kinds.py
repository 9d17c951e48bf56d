"""Grove's kinds: what their CRDs hold without a webhook, on create, on update and by the scale subresource."""

from typing import Any

import pytest

from muster.api.resources import (
    CLUSTER_TOPOLOGY_BINDINGS,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    Resource,
)
from muster.kube.cluster import Cluster, Raw
from tests.contract.given import api_error_of, kind_of
from tests.support.grove import CONTAINER, clique, group, pod_clique_set


def a_set(namespace: str, **template: Any) -> Raw:
    raw = pod_clique_set(
        clique("a", 3, 2), clique("b"), groups=[group("g", "b", replicas=2, minimum=2)], replicas=0, **template
    )
    raw["metadata"]["namespace"] = namespace
    return raw


def scalable(resource: Resource, namespace: str) -> Raw:
    parts: dict[Resource, Raw] = {
        POD_CLIQUES: {"roleName": "a", "podSpec": {"containers": [CONTAINER]}},
        POD_CLIQUE_SCALING_GROUPS: {"cliqueNames": ["a"]},
    }
    spec = {"replicas": 3, "minAvailable": 2, **parts[resource]}
    return {**kind_of(resource), "metadata": {"name": "w-0-a", "namespace": namespace}, "spec": spec}


@pytest.mark.parametrize("resource", [POD_CLIQUES, POD_CLIQUE_SCALING_GROUPS], ids=["clique", "group"])
async def test_a_scale_is_zero_or_reaches_the_minimum(cluster: Cluster, namespace: str, resource: Resource) -> None:
    """R9: also by the subresource, which autoscalers and `kubectl scale` use."""
    await cluster.create(resource, scalable(resource, namespace))
    for replicas in (0, 2, 9):
        patch = {"spec": {"replicas": replicas}}
        await cluster.patch(resource, namespace, "w-0-a", patch, subresource="scale")
        assert (await cluster.get(resource, namespace, "w-0-a"))["spec"]["replicas"] == replicas
    for subresource in ("scale", ""):
        problem = await api_error_of(
            cluster.patch(resource, namespace, "w-0-a", {"spec": {"replicas": 1}}, subresource=subresource)
        )
        assert (problem.status, problem.reason) == (422, "Invalid")
        assert "minAvailable" in problem.message


async def test_a_scale_below_zero_is_invalid(cluster: Cluster, namespace: str) -> None:
    await cluster.create(POD_CLIQUES, scalable(POD_CLIQUES, namespace))
    patch = {"spec": {"replicas": -1}}
    problem = await api_error_of(cluster.patch(POD_CLIQUES, namespace, "w-0-a", patch, subresource="scale"))
    assert (problem.status, problem.reason) == (422, "Invalid")
    assert '"w-0-a" is invalid: ' in problem.message
    assert "spec.replicas: Invalid value: -1: " in problem.message


@pytest.mark.parametrize(
    ("resource", "field"),
    [(POD_CLIQUES, "hpaPodSelector"), (POD_CLIQUE_SCALING_GROUPS, "selector")],
    ids=["clique", "group"],
)
async def test_a_scale_shows_the_selector_and_replicas_of_the_status(
    cluster: Cluster, namespace: str, resource: Resource, field: str
) -> None:
    """An autoscaler finds its pods by it."""
    await cluster.create(resource, scalable(resource, namespace))
    status = {"status": {"replicas": 2, field: "grove.io/podclique=w-0-a"}}
    await cluster.patch(resource, namespace, "w-0-a", status, subresource="status")
    scaled = await cluster.patch(resource, namespace, "w-0-a", {"spec": {"replicas": 4}}, subresource="scale")
    assert scaled["status"] == {"replicas": 2, "selector": "grove.io/podclique=w-0-a"}


async def test_a_set_is_scaled_as_a_whole(cluster: Cluster, namespace: str) -> None:
    await cluster.create(POD_CLIQUE_SETS, a_set(namespace))
    await cluster.patch(POD_CLIQUE_SETS, namespace, "w", {"spec": {"replicas": 2}}, subresource="scale")
    assert (await cluster.get(POD_CLIQUE_SETS, namespace, "w"))["spec"]["replicas"] == 2


async def test_schemas_fill_in_what_is_left_out(cluster: Cluster, namespace: str) -> None:
    """Without a webhook, too."""
    raw = a_set(namespace)
    for field in ("replicas", "minAvailable"):
        del raw["spec"]["template"]["podCliqueScalingGroups"][0][field]
    made = await cluster.create(POD_CLIQUE_SETS, raw)
    template = made["spec"]["template"]
    assert template["cliqueStartupType"] == "CliqueStartupTypeAnyOrder"
    assert (template["podCliqueScalingGroups"][0]["replicas"], made["spec"]["replicas"]) == (1, 0)
    assert template["cliques"][0]["spec"]["podSpec"] == {"containers": [CONTAINER]}


@pytest.mark.parametrize(
    "template",
    [
        {"cliques": []},
        {"resourceSharing": [{"name": "x"}]},
        {"resourceClaimTemplates": [{"name": "x"}]},
        {"topologyConstraint": {"topologyName": "dc"}},
        {"topologyConstraint": {"topologyName": "dc", "pack": {}}},
        {"podCliqueScalingGroups": [group("g", "b", replicas=0)]},
        {"podCliqueScalingGroups": [group("g", "b", replicas=2, minimum=3)]},
        {"podCliqueScalingGroups": [group("g", "b", terminationDelay="1h")]},
        {"cliques": [clique("a", 2, 3), clique("b")]},
        {"cliques": [clique("a", rollingUpdate={"maxUnavailable": 2}), clique("b")]},
        {"cliques": [clique("b"), clique("b")]},
        {"cliqueStartupType": "Sideways"},
    ],
    ids=lambda template: " ".join(template),
)
async def test_a_set_that_can_never_run_is_refused(cluster: Cluster, namespace: str, template: Raw) -> None:
    """Fields that muster does not support are refused, not dropped (R8)."""
    raw = a_set(namespace)
    raw["spec"]["template"] |= template
    problem = await api_error_of(cluster.create(POD_CLIQUE_SETS, raw))
    assert (problem.status, problem.reason) == (422, "Invalid")


@pytest.mark.parametrize(
    "changes",
    [
        {"cliqueStartupType": "CliqueStartupTypeInOrder"},
        {"cliques": [clique("a", 3, 2)]},
        {"cliques": [clique("a", 3, 3), clique("b")]},
        {"cliques": [clique("a", 3, 2, spec={"roleName": "other"}), clique("b")]},
        {"cliques": [clique("a", 3, 2, spec={"startsAfter": ["b"]}), clique("b")]},
        {"podCliqueScalingGroups": [group("g", "b", replicas=2, minimum=1)]},
        {"podCliqueScalingGroups": [group("g", "a", "b", replicas=2, minimum=2)]},
    ],
    ids=["startup", "cliques", "minimum", "role", "parents", "minimum of a group", "members"],
)
async def test_what_gangs_consist_of_cannot_change(cluster: Cluster, namespace: str, changes: Raw) -> None:
    """R6: by the CRD alone."""
    made = await cluster.create(POD_CLIQUE_SETS, a_set(namespace))
    made["spec"]["template"] |= changes
    problem = await api_error_of(cluster.replace(POD_CLIQUE_SETS, made))
    assert (problem.status, problem.reason) == (422, "Invalid")


async def test_what_may_change_changes(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(POD_CLIQUE_SETS, a_set(namespace))
    made["spec"]["template"] |= {"priorityClassName": "high", "terminationDelay": "30m"}
    pods = {"containers": [{**CONTAINER, "image": "image:2"}]}
    made["spec"]["template"]["cliques"][0]["spec"] |= {"replicas": 5, "podSpec": pods}
    made["spec"]["template"]["podCliqueScalingGroups"][0]["replicas"] = 7
    replaced = await cluster.replace(POD_CLIQUE_SETS, made)
    assert replaced["metadata"]["generation"] == 2


async def test_a_gang_keeps_its_spelling_and_status(cluster: Cluster, namespace: str) -> None:
    """`podgroups`, in one word; the score is a number with a fraction."""
    spec = {"podgroups": [{"name": "w-0-a", "podReferences": [], "minReplicas": 2}]}
    raw = {**kind_of(POD_GANGS), "metadata": {"name": "w-0", "namespace": namespace}, "spec": spec}
    await cluster.create(POD_GANGS, raw)
    status = {"status": {"phase": "Running", "placementScore": 0.5}}
    made = await cluster.patch(POD_GANGS, namespace, "w-0", status, subresource="status")
    assert made["spec"] == spec
    assert made["status"] == status["status"]


async def test_a_binding_names_levels(cluster: Cluster, unique: str) -> None:
    raw = {**kind_of(CLUSTER_TOPOLOGY_BINDINGS), "metadata": {"name": unique}, "spec": {"levels": []}}
    problem = await api_error_of(cluster.create(CLUSTER_TOPOLOGY_BINDINGS, raw))
    assert (problem.status, problem.reason) == (422, "Invalid")
    raw["spec"] = {"levels": [{"domain": "rack", "key": "example.com/rack"}]}
    made = await cluster.create(CLUSTER_TOPOLOGY_BINDINGS, raw)
    await cluster.delete(CLUSTER_TOPOLOGY_BINDINGS, "", made["metadata"]["name"])

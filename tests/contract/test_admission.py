"""Schemas and rules at the door."""

from muster.cluster.kinds import POD_GROUPS, PODS, QUEUES, TOPOLOGIES
from muster.cluster.store import Cluster
from tests.contract.given import kind_of, pod_group, refused


async def test_fields_that_a_schema_does_not_know_are_dropped(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1, unheardOf=True))
    assert made["spec"]["minMember"] == 1
    assert "unheardOf" not in made["spec"]


async def test_values_of_the_wrong_type_are_refused(cluster: Cluster, namespace: str) -> None:
    problem = await refused(cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember="many")))
    assert (problem.status, problem.reason) == (422, "Invalid")
    assert problem.details["causes"][0]["field"] == "spec.minMember"


async def test_values_out_of_bounds_are_refused(cluster: Cluster, namespace: str) -> None:
    for spec in ({"minMember": 0}, {"preemptibility": "perhaps"}):
        problem = await refused(cluster.create(POD_GROUPS, pod_group(namespace, "g", **spec)))
        assert (problem.status, problem.reason) == (422, "Invalid")


async def test_rules_of_podgroups_hold_at_the_door(cluster: Cluster, namespace: str) -> None:
    """V1: pods or SubGroups are counted, not both."""
    problem = await refused(cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1, minSubGroup=1)))
    assert (problem.status, problem.reason) == (422, "Invalid")


async def test_rules_hold_for_updates(cluster: Cluster, namespace: str) -> None:
    await cluster.create(POD_GROUPS, pod_group(namespace, "g", minMember=1))
    problem = await refused(cluster.patch(POD_GROUPS, namespace, "g", {"spec": {"minSubGroup": 1}}))
    assert (problem.status, problem.reason) == (422, "Invalid")


async def test_rules_of_queues_hold_at_the_door(cluster: Cluster, unique: str) -> None:
    spec = {"resources": {"gpu": {"quota": 4, "limit": 2}}}
    problem = await refused(cluster.create(QUEUES, {**kind_of(QUEUES), "metadata": {"name": unique}, "spec": spec}))
    assert (problem.status, problem.reason) == (422, "Invalid")


async def test_rules_of_topologies_hold_at_the_door(cluster: Cluster, unique: str) -> None:
    levels = [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "example.com/rack"}]
    raw = {**kind_of(TOPOLOGIES), "metadata": {"name": unique}, "spec": {"levels": levels}}
    problem = await refused(cluster.create(TOPOLOGIES, raw))
    assert (problem.status, problem.reason) == (422, "Invalid")


async def test_objects_need_not_say_what_they_are(cluster: Cluster, namespace: str) -> None:
    """The resource that they are written to says it; an API server alone would refuse custom kinds without it."""
    made = await cluster.create(POD_GROUPS, {"metadata": {"name": "g", "namespace": namespace}, "spec": {}})
    assert (made["apiVersion"], made["kind"]) == (POD_GROUPS.api_version, "PodGroup")
    del made["kind"]
    assert (await cluster.replace(POD_GROUPS, made))["kind"] == "PodGroup"


async def test_a_pod_needs_a_container(cluster: Cluster, namespace: str) -> None:
    raw = {"metadata": {"name": "a", "namespace": namespace}, "spec": {"containers": []}}
    assert (await refused(cluster.create(PODS, raw))).status == 422


async def test_labels_are_checked(cluster: Cluster, namespace: str) -> None:
    raw = pod_group(namespace, "g")
    raw["metadata"]["labels"] = {"a": "not a label value"}
    problem = await refused(cluster.create(POD_GROUPS, raw))
    assert (problem.status, problem.reason) == (422, "Invalid")

"""Binding, grace and eviction of pods."""

from muster.api.resources import BUDGETS, PODS, PRIORITY_CLASSES
from muster.kube.cluster import Cluster, Raw
from muster.kube.pod_mark import PodMark
from tests.contract.given import api_error_of, plain_pod, running

OTHER = "00000000-0000-0000-0000-000000000000"


async def test_a_binding_sets_the_node_of_a_pod(cluster: Cluster, namespace: str) -> None:
    """The node need not exist: an API server does not check it."""
    made = await cluster.create(PODS, plain_pod(namespace, "a"))
    await cluster.bind(namespace, "a", made["metadata"]["uid"], "nowhere")
    bound = await cluster.get(PODS, namespace, "a")
    assert bound["spec"]["nodeName"] == "nowhere"
    (scheduled,) = (condition for condition in bound["status"]["conditions"] if condition["type"] == "PodScheduled")
    assert scheduled["status"] == "True"


async def test_a_pod_is_bound_once(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, plain_pod(namespace, "a"))
    await cluster.bind(namespace, "a", made["metadata"]["uid"], "n1")
    for node in ("n1", "n2"):
        problem = await api_error_of(cluster.bind(namespace, "a", made["metadata"]["uid"], node))
        assert (problem.status, problem.reason) == (409, "Conflict")
    assert (await cluster.get(PODS, namespace, "a"))["spec"]["nodeName"] == "n1"


async def test_a_binding_marks_its_pod(cluster: Cluster, namespace: str) -> None:
    """With one write: what the pod carries besides stays, and annotations and labels come with the node (N3)."""
    raw = plain_pod(namespace, "a")
    raw["metadata"] |= {"labels": {"app": "x"}, "annotations": {"kept": "yes", "replaced": "no"}}
    made = await cluster.create(PODS, raw)
    mark = PodMark({"pod-group-name": "g", "replaced": "yes"}, {"kai.scheduler/subgroup-name": "workers"})
    await cluster.bind(namespace, "a", made["metadata"]["uid"], "n1", mark=mark)
    bound = await cluster.get(PODS, namespace, "a")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"kept": "yes", "replaced": "yes", "pod-group-name": "g"}
    if await cluster.binds_with_labels():
        assert bound["metadata"]["labels"] == {"app": "x", "kai.scheduler/subgroup-name": "workers"}


async def test_a_binding_has_the_uid_as_precondition(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, plain_pod(namespace, "a"))
    problem = await api_error_of(cluster.bind(namespace, "a", OTHER, "n1"))
    assert (problem.status, problem.reason) == (409, "Conflict")
    assert not (await cluster.get(PODS, namespace, "a"))["spec"].get("nodeName")


async def test_a_gated_pod_is_not_bound(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, plain_pod(namespace, "a", schedulingGates=[{"name": "example.com/wait"}]))
    assert (await api_error_of(cluster.bind(namespace, "a", made["metadata"]["uid"], "n1"))).status == 409


async def test_a_terminating_pod_is_not_bound(cluster: Cluster, namespace: str) -> None:
    raw = plain_pod(namespace, "a")
    raw["metadata"]["finalizers"] = ["example.com/hold"]
    made = await cluster.create(PODS, raw)
    await cluster.delete(PODS, namespace, "a")
    assert (await api_error_of(cluster.bind(namespace, "a", made["metadata"]["uid"], "n1"))).status == 409
    await cluster.patch(PODS, namespace, "a", {"metadata": {"finalizers": None}})


async def test_an_unbound_pod_is_deleted_at_once(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, plain_pod(namespace, "a"))
    await cluster.delete(PODS, namespace, "a")
    assert (await api_error_of(cluster.get(PODS, namespace, "a"))).status == 404


async def test_a_bound_pod_terminates_with_a_grace_period(cluster: Cluster, namespace: str) -> None:
    await running(cluster, namespace, "a", {})
    await cluster.delete(PODS, namespace, "a")
    terminating = await cluster.get(PODS, namespace, "a")
    assert terminating["metadata"]["deletionTimestamp"]
    assert terminating["metadata"]["deletionGracePeriodSeconds"] == 30
    await cluster.delete(PODS, namespace, "a", grace_seconds=5)
    assert (await cluster.get(PODS, namespace, "a"))["metadata"]["deletionGracePeriodSeconds"] == 5
    await cluster.delete(PODS, namespace, "a", grace_seconds=0)
    assert (await api_error_of(cluster.get(PODS, namespace, "a"))).status == 404


async def test_a_new_pod_is_pending_and_has_defaults(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, {**plain_pod(namespace, "a"), "status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending"
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["spec"]["terminationGracePeriodSeconds"] == 30
    assert made["spec"]["priority"] == 0


async def test_a_pods_priority_is_that_of_its_class(cluster: Cluster, namespace: str, unique: str) -> None:
    await cluster.create(PRIORITY_CLASSES, {"metadata": {"name": unique}, "value": 77})
    made = await cluster.create(PODS, plain_pod(namespace, "a", priorityClassName=unique))
    assert made["spec"]["priority"] == 77
    problem = await api_error_of(cluster.create(PODS, plain_pod(namespace, "b", priorityClassName=f"{unique}-none")))
    assert (problem.status, problem.reason) == (403, "Forbidden")


async def test_an_eviction_without_a_budget_is_a_deletion(cluster: Cluster, namespace: str) -> None:
    made = await running(cluster, namespace, "a", {})
    problem = await api_error_of(cluster.evict(namespace, "a", OTHER))
    assert (problem.status, problem.reason) == (409, "Conflict")
    await cluster.evict(namespace, "a", made["metadata"]["uid"])
    assert (await cluster.get(PODS, namespace, "a"))["metadata"]["deletionTimestamp"]


async def _budget(cluster: Cluster, namespace: str, least: int, healthy: int) -> None:
    """A budget with its status, as the disruption controller writes it, with or without that controller."""
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "a"}}}
    made = await cluster.create(BUDGETS, {"metadata": {"name": "b", "namespace": namespace}, "spec": spec})
    status: Raw = {
        "expectedPods": healthy,
        "currentHealthy": healthy,
        "desiredHealthy": least,
        "disruptionsAllowed": healthy - least,
        "observedGeneration": made["metadata"]["generation"],
    }
    await cluster.patch(BUDGETS, namespace, "b", {"status": status}, subresource="status")


async def test_an_eviction_against_a_budget_is_429(cluster: Cluster, namespace: str) -> None:
    made = await running(cluster, namespace, "a", {"app": "a"})
    await _budget(cluster, namespace, least=1, healthy=1)
    problem = await api_error_of(cluster.evict(namespace, "a", made["metadata"]["uid"]))
    assert (problem.status, problem.reason) == (429, "TooManyRequests")
    assert problem.details["causes"][0]["reason"] == "DisruptionBudget"
    assert "deletionTimestamp" not in (await cluster.get(PODS, namespace, "a"))["metadata"]


async def test_a_budget_allows_as_many_evictions_as_its_status_says(cluster: Cluster, namespace: str) -> None:
    pods = [await running(cluster, namespace, name, {"app": "a"}) for name in ("a", "b", "c")]
    await _budget(cluster, namespace, least=2, healthy=3)
    await cluster.evict(namespace, "a", pods[0]["metadata"]["uid"])
    assert (await api_error_of(cluster.evict(namespace, "b", pods[1]["metadata"]["uid"]))).status == 429


async def test_budgets_do_not_apply_to_pending_pods(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, plain_pod(namespace, "a", {"app": "a"}))
    await _budget(cluster, namespace, least=1, healthy=1)
    await cluster.evict(namespace, "a", made["metadata"]["uid"])
    assert (await api_error_of(cluster.get(PODS, namespace, "a"))).status == 404


async def test_a_dry_run_of_an_eviction_has_no_effect(cluster: Cluster, namespace: str) -> None:
    """I6: the pod stays, and the budget allows as many disruptions as before."""
    pods = [await running(cluster, namespace, name, {"app": "a"}) for name in ("a", "b")]
    await _budget(cluster, namespace, least=1, healthy=2)
    for made in pods:
        await cluster.evict(namespace, made["metadata"]["name"], made["metadata"]["uid"], dry_run=True)
        stored = await cluster.get(PODS, namespace, made["metadata"]["name"])
        assert "deletionTimestamp" not in stored["metadata"]
    await cluster.evict(namespace, "a", pods[0]["metadata"]["uid"])
    assert (await cluster.get(PODS, namespace, "a"))["metadata"]["deletionTimestamp"]


async def test_a_dry_run_of_an_eviction_is_rejected_like_the_eviction(cluster: Cluster, namespace: str) -> None:
    made = await running(cluster, namespace, "a", {"app": "a"})
    assert (await api_error_of(cluster.evict(namespace, "a", OTHER, dry_run=True))).status == 409
    await _budget(cluster, namespace, least=1, healthy=1)
    problem = await api_error_of(cluster.evict(namespace, "a", made["metadata"]["uid"], dry_run=True))
    assert (problem.status, problem.reason) == (429, "TooManyRequests")

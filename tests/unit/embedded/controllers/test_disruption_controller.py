"""The embedded disruption controller."""

import pytest

import muster
from muster.api.resources import BUDGETS, PODS
from muster.embedded.cluster_store import ClusterStore
from muster.kube.cluster import Raw
from muster.model.snapshot import take
from muster.planning.preemption.disruption_budgets import DisruptionBudgets
from tests.contract.given import plain_pod

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.mark.parametrize("running", [0, 1, 3, 7])
@pytest.mark.parametrize(
    "limit",
    [
        {},
        {"minAvailable": 2},
        {"minAvailable": "50%"},
        {"maxUnavailable": 0},
        {"maxUnavailable": 2},
        {"maxUnavailable": 9},
        {"maxUnavailable": "30%"},
    ],
)
@pytest.mark.parametrize(
    "selector",
    [{}, {"matchLabels": {"app": "a"}}, {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}],
)
def test_the_controller_and_the_planner_allow_the_same_disruptions(running: int, limit: Raw, selector: Raw) -> None:
    """P6: a budget without a status is planned with what the controller would write."""
    store = ClusterStore()
    budget = store.create(BUDGETS, {"metadata": {"name": "b"}, "spec": {"selector": selector, **limit}})
    for i in range(running):
        raw = plain_pod("default", f"p{i}")
        raw["metadata"]["labels"] = {"app": "ab"[i % 2]}
        store.create(PODS, raw)
        store.bind("default", f"p{i}", "", "n")
        store.patch(PODS, "default", f"p{i}", {"status": READY}, subresource="status")
    pods = store.list(PODS).items
    without_status = {name: value for name, value in budget.items() if name != "status"}
    planned = DisruptionBudgets(take(muster.objects([without_status, *pods])))
    assert planned.left == [store.get(BUDGETS, "default", "b")["status"]["disruptionsAllowed"]]

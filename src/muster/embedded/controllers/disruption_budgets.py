"""PodDisruptionBudgets: their status as the disruption controller writes it, and whether a pod may be evicted."""

from collections.abc import Sequence

import msgspec

from muster.api.core import PodDisruptionBudgetSpec
from muster.embedded.admission.pods import is_ready
from muster.embedded.api_errors import Cause, too_many_requests
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.model.disruption_budgets import allows_unhealthy_eviction, desired_healthy, disruptions_allowed
from muster.model.selectors import selects


def _spec(budget: Raw) -> PodDisruptionBudgetSpec:
    return msgspec.convert(budget.get("spec", {}), PodDisruptionBudgetSpec)


def covers(budget: Raw, pod: Raw) -> bool:
    """Whether a budget selects a pod of its namespace."""
    return selects(_spec(budget).selector, pod["metadata"].get("labels") or {})


def count_pod(pod: Raw) -> tuple[int, int]:
    """What a pod adds to the expected and to the healthy pods of a budget. A finished pod adds nothing."""
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0, 0
    return 1, int(is_ready(pod) and not pod["metadata"].get("deletionTimestamp"))


def status(budget: Raw, expected: int, healthy: int, now: str) -> Raw:
    """The status of a budget that covers so many pods. All existing pods are expected, whatever their controller is."""
    spec = _spec(budget)
    allowed = disruptions_allowed(spec, expected, healthy)
    return {
        "conditions": [_disruption_allowed_condition(budget, allowed, now)],
        "currentHealthy": healthy,
        "desiredHealthy": desired_healthy(spec, expected) or 0,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": budget["metadata"].get("generation", 1),
    }


def _disruption_allowed_condition(budget: Raw, allowed: int, now: str) -> Raw:
    condition_status = "True" if allowed else "False"
    before: Raw = next(iter(budget.get("status", {}).get("conditions") or ()), {})
    return {
        "type": "DisruptionAllowed",
        "status": condition_status,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "lastTransitionTime": before["lastTransitionTime"] if before.get("status") == condition_status else now,
        "observedGeneration": budget["metadata"].get("generation", 1),
    }


def eviction_error(pod: Raw, budgets: Sequence[Raw]) -> ApiError | None:
    """Why the eviction subresource refuses a pod; None: it may be evicted."""
    covering = [budget for budget in budgets if covers(budget, pod)]
    phase = pod.get("status", {}).get("phase", "Pending")
    if not covering or phase in ("Succeeded", "Failed", "Pending") or pod["metadata"].get("deletionTimestamp"):
        return None
    if len(covering) > 1:
        return ApiError(500, "InternalError", "This pod has more than one PodDisruptionBudget, which is not supported.")
    budget_status = covering[0].get("status", {})
    desired, healthy = budget_status.get("desiredHealthy", 0), budget_status.get("currentHealthy", 0)
    policy = covering[0].get("spec", {}).get("unhealthyPodEvictionPolicy", "")
    if budget_status.get("disruptionsAllowed", 0) > 0:
        return None
    if not is_ready(pod) and allows_unhealthy_eviction(policy, desired, healthy):
        return None
    name = covering[0]["metadata"]["name"]
    message = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.", [Cause("", message, "DisruptionBudget")]
    )

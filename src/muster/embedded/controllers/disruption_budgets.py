"""PodDisruptionBudgets: their status as the disruption controller would write it, and whether a pod may be evicted."""

from collections.abc import Sequence
from typing import Any

from muster.embedded.admission.pods import ready
from muster.embedded.api_errors import Cause, too_many_requests
from muster.embedded.store.selectors import selects
from muster.kube.cluster import ApiError, Raw


def covers(budget: Raw, pod: Raw) -> bool:
    """Whether a budget is about a pod of its namespace."""
    return selects(budget.get("spec", {}).get("selector"), pod["metadata"].get("labels") or {})


def share(pod: Raw) -> tuple[int, int]:
    """What a pod counts for: as expected, and as healthy. One that is over counts for nothing."""
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0, 0
    return 1, int(ready(pod) and not pod["metadata"].get("deletionTimestamp"))


def status(budget: Raw, expected: int, healthy: int, now: str) -> Raw:
    """The status of a budget that covers so many pods. Expected are those that there are, whoever owns them."""
    desired = _desired(budget.get("spec", {}), expected)
    allowed = max(0, healthy - desired) if expected else 0
    return {
        "conditions": [_allowed(budget, allowed, now)],
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": budget["metadata"].get("generation", 1),
    }


def _desired(spec: Raw, expected: int) -> int:
    if "maxUnavailable" in spec:
        return max(0, expected - _number(spec["maxUnavailable"], expected))
    return _number(spec.get("minAvailable", 1), expected)


def _number(value: Any, expected: int) -> int:
    """A number, or a share of those expected, rounded up."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit():
        return -(-int(value[:-1]) * expected // 100)
    return int(value) if isinstance(value, int) or str(value).isdigit() else 0


def _allowed(budget: Raw, allowed: int, now: str) -> Raw:
    word = "True" if allowed else "False"
    before: Raw = next(iter(budget.get("status", {}).get("conditions") or ()), {})
    return {
        "type": "DisruptionAllowed",
        "status": word,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "lastTransitionTime": before["lastTransitionTime"] if before.get("status") == word else now,
        "observedGeneration": budget["metadata"].get("generation", 1),
    }


def refusal(pod: Raw, budgets: Sequence[Raw]) -> ApiError | None:
    """Why a pod may not be evicted; None: it may."""
    about = [budget for budget in budgets if covers(budget, pod)]
    phase = pod.get("status", {}).get("phase", "Pending")
    if not about or phase in ("Succeeded", "Failed", "Pending") or pod["metadata"].get("deletionTimestamp"):
        return None
    if len(about) > 1:
        return ApiError(500, "InternalError", "This pod has more than one PodDisruptionBudget, which is not supported.")
    found = about[0].get("status", {})
    if found.get("disruptionsAllowed", 0) > 0 or _unhealthy_may_go(pod, about[0]):
        return None
    name, healthy, desired = (
        about[0]["metadata"]["name"],
        found.get("currentHealthy", 0),
        found.get("desiredHealthy", 0),
    )
    message = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.", [Cause("", message, "DisruptionBudget")]
    )


def _unhealthy_may_go(pod: Raw, budget: Raw) -> bool:
    """A pod that is not Ready counts for nothing: it may go by policy, or while the others are enough."""
    if ready(pod):
        return False
    found = budget.get("status", {})
    if budget.get("spec", {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return bool(found.get("desiredHealthy", 0) > 0 and found.get("currentHealthy", 0) >= found.get("desiredHealthy", 0))

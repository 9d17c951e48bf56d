"""PodDisruptionBudgets (P6): how many of its pods a budget allows to be disrupted, as the disruption controller counts.

The embedded disruption controller writes the result into `status`; the planner computes it where there is no status.
"""

from muster.api.core import PodDisruptionBudgetSpec

LONGEST_NUMBER = 18  # digits; Python refuses to convert thousands of them
ALWAYS_ALLOW = "AlwaysAllow"  # spec.unhealthyPodEvictionPolicy; the default is IfHealthyBudget


def desired_healthy(spec: PodDisruptionBudgetSpec, expected_pods: int) -> int | None:
    """Pods that must stay healthy. None: neither field is set, or its value is no number and no percentage."""
    if spec.max_unavailable is None:
        return scaled_value(spec.min_available, expected_pods)
    unavailable = scaled_value(spec.max_unavailable, expected_pods)
    return None if unavailable is None else max(0, expected_pods - unavailable)


def disruptions_allowed(spec: PodDisruptionBudgetSpec, expected_pods: int, healthy_pods: int) -> int:
    """Healthy pods that may be disrupted now; none where the budget covers no pods or cannot be read."""
    desired = desired_healthy(spec, expected_pods)
    return max(0, healthy_pods - desired) if expected_pods and desired is not None else 0


def scaled_value(value: int | str | None, expected_pods: int) -> int | None:
    """A number of pods, or a percentage of those expected, rounded up. None: not set, or not readable."""
    if isinstance(value, str):
        percent = value.removesuffix("%")
        if not percent.isdecimal() or len(percent) > LONGEST_NUMBER:
            return None
        return int(value) if percent == value else -(-int(percent) * expected_pods // 100)
    return value


def allows_unhealthy_eviction(policy: str, desired: int, current: int) -> bool:
    """Whether a pod that is not Ready may be evicted although the budget allows no disruption.

    By the policy `AlwaysAllow`; otherwise (IfHealthyBudget) while the healthy pods are as many as desired.
    """
    return policy == ALWAYS_ALLOW or (desired > 0 and current >= desired)

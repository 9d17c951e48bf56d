"""What a pod counts for in its gang (N5)."""

from enum import StrEnum

from muster.api.core import Pod


class PodState(StrEnum):
    """What a pod counts for (N5)."""

    PLACED = "placed"  # on a node: counts
    SUCCEEDED = "succeeded"  # finished: counts for its leaf's minimum, holds no resources
    PENDING = "pending"  # can be placed
    GATED = "gated"  # exists, but cannot be placed yet
    TERMINATING = "terminating"  # holds its resources, counts for nothing
    FAILED = "failed"  # counts for nothing, holds nothing


PLACED, PENDING = PodState.PLACED, PodState.PENDING  # a module's name is read faster than an enum's


def pod_state(pod: Pod) -> PodState:
    """The state of a pod (N5); the strongest fact comes first."""
    if pod.status.phase == "Failed":
        return PodState.FAILED
    if pod.metadata.deletion_timestamp is not None:
        return PodState.TERMINATING
    if pod.status.phase == "Succeeded":
        return PodState.SUCCEEDED
    if pod.spec.node_name:
        return PodState.PLACED
    return PodState.GATED if pod.spec.scheduling_gates else PodState.PENDING


def holds_resources(pod: Pod) -> bool:
    """Whether a bound pod still holds resources on its node: until it has finished, deleted or not (N5)."""
    return pod.status.phase not in ("Succeeded", "Failed")

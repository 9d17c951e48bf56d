"""What the operators' mutating webhooks do to pods while they are created.

Code that creates pods for a StatefulSet or a Job calls `admit_pod` first, as an API server would call the webhooks.
"""

from collections.abc import Callable

from muster.workloads.operators import leader_worker_pods
from muster.workloads.types import Raw

POD_WEBHOOKS: tuple[Callable[[Raw], Raw], ...] = (leader_worker_pods.complete_pod,)


def admit_pod(pod: Raw) -> Raw:
    """The pod as every webhook has left it."""
    for webhook in POD_WEBHOOKS:
        pod = webhook(pod)
    return pod

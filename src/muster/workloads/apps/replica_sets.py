"""ReplicaSets: as many pods as `spec.replicas` says."""

from collections.abc import Sequence
from datetime import datetime

from muster.api.fields import integer, items, mapping, texts
from muster.api.resources import PODS, REPLICA_SETS
from muster.workloads.bursts import burst_beside
from muster.workloads.conditions import with_condition, without_condition, without_zeros
from muster.workloads.pod_templates import (
    deletion_order,
    is_active,
    is_available,
    is_ready,
    is_terminating,
    new_pod,
    seconds_to_available,
)
from muster.workloads.types import Action, Children, Controller, Create, Raw, Reconciliation, Remove

REPLICA_FAILURE = "ReplicaFailure"  # condition


def reconcile(replica_set: Raw, children: Children, now: datetime) -> Reconciliation:
    """Creates missing pods and deletes surplus ones; pods that ended are replaced, and stay."""
    active = [pod for pod in children.of(replica_set, PODS) if is_active(pod)]
    replicas, min_ready = integer(replica_set, "spec.replicas", 1), integer(replica_set, "spec.minReadySeconds")
    actions = () if is_terminating(replica_set) else _scale(replica_set, active, replicas)
    is_partial = abs(replicas - len(active)) > len(actions) > 0
    again = 0.0 if is_partial else seconds_to_available(active, min_ready, now)
    return Reconciliation(actions, _status(replica_set, active, min_ready, now), again)


def _scale(replica_set: Raw, active: Sequence[Raw], replicas: int) -> tuple[Action, ...]:
    missing, burst = replicas - len(active), burst_beside(len(active))
    if missing < 0:
        return tuple(remove_pod(pod) for pod in deletion_order(active)[: min(-missing, burst)])
    template = mapping(replica_set, "spec.template")
    return tuple(Create(PODS, new_pod(replica_set, template)) for _ in range(min(missing, burst)))


def remove_pod(pod: Raw) -> Remove:
    """Delete exactly this pod."""
    metadata = pod["metadata"]
    return Remove(PODS, metadata.get("namespace", ""), metadata["name"], metadata["uid"])


def _status(replica_set: Raw, active: Sequence[Raw], min_ready: int, now: datetime) -> Raw:
    labels = texts(replica_set, "spec.template.metadata.labels").items()
    counts = {
        "fullyLabeledReplicas": sum(labels <= texts(pod, "metadata.labels").items() for pod in active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, min_ready, now) for pod in active),
        "observedGeneration": integer(replica_set, "metadata.generation"),
        "conditions": without_condition(items(replica_set, "status.conditions"), REPLICA_FAILURE),
    }
    return {"replicas": len(active), **without_zeros(counts)}


def failed(replica_set: Raw, status: Raw, reason: str, message: str, now: datetime) -> Raw:
    """The status while pods can be neither created nor deleted."""
    condition = {"type": REPLICA_FAILURE, "status": "True", "reason": reason, "message": message}
    return {**status, "conditions": with_condition(items(replica_set, "status.conditions"), condition, now)}


CONTROLLER = Controller(REPLICA_SETS, reconcile, (PODS,), failed=failed)

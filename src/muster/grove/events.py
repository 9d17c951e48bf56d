"""Events about cliques and scaling groups: what their status shows as well, said once when it begins.

Rule: reasons are those of Grove's operator where it has one. A reason comes at most once in a reconciliation, with all
replicas that it concerns in one message.
"""

from collections.abc import Collection, Iterator

from muster.api.fields import integer
from muster.grove.health import is_scaled_below_minimum, minimum_of
from muster.workloads.types import OwnerEvent, Raw

GROUP_REPLICA_TERMINATED = "PodCliqueScalingGroupReplicaDeleteSuccessful"
BELOW_MINIMUM = "ScaledBelowMinAvailable"
MOST_INDEXES = 20  # in one message


def scale_events(raw: Raw) -> Iterator[OwnerEvent]:
    """That a clique or a group was scaled below what it needs: when its spec was changed to that."""
    is_new = integer(raw, "metadata.generation", 1) != integer(raw, "status.observedGeneration")
    if is_new and is_scaled_below_minimum(raw):
        replicas, minimum = integer(raw, "spec.replicas", 1), minimum_of(raw)
        says = f"replicas {replicas} is below minAvailable {minimum}, so that nothing can start"
        yield OwnerEvent(BELOW_MINIMUM, f"{says}: scale to 0, or to at least {minimum}")


def termination_event(reason: str, indexes: Collection[int]) -> Iterator[OwnerEvent]:
    """That replicas are recreated because they were below their minimum for too long."""
    if indexes:
        says = "below minAvailable for longer than terminationDelay; all cliques are recreated"
        yield OwnerEvent(reason, f"{name_replicas(indexes)}: {says}")


def name_replicas(indexes: Collection[int]) -> str:
    """Replicas by their indexes, not too many."""
    ordered = sorted(indexes)
    named = ", ".join(map(str, ordered[:MOST_INDEXES]))
    more = f" and {len(ordered) - MOST_INDEXES} more" if len(ordered) > MOST_INDEXES else ""
    return f"replica {named}{more}" if len(ordered) == 1 else f"replicas {named}{more}"

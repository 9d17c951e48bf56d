"""Queue: quota, limit and share of resources (Q1), in KAI's format."""

from typing import Annotated

import msgspec

from muster.api.meta import Condition, ObjectMeta, Wire, doc
from muster.api.quantity import Resources

UNLIMITED = -1


class QueueResource(Wire, frozen=True):
    """One resource of a queue: cpu in millicores, memory in megabytes, gpu and others in devices."""

    quota: Annotated[int | float, doc("What the queue is entitled to; -1: unlimited.", minimum=-1, default=0)] = 0
    limit: Annotated[int | float, doc("What the queue never exceeds; -1: unlimited.", minimum=-1, default=-1)] = (
        UNLIMITED
    )
    over_quota_weight: Annotated[int | float, doc("Its weight in dividing the surplus.", minimum=0, default=1)] = 1


class QueueSpec(Wire, frozen=True):
    """A place in the tree of queues and its shares."""

    display_name: Annotated[str, doc("A name for people.")] = ""
    parent_queue: Annotated[str, doc("The queue above; unset: a top queue.", maxLength=253)] = ""
    priority: Annotated[int, doc("Order in which queues get the surplus; higher goes first.", format="int32")] = 100
    resources: Annotated[
        dict[str, QueueResource], doc("cpu, memory, gpu, and extended resources by their full name.", maxProperties=64)
    ] = msgspec.field(default_factory=dict)
    preempt_min_runtime: Annotated[str, doc("How long a gang runs before its own queue may preempt it.")] = ""
    reclaim_min_runtime: Annotated[str, doc("How long a gang runs before another queue may reclaim from it.")] = ""


class QueueStatus(Wire, frozen=True):
    """What the queue and those below it use."""

    child_queues: Annotated[tuple[str, ...], doc("The queues directly below.")] = ()
    requested: Annotated[Resources, doc("Of every pod that runs or waits.")] = Resources()
    allocated: Annotated[Resources, doc("Of every pod that is on a node, until it is gone.")] = Resources()
    allocated_non_preemptible: Annotated[Resources, doc("Of the placed pods that preemption may not evict.")] = (
        Resources()
    )
    conditions: Annotated[
        tuple[Condition, ...],
        doc(
            "In the Kubernetes form.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    scheduler_name: Annotated[
        str, doc("The scheduler that reports here; set where gangs of several share the queue.")
    ] = ""


class Queue(Wire, frozen=True):
    """A share of the cluster. Queues form a tree; workloads go to its leaves."""

    metadata: ObjectMeta = ObjectMeta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus | None = None

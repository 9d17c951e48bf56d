"""Rules of a Queue among all queues (Q1)."""

import math
from collections.abc import Iterator, Mapping

from muster.api.duration import parse_nanoseconds
from muster.api.queue import UNLIMITED, Queue, QueueResource
from muster.validation.context import ValidationContext
from muster.validation.problem import Problem, listed

KNOWN = ("cpu", "memory", "gpu")
UNITS = {"cpu": "millicores", "memory": "megabytes"}


def judge(queue: Queue, context: ValidationContext) -> Iterator[Problem]:
    """Every problem of a queue, by itself and among the others."""
    if not queue.metadata.name:
        yield Problem("metadata.name", "is missing", hint="every Queue has a name")
    yield from _parents(queue, context.queues)
    yield from _runtimes(queue)
    for name, resource in queue.spec.resources.items():
        yield from _resource(name, resource)
    yield from _children_quotas(queue, context.child_queues.get(queue.metadata.name, []))


def _parents(queue: Queue, others: Mapping[str, Queue]) -> Iterator[Problem]:
    """The parent exists, and the ancestors form no cycle."""
    at, name, parent = "spec.parentQueue", queue.metadata.name, queue.spec.parent_queue
    if not parent:
        return
    if parent == name:
        yield Problem(at, f"`{name}` cannot be its own parent", hint="leave it out for a top queue", rule="Q1")
    elif others and parent not in others:
        yield Problem(at, f"queue `{parent}` does not exist", hint=f"known: {listed(others)}", rule="Q1")
    path = {name: None}
    while parent in others and parent not in path:
        path[parent] = None
        parent = others[parent].spec.parent_queue
    if parent in path and len(path) > 1:
        yield Problem(
            at,
            f"goes round in a circle: {' → '.join((*path, parent))}",
            hint="one of them must be a top queue",
            rule="Q1",
        )


def _resource(name: str, resource: QueueResource) -> Iterator[Problem]:
    """Known resources, valid numbers, quota within the limit."""
    at = f"spec.resources.{name}"
    if name not in KNOWN and "/" not in name:
        yield Problem(
            at,
            f"`{name}` is not a resource that queues can share",
            hint="known: cpu, memory, gpu, or an extended resource by its full name, such as `example.com/nic`",
            rule="Q1",
        )
    for field, value in (("quota", resource.quota), ("limit", resource.limit)):
        yield from _number(f"{at}.{field}", value, least=UNLIMITED, unit=UNITS.get(name, "devices"))
    yield from _number(f"{at}.overQuotaWeight", resource.over_quota_weight, least=0, unit="")
    if resource.limit >= 0 and (resource.quota > resource.limit or resource.quota == UNLIMITED):
        quota = "unlimited" if resource.quota == UNLIMITED else resource.quota
        yield Problem(
            f"{at}.quota",
            f"quota {quota} is above the limit {resource.limit}",
            hint=f"at most {resource.limit}, or raise the limit",
            rule="Q1",
        )


def _number(at: str, value: float, least: int, unit: str) -> Iterator[Problem]:
    """Whole units; a weight may be any number from 0 up."""
    if not math.isfinite(value) or value < least:
        hint = "-1 is unlimited" if least == UNLIMITED else "0 takes no part in the surplus"
        yield Problem(at, f"must be at least {least}, is {value}", hint=hint, rule="Q1")
    elif unit and value != int(value):
        yield Problem(
            at, f"{value} is read as {math.floor(value)}", hint=f"state whole {unit}", severity="warning", rule="X6"
        )


def _runtimes(queue: Queue) -> Iterator[Problem]:
    for field, value in (
        ("preemptMinRuntime", queue.spec.preempt_min_runtime),
        ("reclaimMinRuntime", queue.spec.reclaim_min_runtime),
    ):
        try:
            parse_nanoseconds(value or "0")
        except ValueError as error:
            yield Problem(f"spec.{field}", str(error), hint="such as `10m` or `1h30m`", rule="P5")


def _children_quotas(queue: Queue, children: list[Queue]) -> Iterator[Problem]:
    """The quotas of children add up to at most the quota of their parent."""
    for name, resource in queue.spec.resources.items():
        quotas = [child.spec.resources[name].quota for child in children if name in child.spec.resources]
        total = sum(quota for quota in quotas if quota > 0)
        if resource.quota >= 0 and (total > resource.quota or UNLIMITED in quotas):
            share = "unlimited shares" if UNLIMITED in quotas else str(total)
            yield Problem(
                f"spec.resources.{name}.quota",
                f"its children are promised {share}, more than its own {resource.quota}",
                hint="what is non-preemptible stays within the quota on every ancestor (Q4)",
                severity="warning",
                rule="Q4",
            )

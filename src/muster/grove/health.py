"""How cliques and scaling groups fare, as their status says, and the conditions in which they say it.

Rule 1: a condition keeps the time of its transition while its status stays, and always has the latest message. Rule 2:
that something was healthy once is never forgotten: only what was healthy can be terminated for not being so.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from muster.api.fields import integer, items, mapping, text
from muster.api.moment import parse_time
from muster.api.names import GENERATION_HASH, TEMPLATE_HASH
from muster.workloads.conditions import find_condition, is_condition_true, timestamp
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Raw

# types of conditions
BREACHED = "MinAvailableBreached"
CLIQUE_SCHEDULED = "PodCliqueScheduled"
HEALTHY_OBSERVED = "HealthyStateObserved"  # never becomes False: the minimum was ready
TERMINATING = "GangTerminationInProgress"

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


class HealthCondition(Struct, frozen=True):
    """A condition as it is now."""

    type: str
    status: str
    reason: str
    message: str


def with_conditions(owner: Raw, new: Iterable[HealthCondition], now: datetime) -> list[Raw]:
    """The conditions of an object with new ones in place of those of the same types; others stay as they are."""
    conditions = {condition.get("type"): condition for condition in items(owner, "status.conditions")}
    for condition in new:
        conditions[condition.type] = _written(owner, condition, conditions.get(condition.type), now)
    return list(conditions.values())


def _written(owner: Raw, condition: HealthCondition, old: Raw | None, now: datetime) -> Raw:
    is_same = old is not None and old.get("status") == condition.status
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": integer(owner, "metadata.generation", 1),
        "lastTransitionTime": text(old, "lastTransitionTime") if is_same else timestamp(now),
    }


def observed_healthy(message: str) -> HealthCondition:
    """That something was healthy."""
    return HealthCondition(HEALTHY_OBSERVED, TRUE, HEALTHY_OBSERVED, message)


def was_healthy(raw: Raw) -> bool:
    """Whether a clique or a group was ever healthy."""
    return is_condition_true(raw, HEALTHY_OBSERVED)


def is_breached(raw: Raw) -> bool:
    """Whether a clique or a group is below its minimum."""
    return is_condition_true(raw, BREACHED)


def label_of(raw: Raw | None, name: str) -> str:
    """The value of a label; empty where there is none."""
    value = mapping(raw, "metadata.labels").get(name)
    return value if isinstance(value, str) else ""


def breached_since(raw: Raw) -> datetime | None:
    """Since when a clique or a group has been below its minimum; None: it is not."""
    condition = find_condition(raw, BREACHED)
    if condition is None or condition.get("status") != TRUE:
        return None
    return parse_time(text(condition, "lastTransitionTime"))


def minimum_of(raw: Raw) -> int:
    """How much of a clique or a group is needed: nothing where it is scaled to zero."""
    return integer(raw, "spec.minAvailable", 1) if integer(raw, "spec.replicas", 1) else 0


def is_scaled_below_minimum(raw: Raw) -> bool:
    """Whether there are fewer replicas of a clique or a group than it needs, because its scale says so."""
    return integer(raw, "spec.replicas", 1) < minimum_of(raw)


class CliqueHealth(Struct, frozen=True):
    """What the status of a clique or a group says; all is false where there is none, or it is terminating."""

    exists: bool = False
    is_scheduled: bool = False  # as much of it as it needs
    is_available: bool = False  # as much is ready
    is_breached: bool = False
    has_template: bool = False  # the latest one, in its spec
    is_updated: bool = False  # the latest one, in all of its pods


def clique_health(clique: Raw | None, template_hash: str) -> CliqueHealth:
    """How a clique fares whose pods are to have this template."""
    return _health(clique, template_hash, TEMPLATE_HASH, "readyReplicas", "currentPodTemplateHash")


def group_health(group: Raw | None, generation: str) -> CliqueHealth:
    """How a group fares, in the terms of a clique, whose cliques are to be of this generation of the set."""
    return _health(group, generation, GENERATION_HASH, "availableReplicas", "currentPodCliqueSetGenerationHash")


def _health(raw: Raw | None, template: str, label: str, available: str, current: str) -> CliqueHealth:
    """`available` and `current` are fields of the status."""
    if raw is None or is_terminating(raw):
        return CliqueHealth()
    needed, status = minimum_of(raw), mapping(raw, "status")
    has_template = label_of(raw, label) == template
    return CliqueHealth(
        exists=True,
        is_scheduled=integer(status, "scheduledReplicas") >= needed,
        is_available=integer(status, available) >= needed,
        is_breached=is_breached(raw),
        has_template=has_template,
        is_updated=has_template and text(status, current) == template,
    )


def all_of(cliques: Sequence[CliqueHealth]) -> CliqueHealth:
    """Cliques as one: what holds for all of them; breached: one of them is."""
    return CliqueHealth(
        exists=all(clique.exists for clique in cliques),
        is_scheduled=all(clique.is_scheduled for clique in cliques),
        is_available=all(clique.is_scheduled and clique.is_available for clique in cliques),
        is_breached=any(clique.is_breached for clique in cliques),
        has_template=all(clique.has_template for clique in cliques if clique.exists),
        is_updated=all(clique.is_updated for clique in cliques),
    )

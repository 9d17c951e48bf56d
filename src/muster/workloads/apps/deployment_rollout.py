"""How the ReplicaSets of a Deployment are scaled: rolling update, recreation, and scaling in between.

Rule: pure numbers; the sizes that a rollout gives are those of Kubernetes for the same state.
"""

from collections.abc import Sequence

from msgspec import Struct

from muster.api.fields import at, integer, number, text, texts
from muster.api.moment import parse_time
from muster.workloads.pod_templates import count_or_percent
from muster.workloads.types import Raw

DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"  # annotation of ReplicaSets
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"  # annotation of ReplicaSets
Sizes = dict[str, int]  # name of a ReplicaSet -> its new `spec.replicas`


class Rollout(Struct, frozen=True):
    """A Deployment with its ReplicaSets."""

    deployment: Raw
    new: Raw | None  # whose template is the Deployment's
    old: Sequence[Raw]  # oldest first

    @property
    def replicas(self) -> int:
        """How many pods the Deployment is to have."""
        return integer(self.deployment, "spec.replicas", 1)

    @property
    def is_rolling(self) -> bool:
        """Whether old pods go while new ones come."""
        return text(self.deployment, "spec.strategy.type") != "Recreate"

    @property
    def max_surge(self) -> int:
        """How many pods more than wanted there may be."""
        surge = at(self.deployment, "spec.strategy.rollingUpdate.maxSurge")
        return count_or_percent("25%" if surge is None else surge, self.replicas, rounds_up=True) * self.is_rolling

    @property
    def max_unavailable(self) -> int:
        """How many pods may be missing; at least one where there is no surge, or nothing could move."""
        if not self.is_rolling or not self.replicas:
            return 0
        value = at(self.deployment, "spec.strategy.rollingUpdate.maxUnavailable")
        count = count_or_percent("25%" if value is None else value, self.replicas, rounds_up=False)
        return min(self.replicas, count if count or self.max_surge else 1)

    @property
    def all(self) -> Sequence[Raw]:
        """Old ReplicaSets and the new one."""
        return [*self.old, *([self.new] if self.new is not None else [])]


def size(replica_set: Raw) -> int:
    """Its `spec.replicas`."""
    return integer(replica_set, "spec.replicas", 1)


def available(replica_set: Raw) -> int:
    """Its pods that are available."""
    return integer(replica_set, "status.availableReplicas")


def actual(replica_set: Raw) -> int:
    """Its pods."""
    return integer(replica_set, "status.replicas")


def name_of(replica_set: Raw) -> str:
    """Its name."""
    return text(replica_set, "metadata.name")


def first_size(rollout: Rollout) -> int:
    """The size of a ReplicaSet that is about to be created."""
    return _grown(rollout, 0) if rollout.is_rolling else rollout.replicas


def _grown(rollout: Rollout, current: int) -> int:
    total = sum(map(size, rollout.old)) + current
    most = rollout.replicas + rollout.max_surge
    return current if total >= most else current + min(most - total, rollout.replicas - current)


def roll(rollout: Rollout) -> Sizes:
    """The next step of a rolling update; empty: there is none."""
    assert rollout.new is not None
    current = size(rollout.new)
    if current > rollout.replicas:
        return {name_of(rollout.new): rollout.replicas}
    if current < rollout.replicas and (grown := _grown(rollout, current)) != current:
        return {name_of(rollout.new): grown}
    return _shrink_old(rollout, rollout.new)


def _shrink_old(rollout: Rollout, new: Raw) -> Sizes:
    """Scales old ReplicaSets down: unhealthy pods first, then as many as may be unavailable."""
    old = [replica_set for replica_set in rollout.old if size(replica_set)]
    least = rollout.replicas - rollout.max_unavailable
    most = sum(map(size, rollout.all)) - least - (size(new) - available(new))
    if most <= 0:
        return {}
    sizes = {name_of(replica_set): size(replica_set) for replica_set in old}
    for replica_set in old:
        unhealthy = min(most, max(0, size(replica_set) - available(replica_set)))
        sizes[name_of(replica_set)] -= unhealthy
        most -= unhealthy
    left = sum(map(available, rollout.all)) - least
    for replica_set in old:
        shrunk = max(0, min(sizes[name_of(replica_set)], left))
        sizes[name_of(replica_set)] -= shrunk
        left -= shrunk
    return {name_of(each): sizes[name_of(each)] for each in old if sizes[name_of(each)] != size(each)}


def recreate(rollout: Rollout) -> Sizes:
    """Scales old ReplicaSets to nothing at once."""
    return {name_of(replica_set): 0 for replica_set in rollout.old if size(replica_set)}


# scaling during a rollout -------------------------------------------------------------------------------------------


def is_scaling(rollout: Rollout) -> bool:
    """Whether `spec.replicas` changed since a ReplicaSet was scaled."""
    wanted = (texts(each, "metadata.annotations").get(DESIRED_REPLICAS, "") for each in rollout.all if size(each))
    return any((count := number(desired)) is not None and count != rollout.replicas for desired in wanted)


def scale(rollout: Rollout) -> Sizes:
    """Sizes after `spec.replicas` changed, in proportion where several ReplicaSets have pods."""
    active = [replica_set for replica_set in rollout.all if size(replica_set)]
    if len(active) <= 1:
        only = active[0] if active else rollout.new or (rollout.old[-1] if rollout.old else None)
        return {} if only is None or size(only) == rollout.replicas else {name_of(only): rollout.replicas}
    if rollout.new is not None and _is_saturated(rollout, rollout.new):
        return {name_of(old): 0 for old in rollout.old if size(old)}
    return _in_proportion(rollout, active) if rollout.is_rolling else {}


def _is_saturated(rollout: Rollout, new: Raw) -> bool:
    desired = texts(new, "metadata.annotations").get(DESIRED_REPLICAS, "")
    return size(new) == rollout.replicas == available(new) and number(desired) == rollout.replicas


def _in_proportion(rollout: Rollout, active: Sequence[Raw]) -> Sizes:
    allowed = rollout.replicas + rollout.max_surge if rollout.replicas else 0
    to_add = allowed - sum(map(size, active))
    ordered = _largest_first(active, is_growing=to_add > 0)
    sizes, added = {}, 0
    for replica_set in ordered:
        share = _share(rollout, replica_set, to_add, added) if to_add else 0
        sizes[name_of(replica_set)] = size(replica_set) + share
        added += share
    if to_add:
        first = name_of(ordered[0])
        sizes[first] = max(0, sizes[first] + to_add - added)
    return sizes


def _largest_first(active: Sequence[Raw], *, is_growing: bool) -> list[Raw]:
    """Of equal ones the newest grows first, and the oldest shrinks first."""

    def rank(replica_set: Raw) -> tuple[int, float]:
        created = parse_time(text(replica_set, "metadata.creationTimestamp"))
        age = created.timestamp() if created else 0.0
        return -size(replica_set), -age if is_growing else age

    return sorted(active, key=rank)


def _share(rollout: Rollout, replica_set: Raw, to_add: int, added: int) -> int:
    """What one ReplicaSet gets of the pods to add or to remove."""
    most = number(texts(replica_set, "metadata.annotations").get(MAX_REPLICAS, "")) or rollout.replicas
    grown = size(replica_set) * (rollout.replicas + rollout.max_surge) / most if most else 0.0
    fraction = (0 if not rollout.replicas else _rounded(grown)) - size(replica_set)
    left = to_add - added
    return min(fraction, left) if to_add > 0 else max(fraction, left)


def _rounded(value: float) -> int:
    """To the nearest whole number, halves away from zero."""
    return int(value + 0.5)

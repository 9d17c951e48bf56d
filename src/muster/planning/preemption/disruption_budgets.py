"""PodDisruptionBudgets (P6): how many more of its pods each allows to evict in this cycle.

Rule: a pod whose eviction the API server would certainly refuse is no victim.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from muster.api.core import Pod, PodDisruptionBudget
from muster.api.objects import key
from muster.model.disruption_budgets import disruptions_allowed
from muster.model.gang.pod_state import holds_resources
from muster.model.inter_pod_rules import namespace_of
from muster.model.snapshot import Snapshot
from muster.planning.preemption.label_columns import LabelColumns, keys_of

Ints = NDArray[np.int64]
TOO_MANY = 2  # budgets that select one pod: the eviction subresource refuses it


class DisruptionBudgets:
    """Budgets by number; by pod those that select it, of which a pod that cannot be evicted has the first two."""

    def __init__(self, snapshot: Snapshot, untouchable: Collection[str] = ()) -> None:
        self.left: list[int] = []
        self.of: dict[str, tuple[int, ...]] = {}
        self.stuck = set(untouchable)  # pods that cannot be evicted, whatever the budgets still allow
        if not snapshot.objects.budgets:
            return
        namespaces = _by_namespace(snapshot.objects.pods, snapshot.objects.budgets)
        for budget in sorted(snapshot.objects.budgets, key=lambda budget_: key(budget_.metadata)):
            self.left.append(namespaces[budget.metadata.namespace or "default"].add(budget, len(self.left)))
        for some in namespaces.values():
            self.of |= {key(some.pods[i].metadata): tuple(numbers) for i, numbers in some.of.items()}
            self.stuck.update(key(some.pods[i].metadata) for i in some.stuck())

    def allows(self, pods: Iterable[str]) -> bool:
        """Whether all of these pods may be evicted."""
        if self.is_idle:
            return True
        pods = list(pods)
        if not self.stuck.isdisjoint(pods):
            return False
        needed = Counter(number for pod in pods for number in self.of.get(pod, ()))
        return all(count <= self.left[number] for number, count in needed.items())

    @property
    def is_idle(self) -> bool:
        """Whether no pod is protected by a budget or otherwise."""
        return not self.of and not self.stuck

    def spend(self, pods: Iterable[str]) -> None:
        """Count the eviction of these pods."""
        for pod in pods:
            for number in self.of.get(pod, ()):
                self.left[number] -= 1


class _Namespace:
    """The pods of a namespace, and the budgets that select them."""

    def __init__(self, pods: Sequence[Pod], keys: Iterable[str]) -> None:
        self.pods = pods
        self.of: dict[int, list[int]] = defaultdict(list)
        self._labels = LabelColumns([pod.metadata.labels for pod in pods], keys)
        self._are_alive = np.array([holds_resources(pod) for pod in pods], dtype=bool)
        self._are_healthy = self._are_alive & np.array([_is_healthy(pod) for pod in pods], dtype=bool)
        self._are_new = np.array([_not_started(pod) for pod in pods], dtype=bool)
        self._budgets = np.zeros(len(pods), dtype=np.int64)  # that select each of them

    def stuck(self) -> list[int]:
        """Pods that the eviction subresource always refuses."""
        stuck: list[int] = np.flatnonzero((self._budgets >= TOO_MANY) & ~self._are_new).tolist()
        return stuck

    def add(self, budget: PodDisruptionBudget, number: int) -> int:
        """Add a budget; returns how many of its pods may be evicted."""
        pods = self._labels.selected(budget.spec.selector)
        for pod in pods[(self._budgets[pods] < TOO_MANY) | self._are_new[pods]].tolist():
            self.of[pod].append(number)
        self._budgets[pods] += 1
        return _allowed(budget, int(self._are_alive[pods].sum()), int(self._are_healthy[pods].sum()))


def _by_namespace(pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]) -> dict[str, _Namespace]:
    """The namespaces that have budgets."""
    keys: dict[str, set[str]] = defaultdict(set)
    for budget in budgets:
        keys[budget.metadata.namespace or "default"] |= keys_of(budget.spec.selector)
    there: dict[str, list[Pod]] = {namespace: [] for namespace in keys}
    for pod in pods:
        if (namespace := namespace_of(pod)) in there:
            there[namespace].append(pod)
    return {namespace: _Namespace(some, keys[namespace]) for namespace, some in there.items()}


def _is_healthy(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is None


def _not_started(pod: Pod) -> bool:
    """The eviction subresource checks no budget for a pod that its node has not started."""
    return pod.status.phase == "Pending"


def _allowed(budget: PodDisruptionBudget, alive: int, healthy: int) -> int:
    """`status.disruptionsAllowed`; without a status, what the disruption controller would write."""
    if budget.status is not None:
        return budget.status.disruptions_allowed
    return disruptions_allowed(budget.spec, alive, healthy)

"""PodDisruptionBudgets (P6): how many more of the pods that each selects may leave in this cycle.

Rule: a pod whose eviction the API server would certainly refuse is no victim.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

from muster.api.core import Pod, PodDisruptionBudget
from muster.api.objects import key
from muster.model.neighbours import namespace_of
from muster.model.selectors import selects
from muster.model.snapshot import Snapshot, holds


class DisruptionBudgets:
    """Budgets by number; every pod with those that select it."""

    def __init__(self, snapshot: Snapshot, untouchable: Collection[str] = ()) -> None:
        self.left: list[int] = []
        self.of: dict[str, tuple[int, ...]] = {}
        self.stuck = set(untouchable)  # pods that cannot be evicted, whatever the budgets have left
        if not snapshot.objects.budgets:
            return
        found: dict[str, list[int]] = defaultdict(list)
        index = _PodIndex(snapshot.objects.pods, snapshot.objects.budgets)
        for budget in sorted(snapshot.objects.budgets, key=lambda one: key(one.metadata)):
            pods = [pod for pod in index.likely(budget) if selects(budget.spec.selector, pod.metadata.labels)]
            for pod in pods:
                found[key(pod.metadata)].append(len(self.left))
            self.left.append(_allowed(budget, pods))
        self.of = {pod: tuple(numbers) for pod, numbers in found.items()}
        several = (pod for pod, numbers in found.items() if len(numbers) > 1)
        self.stuck.update(pod for pod in several if not _not_started(snapshot.pods[pod]))

    def allows(self, pods: Iterable[str]) -> bool:
        """Whether all of them may leave."""
        if self.is_idle:
            return True
        pods = list(pods)
        asked = Counter(number for pod in pods for number in self.of.get(pod, ()))
        return self.stuck.isdisjoint(pods) and all(count <= self.left[number] for number, count in asked.items())

    @property
    def is_idle(self) -> bool:
        """No pod is held back."""
        return not self.of and not self.stuck

    def spend(self, pods: Iterable[str]) -> None:
        """These pods are evicted."""
        for pod in pods:
            for number in self.of.get(pod, ()):
                self.left[number] -= 1


class _PodIndex:
    """Pods by namespace, and by one label of every budget: most budgets select few pods."""

    def __init__(self, pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]) -> None:
        labels = {label[0] for budget in budgets if (label := _label(budget)) is not None}
        self._by_namespace: dict[str, list[Pod]] = defaultdict(list)
        self._by_label: dict[tuple[str, str, str], list[Pod]] = defaultdict(list)
        for pod in pods:
            namespace = namespace_of(pod)
            self._by_namespace[namespace].append(pod)
            for name in labels.intersection(pod.metadata.labels):
                self._by_label[namespace, name, pod.metadata.labels[name]].append(pod)

    def likely(self, budget: PodDisruptionBudget) -> list[Pod]:
        """All pods that a budget could select, and few others."""
        namespace, label = budget.metadata.namespace or "default", _label(budget)
        return self._by_namespace[namespace] if label is None else self._by_label[namespace, *label]


def _label(budget: PodDisruptionBudget) -> tuple[str, str] | None:
    """A label that every pod of a budget has."""
    selector = budget.spec.selector
    return min(selector.match_labels.items(), default=None) if selector is not None else None


def _not_started(pod: Pod) -> bool:
    """The eviction subresource asks no budget about a pod that waits for its node to start it."""
    return pod.status.phase == "Pending"


def _allowed(budget: PodDisruptionBudget, pods: list[Pod]) -> int:
    """What the disruption controller said; where it said nothing, what it would say."""
    if budget.status is not None:
        return budget.status.disruptions_allowed
    alive = [pod for pod in pods if holds(pod)]
    healthy = sum(bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is None for pod in alive)
    if budget.spec.max_unavailable is not None:
        return max(healthy - (len(alive) - _number(budget.spec.max_unavailable, len(alive))), 0)
    return max(healthy - _number(budget.spec.min_available, len(alive)), 0)


def _number(stated: int | str | None, of: int) -> int:
    """A number of pods, or a percentage of all of them, rounded up."""
    if isinstance(stated, str) and stated.endswith("%") and stated[:-1].isdecimal():
        return -(-int(stated[:-1]) * of // 100)
    if isinstance(stated, str):
        return int(stated) if stated.isdecimal() else of
    return stated or 0

"""PodDisruptionBudgets (P6): how many more of the pods that each selects may leave in this cycle."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from muster.api.core import Pod, PodDisruptionBudget
from muster.api.objects import key
from muster.model.neighbours import namespace_of
from muster.model.selectors import selects
from muster.model.snapshot import Snapshot, holds


class Budgets:
    """Budgets by number; every pod with those that select it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.left: list[int] = []
        self.of: dict[str, tuple[int, ...]] = {}
        if not snapshot.objects.budgets:
            return
        found: dict[str, list[int]] = defaultdict(list)
        by_namespace: dict[str, list[Pod]] = defaultdict(list)
        for pod in snapshot.objects.pods:
            by_namespace[namespace_of(pod)].append(pod)
        for budget in sorted(snapshot.objects.budgets, key=lambda one: key(one.metadata)):
            namespace = budget.metadata.namespace or "default"
            pods = [pod for pod in by_namespace[namespace] if selects(budget.spec.selector, pod.metadata.labels)]
            for pod in pods:
                found[key(pod.metadata)].append(len(self.left))
            self.left.append(_allowed(budget, pods))
        self.of = {pod: tuple(numbers) for pod, numbers in found.items()}

    def allow(self, pods: Iterable[str]) -> bool:
        """Whether all of them may leave."""
        if not self.of:
            return True
        asked = Counter(number for pod in pods for number in self.of.get(pod, ()))
        return all(count <= self.left[number] for number, count in asked.items())

    def spend(self, pods: Iterable[str]) -> None:
        """They leave."""
        for pod in pods:
            for number in self.of.get(pod, ()):
                self.left[number] -= 1


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

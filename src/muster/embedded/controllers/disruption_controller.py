"""The disruption controller: keeps the status of every PodDisruptionBudget up to date with its pods."""

from collections.abc import Callable

from muster.api.resources import BUDGETS, PODS
from muster.embedded.controllers import disruption_budgets
from muster.embedded.store.object_store import GroupResource, ObjectStore, group_resource
from muster.embedded.store.versioned_table import StoredObject

_PODS, _BUDGETS = group_resource(PODS), group_resource(BUDGETS)


class DisruptionController:
    """Counts the expected and healthy pods of every budget, change by change; a changed spec is recounted."""

    def __init__(self, object_store: ObjectStore, timestamp: Callable[[int], str]) -> None:
        self._object_store, self._timestamp = object_store, timestamp
        self._counts: dict[str, tuple[int, int]] = {}  # by uid of the budget: expected and healthy pods
        object_store.listeners.append(self._on_change)

    def _on_change(self, resource: GroupResource, old: StoredObject | None, new: StoredObject | None) -> None:
        if resource == _PODS:
            self._on_pod_change(old, new)
        elif resource == _BUDGETS:
            self._on_budget_change(old, new)

    def _on_pod_change(self, old: StoredObject | None, new: StoredObject | None) -> None:
        namespace = (new or old).key[0]  # type: ignore[union-attr]
        for budget in self._budgets_in(namespace):
            before, after = self._count(budget, old), self._count(budget, new)
            if before != after:
                expected, healthy = self._counts.get(budget.uid, (0, 0))
                self._counts[budget.uid] = expected + after[0] - before[0], healthy + after[1] - before[1]
                self._write_status(budget)

    def _budgets_in(self, namespace: str) -> list[StoredObject]:
        return list(self._object_store.table(_BUDGETS).by_namespace.get(namespace, {}).values())

    def _count(self, budget: StoredObject, pod: StoredObject | None) -> tuple[int, int]:
        if pod is None or not disruption_budgets.covers(budget.raw, pod.raw):
            return 0, 0
        return disruption_budgets.count_pod(pod.raw)

    def _on_budget_change(self, old: StoredObject | None, new: StoredObject | None) -> None:
        if new is None:
            self._counts.pop(old.uid if old else "", None)
        elif old is None or old.raw.get("spec") != new.raw.get("spec"):
            pods = self._object_store.table(_PODS).by_namespace.get(new.key[0], {}).values()
            counts = [self._count(new, pod) for pod in pods]
            self._counts[new.uid] = sum(expected for expected, _ in counts), sum(healthy for _, healthy in counts)
            self._write_status(new)

    def _write_status(self, budget: StoredObject) -> None:
        status = disruption_budgets.status(budget.raw, *self._counts[budget.uid], self._timestamp(0))
        if status != budget.raw.get("status"):
            self._object_store.put(_BUDGETS, {**budget.raw, "status": status})

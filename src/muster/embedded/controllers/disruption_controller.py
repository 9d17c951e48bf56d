"""The disruption controller: the status of every budget follows its pods, change by change."""

from collections.abc import Callable

from muster.api.resources import BUDGETS, PODS
from muster.embedded.controllers import disruption_budgets
from muster.embedded.store.object_store import Home, ObjectStore, home
from muster.embedded.store.versioned_table import Stored

_PODS, _BUDGETS = home(PODS), home(BUDGETS)


class DisruptionController:
    """Expected and healthy pods of every budget, counted up and down; a budget that changes is counted anew."""

    def __init__(self, object_store: ObjectStore, moment: Callable[[int], str]) -> None:
        self._object_store, self._moment = object_store, moment
        self._counts: dict[str, tuple[int, int]] = {}
        object_store.tell.append(self._told)

    def _told(self, where: Home, old: Stored | None, new: Stored | None) -> None:
        if where == _PODS:
            self._pod(old, new)
        elif where == _BUDGETS:
            self._budget(old, new)

    def _pod(self, old: Stored | None, new: Stored | None) -> None:
        namespace = (new or old).key[0]  # type: ignore[union-attr]
        for budget in self._of(namespace):
            before, after = self._share(budget, old), self._share(budget, new)
            if before != after:
                expected, healthy = self._counts.get(budget.uid, (0, 0))
                self._counts[budget.uid] = expected + after[0] - before[0], healthy + after[1] - before[1]
                self._write(budget)

    def _of(self, namespace: str) -> list[Stored]:
        return list(self._object_store.table(_BUDGETS).spaces.get(namespace, {}).values())

    def _share(self, budget: Stored, pod: Stored | None) -> tuple[int, int]:
        return (
            disruption_budgets.count_pod(pod.raw) if pod and disruption_budgets.covers(budget.raw, pod.raw) else (0, 0)
        )

    def _budget(self, old: Stored | None, new: Stored | None) -> None:
        if new is None:
            self._counts.pop(old.uid if old else "", None)
        elif old is None or old.raw.get("spec") != new.raw.get("spec"):
            shares = [
                self._share(new, pod) for pod in self._object_store.table(_PODS).spaces.get(new.key[0], {}).values()
            ]
            self._counts[new.uid] = sum(one for one, _ in shares), sum(one for _, one in shares)
            self._write(new)

    def _write(self, budget: Stored) -> None:
        found = disruption_budgets.status(budget.raw, *self._counts[budget.uid], self._moment(0))
        if found != budget.raw.get("status"):
            self._object_store.put(_BUDGETS, {**budget.raw, "status": found})

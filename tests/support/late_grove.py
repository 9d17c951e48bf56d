"""Grove's controllers in memory where the cluster is slow.

Statuses are written late, pods take time to terminate, and the garbage collector takes time to find pods.

Rule: what a controller reads is what is written: it may see its own status, and those of others, older than the
objects around them, as in a cache.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import cycle

from muster.api.resources import PODS, Resource
from muster.grove.table import GROVE
from muster.kube.controller.status_queue import pruned
from muster.workloads.conditions import timestamp
from muster.workloads.merge_patch import merged
from muster.workloads.types import Controller, Key, Raw
from tests.support.grove import MOST_ROUNDS, GroveCluster

KUBELET = "test/kubelet"  # finalizer: a pod that has a node is there until its time is over


class LateCluster(GroveCluster):
    """See above. `lags`: after how many reconciliations each status is written, over and over."""

    def __init__(
        self,
        lags: Iterable[int] = (0,),
        grace_seconds: float = 0,
        collect_seconds: float = 0,
        controllers: Mapping[Resource, Controller] = GROVE,
    ) -> None:
        super().__init__(controllers)
        self._lags, self._grace = cycle(lags), timedelta(seconds=grace_seconds)
        self._collects_after = timedelta(seconds=collect_seconds)
        self._uncollected: dict[Key, datetime] = {}  # pods whose clique is gone, and when they are deleted
        self._late: dict[Key, tuple[Raw, Raw, int]] = {}  # what was reconciled, its status, and when that is written
        self._terminating: dict[Key, datetime] = {}  # pods, and when they are gone
        self._reconciled = 0

    def settle(self) -> None:
        """Reconciles until nothing changes and every status is written."""
        for _ in range(MOST_ROUNDS):
            for key in [key for key, late in self._late.items() if late[2] <= self._reconciled or not self._queue]:
                self._write_late(key)
            if not self._queue:
                return
            key = self._queue.popleft()
            if key in self.objects:
                self._reconciled += 1
                self._reconcile(key)
        raise AssertionError(f"the controllers do not settle: {self._queue}")

    def restart(self) -> None:
        """What was not written is lost."""
        self._late.clear()
        super().restart()

    def advance(self, seconds: float) -> None:
        """Time passes; pods whose time is over are gone."""
        super().advance(seconds)
        for key in [key for key, at in self._uncollected.items() if at <= self.now]:
            del self._uncollected[key]
            self._delete(key)
        for key in [key for key, at in self._terminating.items() if at <= self.now]:
            del self._terminating[key]
            self._drop(key)
        self.settle()

    def _write_status(self, key: Key, owner: Raw, status: Raw, is_urgent: bool) -> None:
        self._late.pop(key, None)
        if pruned(status) != pruned(owner.get("status") or {}):
            self._late[key] = owner, status, self._reconciled + (0 if is_urgent else next(self._lags))
        if is_urgent:
            self._write_late(key)

    def _write_late(self, key: Key) -> None:
        owner, status, _ = self._late.pop(key, ({}, {}, 0))
        current = self.objects.get(key)
        if owner and current is not None and current["metadata"]["uid"] == owner["metadata"]["uid"]:
            super()._write_status(key, owner, status, True)

    def _collect(self, key: Key) -> None:
        if key[0] == PODS and self._collects_after:
            self._uncollected[key] = self.now + self._collects_after
        else:
            super()._collect(key)

    def _delete(self, key: Key) -> None:
        raw = self.objects.get(key)
        if raw is None or key in self._terminating:
            return
        if not self._grace or key[0] != PODS or not raw["spec"].get("nodeName"):
            super()._delete(key)
            return
        self._terminating[key] = self.now + self._grace
        metadata = {"deletionTimestamp": timestamp(self.now), "finalizers": [KUBELET]}
        self._put(PODS, merged(raw, {"metadata": metadata}))

"""Bindings and evictions that were sent and that the cache does not show yet, laid over it: no pod is bound twice (I2).

A pod is assumed on its node from the moment its binding is sent, as the API server may carry it out at any time; it is
assumed evicted only once that is confirmed: until then it holds its resources and its share of its queue. No time
limit ends an assumption: a watch may be late by any time. A confirmed one ends when the cache shows it, or when a list
that began later does not.
"""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from muster.api.core import Pod


class AssumedPod(Struct, frozen=True):
    """What is assumed of one pod, by its uid: that it is on a node, that it is evicted, or both."""

    uid: str
    node: str = ""  # empty: no binding was sent, or it was rejected
    is_evicted: bool = False
    lists: int | None = None  # how many lists of pods had begun when it was confirmed; None: it is not confirmed


class AssumedPods:
    """By pod, as `namespace/name`."""

    def __init__(self, lists: Callable[[], int] = lambda: 0) -> None:
        self._lists = lists  # how many lists of pods have begun
        self._assumed: dict[str, AssumedPod] = {}

    def __len__(self) -> int:
        return len(self._assumed)

    def assume(self, pod: str, uid: str, node: str) -> None:
        """A binding is sent."""
        self._assumed[pod] = AssumedPod(uid, node)

    def confirm(self, pod: str, uid: str) -> None:
        """The binding was carried out."""
        assumed = self._assumed.get(pod)
        if assumed is not None and assumed.uid == uid:
            self._assumed[pod] = replace(assumed, lists=self._lists())

    def assume_evicted(self, pod: str, uid: str) -> None:
        """An eviction was carried out; a binding that the cache does not show yet still holds its node's resources."""
        before = self._assumed.get(pod)
        node = before.node if before and before.uid == uid else ""
        self._assumed[pod] = AssumedPod(uid, node, is_evicted=True, lists=self._lists())

    def is_evicted(self, pod: str, uid: str) -> bool:
        """Whether the pod is assumed evicted."""
        assumed = self._assumed.get(pod)
        return assumed is not None and assumed.uid == uid and assumed.is_evicted

    def forget(self, pod: str, uid: str) -> None:
        """The binding was rejected; another pod of that name is another matter."""
        assumed = self._assumed.get(pod)
        if assumed is None or assumed.uid != uid:
            return
        del self._assumed[pod]
        if assumed.is_evicted:
            self._assumed[pod] = replace(assumed, node="")

    def overlay(self, cached: Callable[[str], Pod | None], now: datetime, listed: int) -> dict[str, Pod]:
        """Pods as they are assumed to be, where that differs from the cache; `listed`: the last list that is complete.

        Forgets what the cache shows.
        """
        overlaid: dict[str, Pod] = {}
        for name, assumed in list(self._assumed.items()):
            pod = cached(name)
            if pod is None or _is_shown(pod, assumed) or (assumed.lists is not None and listed > assumed.lists):
                del self._assumed[name]
            else:
                overlaid[name] = _overlay(pod, assumed, now)
        return overlaid


def _overlay(pod: Pod, assumed: AssumedPod, now: datetime) -> Pod:
    if assumed.node and not pod.spec.node_name:
        pod = replace(pod, spec=replace(pod.spec, node_name=assumed.node))
    if assumed.is_evicted and pod.metadata.deletion_timestamp is None:
        pod = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=now))
    return pod


def _is_shown(pod: Pod, assumed: AssumedPod) -> bool:
    """The cache has another pod of that name, or shows all that is assumed."""
    if pod.metadata.uid != assumed.uid:
        return True
    if assumed.node and not pod.spec.node_name:
        return False
    return not assumed.is_evicted or pod.metadata.deletion_timestamp is not None

"""Decisions that were sent and are not yet seen, laid over what is seen: nothing is bound or given out twice.

A binding counts from the moment it is sent, as it may happen at any time; an eviction only once it was promised: until
then its pod holds its room, and its share of its queue. Nothing is forgotten because time has passed: a watch may be
late by any time. What was promised goes when the cluster shows it, or when a list that began after that does not.
"""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from muster.api.core import Pod


class AssumedPod(Struct, frozen=True):
    """What was decided about one pod, by its uid: where it was bound, that it was told to leave, or both in turn."""

    uid: str
    node: str = ""  # empty: it was not bound, or is seen to be
    leaves: bool = False
    lists: int | None = None  # how many lists had begun when it was promised; None: it was not


class AssumedPods:
    """What was sent, by pod."""

    def __init__(self, lists: Callable[[], int] = lambda: 0) -> None:
        self._lists = lists  # of pods, that have begun
        self._sent: dict[str, AssumedPod] = {}

    def __len__(self) -> int:
        return len(self._sent)

    def bound(self, pod: str, uid: str, node: str) -> None:
        """A binding is on its way."""
        self._sent[pod] = AssumedPod(uid, node)

    def promised(self, pod: str, uid: str) -> None:
        """The binding was taken."""
        sent = self._sent.get(pod)
        if sent is not None and sent.uid == uid:
            self._sent[pod] = replace(sent, lists=self._lists())

    def evicted(self, pod: str, uid: str) -> None:
        """The pod was told to leave; a binding that is not yet seen still holds its room."""
        before = self._sent.get(pod)
        self._sent[pod] = AssumedPod(uid, before.node if before and before.uid == uid else "", True, self._lists())

    def leaves(self, pod: str, uid: str) -> bool:
        """Whether it was told to."""
        sent = self._sent.get(pod)
        return sent is not None and sent.uid == uid and sent.leaves

    def failed(self, pod: str, uid: str) -> None:
        """The binding did not happen, and will not; another pod of that name is another matter."""
        sent = self._sent.get(pod)
        if sent is None or sent.uid != uid:
            return
        del self._sent[pod]
        if sent.leaves:
            self._sent[pod] = replace(sent, node="")

    def laid(self, seen: Callable[[str], Pod | None], now: datetime, listed: int) -> dict[str, Pod]:
        """Pods as they are once everything that was sent has happened; `listed`: the last list that was complete."""
        found: dict[str, Pod] = {}
        for name, sent in list(self._sent.items()):
            pod = seen(name)
            if pod is None or _over(pod, sent) or (sent.lists is not None and listed > sent.lists):
                del self._sent[name]
            else:
                found[name] = _laid(pod, sent, now)
        return found


def _laid(pod: Pod, sent: AssumedPod, now: datetime) -> Pod:
    if sent.node and not pod.spec.node_name:
        pod = replace(pod, spec=replace(pod.spec, node_name=sent.node))
    if sent.leaves and pod.metadata.deletion_timestamp is None:
        pod = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=now))
    return pod


def _over(pod: Pod, sent: AssumedPod) -> bool:
    """Another pod of that name, or what was sent is seen."""
    if pod.metadata.uid != sent.uid:
        return True
    if sent.node and not pod.spec.node_name:
        return False
    return not sent.leaves or pod.metadata.deletion_timestamp is not None

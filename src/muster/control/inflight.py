"""Decisions that were sent and are not yet seen, laid over what is seen: nothing is bound or given out twice."""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from muster.api.core import Pod


class Sent(Struct, frozen=True):
    """What was decided about one pod, by its uid: where it was bound, that it was told to leave, or both in turn."""

    uid: str
    node: str = ""  # empty: it was not bound, or is seen to be
    leaves: bool = False
    at: float = 0.0  # of a clock that never goes back


class Inflight:
    """What was sent, by pod. An entry goes when the cluster shows it, shows otherwise, or has had long enough to."""

    def __init__(self, patience_seconds: float = 60.0) -> None:
        self.patience_seconds = patience_seconds
        self._sent: dict[str, Sent] = {}

    def __len__(self) -> int:
        return len(self._sent)

    def bound(self, pod: str, uid: str, node: str, at: float) -> None:
        """A binding is on its way."""
        self._sent[pod] = Sent(uid, node, at=at)

    def evicted(self, pod: str, uid: str, at: float) -> None:
        """An eviction is on its way; a binding that is not yet seen still holds its room."""
        before = self._sent.get(pod)
        self._sent[pod] = Sent(uid, before.node if before and before.uid == uid else "", True, at)

    def leaves(self, pod: str, uid: str) -> bool:
        """Whether it was told to."""
        sent = self._sent.get(pod)
        return sent is not None and sent.uid == uid and sent.leaves

    def failed(self, pod: str) -> None:
        """What was sent last did not happen."""
        sent = self._sent.pop(pod, None)
        if sent and sent.leaves and sent.node:
            self._sent[pod] = replace(sent, leaves=False)

    def laid(self, seen: Callable[[str], Pod | None], now: datetime, at: float) -> dict[str, Pod]:
        """Pods as they are once everything that was sent has happened; `at`: when pods were last heard of."""
        found: dict[str, Pod] = {}
        for name, sent in list(self._sent.items()):
            pod = seen(name)
            if pod is None or _over(pod, sent) or at - sent.at > self.patience_seconds:
                del self._sent[name]
            else:
                found[name] = _laid(pod, sent, now)
        return found


def _laid(pod: Pod, sent: Sent, now: datetime) -> Pod:
    if sent.node and not pod.spec.node_name:
        pod = replace(pod, spec=replace(pod.spec, node_name=sent.node))
    if sent.leaves and pod.metadata.deletion_timestamp is None:
        pod = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=now))
    return pod


def _over(pod: Pod, sent: Sent) -> bool:
    """Another pod of that name, or what was sent is seen."""
    if pod.metadata.uid != sent.uid:
        return True
    if sent.node and not pod.spec.node_name:
        return False
    return not sent.leaves or pod.metadata.deletion_timestamp is not None

"""Pods that were assigned to a gang, and whose mark comes with their binding: the cache has them as if it were there.

Rule 1: what an API server stores wins: a pod that carries its mark is not changed here. Rule 2: a mark belongs to one
pod by its uid, and is forgotten once the pod carries it or is gone.
"""

from msgspec.structs import replace

from muster.api.core import Pod
from muster.kube.pod_mark import PodMark

PodKey = tuple[str, str]  # namespace, name


class MarkedPods:
    """Marks that are not stored yet, and the pods as they are stored."""

    def __init__(self) -> None:
        self._offered: dict[PodKey, tuple[str, PodMark]] = {}  # with the uid of the pod
        self._stored: dict[PodKey, Pod] = {}  # pods without the mark that they are to get

    def put(self, name: PodKey, pod: Pod) -> Pod:
        """A pod as it is stored; returns it with its mark."""
        if not self._offered and not self._stored:
            return pod
        uid, mark = self._offered.get(name, ("", None))
        self._stored.pop(name, None)
        if mark is None or uid != pod.metadata.uid:
            return pod
        if mark.is_on(pod.metadata):
            del self._offered[name]
            return pod
        self._stored[name] = pod
        return replace(pod, metadata=mark.put_on(pod.metadata))

    def stored(self, name: PodKey) -> Pod | None:
        """The pod without its mark; None: it has none that is not stored."""
        return self._stored.get(name)

    def set_mark(self, name: PodKey, uid: str, mark: PodMark | None) -> None:
        """The mark that a pod is to get; None: none."""
        if mark is None:
            self._offered.pop(name, None)
        else:
            self._offered[name] = uid, mark

    def missing(self, name: PodKey, uid: str) -> PodMark | None:
        """The mark that a pod is to get and does not carry yet."""
        if name not in self._stored or name not in self._offered:
            return None
        marked_uid, mark = self._offered[name]
        return mark if marked_uid == uid else None

    def drop(self, name: PodKey) -> None:
        """The pod is gone; a mark for a new pod of that name may be known already."""
        self._stored.pop(name, None)

"""Marks that pods get with their bindings: a pod that is bound soon after it was grouped needs no write of its own.

Rule: a mark is offered by what assigns pods to gangs. The cache has it at once, so that the pod is planned as a member
of its gang (N3), and the binding stores it: a pod that is bound carries its mark from that moment.
"""

import math
import time
from collections.abc import Callable
from typing import Final

import structlog

from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from muster.kube.pod_mark import PodMark
from muster.kube.write_bursts import WriteBurst
from muster.scheduler.watched_cluster import WatchedCluster

log = structlog.get_logger()
RETRY_SECONDS: Final = 30.0  # after the version of the API server could not be read


class MarkedBindings:
    """Takes marks along with the bindings of one scheduler."""

    def __init__(
        self,
        cluster: Cluster,
        watched: WatchedCluster,
        is_binding: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._watched, self._clock = cluster, watched, clock
        self._burst = WriteBurst(is_binding, clock)
        self._offered: dict[str, str] = {}  # uids, by pod
        self._is_supported: bool | None = None  # None: not known yet
        self._requested_at = -math.inf

    @property
    def is_binding(self) -> bool:
        """Whether bindings are sent, or were a moment ago."""
        return self._burst()

    async def detect(self) -> bool:
        """Whether bindings carry marks on this cluster; asks once, and again after a failure."""
        if self._is_supported is None and self._clock() - self._requested_at >= RETRY_SECONDS:
            self._requested_at = self._clock()
            try:
                self._is_supported = await self._cluster.binds_with_labels()
            except ApiError as error:
                log.info("version not read: pods are marked one by one", reason=error.reason, what=error.message)
        return bool(self._is_supported)

    def offer(self, pod: str, uid: str, mark: PodMark | None) -> bool:
        """The mark that a pod, by namespace/name, is to get; None: none. Returns whether it was not offered before."""
        offered = self._offered.get(pod)
        is_taken = mark is not None and mark.may_be_bound and bool(self._is_supported)
        if not is_taken and offered is None:
            return False
        if is_taken:
            self._offered[pod] = uid
        else:
            del self._offered[pod]
        self._watched.mark_pod(pod, uid, mark if is_taken else None)
        return is_taken and offered != uid

    def may_carry(self, pod: str, uid: str) -> bool:
        """Whether the mark of a pod was offered, and the pod is not bound yet."""
        cached = self._watched.cache.pod(pod) if self._offered.get(pod) == uid else None
        return cached is not None and cached.metadata.uid == uid and not cached.spec.node_name

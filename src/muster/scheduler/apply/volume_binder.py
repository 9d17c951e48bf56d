"""Claims that wait for their first consumer: the node is written on them before the pod is bound (X5, decision 0014).

Restart safe: a claim with a node on it is never given another one; the next plan holds the pod to that node.
"""

from collections.abc import Awaitable, Callable, Iterable

from muster.api.core import PersistentVolumeClaim, StorageClass
from muster.api.names import SELECTED_NODE
from muster.api.resources import CLAIMS
from muster.kube.cache.cache import Cache
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from muster.placement.claims import STATIC, WAITS, claims_of, selected_node
from muster.planning.decision import Binding

UNSEEN_SECONDS = 30.0  # for so long, a node that was written counts, although the watch has not brought it yet


class VolumeBinder:
    """Selects the node of unbound claims, as kube-scheduler does."""

    def __init__(self, cluster: Cluster, cache: Cache, clock: Callable[[], float]) -> None:
        self.cluster, self.cache, self.clock = cluster, cache, clock
        self._written: dict[str, tuple[str, float]] = {}  # by the uid of a claim: the node, and when

    def select_node(self, binding: Binding) -> Awaitable[None] | None:
        """Writes the node on every claim of the pod that waits for it; None: the pod has none.

        ApiError: the API server rejected one.
        """
        pod = self.cache.pod(binding.key)
        if pod is None or not pod.spec.volumes:
            return None
        return self._select_all(claims_of(pod), binding.node)

    async def _select_all(self, names: Iterable[str], node: str) -> None:
        for name in names:
            claim = self._waiting(name)
            if claim is not None and selected_node(claim) != node:
                await self._select(claim, node)

    async def _select(self, claim: PersistentVolumeClaim, node: str) -> None:
        other = selected_node(claim) or self._unseen(claim.metadata.uid)
        if other not in ("", node):
            raise ApiError(409, "Conflict", f"the volume of claim `{claim.metadata.name}` is made on node `{other}`")
        self._written[claim.metadata.uid] = node, self.clock()  # also where no answer comes
        body = {"metadata": {"uid": claim.metadata.uid, "annotations": {SELECTED_NODE: node}}}
        await self.cluster.patch(CLAIMS, claim.metadata.namespace, claim.metadata.name, body)

    def _unseen(self, uid: str) -> str:
        """The node that was written lately, whether or not it has arrived; empty: none."""
        old = self.clock() - UNSEEN_SECONDS
        self._written = {uid: written for uid, written in self._written.items() if written[1] >= old}
        return self._written.get(uid, ("", 0.0))[0]

    def _waiting(self, name: str) -> PersistentVolumeClaim | None:
        """The claim, if its volume is made where its first consumer goes."""
        namespace, _, last = name.partition("/")
        claim = self.cache.get(PersistentVolumeClaim, namespace, last)
        if not isinstance(claim, PersistentVolumeClaim) or claim.spec.volume_name:
            return None
        kind = self.cache.get(StorageClass, "", claim.spec.storage_class_name)
        waits = isinstance(kind, StorageClass) and kind.volume_binding_mode == WAITS and kind.provisioner != STATIC
        return claim if waits else None

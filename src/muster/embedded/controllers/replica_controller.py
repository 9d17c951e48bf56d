"""Whoever makes new pods for those that are gone: what a Deployment or an operator would do, in a few lines."""

import copy
from collections.abc import Iterable
from itertools import count

from muster.api.resources import PODS
from muster.embedded.kubelet.pod_lifecycle import FAIL
from muster.kube.cache.reflector import Changed, Gone, Reflector
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError


class ReplicaController:
    """Keeps pods of some namespaces there: one that failed or was deleted comes back under a new name."""

    def __init__(self, cluster: Cluster, namespaces: Iterable[str]) -> None:
        self.cluster, self.namespaces = cluster, frozenset(namespaces)
        self._numbers = count(1)
        self._known: dict[tuple[str, str], Raw] = {}

    async def run(self) -> None:
        """Without end."""
        async for news in Reflector(self.cluster, PODS).news():
            match news:
                case Changed(object=pod) if pod["metadata"].get("namespace") in self.namespaces:
                    self._known[_key(pod)] = pod
                    if pod.get("status", {}).get("phase") == "Failed":
                        await self._delete(pod)
                case Gone(object=pod) if _key(pod) in self._known:
                    await self._again(self._known.pop(_key(pod)))

    async def _delete(self, pod: Raw) -> None:
        meta = pod["metadata"]
        try:
            await self.cluster.delete(PODS, meta["namespace"], meta["name"], uid=meta["uid"], grace_seconds=0)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def _again(self, old: Raw) -> None:
        meta = old["metadata"]
        base = meta.get("labels", {}).get("kai.scheduler/subgroup-name") or meta["name"]
        spec = {name: value for name, value in copy.deepcopy(old["spec"]).items() if name != "nodeName"}
        kept = {name: meta[name] for name in ("labels", "annotations") if name in meta}
        if FAIL in kept.get("annotations", {}):  # that was about the one before it
            kept["annotations"] = {name: value for name, value in kept["annotations"].items() if name != FAIL}
        fresh = {"name": f"{base}-r{next(self._numbers)}", "namespace": meta["namespace"], **kept}
        try:
            await self.cluster.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": fresh, "spec": spec})
        except ApiError as error:
            if error.status not in (403, 404, 409):  # nobody wants it any more where its namespace is gone or goes
                raise


def _key(pod: Raw) -> tuple[str, str]:
    return pod["metadata"].get("namespace", ""), pod["metadata"]["name"]

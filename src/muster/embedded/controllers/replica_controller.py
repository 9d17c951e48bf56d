"""A minimal workload controller: recreates pods that failed or were deleted, as a Deployment or an operator would."""

import copy
from collections.abc import Iterable
from itertools import count

from muster.api.resources import PODS
from muster.embedded.kubelet.pod_lifecycle import FAIL
from muster.kube.cache.reflector import ObjectDeleted, ObjectUpdated, Reflector
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError


class ReplicaController:
    """Replaces failed and deleted pods of some namespaces by new ones under new names."""

    def __init__(self, cluster: Cluster, namespaces: Iterable[str]) -> None:
        self.cluster, self.namespaces = cluster, frozenset(namespaces)
        self._numbers = count(1)
        self._pods: dict[tuple[str, str], Raw] = {}

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async for event in Reflector(self.cluster, PODS).events():
            match event:
                case ObjectUpdated(object=pod) if pod["metadata"].get("namespace") in self.namespaces:
                    self._pods[_key(pod)] = pod
                    if pod.get("status", {}).get("phase") == "Failed":
                        await self._delete(pod)
                case ObjectDeleted(object=pod) if _key(pod) in self._pods:
                    await self._recreate(self._pods.pop(_key(pod)))

    async def _delete(self, pod: Raw) -> None:
        metadata = pod["metadata"]
        try:
            await self.cluster.delete(
                PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"], grace_seconds=0
            )
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def _recreate(self, old: Raw) -> None:
        metadata = old["metadata"]
        base = metadata.get("labels", {}).get("kai.scheduler/subgroup-name") or metadata["name"]
        spec = {name: value for name, value in copy.deepcopy(old["spec"]).items() if name != "nodeName"}
        new_metadata = {
            "name": f"{base}-r{next(self._numbers)}",
            "namespace": metadata["namespace"],
            **{name: metadata[name] for name in ("labels", "annotations") if name in metadata},
        }
        if FAIL in new_metadata.get("annotations", {}):  # only the old pod was to fail
            annotations = new_metadata["annotations"]
            new_metadata["annotations"] = {name: value for name, value in annotations.items() if name != FAIL}
        try:
            await self.cluster.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": new_metadata, "spec": spec})
        except ApiError as error:
            if error.status not in (403, 404, 409):  # 403, 404: its namespace is terminating or gone
                raise


def _key(pod: Raw) -> tuple[str, str]:
    return pod["metadata"].get("namespace", ""), pod["metadata"]["name"]

"""Children whose owner is gone: frees those that a finalizer of its controller keeps, and deletes late ones.

A controller may create a child while its owner is being deleted; the garbage collector of the embedded cluster does not
look again. Rule 1: the API server is asked before anything is written; the cache may lag. Rule 2: a child is deleted
only where its owner was seen and is gone: pods of a snapshot run on without owners that were not captured. Rule 3: only
the leader writes, in the term in which it began (I9).
"""

from collections.abc import Callable, Mapping

from muster.api.resources import Resource
from muster.kube.cluster import Cluster, Raw
from muster.kube.controller.action_writer import FIELD_MANAGER, WRITE_SECONDS
from muster.kube.controller.object_cache import ObjectCache, controller_uid
from muster.kube.errors import ApiError
from muster.kube.leadership import AlwaysLeading, Leadership, leads_in, within_leadership
from muster.workloads.types import Controller, Key

LATE_SECONDS = 2.0  # before a child is deleted: the garbage collector has most of them by then


class OrphanCollector:
    """Finds and collects orphans of these controllers. `has_synced`: whether a kind was listed."""

    def __init__(
        self,
        cluster: Cluster,
        cache: ObjectCache,
        controllers: Mapping[Resource, Controller],
        has_synced: Callable[[Resource], bool],
        leadership: Leadership | None = None,
    ) -> None:
        self._cluster, self._cache, self._has_synced = cluster, cache, has_synced
        self._leadership: Leadership = leadership or AlwaysLeading()
        self._controllers = {
            (resource.api_version, resource.kind): controller for resource, controller in controllers.items()
        }

    def is_orphan(self, raw: Raw) -> bool:
        """Whether an object has a controller of ours that the cache does not have, and something is to be done."""
        controller, uid = self._controller(raw), controller_uid(raw)
        if controller is None or self._cache.find(uid) is not None or not self._has_synced(controller.resource):
            return False
        return self._patch(controller, raw) is not None or self._is_late(raw)

    def wait_seconds(self, raw: Raw) -> float:
        """How long to wait before an orphan is collected."""
        controller = self._controller(raw)
        return 0.0 if controller is not None and self._patch(controller, raw) is not None else LATE_SECONDS

    async def collect(self, key: Key) -> bool:
        """Whether nothing is left to do about an orphan."""
        term = self._leadership.term
        try:
            await self._collect(key, await self._cluster.get(*key), term)
        except ApiError as error:
            return error.status == 404
        return True

    async def _collect(self, key: Key, raw: Raw, term: int) -> None:
        controller = self._controller(raw)
        if controller is None or not await self._is_owner_gone(controller.resource, raw):
            return
        if (patch := self._patch(controller, raw)) is not None and leads_in(self._leadership, term):
            with within_leadership(self._leadership, WRITE_SECONDS):
                self._cache.updated(key[0], await self._cluster.patch(*key, patch, field_manager=FIELD_MANAGER))
        if self._is_late(raw) and leads_in(self._leadership, term):
            with within_leadership(self._leadership, WRITE_SECONDS):
                await self._cluster.delete(*key, uid=raw["metadata"]["uid"])

    def _controller(self, raw: Raw) -> Controller | None:
        reference = controller_reference_of(raw)
        return self._controllers.get((reference.get("apiVersion", ""), reference.get("kind", "")))

    def _patch(self, controller: Controller, raw: Raw) -> Raw | None:
        return controller.release(raw) if controller.release is not None else None

    def _is_late(self, raw: Raw) -> bool:
        return not raw["metadata"].get("deletionTimestamp") and self._cache.was_deleted(controller_uid(raw))

    async def _is_owner_gone(self, resource: Resource, raw: Raw) -> bool:
        reference = controller_reference_of(raw)
        try:
            owner = await self._cluster.get(resource, raw["metadata"].get("namespace", ""), reference.get("name", ""))
        except ApiError as error:
            if error.status != 404:
                raise
            return True
        return bool(owner["metadata"].get("uid") != reference.get("uid"))


def controller_reference_of(raw: Raw) -> Raw:
    """The reference to the controller of an object; empty: it has none."""
    references = raw["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), {})

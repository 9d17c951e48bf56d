"""Orphans are freed by the leader only, and in the term in which it began (I9)."""

import math
import time

import pytest

from muster.api.resources import JOBS, PODS, Resource
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cluster import Raw
from muster.kube.controller.object_cache import ObjectCache
from muster.kube.controller.orphan_collector import OrphanCollector
from muster.workloads.table import CONTROLLERS

FINALIZER = "batch.kubernetes.io/job-tracking"
KEY = (PODS, "default", "p")


class Lease:
    """Leadership that a test takes."""

    leading, term, seconds_left = True, 1, math.inf


class LosingCluster(MemoryCluster):
    """The lease changes with the first answer: before anything is written."""

    def __init__(self, lease: Lease, leads: bool, term: int) -> None:
        super().__init__()
        self._lease, self._next = lease, (leads, term)

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        self._lease.leading, self._lease.term = self._next
        return await super().get(resource, namespace, name)


async def finalizers(leads: bool, term: int) -> list[str]:
    """Those of a pod whose Job is gone, after it was collected; the lease changed meanwhile."""
    lease = Lease()
    cluster = LosingCluster(lease, leads, term)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "u", "controller": True}
    metadata = {"name": "p", "namespace": "default", "finalizers": [FINALIZER], "ownerReferences": [owner]}
    await cluster.create(PODS, {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "x"}]}})
    cache = ObjectCache(time.monotonic, lambda *_: None)
    cache.observe(PODS, cluster.store.get(*KEY))
    collector = OrphanCollector(cluster, cache, {JOBS: CONTROLLERS[JOBS]}, lambda _: True, lease)
    await collector.collect(KEY)
    return list(cluster.store.get(*KEY)["metadata"].get("finalizers", ()))


async def test_the_leader_frees_an_orphan() -> None:
    assert await finalizers(leads=True, term=1) == []


@pytest.mark.parametrize(("leads", "term"), [(False, 1), (True, 2)])
async def test_without_leadership_or_in_another_term_nothing_is_written(leads: bool, term: int) -> None:
    assert await finalizers(leads, term) == [FINALIZER]

"""The Clusters that the suite runs on: a table with one entry for each implementation."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from os import getpid

import pytest

from muster.api.resources import NAMESPACES
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster

_numbers = count()


@asynccontextmanager
async def memory(_: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    cluster = MemoryCluster()
    yield cluster
    await cluster.close()


@asynccontextmanager
async def kubernetes(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    cluster = connect(request.getfixturevalue("apiserver").kubeconfig)
    yield cluster
    await cluster.close()


Open = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Cluster]]
CLUSTERS: dict[str, Open] = {"memory": memory, "kubernetes": kubernetes}


@pytest.fixture(params=list(CLUSTERS))
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """A cluster with muster's CRDs. It may be shared: use `unique` for names that are not in a `namespace`."""
    async with CLUSTERS[request.param](request) as opened:
        yield opened


@pytest.fixture
def unique() -> str:
    """A name that no other test uses."""
    return f"t{getpid()}-{next(_numbers)}"


@pytest.fixture
async def namespace(cluster: Cluster, unique: str) -> str:
    """A namespace of this test's own."""
    await cluster.create(NAMESPACES, {"metadata": {"name": unique}})
    return unique

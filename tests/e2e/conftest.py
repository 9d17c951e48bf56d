"""Sites on every cluster. A table: one entry for each implementation."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from muster.embedded.memory_cluster import MemoryCluster
from muster.embedded.server import serve
from muster.kube import write_bursts
from muster.kube.cache import reflector
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster
from muster.scheduler.apply import pod_api
from tests.e2e.kubectl import KUBECTL, MISSING, Kubectl
from tests.e2e.site import Site, fresh
from tests.support.apiserver.apiserver import shared_server
from tests.support.apiserver.leftovers import Leftovers


@asynccontextmanager
async def embedded(_: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    yield MemoryCluster()


@asynccontextmanager
async def kubernetes(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    cluster = connect(request.getfixturevalue("apiserver").kubeconfig)
    yield cluster
    await cluster.close()


Open = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Cluster]]
CLUSTERS: dict[str, Open] = {"embedded": embedded, "kubernetes": kubernetes}


_leftovers: dict[str, Leftovers] = {}  # by the address of the API server


@pytest.fixture(autouse=True)
def without_leftovers() -> None:
    """Every test begins on an empty cluster, whatever earlier ones left on the API server that they share."""
    server = shared_server()
    if server is not None:
        _leftovers.setdefault(server.url, Leftovers(server)).delete()


@pytest.fixture(autouse=True)
def short_lulls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statuses follow at once: suites with a crash at every call wait for thousands of them."""
    monkeypatch.setattr(write_bursts, "LULL_SECONDS", 0.02)


@pytest.fixture(params=list(CLUSTERS))
async def site(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """A site on each cluster; every promise is judged at the end."""
    monkeypatch.setattr(reflector, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.002)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.05)
    async with CLUSTERS[request.param](request) as cluster, fresh(cluster).open() as opened:
        yield opened


@pytest.fixture
async def kubectl(site: Site, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kubectl]:
    """The real kubectl, at the door of the site's cluster."""
    if KUBECTL is None:
        pytest.skip(MISSING)
    if not isinstance(site.cluster, MemoryCluster):
        yield Kubectl(request.getfixturevalue("apiserver").kubeconfig, tmp_path)
        return
    async with serve(site.cluster) as serving:
        yield Kubectl(serving.kubeconfig, tmp_path)

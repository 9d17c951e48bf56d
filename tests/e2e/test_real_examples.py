"""The manifests of `examples/workloads` on a real API server: their pods are those that muster foretells from a file.

Real controllers make the pods of Kubernetes' own kinds, so this also holds muster's own controllers of those kinds to
them.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from muster.api import codec, names
from muster.api.resources import PODS, TOPOLOGIES
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.workloads.expansion import expand
from muster.workloads.operators.table import OPERATORS
from muster.workloads.table import CONTROLLERS
from tests.e2e.site import is_ready, until
from tests.e2e.workload_site import WorkloadSite, described, fresh, group_of
from tests.support.apiserver.controller_manager import ControllerManager

EXAMPLES = Path(__file__).parents[2] / "examples"
ON_SCHEDULE = ("CronJob",)  # makes no pods before its time


def documents(path: Path) -> list[Raw]:
    return [document.raw for document in codec.read(path.read_bytes(), path.name)]


def is_complete(raws: list[Raw]) -> bool:
    """Whether a file is all that a user submits, of a kind whose controller runs here."""
    kinds = {controller.resource.kind for controller in CONTROLLERS.values()}
    return len(raws) == 1 and raws[0]["kind"] in kinds and raws[0]["kind"] not in ON_SCHEDULE


FILES = [path for path in sorted((EXAMPLES / "workloads").glob("*.yaml")) if is_complete(documents(path))]


@pytest.fixture
async def site(controller_manager: ControllerManager) -> AsyncIterator[WorkloadSite]:
    cluster = connect(controller_manager.apiserver.kubeconfig)
    await _create_topology(cluster)
    async with fresh(cluster).open(OPERATORS) as opened:
        yield opened
    await cluster.close()


async def _create_topology(cluster: Cluster) -> None:
    (topology,) = documents(EXAMPLES / "cluster" / "datacenter-topology.yaml")
    with suppress(ApiError):  # it may be there
        await cluster.create(TOPOLOGIES, topology)


class PodHistory:
    """All pods of a site since it opened, as each was last seen; some finish and are deleted."""

    def __init__(self, site: WorkloadSite) -> None:
        self.site = site
        self.pods: dict[str, Raw] = {}
        self.started: set[str] = set()

    async def run(self) -> None:
        async with self.site.cluster.watch(PODS, "0", self.site.name) as changes:
            async for change in changes:
                if change.type in ("ADDED", "MODIFIED"):
                    self._put(change.object)

    def _put(self, pod: Raw) -> None:
        uid = pod["metadata"]["uid"]
        self.pods[uid] = pod
        if is_ready(pod) or pod["status"]["phase"] == "Succeeded":
            self.started.add(uid)


def shape(pod: Raw) -> tuple[tuple[str, ...], ...]:
    """What does not differ from run to run: names of labels, annotations and containers, and kinds of owners."""
    meta = pod["metadata"]
    labels = set(meta.get("labels") or ()) - {names.SUBGROUP}
    annotations = set(meta.get("annotations") or ()) - {names.POD_GROUP, names.GROUPED_BY}
    owners = [owner["kind"] for owner in meta.get("ownerReferences") or ()]
    containers = [container["name"] for container in pod["spec"]["containers"]]
    return tuple(sorted(labels)), tuple(sorted(annotations)), tuple(owners), tuple(containers)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_an_example_gets_the_pods_that_muster_foretells(site: WorkloadSite, path: Path) -> None:
    for rack in ("r1", "r2", "r3"):
        await site.add_nodes(2, labels={"topology/zone": "z1", "topology/block": "b1", "topology/rack": rack})
    (manifest,) = documents(path)
    expected = [made.pod for made in expand([manifest])]
    history = PodHistory(site)
    watch = asyncio.create_task(history.run())
    owner = await site.submit(manifest)

    async def all_started() -> bool:
        return len(history.started) == len(expected)

    try:
        await until(all_started)
    except AssertionError:
        raise AssertionError(described(await site.seen())) from None
    finally:
        watch.cancel()
    assert Counter(map(shape, history.pods.values())) == Counter(map(shape, expected))
    assert all(map(group_of, history.pods.values()))
    await site.remove(owner)
    await site.until_empty()

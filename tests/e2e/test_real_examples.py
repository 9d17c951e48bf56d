"""The manifests of `examples/workloads` on a real API server: their pods are those that muster foretells from a file.

Real controllers make the pods of Kubernetes' own kinds, so this also holds muster's own controllers of those kinds to
them.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import muster
from muster.api import codec, names
from muster.api.decoding import decode
from muster.api.podgroup import PodGroup, PodGroupSpec
from muster.api.resources import POD_GROUPS, PODS, TOPOLOGIES, Resource
from muster.grouping.manifests.group_objects import group_objects
from muster.kube.client.client import connect
from muster.kube.cluster import Raw
from muster.workloads.expansion import expand
from muster.workloads.operators.table import OPERATORS
from muster.workloads.table import CONTROLLERS
from tests.e2e.site import ended, is_ready
from tests.e2e.workload_site import WorkloadSite, fresh, group_of, leaf_of, present
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
    (topology,) = documents(EXAMPLES / "cluster" / "datacenter-topology.yaml")
    async with present(cluster, TOPOLOGIES, topology), fresh(cluster).open(OPERATORS) as opened:
        yield opened
    await cluster.close()


class SiteHistory:
    """All pods and PodGroups of a site since it opened, as each was last seen: some finish and are deleted."""

    def __init__(self, site: WorkloadSite) -> None:
        self.site = site
        self.pods: dict[str, Raw] = {}
        self.groups: dict[str, Raw] = {}
        self.started: set[str] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["SiteHistory"]:
        """While the block runs."""
        watches = [asyncio.create_task(self._watch(*each)) for each in ((PODS, self.pods), (POD_GROUPS, self.groups))]
        try:
            yield self
        finally:
            await ended(watches)

    async def _watch(self, resource: Resource, objects: dict[str, Raw]) -> None:
        async with self.site.cluster.watch(resource, "0", self.site.name) as changes:
            async for change in changes:
                if change.type in ("ADDED", "MODIFIED"):
                    objects[change.object["metadata"]["name"]] = change.object
                    self.started |= {name for name, pod in self.pods.items() if has_started(pod)}

    def trees(self) -> Counter[bytes]:
        """What the PodGroups say, and how many pods each leaf has."""
        return Counter(
            encoded(decode(raw, PodGroup)[0].spec, Counter(leaf_of(pod) for pod in self._members(name)))
            for name, raw in self.groups.items()
        )

    def _members(self, group: str) -> list[Raw]:
        return [pod for pod in self.pods.values() if group_of(pod) == group]


def has_started(pod: Raw) -> bool:
    return is_ready(pod) or pod["status"]["phase"] == "Succeeded"


def encoded(spec: PodGroupSpec, pods: Mapping[str, int]) -> bytes:
    return msgspec.json.encode([spec, pods], order="sorted")


def foretold_trees(manifest: Raw) -> Counter[bytes]:
    """What `muster group` says of the manifest."""
    gangs = group_objects(muster.objects([manifest])).gangs
    return Counter(encoded(gang.pod_group.spec, gang.pods) for gang in gangs)


def outline(pod: Raw) -> tuple[tuple[str, ...], ...]:
    """What does not differ from run to run: names of labels, annotations and containers, and kinds of owners."""
    meta = pod["metadata"]
    labels = set(meta.get("labels") or ()) - {names.SUBGROUP}
    annotations = set(meta.get("annotations") or ()) - {names.POD_GROUP, names.GROUPED_BY}
    owners = [owner["kind"] for owner in meta.get("ownerReferences") or ()]
    containers = [container["name"] for container in pod["spec"]["containers"]]
    return tuple(sorted(labels)), tuple(sorted(annotations)), tuple(owners), tuple(containers)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_an_example_gets_what_muster_foretells(site: WorkloadSite, path: Path) -> None:
    """Pods by what their controllers write on them, PodGroups by their trees."""
    for rack in ("r1", "r2", "r3"):
        await site.add_nodes(2, labels={"topology/zone": "z1", "topology/block": "b1", "topology/rack": rack})
    (manifest,) = documents(path)
    pods = [made.pod for made in expand([manifest])]
    async with SiteHistory(site).open() as history:
        owner = await site.submit(manifest)
        await site.until(lambda _: len(history.started) == len(pods))
    assert Counter(map(outline, history.pods.values())) == Counter(map(outline, pods))
    assert history.trees() == foretold_trees(manifest)
    await site.remove(owner)
    await site.until_empty()

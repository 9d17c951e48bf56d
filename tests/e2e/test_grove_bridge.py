"""PodGangs of another operator on a real scheduler: muster makes PodGroups and writes status, and nothing else."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from muster.api import names
from muster.api.resources import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, POD_GROUPS, PODS, Resource
from muster.config.settings import GroveOperator
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cluster import Raw
from tests.e2e.grove_site import GroveSite, clique, fresh, pod_clique_set


@pytest.fixture
async def site() -> AsyncIterator[GroveSite]:
    site = fresh(MemoryCluster())
    site.config = replace(site.config, grove=GroveOperator(mode="bridge"))
    async with site.open() as opened:
        yield opened


class OtherOperator:
    """Makes what Grove's operator makes for a set `w` with one clique `a`, in its order."""

    def __init__(self, site: GroveSite) -> None:
        self.site = site
        self.labels = {names.MANAGED_BY: names.GROVE_OPERATOR, names.PART_OF: "w", names.POD_GANG: "w-0"}

    async def make(self, pods: int, minimum: int, scheduler: str = "") -> None:
        pcs = await self.site.submit(pod_clique_set("w", [clique("a", pods, minimum)]))
        template = pcs["spec"]["template"]["cliques"][0]["spec"]
        pod_spec = template["podSpec"] | ({"schedulerName": scheduler} if scheduler else {})
        own = {**template, "podSpec": pod_spec, "minAvailable": minimum}
        made = await self._create(POD_CLIQUES, "w-0-a", pcs, spec=own)
        podgroup = {"name": "w-0-a", "podReferences": [], "minReplicas": minimum}
        await self._create(POD_GANGS, "w-0", pcs, spec={"podgroups": [podgroup]})
        gated = {**pod_spec, "schedulingGates": [{"name": names.GANG_GATE}]}
        names_made = [f"w-0-a-{number}" for number in range(pods)]
        for name in names_made:
            await self._create(PODS, name, made, spec=gated)
        references = [{"namespace": self.site.name, "name": name} for name in names_made]
        await self._patch(POD_GANGS, "w-0", {"spec": {"podgroups": [{**podgroup, "podReferences": references}]}})
        for name in names_made:
            await self._patch(PODS, name, {"spec": {"schedulingGates": None}})

    async def _create(self, resource: Resource, name: str, owner: Raw, **fields: Any) -> Raw:
        meta = owner["metadata"]
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
        metadata: Raw = {"name": name, "namespace": self.site.name, "labels": self.labels}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        return await self.site.cluster.create(resource, {**kind, "metadata": metadata, **fields})

    async def _patch(self, resource: Resource, name: str, patch: Raw) -> None:
        await self.site.cluster.patch(resource, self.site.name, name, patch)


async def test_a_gang_of_another_operator_starts_whole_and_its_status_is_written(site: GroveSite) -> None:
    """Three pods, two nodes: none runs; with the third, all do."""
    await site.add_nodes(2)
    await OtherOperator(site).make(pods=3, minimum=3)
    await site.until(lambda seen: seen.gang_condition("w-0").get("reason") == "NoRoom")
    await site.until_counts(0, 3)
    await site.add_nodes(1)
    await site.until_counts(3, 0)
    seen = await site.until(lambda seen: seen[POD_GANGS]["w-0"]["status"].get("phase") == "Running")
    assert {*seen[POD_GROUPS]} == {"w-0"}, "no other grouper made one"
    status = seen[POD_GANGS]["w-0"]["status"]
    assert {one["type"]: one["status"] for one in status["conditions"]}["Scheduled"] == "True"
    assert {*seen[POD_CLIQUES]} == {"w-0-a"}, "nothing is made of the set"
    assert "status" not in seen[POD_CLIQUE_SETS]["w"]


async def test_a_gang_of_another_scheduler_is_left_alone(site: GroveSite) -> None:
    await site.add_nodes(1)
    await OtherOperator(site).make(pods=1, minimum=1, scheduler="default-scheduler")
    seen = await site.until_counts(0, 1)
    assert not seen[POD_GROUPS]
    assert "status" not in seen[POD_GANGS]["w-0"]
    assert names.POD_GROUP not in seen.pods[0]["metadata"].get("annotations", {})

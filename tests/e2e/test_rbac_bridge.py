"""muster beside another operator of Grove, with exactly the rights that the chart gives it for that."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from muster.api.resources import NAMESPACES, NODES, POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, POD_GROUPS, PODS, QUEUES
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from tests.e2e.grove_site import GroveSite
from tests.e2e.installed import free_port, gone, put
from tests.e2e.muster_process import configuration, installed, kubeconfig, muster_run, resource_of, token
from tests.e2e.test_grove_bridge import OtherOperator
from tests.e2e.test_rbac import Call, audited, used
from tests.e2e.workload_site import DEFAULT_QUEUE, present
from tests.support.apiserver.apiserver import ApiServer
from tests.unit.test_deploy import rights_with, template, values

SPACE = "rbac-bridge"
BRIDGE = {"config.grove.mode": "bridge"}


@pytest.fixture
async def site(apiserver: ApiServer) -> AsyncIterator[GroveSite]:
    admin = connect(apiserver.kubeconfig)
    site = GroveSite(admin, SPACE)
    await put(admin, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    await site.add_nodes(3)
    async with present(admin, QUEUES, DEFAULT_QUEUE):
        yield site
        for kind in (POD_GANGS, POD_GROUPS, POD_CLIQUES, POD_CLIQUE_SETS, PODS):
            for raw in (await admin.list(kind, SPACE)).items:
                await gone(admin, kind, SPACE, raw["metadata"]["name"])
    for name in site.nodes:
        await gone(admin, NODES, "", name)
    await admin.close()


async def restrict(admin: Cluster) -> None:
    """The ClusterRole of the mode."""
    roles = [raw for raw in yaml.safe_load_all(template("rbac.yaml", values(**BRIDGE))) if raw["kind"] == "ClusterRole"]
    await put(admin, resource_of(roles[0]), roles[0])


def bridging(port: int) -> str:
    settings: Raw = yaml.safe_load(configuration(port, SPACE))
    settings["grove"]["mode"] = "bridge"
    return yaml.safe_dump(settings)


async def test_beside_another_operator_muster_uses_the_rights_of_the_bridge(
    apiserver: ApiServer, site: GroveSite, tmp_path: Path
) -> None:
    """A gang of that operator is bound, and its PodGroup goes with it: no 403, and no right left over."""
    port = free_port()
    async with installed(site.cluster, port, without="70-grove-webhook"):
        await restrict(site.cluster)
        access, since = kubeconfig(apiserver, await token(apiserver)), apiserver.audit.stat().st_size
        async with muster_run(tmp_path, bridging(port), access) as log:
            await OtherOperator(site).make(3, 2, SPACE)
            await site.until(lambda seen: seen.gang_condition("w-0")["status"] == "True")
            await site.until(lambda seen: all(raw["spec"].get("nodeName") for raw in seen.pods))
            await site.delete(POD_GANGS, "w-0")
            await site.until(lambda seen: not seen[POD_GROUPS])
        calls = audited(apiserver, since)
    assert {call for call, code in calls if code in (401, 403)} == set()
    assert "watch is lost" not in log.read_text(encoding="utf-8")
    more = rights_with(**BRIDGE) - rights_with(**{"config.grove.enabled": False})
    own = {Call(group, resource, verb) for group, resource, verb, _ in more}
    assert {right for right in own if not used(right, [call for call, _ in calls])} == set()

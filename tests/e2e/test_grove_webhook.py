"""PodCliqueSets as a real API server asks the webhook about them: stored with defaults, or refused."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from muster.api.resources import NAMESPACES, POD_CLIQUE_SETS
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from tests.e2e.installed import ask, free_port, gone, put, registered, until
from tests.e2e.test_webhook import SETTINGS, running
from tests.support.apiserver.apiserver import ApiServer
from tests.support.grove import clique, group, pod_clique_set

PATH = "/apis/grove.io/v1alpha1/namespaces/grove-webhook/podcliquesets"


def a_set(*cliques: Raw, **template: Any) -> Raw:
    return pod_clique_set(*cliques, replicas=0, metadata={"namespace": "grove-webhook"}, **template)


INVALID = a_set(clique("a"), clique("b", spec={"roleName": "a"}))


@pytest.fixture
async def cluster(apiserver: ApiServer) -> AsyncIterator[Cluster]:
    client = connect(apiserver.kubeconfig)
    await put(client, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "grove-webhook"}})
    await gone(client, POD_CLIQUE_SETS, "grove-webhook", "w")
    yield client
    await gone(client, POD_CLIQUE_SETS, "grove-webhook", "w")
    await client.close()


async def until_reviewed(apiserver: ApiServer) -> None:
    """Until the API server calls this webhook, and trusts it."""

    async def is_denied() -> bool:
        return "denied the request" in (await ask(apiserver, "POST", f"{PATH}?dryRun=All", INVALID)).message

    await until(is_denied)


async def test_a_set_is_stored_with_its_defaults_and_refused_with_every_problem(
    apiserver: ApiServer, cluster: Cluster
) -> None:
    """What a gang needs is stored when it is created; what no CRD can say is refused with path and hint."""
    settings = replace(SETTINGS, port=free_port())
    async with registered(cluster, settings.port), running(cluster, settings):
        await until_reviewed(apiserver)
        refused = await ask(apiserver, "POST", PATH, INVALID)
        made = await ask(
            apiserver, "POST", PATH, a_set(clique("a", 3), clique("b"), groups=[group("g", "b", replicas=2)])
        )
        more = await ask(
            apiserver,
            "PATCH",
            f"{PATH}/w",
            {"spec": {"template": {"cliques": [clique("a", 5), clique("b")]}}},
            "application/merge-patch+json",
        )
        renamed = await ask(
            apiserver,
            "PATCH",
            f"{PATH}/w",
            {"spec": {"template": {"cliques": [clique("a", 5), clique("c")]}}},
            "application/merge-patch+json",
        )
    assert refused.status == 422
    assert "spec.template.cliques[1].spec.roleName" in refused.message
    assert "hint: each clique has a role of its own" in refused.message
    assert made.status == 201, made.message
    template = made.json["spec"]["template"]
    assert template["cliques"][0]["spec"]["minAvailable"] == 3
    assert template["terminationDelay"] == "4h0m0s"
    assert more.status == 200, more.message
    assert more.json["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] == 3, "the minimum stays"
    assert renamed.status == 422
    assert "clique `c` cannot be added" in renamed.message

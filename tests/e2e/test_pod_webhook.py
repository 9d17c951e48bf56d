"""The webhook for pods as a real API server asks it: registered by our manifests, served by `muster run`."""

import asyncio
import re
import urllib.request
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
import yaml

from muster.api import names
from muster.api.resources import JOBS, NAMESPACES, POD_GROUPS, PODS
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.webhook.process.reporter import REPORT_SECONDS
from tests.e2e.installed import Response, ask, free_port, gone, put, until
from tests.e2e.muster_process import configuration, installed, kubeconfig, muster_run, token
from tests.support.apiserver.apiserver import ApiServer
from tests.support.factories import pod

SPACE, SYSTEM = "pod-webhook", "kube-system"
SCHEDULER = "muster"  # as the manifest of the webhook has it
numbers = count()


@pytest.fixture
async def cluster(apiserver: ApiServer) -> AsyncIterator[Cluster]:
    client = connect(apiserver.kubeconfig)
    await put(client, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    yield client
    await gone(client, JOBS, SPACE, "work")
    for space in (SPACE, SYSTEM):
        for resource in (PODS, POD_GROUPS):
            for raw in (await client.list(resource, space)).items:
                await gone(client, resource, space, raw["metadata"]["name"])
    await client.close()


def new_pod(*, scheduler: str = SCHEDULER, namespace: str = SPACE, **meta: Raw | list[Raw]) -> Raw:
    """Of a name of its own, without a group."""
    raw = pod(f"p{next(numbers)}", gang="", namespace=namespace, scheduler=scheduler, image="none")
    raw["metadata"].pop("annotations", None)
    raw["metadata"] |= meta
    return raw


async def created(apiserver: ApiServer, raw: Raw) -> Raw:
    """The annotations and labels that a pod has from its first moment: the answer to its creation."""
    reply: Response = await ask(apiserver, "POST", f"/api/v1/namespaces/{raw['metadata']['namespace']}/pods", raw)
    assert reply.status == 201, reply.message
    return {**(reply.json["metadata"].get("annotations") or {}), **(reply.json["metadata"].get("labels") or {})}


async def reviewed(settings: str) -> float:
    """How many pods the webhook was sent."""
    port = yaml.safe_load(settings)["observability"]["port"]

    def read() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    counters = re.findall(
        r'^muster_webhook_requests_total\{path="/group",.*\} (\S+)$', await asyncio.to_thread(read), re.MULTILINE
    )
    return sum(map(float, counters))


async def has_reviews(settings: str) -> bool:
    """Whether the webhook's process has reported its first reviews; those of one wave come together."""
    return await reviewed(settings) > 0


async def test_pods_are_grouped_while_they_are_created(apiserver: ApiServer, cluster: Cluster, tmp_path: Path) -> None:
    """Those of muster that need it and no others are sent; without an answer pods are created as they are."""
    port = free_port()
    settings = configuration(port, SCHEDULER)
    template = {"spec": {"containers": [{"name": "c", "image": "none"}], "restartPolicy": "Never"}}
    spec = {"suspend": True, "template": template}
    job = await cluster.create(JOBS, {"metadata": {"name": "work", "namespace": SPACE}, "spec": spec})
    owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": "work", "uid": job["metadata"]["uid"]}
    async with installed(cluster, port):
        async with muster_run(tmp_path, settings, kubeconfig(apiserver, await token(apiserver))):

            async def is_trusted() -> bool:
                return names.POD_GROUP in await created(apiserver, new_pod())

            await until(is_trusted)
            joined = await created(apiserver, new_pod(ownerReferences=[{**owner, "controller": True}]))
            assert joined[names.GROUPED_BY]

            async def has_group() -> bool:
                groups = (await cluster.list(POD_GROUPS, SPACE)).items
                return joined[names.POD_GROUP] in [raw["metadata"]["name"] for raw in groups]

            await until(has_group)
            await until(lambda: has_reviews(settings))
            await asyncio.sleep(2 * REPORT_SECONDS)
            before = await reviewed(settings)
            for raw in (
                new_pod(scheduler="default-scheduler"),
                new_pod(namespace=SYSTEM),
                new_pod(annotations={names.POD_GROUP: "mine"}),
                new_pod(annotations={names.SKIP_GROUPING: "true"}),
                new_pod(labels={names.SKIP_GROUPING: "true"}),
            ):
                assert names.GROUPED_BY not in await created(apiserver, raw)
            await asyncio.sleep(2 * REPORT_SECONDS)  # by then the webhook's process has reported what it was sent
            assert await reviewed(settings) == before > 0
        assert names.POD_GROUP not in await created(apiserver, new_pod())

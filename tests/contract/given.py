"""Objects and helpers that the contract tests share."""

from asyncio import timeout
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from muster.api.resources import POD_GROUPS, PODS, Resource
from muster.kube.cluster import Change, Cluster, Raw
from muster.kube.errors import ApiError
from tests.support.factories import pod


def config_map(namespace: str, name: str, labels: dict[str, str] | None = None, **data: str) -> Raw:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, "data": data}


def plain_pod(namespace: str, name: str, labels: dict[str, str] | None = None, **spec: Any) -> Raw:
    """A pod outside any gang; keyword arguments are fields of its spec."""
    raw = pod(name, gang="", namespace=namespace, image="registry.example/main:1", labels=labels or {})
    raw["spec"] |= spec
    return raw


def pod_group(namespace: str, name: str, **spec: Any) -> Raw:
    return {**kind_of(POD_GROUPS), "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def kind_of(resource: Resource) -> Raw:
    """apiVersion and kind, which objects of custom kinds must have."""
    return {"apiVersion": resource.api_version, "kind": resource.kind}


async def api_error_of(call: Awaitable[Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await call
    return caught.value


async def next_change(changes: AsyncIterator[Change]) -> Change:
    """The next change that is not a bookmark."""
    async with timeout(10):
        while (change := await anext(changes)).type == "BOOKMARK":
            pass
        return change


async def running(cluster: Cluster, namespace: str, name: str, labels: dict[str, str]) -> Raw:
    """A pod that is bound, Running and Ready."""
    made = await cluster.create(PODS, plain_pod(namespace, name, labels))
    await cluster.bind(namespace, name, made["metadata"]["uid"], "somewhere")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return await cluster.patch(PODS, namespace, name, {"status": status}, subresource="status")

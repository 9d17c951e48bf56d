"""The client against a real API server: what only that can prove. The rest is in `tests/contract`."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from muster.api.resources import BUDGETS, CONFIG_MAPS, NAMESPACES, NODES, POD_GROUPS, PODS
from muster.kube.cache.reflector import ListCompleted, ObjectDeleted, ObjectUpdated, Reflector, ReflectorHealth
from muster.kube.client.client import Kubernetes, connect
from muster.kube.client.http import Limits
from muster.kube.errors import ApiError
from tests.support.apiserver.apiserver import ADMIN, ApiServer, apiserver
from tests.support.factories import pod

__all__ = ["apiserver"]  # the fixture

_count = itertools.count(1)


@pytest_asyncio.fixture
async def kubernetes(apiserver: ApiServer) -> AsyncIterator[Kubernetes]:
    client = connect(apiserver.kubeconfig)
    yield client
    await client.close()


@pytest_asyncio.fixture
async def namespace(kubernetes: Kubernetes) -> str:
    made = await kubernetes.create(NAMESPACES, {"metadata": {"generateName": f"live-{next(_count)}-"}})
    return str(made["metadata"]["name"])


def short_lived_pod(namespace: str, name: str, **labels: str) -> dict[str, Any]:
    """A pod that the API server deletes without a grace period."""
    raw = pod(name, gang="", namespace=namespace, image="none", labels=labels)
    raw["spec"]["terminationGracePeriodSeconds"] = 0
    return raw


def config(namespace: str, name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}, "data": data}


@pytest.mark.parametrize("context", ["certificate", "token"])
async def test_both_ways_to_be_known(apiserver: ApiServer, context: str) -> None:
    client = connect(apiserver.kubeconfig, context)
    assert (await client.get(NAMESPACES, "", "default"))["kind"] == "Namespace"
    await client.close()


async def test_a_client_without_rights_gets_a_clear_error(apiserver: ApiServer) -> None:
    client = connect(apiserver.kubeconfig, "nobody")
    for call in (client.list(PODS), client.get(PODS, "default", "x")):
        with pytest.raises(ApiError) as caught:
            await call
        assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
    with pytest.raises(ApiError) as caught:
        async with client.watch(PODS, "1"):
            pass
    assert caught.value.status == 403
    await client.close()


async def test_a_client_without_identity_gets_a_clear_error(apiserver: ApiServer, tmp_path: Path) -> None:
    client = connect(_other(apiserver, tmp_path, {"token": "wrong-token"}))
    with pytest.raises(ApiError) as caught:
        await client.list(PODS)
    assert (caught.value.status, caught.value.reason) == (401, "Unauthorized")
    assert "wrong-token" not in str(caught.value)
    await client.close()


async def test_a_token_file_that_changes_is_read_again(apiserver: ApiServer, tmp_path: Path) -> None:
    """A 401 is enough; the client does not wait for the minute to pass."""
    (tmp_path / "token").write_text("wrong")
    client = connect(_other(apiserver, tmp_path, {"tokenFile": str(tmp_path / "token")}))
    credentials = client._http._credentials
    with pytest.raises(ApiError):
        await client.list(NODES)
    (tmp_path / "token").write_text(f"{ADMIN}\n")
    credentials._loaded_at -= 10.0
    await client.list(NODES)
    await client.close()


async def test_a_server_that_another_ca_signed_is_not_trusted(apiserver: ApiServer, tmp_path: Path) -> None:
    from tests.support.apiserver.envtest_certificates import certificates

    certificates(tmp_path)
    path = _other(apiserver, tmp_path, {"token": ADMIN}, **{"certificate-authority": str(tmp_path / "ca.crt")})
    client = connect(path, limits=Limits(attempts=1))
    with pytest.raises(ApiError, match="not trusted"):
        await client.list(NODES)
    await client.close()


def _other(apiserver: ApiServer, folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    raw = yaml.safe_load(apiserver.kubeconfig.read_text())
    raw["clusters"][0]["cluster"] |= {"certificate-authority": str(apiserver.folder / "ca.crt"), **cluster}
    raw["users"], raw["current-context"] = [{"name": "token", "user": user}], "token"
    (folder / "kubeconfig").write_text(yaml.safe_dump(raw))
    return folder / "kubeconfig"


async def test_pages(kubernetes: Kubernetes, namespace: str) -> None:
    await asyncio.gather(*(kubernetes.create(CONFIG_MAPS, config(namespace, f"c{nth}")) for nth in range(7)))
    first = await kubernetes.list(CONFIG_MAPS, namespace, limit=3)
    second = await kubernetes.list(CONFIG_MAPS, namespace, limit=3, after=first.more)
    names = [raw["metadata"]["name"] for raw in (*first.items, *second.items)]
    assert names == [f"c{nth}" for nth in range(6)]
    assert first.resource_version == second.resource_version
    assert {(raw["apiVersion"], raw["kind"]) for raw in first.items} == {("v1", "ConfigMap")}


async def test_server_side_apply_and_its_conflicts(kubernetes: Kubernetes, namespace: str) -> None:
    kind: Any = "application/apply-patch+yaml"
    mine = config(namespace, "shared", x="1")
    assert (await kubernetes.patch(CONFIG_MAPS, namespace, "shared", mine, kind, field_manager="one"))["data"] == {
        "x": "1"
    }
    theirs = config(namespace, "shared", x="2")
    with pytest.raises(ApiError) as caught:
        await kubernetes.patch(CONFIG_MAPS, namespace, "shared", theirs, kind, field_manager="two")
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    forced = await kubernetes.patch(CONFIG_MAPS, namespace, "shared", theirs, kind, field_manager="two", force=True)
    assert forced["data"] == {"x": "2"}


async def test_our_kinds_are_known_and_their_rules_hold(kubernetes: Kubernetes, namespace: str) -> None:
    gang = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": {"namespace": namespace, "name": "g"}}
    made = await kubernetes.create(POD_GROUPS, {**gang, "spec": {"minMember": 2}})
    status = await kubernetes.patch(POD_GROUPS, namespace, "g", {"status": {"phase": "Running"}}, subresource="status")
    assert status["metadata"]["generation"] == made["metadata"]["generation"]
    with pytest.raises(ApiError) as caught:
        await kubernetes.patch(POD_GROUPS, namespace, "g", {"spec": {"minMember": "many"}})
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")


async def test_bindings_carry_the_uid_and_happen_once(kubernetes: Kubernetes, namespace: str) -> None:
    made = await kubernetes.create(PODS, short_lived_pod(namespace, "p"))
    uid = made["metadata"]["uid"]
    with pytest.raises(ApiError) as caught:
        await kubernetes.bind(namespace, "p", "another", "n1")
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    await kubernetes.bind(namespace, "p", uid, "n1")
    assert (await kubernetes.get(PODS, namespace, "p"))["spec"]["nodeName"] == "n1"
    for node in ("n1", "n2"):
        with pytest.raises(ApiError) as caught:
            await kubernetes.bind(namespace, "p", uid, node)
        assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    with pytest.raises(ApiError) as caught:
        await kubernetes.bind(namespace, "nobody", uid, "n1")
    assert caught.value.status == 404


async def test_evictions_carry_the_uid_and_budgets_refuse_them(kubernetes: Kubernetes, namespace: str) -> None:
    made = await kubernetes.create(PODS, short_lived_pod(namespace, "p", app="x"))
    uid = made["metadata"]["uid"]
    await kubernetes.bind(namespace, "p", uid, "n1")
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await kubernetes.patch(PODS, namespace, "p", running, subresource="status")
    with pytest.raises(ApiError) as caught:
        await kubernetes.evict(namespace, "p", "another")
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    budget = await kubernetes.create(BUDGETS, {"metadata": {"namespace": namespace, "name": "b"}, "spec": spec})
    with pytest.raises(ApiError) as caught:
        await kubernetes.evict(namespace, "p", uid)
    assert (caught.value.status, caught.value.reason) == (429, "TooManyRequests")
    await kubernetes.delete(BUDGETS, namespace, "b", uid=budget["metadata"]["uid"])
    await kubernetes.evict(namespace, "p", uid)
    with pytest.raises(ApiError) as caught:
        await kubernetes.get(PODS, namespace, "p")
    assert caught.value.status == 404


async def test_a_watch_from_too_long_ago_is_expired(kubernetes: Kubernetes) -> None:
    """The server remembers PodGroups since their CRD was made, and no longer than that."""
    async with AsyncExitStack() as stack, asyncio.timeout(20):
        with pytest.raises(ApiError) as caught:
            await anext(await stack.enter_async_context(kubernetes.watch(POD_GROUPS, "1")))
    assert (caught.value.status, caught.value.reason) == (410, "Expired")


async def test_following_a_real_watch(kubernetes: Kubernetes, namespace: str) -> None:
    health = ReflectorHealth()
    await kubernetes.create(CONFIG_MAPS, config(namespace, "a"))
    news = Reflector(kubernetes, CONFIG_MAPS, namespace, health=health).events()
    first = await anext(news)
    assert isinstance(first, ObjectUpdated)
    assert isinstance(await anext(news), ListCompleted)
    assert health.is_ready
    await kubernetes.patch(CONFIG_MAPS, namespace, "a", {"data": {"x": "1"}})
    changed = await anext(news)
    assert isinstance(changed, ObjectUpdated)
    assert changed.object["data"] == {"x": "1"}
    await kubernetes.delete(CONFIG_MAPS, namespace, "a")
    gone = await anext(news)
    assert isinstance(gone, ObjectDeleted)
    assert gone.object["metadata"]["uid"] == first.object["metadata"]["uid"]
    await news.aclose()


async def test_a_watch_outlives_its_streams(
    kubernetes: Kubernetes, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server ends each after a second here; nothing is lost or repeated in between."""
    monkeypatch.setattr("muster.kube.client.watch.STREAM_SHARE", (0.01, 0.01))
    since = (await kubernetes.list(CONFIG_MAPS, namespace)).resource_version

    async def write() -> None:
        for nth in range(12):
            await kubernetes.create(CONFIG_MAPS, config(namespace, f"c{nth}"))
            await asyncio.sleep(0.25)

    writing = asyncio.create_task(write())
    names: list[str] = []
    async with kubernetes.watch(CONFIG_MAPS, since, namespace) as changes:
        async for change in changes:
            if change.type == "ADDED":
                names.append(change.object["metadata"]["name"])
            if len(names) == 12:
                break
    await writing
    assert names == [f"c{nth}" for nth in range(12)]

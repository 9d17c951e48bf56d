"""The process of `muster up`: it serves only while everything in it runs."""

import asyncio
from pathlib import Path

import click
import pytest
import uvicorn
from starlette.applications import Starlette

from muster.api.resources import POD_GROUPS, PODS, Resource
from muster.cli.assemble.embedded_cluster import ServedAt, open_embedded_cluster
from muster.cli.tasks import Loop, Task, start, supervise
from muster.config import loading
from muster.embedded import server
from muster.embedded.cluster_store import ClusterStore
from muster.errors import MusterError
from muster.observability.serving.asgi_server import AsgiServer
from tests.unit.grouping.manifests.manifest_examples import manifest, pod, reference


async def for_ever() -> None:
    await asyncio.Event().wait()


async def broken() -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_raise())


async def _raise() -> None:
    raise RuntimeError("no more")


async def short() -> None:
    await asyncio.sleep(0)


def start_loops(*names: str) -> list[Task]:
    loops: dict[str, Loop] = {"for ever": for_ever, "broken": broken, "short": short}
    return start({name: loops[name] for name in names})


async def test_it_lasts_until_the_work_is_done() -> None:
    loops = start_loops("for ever")
    async with asyncio.timeout(10):
        await supervise(loops, short(), for_ever())
    assert not any(loop.done() for loop in loops)
    loops[0].cancel()


@pytest.mark.parametrize(("name", "says"), [("broken", "RuntimeError: no more"), ("short", "it gave no reason")])
async def test_a_loop_that_ends_ends_everything(name: str, says: str) -> None:
    """Whatever else is still at work; the error names the loop and the first cause."""
    loops = start_loops("for ever", name)
    async with asyncio.timeout(10):
        with pytest.raises(MusterError, match=f"the {name} ended by itself.*{says}") as caught:
            await supervise(loops, for_ever())
    assert caught.value.exit_code == 2
    for loop in loops:
        loop.cancel()


async def test_an_error_in_the_work_is_raised_as_it_is() -> None:
    async def stopped() -> None:
        raise click.Abort

    loops = start_loops("for ever")
    with pytest.raises(click.Abort):
        await supervise(loops, stopped(), for_ever())
    loops[0].cancel()


def test_a_connection_lasts_longer_than_clients_pause() -> None:
    """`kubectl drain` asks again after 5 s on the same connection, others after 30; one that is cut then fails them."""
    assert AsgiServer(Starlette(), server.LIMITS).config.timeout_keep_alive > 60
    assert uvicorn.Config(Starlette()).timeout_keep_alive == 5, "which is why"


GADGETS = Resource("example.com", "v1", "gadgets", "Gadget")


async def test_kinds_of_the_configuration_are_grouped(tmp_path: Path) -> None:
    """A user tries a description in `muster up` before it is rolled out."""
    config = loading.read(
        b"grouping: {kinds: [{apiVersion: example.com/v1, kind: Gadget, resource: gadgets, replicas: .spec.size}]}", "c"
    )
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "gadgets", "kind": "Gadget"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    store = ClusterStore(custom=[crd])
    owner = store.create(GADGETS, manifest("Gadget", "example.com/v1", "storm", {"size": 3}), namespace="default")
    raw = pod("storm-0", reference("Gadget", "example.com/v1", "storm", owner["metadata"]["uid"]))
    del raw["metadata"]["uid"]
    raw["spec"]["containers"][0]["image"] = "app"
    store.create(PODS, raw, namespace="default")
    served_at = ServedAt("127.0.0.1", 0, tmp_path / "kubeconfig")
    async with open_embedded_cluster(store, served_at, config), asyncio.timeout(30):
        while not (groups := store.list(POD_GROUPS).items):
            await asyncio.sleep(0.01)
    assert groups[0]["spec"]["minMember"] == 3

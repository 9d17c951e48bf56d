"""`muster run` where Grove's CRDs are not installed: it is ready, asks rarely, says so once, and wakes with them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.request import urlopen

import msgspec
import pytest
import yaml

from muster.kube.client.client import connect
from muster.kube.cluster import Cluster
from muster.validation.crds import grove_crds, own_crds
from tests.e2e.installed import HOME, free_port, until
from tests.e2e.muster_process import configuration, installed, kubeconfig, muster_run, token
from tests.support.apiserver.apiserver import ApiServer, started
from tests.support.apiserver.envtest import HOW_TO_GET_THEM, find_programs

ACCOUNT = f"system:serviceaccount:{HOME}:muster"
QUIET_SECONDS = 6.0  # without CRDs
MOST_LISTS = 12  # of a kind in that time: each attempt waits longer than the last
PLURALS = {crd["spec"]["names"]["plural"] for crd in grove_crds()}


@pytest.fixture
def bare() -> Iterator[ApiServer]:
    """An API server of its own: CRDs that are deleted go when it likes."""
    programs = find_programs()
    if programs is None:
        pytest.skip(HOW_TO_GET_THEM)
    server = started(programs, definitions=own_crds())
    yield server
    server.stop()
    server.clean(keep_logs=False)


@pytest.fixture
async def admin(bare: ApiServer) -> AsyncIterator[Cluster]:
    client = connect(bare.kubeconfig)
    yield client
    await client.close()


def lists(apiserver: ApiServer, status: int) -> Counter[str]:
    """How often muster's account listed each kind of Grove, with this answer."""
    lines = [msgspec.json.decode(line) for line in apiserver.audit.read_bytes().splitlines()]
    own = [line for line in lines if line["user"]["username"] == ACCOUNT and line["verb"] == "list"]
    return Counter(
        line["objectRef"]["resource"]
        for line in own
        if line["objectRef"]["resource"] in PLURALS and line["responseStatus"]["code"] == status
    )


async def until_ready(port: int) -> None:
    def is_ready() -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    await until(lambda: asyncio.to_thread(is_ready))


async def test_without_groves_crds_muster_runs_quietly_until_they_come(
    bare: ApiServer, admin: Cluster, tmp_path: Path
) -> None:
    """A cluster without Grove is the usual one."""
    port = free_port()
    async with installed(admin, port, without="15-grove-crds"):
        settings, access = configuration(port, "absent"), kubeconfig(bare, await token(bare))
        async with muster_run(tmp_path, settings, access) as log:
            await until_ready(yaml.safe_load(settings)["observability"]["port"])
            await asyncio.sleep(QUIET_SECONDS)
            refused, logged = lists(bare, 404), log.read_text(encoding="utf-8")
            await asyncio.to_thread(bare.apply_crds, grove_crds())
            await until(lambda: asyncio.to_thread(lambda: set(lists(bare, 200)) >= PLURALS))
    assert set(refused) == PLURALS
    assert max(refused.values()) <= MOST_LISTS
    assert logged.count("kind is not installed") == len(PLURALS)
    assert "watch is lost" not in logged
    assert "forbidden" not in logged.lower()

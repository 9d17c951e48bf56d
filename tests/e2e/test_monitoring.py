"""Alerts and dashboard against what a control plane exports that runs on a real API server and has bound a gang."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from muster.api.resources import NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster
from tests.e2e.installed import free_port, put, until
from tests.e2e.muster_process import kubeconfig, muster_run
from tests.support.apiserver.apiserver import ADMIN, ApiServer
from tests.support.factories import pod, podgroup
from tests.support.http import get
from tests.support.live.objects import queue
from tests.support.monitoring import OF_TARGETS, queries, series_in
from tests.support.otlp import Collector
from tests.support.promql import selectors

NAME = "monitoring"
SHOWN = {  # once the watch has shown the bound pod, and the next cycle has counted it
    f'muster_queue_waiting_gangs{{queue="{NAME}",reason="NoRoom"}} 1.0',
    f'muster_queue_scheduled_gangs{{queue="{NAME}"}} 1.0',
    f'muster_queue_allocated{{queue="{NAME}",resource="cpu",unit="core"}} 1.0',
}


async def bind_a_gang(cluster: Cluster) -> None:
    await put(cluster, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}})
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME, "labels": {NAME: "yes"}}}
    await put(cluster, NODES, node)
    await cluster.patch(NODES, "", NAME, {"status": {"allocatable": {"cpu": "4", "pods": "10"}}}, subresource="status")
    await put(cluster, QUEUES, {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, **queue(NAME)})
    for gang in ("fits", "waits"):
        await cluster.create(POD_GROUPS, podgroup(name=gang, namespace=NAME, minMember=1, queue=NAME))
        raw = pod(gang, gang=gang, namespace=NAME, scheduler=NAME, image="none", cpu="1" if gang == "fits" else "100")
        raw["spec"]["nodeSelector"] = {NAME: "yes"}
        await cluster.create(PODS, raw)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector().open() as opened:
        yield opened


@pytest.fixture
async def scrape(apiserver: ApiServer, tmp_path: Path, collector: Collector) -> str:
    """What is exported once a gang is bound and another waits; the process has ended, and sent its traces."""
    cluster, port = connect(apiserver.kubeconfig), free_port()
    settings = {
        "scheduling": {"schedulerNames": [NAME]},
        "leaderElection": {"enabled": False},
        "webhook": {"enabled": False},
        "observability": {"host": "127.0.0.1", "port": port},
        "tracing": {"endpoint": collector.url},
    }
    await bind_a_gang(cluster)
    url, text = f"http://127.0.0.1:{port}/metrics", ""
    async with muster_run(tmp_path, yaml.safe_dump(settings), kubeconfig(apiserver, ADMIN)):

        async def is_bound() -> bool:
            nonlocal text
            _, text = await get(url)
            return set(text.splitlines()) >= SHOWN

        await until(is_bound)
    await cluster.close()
    return text


async def test_every_query_finds_its_series_in_a_real_scrape(scrape: str, collector: Collector) -> None:
    """Names and labels; and promtool, where it is at hand, finds nothing wrong with the names. Cycles are traced."""
    known = series_in(text_string_to_metric_families(scrape))
    for name, query in queries().items():
        for selector in selectors(query):
            assert selector.metric in known, f"{name}: {selector.metric}"
            if known[selector.metric]:
                assert selector.labels <= known[selector.metric] | OF_TARGETS, f"{name}: {selector}"
    assert f'muster_admitted_gangs_total{{queue="{NAME}"}} 1.0' in scrape
    assert 'muster_api_requests_total{code="201",verb="bind"} 1.0' in scrape
    for phase in ("snapshot", "allocate", "apply"):
        (line,) = [line for line in scrape.splitlines() if f'duration_seconds_count{{phase="{phase}"}}' in line]
        assert float(line.split()[1]) >= 1, line
    if promtool := shutil.which("promtool"):
        ended = subprocess.run(
            [promtool, "check", "metrics"], input=scrape, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")
    assert {"cycle", "snapshot", "plan", "allocate", "apply"} <= {span.name for span in collector.spans()}

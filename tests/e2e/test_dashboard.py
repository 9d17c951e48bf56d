"""The dashboard of an embedded cluster over HTTP: a gang forms, a connection is lost, time goes back, what if."""

import asyncio
import json
import socket
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.api.resources import NODES, PODS
from muster.cli import inputs
from muster.cli.assemble.embedded_cluster import EmbeddedCluster, ServedAt, open_embedded_cluster
from muster.config.settings import Config
from muster.kube.manifest_files import MOST_MIB
from muster.simulator.initial_objects import create_cluster
from tests.support.event_stream import event_stream
from tests.support.http import get

EXAMPLES = Path(__file__).parents[2] / "examples"
GANG = "inference/dynamo-inference"


@asynccontextmanager
async def dashboard(folder: Path) -> AsyncIterator[EmbeddedCluster]:
    """The Dynamo example on an embedded cluster, with a dashboard."""
    names = ("cluster", "dynamo-inference.yaml", "dynamo-pods.yaml")
    documents = inputs.read([str(EXAMPLES / name) for name in names], MOST_MIB)
    served_at = ServedAt("127.0.0.1", 0, folder / "kubeconfig")
    async with open_embedded_cluster(create_cluster(documents).store, served_at, Config(), (), 0) as cluster:
        yield cluster


async def fetch(cluster: EmbeddedCluster, path: str) -> Any:
    status, text = await get(f"{cluster.dashboard}{path}")
    assert status == 200, text
    return json.loads(text)


def runs(state: Any) -> bool:
    return GANG in state["gangs"] and state["gangs"][GANG]["verdict"] == "Scheduled" and placed(state) == 41


def placed(state: Any) -> int:
    uses = (use for row in state["nodes"].values() for use in row["used"])
    return sum(amounts["pods"] for gang, kind, amounts in uses if gang == GANG and kind in ("core", "extra"))


async def test_a_gang_forms_loses_a_node_and_heals_before_a_viewer(tmp_path: Path) -> None:
    async with dashboard(tmp_path) as cluster, event_stream(cluster.dashboard) as viewer:
        state = await viewer.until(runs)
        lost = next(name for name, row in state["nodes"].items() if row["used"])
        note = {"metadata": {"annotations": {"muster.dev/fail": "true"}}}
        await cluster.memory.patch(NODES, "", lost, note)
        await viewer.until(lambda state: "lost" in state["nodes"][lost]["flags"])
        for pod in cluster.pods("inference"):
            if pod["spec"].get("nodeName") == lost:
                await cluster.memory.delete(PODS, "inference", pod["metadata"]["name"], grace_seconds=0)
        await viewer.until(lambda state: not state["nodes"][lost]["used"])
        assert set(viewer.names) <= {"state", "change", "beat"}
        assert viewer.names.count("state") == 1, "differences are sent, not states"
        assert (await fetch(cluster, f"/api/gangs/{GANG}"))["key"] == GANG


async def test_a_viewer_resumes_after_a_lost_connection(tmp_path: Path) -> None:
    """With what it missed alone; from another process's cursor it begins again."""
    async with dashboard(tmp_path) as cluster:
        async with event_stream(cluster.dashboard) as first:
            state = await first.until(runs)
            cursor = first.cursor
        await cluster.memory.delete(PODS, "inference", "dynamo-prefill-0-0", grace_seconds=0)
        await asyncio.sleep(1.5)
        async with event_stream(cluster.dashboard, cursor) as again:
            again.state = state
            await again.until(lambda state: placed(state) == 40)
            assert "state" not in again.names
            now = await fetch(cluster, "/api/state")
            assert {key: now[key] for key in ("nodes", "gangs", "queues")} == {
                key: again.state[key] for key in ("nodes", "gangs", "queues")
            }
        async with event_stream(cluster.dashboard, "another:5") as fresh:
            assert await fresh.read() == "state"


async def test_time_travel_shows_what_was_seen_then(tmp_path: Path) -> None:
    async with dashboard(tmp_path) as cluster, event_stream(cluster.dashboard) as viewer:
        await viewer.until(runs)
        for number in range(3):
            await cluster.memory.delete(PODS, "inference", f"dynamo-prefill-0-{number}", grace_seconds=0)
            await viewer.until(lambda state, left=40 - number: placed(state) == left)  # type: ignore[misc]
            await asyncio.sleep(0.6)
        seen = viewer.by_cycle
        assert len(seen) >= 2
        for cycle, state in seen.items():
            then = await fetch(cluster, f"/api/state?cycle={cycle}")
            for part in ("cycle", "nodes", "gangs", "queues", "waiting", "cycles"):
                assert then[part] == state[part], (cycle, part)
        oldest = min(seen)
        early, late = [await fetch(cluster, f"/api/state?cycle={cycle}") for cycle in (oldest, max(seen))]
        assert placed(early) >= placed(late)
        node = next(name for name, row in early["nodes"].items() if row["used"])
        page = await fetch(cluster, f"/api/nodes/{node}?cycle={oldest}")
        assert page["row"] == early["nodes"][node]
        gang = await fetch(cluster, f"/api/gangs/{GANG}?cycle={oldest}")
        assert gang["row"] == early["gangs"][GANG]
        assert (await get(f"{cluster.dashboard}/api/state?cycle=99999"))[0] == 404


async def test_what_if_is_the_plan_of_the_command_line(tmp_path: Path) -> None:
    async with dashboard(tmp_path) as cluster, event_stream(cluster.dashboard) as viewer:
        state = await viewer.until(runs)
        node = next(name for name, row in state["nodes"].items() if row["used"])
        words = ("plan", "--drain", node, "--set", f"{GANG}.minSubGroup=1", "-o", "json")
        command = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "muster.cli.main", *words, "--kubeconfig", str(tmp_path / "kubeconfig")),
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await command.communicate()
        question = {"drain": [node], "set": {f"{GANG}.minSubGroup": 1}}
        answered = await asyncio.to_thread(post, cluster.dashboard, question)
        assert {key: answered[key] for key in answered.keys() - {"text", "map"}} == json.loads(printed)


def post(address: str, question: Any) -> Any:
    body, headers = json.dumps(question).encode(), {"content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{address}/api/what-if", body, headers), timeout=60) as answer:
        return json.loads(answer.read())


async def test_readers_that_stop_cost_little_and_hold_up_none(tmp_path: Path) -> None:
    """The server holds one message for each, however many changes there are; others go on."""
    async with dashboard(tmp_path) as cluster, event_stream(cluster.dashboard) as viewer:
        await viewer.until(runs)
        host, _, port = cluster.dashboard.removeprefix("http://").partition(":")
        stalled = [socket.create_connection((host, int(port))) for _ in range(5)]
        for sock in stalled:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            sock.sendall(f"GET /api/stream HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode())
        for number in range(12):
            await cluster.memory.patch(NODES, "", "z1-b1-r1-n1", {"spec": {"unschedulable": number % 2 == 0}})
            wanted = ["cordoned"] if number % 2 == 0 else []
            await viewer.until(lambda state, wanted=wanted: state["nodes"]["z1-b1-r1-n1"]["flags"] == wanted)  # type: ignore[misc]
        for sock in stalled:
            sock.close()


async def test_viewers_are_limited(tmp_path: Path) -> None:
    async with dashboard(tmp_path) as cluster:
        opened = [event_stream(cluster.dashboard) for _ in range(10)]
        viewers = [await each.__aenter__() for each in opened]
        for viewer in viewers:
            await viewer.read()
        status, text = await get(f"{cluster.dashboard}/api/stream")
        assert (status, json.loads(text)["message"]) == (429, "10 viewers of yours are connected already")
        for each in opened:
            await each.__aexit__(None, None, None)


async def test_the_cluster_ends_while_it_is_viewed(tmp_path: Path) -> None:
    """Streams end with it: none waits for its viewer."""
    async with dashboard(tmp_path) as cluster:
        stack = event_stream(cluster.dashboard)
        viewer = await stack.__aenter__()
        await viewer.read()
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 10
    with pytest.raises((AssertionError, asyncio.IncompleteReadError, ConnectionError)):
        await viewer.until(lambda _: False)

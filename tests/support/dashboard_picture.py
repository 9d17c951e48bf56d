"""The picture of the dashboard in the README, from a real cluster and a real browser.

python -m tests.support.dashboard_picture docs/pictures/dashboard.png
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import expect, sync_playwright

from muster.simulator.datacenter import GPU, TOPOLOGY, dynamo
from tests.support.chromium import FLAGS, provide
from tests.support.up_cluster import UpCluster

# namespace, gang, pods, minimum, GPUs of each, level
GANGS = (
    ("research", "llama-70b", 8, 8, 8, "rack"),
    ("research", "mixtral", 6, 6, 8, "block"),
    ("vision", "detector", 12, 8, 2, "rack"),
    ("vision", "segmenter", 10, 6, 4, "block"),
    ("speech", "whisper", 16, 12, 1, "rack"),
    ("speech", "voices", 9, 4, 4, "zone"),
    ("search", "embeddings", 20, 10, 1, "zone"),
    ("search", "reranker", 5, 5, 8, "block"),
    ("agents", "planner", 7, 3, 4, ""),
    ("research", "giant", 9, 9, 8, "rack"),
)


def gang(namespace: str, name: str, pods: int, minimum: int, gpus: int, level: str) -> Iterator[dict[str, Any]]:
    """A PodGroup and its pods."""
    constraint = {"topologyConstraint": {"topology": TOPOLOGY, "requiredTopologyLevel": level}} if level else {}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    yield {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": minimum, **constraint},
    }
    for i in range(pods):
        limits = {"limits": {GPU: str(gpus)}}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{i}", "namespace": namespace, "annotations": {"pod-group-name": name}},
            "spec": {"schedulerName": "muster", "containers": [{"name": "main", "image": name, "resources": limits}]},
        }


def take_picture(path: Path) -> None:
    """Starts a cluster, fills it, and looks at its map."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        up = UpCluster(Path(folder))
        up.start()
        try:
            up.create(dynamo())
            for each in GANGS:
                up.create(gang(*each))
            up.annotate_node("node-061", "true")
            browser = playwright.chromium.launch(executable_path=provide(), args=list(FLAGS))
            page = browser.new_page(viewport={"width": 1400, "height": 820}, device_scale_factor=1)
            page.goto(f"{up.dashboard}/#/map")
            expect(page.locator(".gang-list li")).to_have_count(len(GANGS))
            page.wait_for_timeout(3000)
            page.screenshot(path=path)
            browser.close()
        finally:
            up.stop()


if __name__ == "__main__":
    take_picture(Path(sys.argv[1]))

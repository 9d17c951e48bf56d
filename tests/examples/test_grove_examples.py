"""The manifests of `examples/grove`: valid, planned whole before they are submitted, and run to the end."""

import asyncio
import re
from collections import Counter
from pathlib import Path

import pytest

import muster
from muster.api import codec
from muster.api.fields import items, text
from muster.cli.assemble.embedded_cluster import ServedAt, open_embedded_cluster
from muster.config.settings import Config
from muster.simulator import datacenter, initial_objects
from muster.validation.check import check

FOLDER = Path(__file__).parents[2] / "examples" / "grove"
FILES = sorted(FOLDER.glob("*.yaml"))
PODS = {  # all pods, and the gangs that they are in
    "agentic-pipeline": (26, 6),
    "explicit-order": (6, 1),
    "multi-node-disaggregated": (9, 2),
    "single-node-disaggregated": (4, 1),
    "topology": (7, 2),
}
SECONDS = 60.0
each = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def documents(path: Path) -> list[codec.Document]:
    return codec.read(path.read_bytes(), path.name)


@each
def test_a_set_is_valid_without_a_warning(path: Path) -> None:
    around = muster.load(path)
    for document in documents(path):
        assert muster.validate(document.raw, around=around) == []
        assert not check(document.raw)


@each
def test_a_set_is_planned_whole_before_it_is_submitted(path: Path) -> None:
    plan = muster.plan(muster.load(path, FOLDER.parent / "cluster"))
    assert {gang.verdict for gang in plan.decided.gangs} == {"Scheduled"}
    assert (len(plan.bindings), len(plan.decided.gangs)) == PODS[path.stem]


@each
async def test_a_set_runs_on_the_embedded_cluster(path: Path, tmp_path: Path) -> None:
    given = documents(path)
    built_in = initial_objects.built_in_objects(16, 8, datacenter.parse_levels("zone=2,block=4,rack=8"), given)
    initial = initial_objects.create_cluster([*built_in, *given])
    served_at = ServedAt("127.0.0.1", 0, tmp_path / "kubeconfig")
    async with open_embedded_cluster(initial.store, served_at, Config()) as cluster, asyncio.timeout(SECONDS):
        while Counter(map(state_of, cluster.pods("inference"))) != {"Running, ready": PODS[path.stem][0]}:
            await asyncio.sleep(0.05)


def state_of(pod: dict[str, object]) -> str:
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in items(pod, "status.conditions"))
    return f"{text(pod, 'status.phase')}, {'ready' if is_ready else 'not ready'}"


def test_the_readme_says_of_every_file_what_the_file_says_itself() -> None:
    rows = re.findall(r"^\| \[(.+)\]\(\1\) \| (.+) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert dict(rows) == {path.name: path.read_text().splitlines()[0].removeprefix("# ") for path in FILES}

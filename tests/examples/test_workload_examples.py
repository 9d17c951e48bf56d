"""The manifests of `examples/workloads`: each has the pods that its operator makes, and all of them are muster's."""

import re
from pathlib import Path

import pytest

import muster
from muster.api import codec
from muster.api.fields import text
from muster.workloads.expansion import expand
from muster.workloads.operators.table import OPERATORS
from muster.workloads.types import Raw

FOLDER = Path(__file__).parents[2] / "examples" / "workloads"
FILES = sorted(FOLDER.glob("*.yaml"))
PODS = {
    "argo-workflow": 2,
    "cron-job": 1,
    "deployment": 3,
    "dev-workspace": 1,
    "dynamo-graph-deployment": 3,
    "jax-job": 2,
    "job": 4,
    "job-indexed-gang": 4,
    "job-set": 5,
    "job-set-in-order": 5,
    "knative-service": 2,
    "leader-worker-set": 8,
    "leader-worker-set-leader-ready": 3,
    "leader-worker-set-segments": 9,
    "mpi-job": 3,
    "notebook": 1,
    "paddle-job": 3,
    "pod": 1,
    "pytorch-job": 4,
    "pytorch-job-elastic-segments": 8,
    "ray-cluster": 4,
    "ray-cluster-multi-host": 5,
    "ray-job": 4,  # with the pod that submits the work
    "ray-service": 3,
    "seldon-deployment": 2,
    "spark": 3,
    "stateful-set": 3,
    "tekton-pipeline-run": 2,
    "tf-job": 4,
    "train-job": 4,
    "virtual-machine": 1,
    "xgboost-job": 3,
}
each = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def raws(path: Path) -> list[Raw]:
    return [document.raw for document in codec.read(path.read_bytes(), path.name)]


def pods_of(path: Path) -> list[Raw]:
    given = raws(path)
    return [raw for raw in given if raw["kind"] == "Pod"] + [made.pod for made in expand(given)]


@each
def test_a_workload_has_the_pods_that_its_operator_makes(path: Path) -> None:
    assert len(pods_of(path)) == PODS[path.stem]


@each
def test_every_pod_is_scheduled_by_muster(path: Path) -> None:
    assert {text(pod, "spec.schedulerName") for pod in pods_of(path)} == {"muster"}


@each
def test_equal_manifests_have_equal_pods(path: Path) -> None:
    assert pods_of(path) == pods_of(path)


def test_the_readme_says_of_every_file_what_the_file_says_itself() -> None:
    rows = re.findall(r"^\| \[(.+)\]\(\1\) \| (.+) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert dict(rows) == {path.name: path.read_text().splitlines()[0].removeprefix("# ") for path in FILES}


def test_every_kind_with_an_operator_has_an_example() -> None:
    kinds = {raw["kind"] for path in FILES for raw in raws(path)}
    assert not {controller.resource.kind for controller in OPERATORS} - kinds


GANGS = {  # of kinds whose operators muster does not have: PodGroups, and the kind whose rule chose them
    "dev-workspace": (1, "DevWorkspace"),
    "dynamo-graph-deployment": (3, "Deployment"),
    "seldon-deployment": (1, "SeldonDeployment"),
    "tekton-pipeline-run": (1, "PipelineRun"),
    "virtual-machine": (1, "VirtualMachine"),
}


@pytest.mark.parametrize("name", GANGS)
def test_a_workload_of_another_operator_is_grouped_by_its_top_owner(name: str) -> None:
    """`muster group` on the objects that the operator makes, every pod in a gang."""
    grouped = muster.group(str(FOLDER / f"{name}.yaml"))
    assert not grouped.ungrouped
    number, rule = GANGS[name]
    assert [gang.rule for gang in grouped.pod_groups] == [rule] * number
    assert sum(sum(gang.pods.values()) for gang in grouped.pod_groups) == PODS[name]


def test_a_graph_of_dynamo_gives_its_queue_to_the_pods_below() -> None:
    grouped = muster.group(str(FOLDER / "dynamo-graph-deployment.yaml"))
    assert {gang.pod_group.spec.queue for gang in grouped.pod_groups} == {"serving"}

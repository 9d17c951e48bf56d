"""What people see, as approved files. `make golden` rewrites them; read the diff before you commit it."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.api import codec
from muster.cli.main import VERBS, cli
from muster.validation.crds import crds

APPROVED = Path(__file__).parent / "approved"
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def approve(name: str, text: str) -> None:
    path = APPROVED / name
    if os.environ.get("MUSTER_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{name} has changed; `make golden` rewrites it"


def printed(*args: str) -> str:
    result = CliRunner().invoke(cli, args, catch_exceptions=False, standalone_mode=False, terminal_width=100)
    return result.stdout


@pytest.mark.parametrize("crd", crds(), ids=lambda crd: str(crd["spec"]["names"]["plural"]))
def test_the_crds_in_the_repository_are_those_of_the_types(crd: dict[str, dict[str, str]]) -> None:
    """Whoever changes a type sees what it does to the stored schema."""
    approve(f"crds/{crd['metadata']['name']}.yaml", codec.to_yaml([crd]))


def test_the_help_lists_every_verb() -> None:
    """The first thing that people read."""
    approve("help/muster.txt", printed("--help"))


@pytest.mark.parametrize("verb", list(VERBS))
def test_the_help_of_a_verb_teaches_it(verb: str) -> None:
    """With examples, and without surprises."""
    approve(f"help/{verb}.txt", printed(verb, "--help"))


@pytest.mark.parametrize("form", ["table", "json", "mermaid"])
def test_a_running_gang_is_drawn(form: str) -> None:
    """The picture of the README."""
    files = [str(EXAMPLES / name) for name in ("dynamo-inference.yaml", "dynamo-pods.yaml")]
    approve(f"tree/dynamo.{form}", printed("tree", "-o", form, *files))


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_the_pod_groups_of_workloads_are_shown(form: str) -> None:
    """Every kind of the examples, with the source of every minimum."""
    approve(f"group/workloads.{form}", printed("group", "-o", form, str(EXAMPLES / "workloads")).replace(str(ROOT), ""))


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("verb", ["tree", "explain"])
def test_a_pod_clique_set_is_drawn(verb: str, form: str) -> None:
    """Before it is submitted: what it will consist of, and how it would be placed on the cluster of the examples."""
    files = [str(EXAMPLES / "grove" / "topology.yaml"), str(EXAMPLES / "cluster")]
    approve(f"{verb}/packed.{form}", printed(verb, "pcs/inference/packed", "-o", form, *files))


@pytest.mark.parametrize("form", ["table", "json"])
def test_queues_are_drawn_with_their_shares(form: str) -> None:
    """On the cluster of the examples, with the gang of the README in it."""
    files = [str(EXAMPLES / name) for name in ("cluster", "dynamo-inference.yaml", "dynamo-pods.yaml")]
    approve(f"queues/dynamo.{form}", printed("queues", "-o", form, *files))


def test_queues_that_have_too_much_are_shown(tmp_path: Path) -> None:
    """Over a quota, over a limit, protected beyond the quota, in no tree, and PodGroups that wait because of that."""
    (tmp_path / "crowd.yaml").write_text(MANY_QUEUES, encoding="utf-8")
    words = ["queues", str(tmp_path / "crowd.yaml")]
    result = CliRunner().invoke(cli, words, catch_exceptions=False, standalone_mode=False)
    approve("queues/crowd.txt", result.stdout + "--- stderr\n" + result.stderr)


def test_problems_read_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every problem of a broken manifest, as a person sees them."""
    (tmp_path / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["validate", "broken.yaml"], catch_exceptions=False, standalone_mode=False)
    approve("validate/broken.txt", result.stdout + "--- stderr\n" + result.stderr)


BROKEN = """\
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: llama, namespace: team-a}
spec:
  minMember: 24
  minSubGroup: 5
  preemptibility: sometimes
  subGroups:
  - {name: roles, minMember: 3}
  - {name: decode, parent: rolse, minMember: 4}
  - {name: decode, parent: roles}
  - {name: leader, minSubGroup: 1}
  - {name: Workers_0, minMember: 0}
  - {name: ring-a, parent: ring-b}
  - {name: ring-b, parent: ring-a}
  - {name: self, parent: self, minMember: 1}
"""

MANY_QUEUES = """\
{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: 64, memory: 1000G, nvidia.com/gpu: 15}}}
---
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: research}, spec: {resources: {gpu: {quota: 8}}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: vision}
spec: {parentQueue: research, resources: {gpu: {quota: 4, overQuotaWeight: 2}, memory: {quota: 100000}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: speech}
spec: {parentQueue: research, resources: {gpu: {quota: 2, limit: 3}}}
---
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: prod}, spec: {resources: {gpu: {quota: 4}}}}
---
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: lost}, spec: {parentQueue: nobody}}
"""
MANY_QUEUES += "".join(
    f"""\
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {{name: {name}, namespace: lab}}
spec: {{queue: {queue}, preemptibility: {word}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: lab, annotations: {{pod-group-name: {name}}}}}
spec:
  nodeName: {node}
  containers: [{{name: main, resources: {{requests: {{nvidia.com/gpu: {gpus}, memory: 7Gi}}}}}}]
"""
    for name, queue, word, node, gpus in (
        ("train", "vision", "preemptible", "n", 6),
        ("tune", "vision", "preemptible", "''", 9),
        ("serve", "speech", "non-preemptible", "n", 4),
        ("web", "prod", "semi-preemptible", "''", 6),
        ("gone", "lost", "preemptible", "''", 1),
        ("high", "research", "preemptible", "''", 1),
        ("typo", "visoin", "preemptible", "''", 1),
    )
)

"""What people see, as approved files. `make golden` rewrites them; read the diff before you commit it."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.api import codec
from muster.cli.main import VERBS, cli
from muster.rules.crds import crds

APPROVED = Path(__file__).parent / "approved"
EXAMPLES = Path(__file__).parents[2] / "examples"


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

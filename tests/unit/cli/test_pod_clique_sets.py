"""`pcs/NAMESPACE/NAME` in tree and explain: from files, and from a live cluster."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from muster.api.resources import NAMESPACES, NODES, POD_CLIQUE_SETS
from muster.cli import live
from muster.cli.main import cli
from muster.embedded.memory_cluster import MemoryCluster
from muster.errors import InputError
from muster.kube.cluster import Listing
from muster.kube.errors import ApiError
from muster.workloads.types import Raw
from tests.unit.planning.grove.test_planned_sets import nodes, two_gangs

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(*raws: Raw) -> str:
        (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(raws), encoding="utf-8")
        return str(tmp_path / "objects.yaml")

    return to_file


def run(*words: str) -> Result:
    result = CliRunner().invoke(cli, words, standalone_mode=False)
    if result.exception:
        raise result.exception
    return result


@pytest.mark.parametrize("word", ["pcs", "podcliqueset", "podcliquesets"])
def test_tree_draws_the_set_that_is_named_as_kubectl_names_it(write: Write, word: str) -> None:
    shown = run("tree", f"{word}/team/w", write(two_gangs())).stdout
    assert shown.startswith("team/w  PodCliqueSet  0 of 1 replica scheduled")
    assert "Gated, after w-0" in shown


def test_explain_plans_the_set_on_the_nodes_of_the_files(write: Write) -> None:
    shown = run("explain", "pcs/team/w", write(two_gangs(), *nodes(2)))
    assert "team/w  PodCliqueSet  1 of 1 replica scheduled" in shown.stdout
    assert "no room for `w-0-sg-1-b`" in shown.stdout


def test_both_give_data(write: Write) -> None:
    path = write(two_gangs(), *nodes(3))
    trees = [json.loads(run(verb, "pcs/team/w", path, "-o", "json").stdout) for verb in ("tree", "explain")]
    assert [tree["kind"] for tree in trees] == ["SetTree", "SetExplanation"]
    assert [tree["scheduledReplicas"] for tree in trees] == [0, 1]


def test_a_set_without_a_namespace_is_in_the_default_one(write: Write) -> None:
    raw = two_gangs(metadata={"namespace": "default"})
    assert run("tree", "pcs/w", write(raw)).stdout.startswith("default/w  PodCliqueSet")


@pytest.mark.parametrize("word", ["pcs/a/b/c", "pcs/a/"])
def test_a_name_with_too_many_or_too_few_parts_is_refused(write: Write, word: str) -> None:
    with pytest.raises(InputError, match="pcs/NAMESPACE/NAME"):
        run("tree", word, write(two_gangs()))


def test_a_set_has_no_diagram(write: Write) -> None:
    with pytest.raises(InputError, match="table, json or yaml"):
        run("tree", "pcs/team/w", write(two_gangs()), "-o", "mermaid")


def test_a_folder_named_pcs_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pcs" / "team").mkdir(parents=True)
    (tmp_path / "pcs" / "team" / "w").write_text(yaml.safe_dump(two_gangs()), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert "team/w-0 " in run("tree", "pcs/team/w").stdout


def test_tree_without_a_name_draws_the_gangs_of_sets_beside_all_others(write: Write) -> None:
    shown = run("tree", write(two_gangs())).stdout
    assert shown.count("queue default") == 2


def test_grove_kinds_are_not_called_unknown(write: Write) -> None:
    assert "left alone" not in run("plan", write(two_gangs(), *nodes(3))).stderr


def test_explain_of_a_scaled_gang_says_what_it_starts_after(write: Write) -> None:
    shown = run("explain", "team/w-0-sg-0", write(two_gangs(), *nodes(3))).stdout
    assert "starts once base gang `team/w-0` is scheduled: planned as of then" in shown


# live ---------------------------------------------------------------------------------------------------------------


class Served(MemoryCluster):
    """A cluster behind an address, with or without Grove's CRDs."""

    server = "https://cluster.example.com"

    def __init__(self, *, has_grove: bool = True) -> None:
        super().__init__()
        self.has_grove = has_grove

    async def list(self, resource: object, *words: object, **page: object) -> Listing:
        if not self.has_grove and "grove" in getattr(resource, "group", ""):
            raise ApiError(404, "NotFound", "no such kind")
        return await super().list(resource, *words, **page)  # type: ignore[arg-type]


def serve(monkeypatch: pytest.MonkeyPatch, cluster: Served) -> None:
    monkeypatch.setattr(live, "connect", lambda *_: cluster)


def test_a_live_set_is_read_with_what_became_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of a cluster are not expanded: its operator does that."""
    cluster = Served()
    cluster.store.create(NAMESPACES, {"metadata": {"name": "team"}})
    cluster.store.create(POD_CLIQUE_SETS, two_gangs())
    serve(monkeypatch, cluster)
    shown = run("tree", "pcs/team/w", "--context", "production").stdout
    assert shown == "team/w  PodCliqueSet  0 of 1 replica scheduled\n"


def test_a_set_in_a_file_is_planned_on_the_nodes_of_a_live_cluster(
    monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    cluster = Served(has_grove=False)
    for raw in nodes(3):
        cluster.store.create(NODES, raw)
    serve(monkeypatch, cluster)
    assert "2 gangs: 2 Scheduled" in run("plan", write(two_gangs()), "--context", "production").stdout


def test_a_cluster_without_grove_has_no_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, Served(has_grove=False))
    with pytest.raises(InputError, match="there is no PodCliqueSet `team/w`"):
        run("explain", "pcs/team/w", "--context", "production")

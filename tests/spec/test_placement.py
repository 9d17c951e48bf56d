"""Promises of a plan that the conformance cases do not show: order, determinism, words and exit codes (X3, E1)."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import muster
from muster.cli.main import cli
from tests.oracles.checker import broken
from tests.support.puzzles import manifests, puzzle

Raw = dict[str, Any]


def node(name: str, gpus: int, rack: str = "r1") -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"topology/zone": "z1", "topology/rack": rack}},
        "status": {"allocatable": {"nvidia.com/gpu": gpus}},
    }


def pod(name: str, gpus: int = 1, leaf: str = "", **spec: Any) -> Raw:
    labels = {"kai.scheduler/subgroup-name": leaf} if leaf else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "labels": labels, "annotations": {"pod-group-name": "g"}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": gpus}}}], **spec},
    }


def podgroup(**spec: Any) -> Raw:
    meta = {"name": "g", "namespace": "d"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta, "spec": spec}


TOPOLOGY = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "t"},
    "spec": {"levels": [{"nodeLabel": "topology/zone"}, {"nodeLabel": "topology/rack"}]},
}
IN_A_RACK = {"requiredTopologyLevel": "rack"}


def planned(*objects: Raw) -> Raw:
    return muster.plan(muster.objects(objects)).to_dict()


def test_the_same_input_in_any_order_gives_the_same_bytes() -> None:
    """X3: a plan is a function of what is there, not of how it was listed."""
    for seed in range(40):
        objects = manifests(puzzle(seed))
        first = json.dumps(planned(*objects))
        random.Random(seed).shuffle(objects)
        assert json.dumps(planned(*objects)) == first, seed


def test_one_more_node_never_turns_placed_into_infeasible() -> None:
    """Room only ever helps."""
    for seed in range(60):
        objects = manifests(puzzle(seed))
        before = planned(*objects)["podGroups"][0]["verdict"]
        more = planned(*objects, node("another", 8))
        assert broken([*objects, node("another", 8)], more) == []
        assert (before, more["podGroups"][0]["verdict"]) != ("Scheduled", "Infeasible"), seed


def test_a_refusal_names_the_best_domain_and_what_is_missing_there() -> None:
    """E1: what is needed, the best there is, how much is short, and what would fit now."""
    objects = [TOPOLOGY, node("a", 6), node("b", 4, "r2"), podgroup(minMember=8, topologyConstraint=IN_A_RACK)]
    plan = planned(*objects, *(pod(f"p{i}") for i in range(8)))
    (reason,) = plan["podGroups"][0]["reasons"]
    assert reason["reason"] == "NoDomain"
    assert "needs 8 pods together, best is `z1/r1` with room for 6, 2 nvidia.com/gpu short" in reason["message"]
    assert "`minMember: 6` instead of 8 fits now" in reason["message"]
    assert "`requiredTopologyLevel: topology/zone` instead of `topology/rack` fits now" in reason["message"]


def test_a_lower_minimum_of_children_is_proposed_where_it_helps() -> None:
    """E1: `minSubGroup: 2` fits now."""
    groups = [{"name": f"g{i}", "minMember": 4} for i in range(3)]
    objects = [node("a", 9), podgroup(subGroups=groups)]
    plan = planned(*objects, *(pod(f"g{i}-{j}", leaf=f"g{i}") for i in range(3) for j in range(4)))
    assert "`minSubGroup: 2` instead of 3 fits now" in plan["podGroups"][0]["reasons"][0]["message"]


def test_filters_are_counted_where_no_node_matches() -> None:
    """E1: how many nodes each filter refuses."""
    objects = [node("a", 8), node("b", 8), podgroup(), pod("p", nodeSelector={"disk": "ssd"})]
    (reason,) = planned(*objects)["podGroups"][0]["reasons"]
    assert (reason["reason"], reason["details"]["refused"]) == ("NoNodeMatches", {"nodeSelector": 2})


def away(key: str = "kubernetes.io/hostname", **labels: str) -> Raw:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def labelled(raw: Raw, **labels: str) -> Raw:
    raw["metadata"]["labels"] |= labels
    return raw


def test_pods_that_keep_their_kind_off_a_node_get_one_each() -> None:
    """X5: anti-affinity inside a leaf is common: two nodes take two of them, however much room there is."""
    pods = [labelled(pod(f"p{i}", affinity=away(app="x")), app="x") for i in range(3)]
    two = planned(node("a", 8), node("b", 8), podgroup(minMember=2), *pods)
    assert sorted(binding["node"] for binding in two["bindings"]) == ["a", "b"]
    three = planned(node("a", 8), node("b", 8), podgroup(minMember=3), *pods)
    assert three["podGroups"][0]["verdict"] == "Infeasible"


def test_pods_keep_away_from_running_ones_and_running_ones_keep_them_away() -> None:
    """X5: both directions, whoever asked for the distance."""
    asks = labelled(pod("runs", gpus=0, nodeName="a"), app="x")
    asks["metadata"]["annotations"] = {}
    wants = labelled(pod("p", affinity=away(app="x")), app="x")
    assert [one["node"] for one in planned(node("a", 8), node("b", 1), podgroup(), asks, wants)["bindings"]] == ["b"]
    asks["spec"]["affinity"] = away(app="x")
    plain = labelled(pod("p"), app="x")
    nodes = [node("a", 8), node("b", 8)]
    for raw in nodes:
        raw["metadata"]["labels"]["kubernetes.io/hostname"] = raw["metadata"]["name"]
    assert [one["node"] for one in planned(*nodes, podgroup(), asks, plain)["bindings"]] == ["b"]


@pytest.mark.parametrize(
    "spec",
    [{"resourceClaims": [{"name": "gpu"}]}, {"volumes": [{"name": "scratch", "ephemeral": {}}]}],
    ids=["devices by claim", "volumes by claim"],
)
def test_a_rule_that_is_not_decided_is_said_so(spec: Raw) -> None:
    """X5: a pod is not placed by guesswork."""
    plan = planned(node("a", 8), podgroup(), pod("p", **spec))
    assert plan["bindings"] == []
    assert (plan["podGroups"][0]["verdict"], plan["podGroups"][0]["reasons"][0]["reason"]) == ("Waiting", "Unsupported")


def test_a_budget_that_runs_out_says_unknown_and_nothing_else() -> None:
    """X2: the verdicts are never merged."""
    groups = [{"name": f"g{i}", "minMember": 3, "topologyConstraint": IN_A_RACK} for i in range(8)]
    nodes = [node(f"n{i}", 4, f"r{i}") for i in range(8)]
    pods = [pod(f"g{i}-{j}", leaf=f"g{i}") for i in range(8) for j in range(3)]
    objects = muster.objects([TOPOLOGY, *nodes, podgroup(subGroups=groups), *pods])
    assert muster.plan(objects, muster.Policy(steps=3)).verdict("d/g") == "Unknown"
    assert muster.plan(objects).verdict("d/g") == "Scheduled"


@pytest.mark.parametrize(("gpus", "code"), [(1, 0), (0, 1)])
def test_require_all_tells_with_its_exit_code(gpus: int, code: int, tmp_path: Path) -> None:
    """1: the answer is no."""
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("a", gpus), podgroup(), pod("p")]}))
    result = CliRunner().invoke(cli, ["plan", "--require-all", str(path)], standalone_mode=False)
    assert result.return_value == code


@pytest.mark.parametrize("alike", [True, False], ids=["equal groups", "groups of two sizes"])
@pytest.mark.parametrize(("racks", "room", "each"), [(6, 5, 1), (10, 5, 1), (8, 7, 2)])
def test_equal_racks_that_hold_all_but_one_group_are_proved_too_few(
    racks: int, room: int, each: int, alike: bool
) -> None:
    """X1: a family that is exponential for a search that tries equal racks and equal groups one by one."""
    nodes = [node(f"n{r}-{i}", 1, f"r{r}") for r in range(racks) for i in range(room)]

    def verdict(number: int) -> str:
        sizes = [3 + (0 if alike else i % 2 * (room - 3 * each > 0)) for i in range(number)]
        groups = [{"name": f"g{i}", "minMember": n, "topologyConstraint": IN_A_RACK} for i, n in enumerate(sizes)]
        pods = [pod(f"g{i}-{j}", leaf=f"g{i}") for i, n in enumerate(sizes) for j in range(n)]
        found: str = planned(TOPOLOGY, *nodes, podgroup(subGroups=groups), *pods)["podGroups"][0]["verdict"]
        return found

    assert verdict(racks * each) == "Scheduled"
    assert verdict(racks * each + 1) == "Infeasible"

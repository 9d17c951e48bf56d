"""Promises of a plan that the conformance cases do not show: order, determinism, words and exit codes (X3, E1)."""

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

import muster
from muster.cli.main import cli
from tests.oracles.checker import broken
from tests.support.drawing import draw, draw_node, worker
from tests.support.factories import Raw, pod, podgroup, topology
from tests.support.puzzles import manifests, puzzle

ZONES_AND_RACKS = topology("topology/zone", "topology/rack")
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
        more = planned(*objects, draw_node("another", 8))
        assert broken([*objects, draw_node("another", 8)], more) == []
        assert (before, more["podGroups"][0]["verdict"]) != ("Scheduled", "Infeasible"), seed


def test_a_refusal_names_the_best_domain_and_what_is_missing_there() -> None:
    """E1: what is needed, the best there is, how much is short, and what would fit now."""
    cluster = draw("""
        z1/r1  a:6
        z1/r2  b:4
    """)
    gang = [podgroup(minMember=8, topologyConstraint=IN_A_RACK), *(worker(f"p{i}") for i in range(8))]
    plan = planned(*cluster, *gang)
    (reason,) = plan["podGroups"][0]["reasons"]
    assert reason["reason"] == "NoDomain"
    assert "needs 8 pods together, best is `z1/r1` with room for 6, 2 nvidia.com/gpu short" in reason["message"]
    assert "`minMember: 6` instead of 8 fits now" in reason["message"]
    assert "`requiredTopologyLevel: topology/zone` instead of `topology/rack` fits now" in reason["message"]


def test_a_lower_minimum_of_children_is_proposed_where_it_helps() -> None:
    """E1: `minSubGroup: 2` fits now."""
    groups = [{"name": f"g{i}", "minMember": 4} for i in range(3)]
    objects = [draw_node("a", 9), podgroup(*groups)]
    plan = planned(*objects, *(worker(f"g{i}-{j}", leaf=f"g{i}") for i in range(3) for j in range(4)))
    assert "`minSubGroup: 2` instead of 3 fits now" in plan["podGroups"][0]["reasons"][0]["message"]


def test_filters_are_counted_where_no_node_matches() -> None:
    """E1: how many nodes each filter refuses."""
    objects = [draw_node("a", 8), draw_node("b", 8), podgroup(), worker("p", nodeSelector={"disk": "ssd"})]
    (reason,) = planned(*objects)["podGroups"][0]["reasons"]
    assert (reason["reason"], reason["details"]["refused"]) == ("NoNodeMatches", {"nodeSelector": 2})


def test_a_tenth_and_two_tenths_fit_into_three_tenths() -> None:
    """X6: quantities are integers in base units, so nothing is lost in between."""
    small = draw_node("a", 0)
    workers = [pod("p0", cpu="0.1"), pod("p1", cpu="0.2")]
    small["status"]["allocatable"]["cpu"] = "0.3"
    assert len(planned(small, podgroup(minMember=2), *workers)["bindings"]) == 2
    small["status"]["allocatable"]["cpu"] = "299m"
    assert planned(small, podgroup(minMember=2), *workers)["bindings"] == []


def away(key: str = "kubernetes.io/hostname", **labels: str) -> Raw:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def labelled(raw: Raw, **labels: str) -> Raw:
    raw["metadata"]["labels"] |= labels
    return raw


def test_pods_that_keep_their_kind_off_a_node_get_one_each() -> None:
    """X5: anti-affinity inside a leaf is common: two nodes take two of them, however much room there is."""
    pods = [labelled(worker(f"p{i}", affinity=away(app="x")), app="x") for i in range(3)]
    two = planned(draw_node("a", 8), draw_node("b", 8), podgroup(minMember=2), *pods)
    assert sorted(binding["node"] for binding in two["bindings"]) == ["a", "b"]
    three = planned(draw_node("a", 8), draw_node("b", 8), podgroup(minMember=3), *pods)
    assert three["podGroups"][0]["verdict"] == "Infeasible"


def test_pods_keep_away_from_running_ones_and_running_ones_keep_them_away() -> None:
    """X5: both directions, whichever pod has the rule."""
    asks = labelled(worker("runs", gpus=0, nodeName="a"), app="x")
    asks["metadata"]["annotations"] = {}
    wants = labelled(worker("p", affinity=away(app="x")), app="x")
    two = [draw_node("a", 8), draw_node("b", 1)]
    assert [binding["node"] for binding in planned(*two, podgroup(), asks, wants)["bindings"]] == ["b"]
    asks["spec"]["affinity"] = away(app="x")
    plain = labelled(worker("p"), app="x")
    nodes = [draw_node("a", 8), draw_node("b", 8)]
    for raw in nodes:
        raw["metadata"]["labels"]["kubernetes.io/hostname"] = raw["metadata"]["name"]
    assert [binding["node"] for binding in planned(*nodes, podgroup(), asks, plain)["bindings"]] == ["b"]


@pytest.mark.parametrize(
    "spec",
    [{"resourceClaims": [{"name": "gpu"}]}, {"volumes": [{"name": "scratch", "ephemeral": {}}]}],
    ids=["devices by claim", "volumes by claim"],
)
def test_a_rule_that_is_not_decided_is_said_so(spec: Raw) -> None:
    """X5: a pod is not placed by guesswork."""
    plan = planned(draw_node("a", 8), podgroup(), worker("p", **spec))
    assert plan["bindings"] == []
    assert (plan["podGroups"][0]["verdict"], plan["podGroups"][0]["reasons"][0]["reason"]) == ("Waiting", "Unsupported")


@pytest.mark.parametrize("annotation", ["gpu-fraction", "gpu-memory"])
def test_a_part_of_a_gpu_is_said_to_be_unsupported(annotation: str) -> None:
    """X5: KAI's annotation asks for a GPU that no request of the pod names; to ignore it would be guesswork."""
    shared = worker("p")
    shared["metadata"]["annotations"][annotation] = "0.5"
    plan = planned(draw_node("a", 8), podgroup(), shared)
    assert plan["bindings"] == []
    (reason,) = plan["podGroups"][0]["reasons"]
    assert reason["reason"] == "Unsupported"
    assert annotation in reason["message"]


def test_a_budget_that_runs_out_says_unknown_and_nothing_else() -> None:
    """X2: the verdicts are never merged."""
    groups = [{"name": f"g{i}", "minMember": 3, "topologyConstraint": IN_A_RACK} for i in range(8)]
    nodes = [draw_node(f"n{i}", 4, f"z1/r{i}") for i in range(8)]
    pods = [worker(f"g{i}-{j}", leaf=f"g{i}") for i in range(8) for j in range(3)]
    objects = muster.objects([ZONES_AND_RACKS, *nodes, podgroup(*groups), *pods])
    assert muster.plan(objects, muster.Policy(steps=3)).verdict("team/gang") == "Unknown"
    assert muster.plan(objects).verdict("team/gang") == "Scheduled"


@pytest.mark.parametrize(("gpus", "code"), [(1, 0), (0, 1)])
def test_require_all_tells_with_its_exit_code(gpus: int, code: int, tmp_path: Path) -> None:
    """1: the answer is no."""
    path = tmp_path / "all.json"
    items = [draw_node("a", gpus), podgroup(), worker("p")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    result = CliRunner().invoke(cli, ["plan", "--require-all", str(path)], standalone_mode=False)
    assert result.return_value == code


@pytest.mark.parametrize("alike", [True, False], ids=["equal groups", "groups of two sizes"])
@pytest.mark.parametrize(("racks", "size", "each"), [(6, 5, 1), (10, 5, 1), (8, 7, 2)])
def test_equal_racks_that_hold_all_but_one_group_are_proved_too_few(
    racks: int, size: int, each: int, alike: bool
) -> None:
    """X1: a family that is exponential for a search that tries equal racks and equal groups one by one."""
    nodes = [draw_node(f"n{r}-{i}", 1, f"z1/r{r}") for r in range(racks) for i in range(size)]

    def verdict(number: int) -> str:
        sizes = [3 + (0 if alike else i % 2 * (size - 3 * each > 0)) for i in range(number)]
        groups = [{"name": f"g{i}", "minMember": n, "topologyConstraint": IN_A_RACK} for i, n in enumerate(sizes)]
        pods = [worker(f"g{i}-{j}", leaf=f"g{i}") for i, n in enumerate(sizes) for j in range(n)]
        return str(planned(ZONES_AND_RACKS, *nodes, podgroup(*groups), *pods)["podGroups"][0]["verdict"])

    assert verdict(racks * each) == "Scheduled"
    assert verdict(racks * each + 1) == "Infeasible"

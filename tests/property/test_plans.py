"""What a plan keeps when the same cluster is written differently, and which way a verdict may turn when it changes."""

import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import muster
from tests.oracles.checker import broken
from tests.support.puzzles import manifests, puzzle

Raw = dict[str, Any]

SEEDS = {"nightly": 5_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 150)
SLICES = 5
LEAF = "kai.scheduler/subgroup-name"
HOSTNAME = "kubernetes.io/hostname"

slices = pytest.mark.parametrize("part", range(SLICES))


def worlds(part: int) -> Iterator[tuple[int, random.Random, list[Raw]]]:
    """One slice of the seeds: each with dice of its own and its objects."""
    for seed in range(part, SEEDS, SLICES):
        yield seed, random.Random(seed), manifests(puzzle(seed))


def planned(seed: int, objects: list[Raw]) -> Raw:
    """A plan that keeps every promise."""
    plan = muster.plan(muster.objects(objects)).to_dict()
    assert broken(objects, plan) == [], f"seed {seed}"
    return plan


def verdict(seed: int, objects: list[Raw]) -> str:
    word: str = planned(seed, objects)["podGroups"][0]["verdict"]
    return word


def of(kind: str, objects: list[Raw]) -> list[Raw]:
    return [raw for raw in objects if raw["kind"] == kind]


# less in the way ----------------------------------------------------------------------------------------------------


@slices
def test_a_pod_of_another_scheduler_that_leaves_never_turns_placed_into_infeasible(part: int) -> None:
    """X5: pods of others only ever take room away."""
    for seed, rng, objects in worlds(part):
        others = list(foreign(rng, of("Node", objects)))
        before = verdict(seed, objects + others)
        for gone in rng.sample(others, min(2, len(others))):
            after = verdict(seed, objects + [other for other in others if other is not gone])
            assert (before, after) != ("Scheduled", "Infeasible"), f"seed {seed}"


def foreign(rng: random.Random, nodes: list[Raw]) -> Iterator[Raw]:
    """Running pods that fit on their nodes, few enough that gangs still may."""
    for i, node in enumerate(nodes):
        left = {resource: int(amount) for resource, amount in node["status"]["allocatable"].items()}
        for j in range(rng.choice((0, 0, 1, 2))):
            asks = {resource: rng.randint(0, min(amount, 2)) for resource, amount in left.items()}
            left = {resource: amount - asks[resource] for resource, amount in left.items()}
            yield stranger(f"other-{i}-{j}", node["metadata"]["name"], asks)


def stranger(name: str, node: str, asks: dict[str, int]) -> Raw:
    requests = {resource: str(amount) for resource, amount in asks.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "others"},
        "spec": {
            "schedulerName": "default-scheduler",
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running"},
    }


# more asked for -----------------------------------------------------------------------------------------------------


@slices
def test_a_higher_minimum_never_turns_infeasible_into_placed(part: int) -> None:
    """M1: who needs more never fits better."""
    for seed, rng, objects in worlds(part):
        before = verdict(seed, objects)
        for _ in range(2):
            raised(rng, objects)
            after = verdict(seed, objects)
            assert (before, after) != ("Infeasible", "Scheduled"), f"seed {seed}"
            before = after


def raised(rng: random.Random, objects: list[Raw]) -> None:
    """One minimum that is below its most, somewhere up to there; nothing if all of them ask for all."""
    (gang,) = of("PodGroup", objects)
    groups = gang["spec"].get("subGroups", [])
    most = [("minSubGroup", sum(group["parent"] == "" for group in groups), gang["spec"])]
    most += [("minSubGroup", sum(other["parent"] == group["name"] for other in groups), group) for group in groups]
    pods = [pod["metadata"]["labels"].get(LEAF, "") for pod in of("Pod", objects)]
    most += [("minMember", pods.count(group.get("name", "")), group) for group in (gang["spec"], *groups)]
    able = [one for one in most if one[2].get(one[0], one[1]) < one[1]]
    for field, limit, group in rng.sample(able, min(1, len(able))):
        group[field] = rng.randint(group[field] + 1, limit)


# written differently -----------------------------------------------------------------------------------------------


@slices
def test_other_names_change_no_verdict(part: int) -> None:
    """X1: a name orders choices, it never decides whether there is one."""
    for seed, rng, objects in worlds(part):
        before = verdict(seed, objects)
        assert verdict(seed, renamed(rng, objects)) == before, f"seed {seed}"


def renamed(rng: random.Random, objects: list[Raw]) -> list[Raw]:
    """Nodes, pods and subgroups under new names; hostnames is_label_renamed their nodes, or not."""
    objects = copy.deepcopy(objects)
    (gang,) = of("PodGroup", objects)
    groups = gang["spec"].get("subGroups", [])
    nodes = fresh(rng, [node["metadata"]["name"] for node in of("Node", objects)])
    leaves = {"": ""} | fresh(rng, [group["name"] for group in groups])
    pods = fresh(rng, [pod["metadata"]["name"] for pod in of("Pod", objects)])
    is_label_renamed = rng.random() < 0.5
    for node in of("Node", objects):
        labels, node["metadata"]["name"] = node["metadata"]["labels"], nodes[node["metadata"]["name"]]
        if is_label_renamed and HOSTNAME in labels:
            labels[HOSTNAME] = nodes[labels[HOSTNAME]]
    for group in groups:
        group["name"], group["parent"] = leaves[group["name"]], leaves[group["parent"]]
    for pod in of("Pod", objects):
        labels, pod["metadata"]["name"] = pod["metadata"]["labels"], pods[pod["metadata"]["name"]]
        labels |= {LEAF: leaves[labels[LEAF]]} if LEAF in labels else {}
        pod["spec"] |= {"nodeName": nodes[pod["spec"]["nodeName"]]} if "nodeName" in pod["spec"] else {}
    return objects


def fresh(rng: random.Random, names: list[str]) -> dict[str, str]:
    """New names in an order that has nothing to do with the old one."""
    return {name: f"x{number}" for name, number in zip(names, rng.sample(range(1000), len(names)), strict=True)}


@slices
def test_another_order_changes_no_verdict(part: int) -> None:
    """X1, M3: spec order says who comes first, never whether all can come; the order of objects says nothing."""
    for seed, rng, objects in worlds(part):
        before = verdict(seed, objects)
        (gang,) = of("PodGroup", objects)
        rng.shuffle(gang["spec"].get("subGroups", []))
        rng.shuffle(objects)
        assert verdict(seed, objects) == before, f"seed {seed}"


# planned again ------------------------------------------------------------------------------------------------------


@slices
def test_the_same_input_twice_gives_the_same_bytes(part: int) -> None:
    """X3: nothing is remembered from one plan to the next, and nothing that is handed in is changed."""
    for seed, _, objects in worlds(part):
        given = copy.deepcopy(objects)
        first = json.dumps(planned(seed, objects))
        assert objects == given, f"seed {seed}"
        assert json.dumps(planned(seed, objects)) == first, f"seed {seed}"


ALL_PLANS = """
import json, sys, muster
from tests.support.puzzles import manifests, puzzle
for seed in range(int(sys.argv[1])):
    print(json.dumps(muster.plan(muster.objects(manifests(puzzle(seed)))).to_dict()))
"""


def test_every_process_gives_the_same_bytes() -> None:
    """X3: sets of names are in another order in every process; a plan does not show it."""

    def plans(hashes: str) -> list[str]:
        command = [sys.executable, "-c", ALL_PLANS, str(SEEDS)]
        around = os.environ | {"PYTHONHASHSEED": hashes, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(command, env=around, capture_output=True, text=True, check=True).stdout.splitlines()

    for seed, (one, other) in enumerate(zip(plans("1"), plans("2"), strict=True)):
        assert one == other, f"seed {seed}"

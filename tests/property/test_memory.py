"""A memory makes plans cheaper and never different (X7): cycle after cycle on worlds that change, and that do not."""

import copy
import os
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import muster
from muster.model.snapshot import Snapshot, take
from muster.planning.cycle import plan
from muster.planning.decision import CyclePlan
from muster.planning.memory.answer_cache import AnswerCache
from muster.planning.policy import Policy
from muster.reporting import plans
from tests.oracles import inter_pod, victims
from tests.support import puzzles
from tests.support.busy import busy_cluster

Raw = dict[str, Any]
SEEDS = {"nightly": 2_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 60)
SLICES = 5
CYCLES = 4
MOMENT = datetime.fromisoformat(victims.NOW)
ENDLESS = Policy(steps=3_000, cycle_steps=10**9)  # what is left of a cycle may differ with a memory; a gang's may not
slices = pytest.mark.parametrize("part", range(SLICES))


def worlds(part: int) -> Iterator[tuple[str, random.Random, list[Raw]]]:
    for seed in range(part, SEEDS, SLICES):
        yield f"victims {seed}", random.Random(seed), victims.manifests(victims.puzzle(seed))
        yield f"puzzle {seed}", random.Random(seed), puzzles.manifests(puzzles.puzzle(seed, hosts=12))


def snapshot(objects: list[Raw], now: datetime = MOMENT) -> Snapshot:
    return take(muster.objects(objects), now)


def bytes_of(plan: CyclePlan) -> Raw:
    return plans.data(plan)


def of(kind: str, objects: list[Raw]) -> list[Raw]:
    return [raw for raw in objects if raw["kind"] == kind]


def twin(objects: list[Raw], number: int) -> list[Raw]:
    """Every gang that waits once more, under another name: both have the same answer."""
    twins = []
    waiting = {
        (raw["metadata"].get("annotations") or {}).get("pod-group-name")
        for raw in of("Pod", objects)
        if not raw["spec"].get("nodeName")
    }
    for raw in objects:
        name = (raw["metadata"].get("annotations") or {}).get("pod-group-name")
        if raw["kind"] == "PodGroup" and raw["metadata"]["name"] in waiting:
            twins.append(renamed(raw, number))
        elif raw["kind"] == "Pod" and name in waiting and not raw["spec"].get("nodeName"):
            again = renamed(raw, number)
            again["metadata"]["annotations"]["pod-group-name"] = f"{name}-t{number}"
            twins.append(again)
    return twins


def renamed(raw: Raw, number: int) -> Raw:
    again = copy.deepcopy(raw)
    again["metadata"]["name"] += f"-t{number}"
    again["metadata"].pop("uid", None)
    return again


def changed(rng: random.Random, objects: list[Raw], number: int) -> list[Raw]:
    """The cluster a while later: pods left, came, or a node is bigger; or nothing at all has happened."""
    after = copy.deepcopy(objects)
    match rng.randrange(5):
        case 0:
            return after
        case 1 if running := [raw for raw in of("Pod", after) if raw["spec"].get("nodeName")]:
            after.remove(rng.choice(running))
        case 2:
            after += twin(after, number)
        case 3:
            allocatable = rng.choice(of("Node", after))["status"]["allocatable"]
            some = rng.choice(sorted(allocatable))
            allocatable[some] = (
                str(int(allocatable[some]) + 1) if str(allocatable[some]).isdecimal() else allocatable[some]
            )
        case 4 if queues := of("Queue", after):
            rng.choice(queues)["spec"]["priority"] = rng.randrange(50, 150)
        case _:
            pass
    return after


@slices
def test_a_plan_with_a_memory_is_the_plan_without_one(part: int) -> None:
    """Byte for byte, whatever earlier cycles have left in it."""
    for name, rng, objects in worlds(part):
        memory, now = AnswerCache(), MOMENT
        for cycle in range(CYCLES):
            given = snapshot(objects, now)
            with_memory, without = plan(given, ENDLESS, memory=memory), plan(given, ENDLESS)
            assert bytes_of(with_memory) == bytes_of(without), f"{name}, cycle {cycle}"
            objects = changed(rng, objects, cycle)
            now += timedelta(seconds=rng.choice((0, 1, 100_000)))


@slices
def test_on_an_unchanged_cluster_a_waiting_gang_costs_nothing_the_second_time(part: int) -> None:
    """X7: what was unknown or hopeless is not paid for again."""
    for name, _, objects in worlds(part):
        memory, given = AnswerCache(), snapshot(objects)
        first, second = plan(given, ENDLESS, memory=memory), plan(given, ENDLESS, memory=memory)
        assert bytes_of(first) == bytes_of(second), name
        if not first.bindings and not first.evictions and not first.nominations:
            assert sum(second.searches) == 0, f"{name}: {first.searches} then {second.searches}"


def test_what_a_gang_finds_out_depends_on_no_other_gangs_steps() -> None:
    """X7: where the steps of a cycle run out, the next cycles have theirs for gangs that were not asked yet."""
    scarce = replace(ENDLESS, steps=5_000, cycle_steps=2_000)
    for seed in range(3):
        given, memory = snapshot(busy_cluster(seed, nodes=60, running=300, waiting=30)), AnswerCache()
        spent = [sum(plan(given, scarce, memory=memory).searches) for _ in range(6)]
        assert spent[-1] == spent[-2] < 1_000, f"seed {seed}: {spent}"
        assert max(spent) <= 3_000 + scarce.steps, f"seed {seed}: {spent}"


def test_rules_between_pods_are_part_of_what_is_remembered() -> None:
    for seed in range(SEEDS // 3):
        objects = inter_pod.manifests(inter_pod.puzzle(seed))
        memory, rng = AnswerCache(), random.Random(seed)
        for cycle in range(3):
            given = snapshot(objects)
            remembered = plan(given, ENDLESS, memory=memory)
            assert bytes_of(remembered) == bytes_of(plan(given, ENDLESS)), f"seed {seed}, cycle {cycle}"
            objects = changed(rng, objects, cycle)


def test_the_memory_is_bounded() -> None:
    """The least recently used goes first."""
    memory = AnswerCache(most=3)
    for seed in range(40):
        plan(snapshot(victims.manifests(victims.puzzle(seed))), ENDLESS, memory=memory)
        assert len(memory) <= 3

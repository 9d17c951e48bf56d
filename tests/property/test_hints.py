"""Hints against plan and validation: what is advised is accepted, helps, and gives up no more than it must (E1)."""

import copy
import os
from typing import Any

import pytest

import muster
from tests.oracles.placement import Part, Puzzle, feasible
from tests.support.puzzles import LEVELS, manifests, puzzle

Raw = dict[str, Any]
SEEDS = {"nightly": 5_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 300)
SLICES = 5


def changed(objects: list[Raw], change: Raw) -> list[Raw]:
    """The same objects with a hint followed."""
    after = copy.deepcopy(objects)
    spec = next(one for one in after if one["kind"] == "PodGroup")["spec"]
    group = next((one for one in spec.get("subGroups", ()) if one["name"] == change["subGroup"]), spec)
    if change["field"] == "requiredTopologyLevel":
        group["topologyConstraint"]["requiredTopologyLevel"] = change["to"]
    else:
        group[change["field"]] = change["to"]
    return after


def group_of(objects: list[Raw]) -> Raw:
    return next(one for one in objects if one["kind"] == "PodGroup")


def hints(objects: list[Raw]) -> list[Raw]:
    decision = muster.plan(muster.objects(objects)).to_dict()["podGroups"][0]
    return [change for reason in decision["reasons"] for change in reason["details"].get("changes", ())]


@pytest.mark.parametrize("part", range(SLICES))
def test_a_hint_is_accepted_and_lets_the_gang_in(part: int) -> None:
    """E1, V1, V2, V5: a change as advised is neither refused nor without effect."""
    followed = 0
    for seed in range(part, SEEDS, SLICES):
        objects = manifests(puzzle(seed))
        for change in hints(objects):
            after = changed(objects, change)
            problems = muster.validate(group_of(after), group_of(objects))
            assert not [one for one in problems if one.severity == "error"], f"seed {seed}: {change}"
            assert muster.plan(muster.objects(after)).verdict("team/gang") == "Scheduled", f"seed {seed}: {change}"
            followed += 1
    assert followed


def lowered(given: Puzzle) -> list[Puzzle]:
    """The puzzle with the minimum of one group one lower; or with one level less, wherever there is one."""
    lower = []
    for i, part in enumerate(given.parts):
        ways: list[Part] = [part._replace(need=part.need - 1)] if part.need > 1 else []
        ways += [part._replace(level=None)] if part.level is not None else []
        lower += [given._replace(parts=(*given.parts[:i], one, *given.parts[i + 1 :])) for one in ways]
    return lower


@pytest.mark.parametrize("part", range(SLICES))
def test_where_one_small_change_helps_there_is_a_hint(part: int) -> None:
    """E1: tried at every level of the tree, not only where the search got stuck."""
    for seed in range(part, SEEDS, SLICES):
        given = puzzle(seed, hosts=12, parts=8)
        if not feasible(given) and any(map(feasible, lowered(given))):
            assert hints(manifests(given)), f"seed {seed}"


def required_above(objects: list[Raw], name: str) -> int:
    """The coarsest level that no group above requires anyway: the others are the same as none."""
    spec = group_of(objects)["spec"]
    groups = {one["name"]: one for one in spec.get("subGroups", ())}
    nearest = -1
    while name:
        name = groups[name]["parent"]
        level = (groups[name] if name else spec).get("topologyConstraint", {}).get("requiredTopologyLevel")
        nearest = max(nearest, LEVELS.index(level) if level else -1)
    return nearest + 1


@pytest.mark.parametrize("part", range(SLICES))
def test_no_hint_gives_up_more_than_it_must(part: int) -> None:
    """A minimum that is one higher, or a level that is one finer, would not do."""
    for seed in range(part, SEEDS, SLICES):
        objects = manifests(puzzle(seed))
        for change in hints(objects):
            if change["field"] == "requiredTopologyLevel":
                finer = LEVELS.index(change["to"]) + 1 if change["to"] else required_above(objects, change["subGroup"])
                less = change | {"to": LEVELS[finer]}
            else:
                less = change | {"to": change["to"] + 1}
            if less["to"] != change["from"]:
                after = changed(objects, less)
                assert muster.plan(muster.objects(after)).verdict("team/gang") != "Scheduled", f"seed {seed}: {change}"

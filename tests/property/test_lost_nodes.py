"""Nodes that are deleted while their pods stay bound (0010): no verb fails on them, and every promise holds."""

import json
import os
import random
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import muster
from muster.api.objects import key
from muster.cli.main import cli
from muster.model.snapshot import take
from muster.planning.decision import CyclePlan
from muster.reporting import plans, text
from muster.reporting.conditions import pod_conditions
from muster.reporting.outcome import outcomes
from muster.reporting.status import pod_group_status, queue_statuses
from tests.oracles import inter_pod, preferences, victims
from tests.oracles.checker import broken
from tests.support import puzzles

Raw = dict[str, Any]
Manifests = list[Raw]

SEEDS = {"nightly": 2_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 60)
NOW = datetime.fromisoformat("2026-01-02T00:00:00+00:00")
LONG_AGO = "2026-01-01T00:00:00Z"
WORLDS: dict[str, Callable[[int], Manifests]] = {
    "trees": lambda seed: puzzles.manifests(puzzles.puzzle(seed)),
    "wishes": lambda seed: preferences.manifests(preferences.wishes(seed)),
    "neighbours": lambda seed: inter_pod.manifests(inter_pod.puzzle(seed)),
    "victims": lambda seed: victims.manifests(victims.puzzle(seed)),
}

kinds = pytest.mark.parametrize("kind", WORLDS)


def worlds(kind: str) -> Iterator[tuple[str, random.Random, Manifests]]:
    """Random worlds that some nodes with pods have just left; some gangs have been short for long."""
    for seed in range(SEEDS):
        rng = random.Random(seed)
        objects = WORLDS[kind](seed)
        _age(rng, objects)
        held = sorted({raw["spec"]["nodeName"] for raw in objects if raw["kind"] == "Pod" and _on_a_node(raw)})
        gone = set(rng.sample(held, rng.randint(1, len(held)))) if held else set()
        left = [raw for raw in objects if raw["kind"] != "Node" or raw["metadata"]["name"] not in gone]
        yield f"{kind}, seed {seed}", rng, left


def _on_a_node(pod: Raw) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _age(rng: random.Random, objects: Manifests) -> None:
    """Timers that have run out, at the root and below; pods that are gone make some gangs short."""
    for raw in objects:
        if raw["kind"] == "PodGroup" and rng.random() < 0.7:
            parts = {part["name"]: LONG_AGO for part in raw["spec"].get("subGroups", ())}
            notes = {
                "kai.scheduler/stale-podgroup-timestamp": LONG_AGO,
                "muster.dev/stale-subgroups": json.dumps(parts),
            }
            raw["metadata"]["annotations"] = raw["metadata"].get("annotations", {}) | notes
    for raw in [raw for raw in objects if raw["kind"] == "Pod" and rng.random() < 0.15]:
        objects.remove(raw)


@kinds
def test_every_plan_keeps_its_promises(kind: str) -> None:
    """The judge knows no domain for a pod on a missing node, and lets no pod join it where one is required."""
    lost = 0
    for seed, _, objects in worlds(kind):
        plan = muster.plan(muster.objects(objects), now=NOW).to_dict()
        assert broken(objects, plan, NOW) == [], seed
        known = {raw["metadata"]["name"] for raw in objects if raw["kind"] == "Node"}
        lost += sum(one["node"] not in known for one in plan["evictions"])
    assert lost or kind == "neighbours", "no stale pod was on a missing node"


@kinds
def test_everything_can_be_reported(kind: str) -> None:
    """Status, conditions, pictures and explanations of what was decided."""
    for seed, rng, objects in worlds(kind):
        snapshot = take(muster.objects(objects), NOW)
        planned = muster.plan(snapshot.objects, now=NOW)
        decided = planned.decided
        for picture in (plans.lines, plans.cluster_map, plans.domain_map):
            assert text.plain(picture(decided, snapshot)), seed
        _tell(decided, snapshot)
        node = rng.choice([raw["metadata"]["name"] for raw in objects if raw["kind"] == "Node"] or [""])
        assert not node or str(muster.what_if(snapshot.objects, drain=node, now=NOW)), seed


def _tell(decided: CyclePlan, snapshot: Any) -> None:
    groups = {key(group.metadata): group for group in snapshot.objects.pod_groups}
    for name, outcome in outcomes(snapshot, decided).items():
        assert pod_group_status(outcome, groups[name], NOW).conditions
        assert pod_conditions(outcome, groups[name]) is not None
    queue_statuses(snapshot, decided, NOW)


@kinds
@pytest.mark.parametrize("form", ["table", "json"])
def test_no_verb_stumbles(kind: str, form: str, tmp_path: Path) -> None:
    """Every verb that reads a cluster from files ends with an answer."""
    file = tmp_path / "world.json"
    for seed, _, objects in list(worlds(kind))[: SEEDS // 6]:
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        gangs = [raw["metadata"] for raw in objects if raw["kind"] == "PodGroup"]
        verbs = [["explain", f"{gangs[0].get('namespace', 'default')}/{gangs[0]['name']}"]]
        for words in [*verbs, ["plan"], ["tree"], ["topology"], ["queues"], ["validate"]]:
            ran = CliRunner().invoke(cli, [*words, "-o", form, str(file)])
            assert ran.exit_code in (0, 1), f"{seed}: {words}: {ran.output[-300:]}"
            assert ran.exception is None or isinstance(ran.exception, SystemExit), f"{seed}: {words}: {ran.exception!r}"

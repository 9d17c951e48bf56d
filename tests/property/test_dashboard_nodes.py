"""The dashboard while nodes come, go and get other labels, and Topologies are swapped: rows equal their definition.

Gangs that are the same value in two plans may be in other domains all the same; everything may be deleted at once.
"""

import os
from random import Random
from typing import Any

import msgspec
import pytest

from muster.dashboard.messages import Cursor, parse_cursor
from muster.reporting.dashboard.gangs import gang_record
from muster.reporting.dashboard.nodes import node_rows
from tests.support.factories import Raw, node, pod, podgroup, topology
from tests.support.shown_cluster import Identity, ShownCluster, apply_event, decoded_event, identity_of

WORLDS, SLICES, CYCLES = (1_000 if os.environ.get("HYPOTHESIS_PROFILE", "") == "nightly" else 24), 4, 12
LEVELS = ("t/zone", "t/rack")
TOPOLOGIES = ("cluster", "second")
GPU: dict[str, Any] = {"nvidia.com/gpu": 1}
NODES, GANGS, PODS = 9, 6, 5


class ChangingNodes:
    """Random objects, of which some change at a time."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.objects: dict[Identity, Raw] = {}
        for _ in range(30):
            self.change()

    def change(self) -> None:
        """One object comes, differs or goes; seldom all go."""
        chance = self._random.random()
        if chance < 0.01:
            self.objects.clear()
        elif chance < 0.2 and self.objects:
            del self.objects[self._random.choice(list(self.objects))]
        else:
            made = self._random.choice((self._node, self._node, self._topology, self._gang, self._pod, self._pod))()
            self.objects[identity_of(made)] = made

    def _node(self) -> Raw:
        labels = {level: self._random.choice("abc") for level in LEVELS if self._random.random() < 0.9}
        return node(
            f"n{self._random.randrange(NODES)}", labels=labels, allocatable={"nvidia.com/gpu": "4", "pods": "20"}
        )

    def _topology(self) -> Raw:
        levels = self._random.choice((LEVELS, LEVELS, LEVELS[:1], LEVELS[1:], ("t/other",)))
        return topology(*levels, name=self._random.choice(TOPOLOGIES))

    def _gang(self) -> Raw:
        kind = self._random.choice(("requiredTopologyLevel", "preferredTopologyLevel"))
        level = {"topology": self._random.choice(TOPOLOGIES), kind: self._random.choice(LEVELS)}
        name = f"g{self._random.randrange(GANGS)}"
        return podgroup(name=name, minMember=self._random.randint(1, 3), topologyConstraint=level)

    def _pod(self) -> Raw:
        gang = f"g{self._random.randrange(GANGS)}"
        on = f"n{self._random.randrange(NODES)}" if self._random.random() < 0.7 else ""
        return pod(f"{gang}-{self._random.randrange(PODS)}", gang=gang, on=on, **GPU)


@pytest.mark.parametrize("part", range(SLICES))
async def test_rows_equal_their_definition_wherever_nodes_are(part: int) -> None:
    """And a viewer that reads every change has them, too."""
    for seed in range(part, WORLDS, SLICES):
        changing, shown = ChangingNodes(seed), ShownCluster()
        viewed: Any = {}
        cursor: Cursor | None = None
        for _ in range(CYCLES):
            changing.change()
            shown.set(changing.objects.values())
            plan = await shown.cycle()
            state = shown.state()
            assert shown.snapshot is not None
            assert state["nodes"] == as_json(node_rows(shown.snapshot, plan)), seed
            assert state["gangs"] == {each.gang.key: as_json(gang_record(each).row) for each in plan.gangs}, seed
            event = shown.messages.event(None, cursor)
            cursor, viewed = parse_cursor(decoded_event(event)[1]), apply_event(viewed, event)
            assert viewed == state, seed


def as_json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))

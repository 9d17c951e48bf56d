"""The dashboard over random clusters: what viewers have is what the CLI says of the same cluster, and nothing more.

A world is up to eight cycles of a random cluster, with gangs in three namespaces.
"""

import os
from collections import defaultdict
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.dashboard.gang_records import SettledGangs
from muster.dashboard.messages import Cursor, parse_cursor
from muster.reporting import plans, queues
from muster.reporting.dashboard.gangs import RecordedGang, is_same
from muster.reporting.dashboard.nodes import node_rows
from muster.reporting.dashboard.tables import apply, diff, merge, reverse
from tests.support.random_cluster import CYCLES
from tests.support.shown_cluster import NAMESPACES, RandomShown, apply_event, decoded_event

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE", "") == "nightly"
WORLDS, SLICES = (2_000 if NIGHTLY else 30), 6
SEEDS = pytest.mark.parametrize("part", range(SLICES))
ROWS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3), max_size=4)
TABLES = st.dictionaries(st.sampled_from(("nodes", "gangs")), ROWS, max_size=2)


def seeds(part: int) -> range:
    return range(part, WORLDS, SLICES)


def without_empty(tables: Any) -> Any:
    return {name: dict(rows) for name, rows in tables.items() if rows}


# changes of tables ----------------------------------------------------------------------------------------------------


@given(st.lists(TABLES, min_size=2, max_size=5))
def test_changes_lead_from_each_state_to_the_next_and_back(states: list[dict[str, dict[str, int]]]) -> None:
    changes = [diff(before, after) for before, after in pairwise(states)]
    for before, after, change in zip(states, states[1:], changes, strict=False):
        assert without_empty(apply(before, change)) == without_empty(after)
        assert without_empty(apply(after, reverse(before, change))) == without_empty(before)


@given(st.lists(TABLES, min_size=2, max_size=5))
def test_a_merged_change_equals_the_sequence(states: list[dict[str, dict[str, int]]]) -> None:
    changes = [diff(before, after) for before, after in pairwise(states)]
    assert without_empty(apply(states[0], merge(changes))) == without_empty(states[-1])
    ways_back = [reverse(before, change) for before, change in zip(states, changes, strict=False)]
    assert without_empty(apply(states[-1], merge(reversed(ways_back)))) == without_empty(states[0])


# the model ------------------------------------------------------------------------------------------------------------


@SEEDS
async def test_rows_that_are_kept_up_to_date_equal_their_definition(part: int) -> None:
    for seed in seeds(part):
        shown = RandomShown(seed)
        for _ in range(CYCLES):
            plan = await shown.cycle()
            assert shown.snapshot is not None
            expected = msgspec.to_builtins(node_rows(shown.snapshot, plan))
            state = shown.state()
            assert state["nodes"] == msgspec.json.decode(msgspec.json.encode(expected)), seed


@SEEDS
async def test_numbers_are_those_of_the_cli(part: int) -> None:
    """Use of nodes as in `muster topology`, gangs as in `muster plan`, queues as in `muster queues`."""
    for seed in seeds(part):
        shown = RandomShown(seed)
        for _ in range(CYCLES):
            plan = await shown.cycle()
            state, snapshot = shown.state(), shown.snapshot
            assert snapshot is not None
            for i, node in enumerate(snapshot.nodes):
                used: dict[str, int] = defaultdict(int)
                for _, use, amounts in state["nodes"][node.metadata.name]["used"]:
                    for name, amount in amounts.items() if use != "nominated" else ():
                        used[name] += amount
                assert all(used[name] == snapshot.used[i, at] for at, name in enumerate(snapshot.columns)), seed
            for raw in plans.data(plan)["podGroups"]:
                row = state["gangs"][f"{raw['namespace']}/{raw['name']}"]
                tree = raw["tree"]
                expected = raw["verdict"], tree["placed"], tree["pending"], raw["position"], raw["queue"]
                assert (row["verdict"], row["placed"], row["pending"], row["position"], row["queue"]) == expected
                assert row["reason"] == next((reason["reason"] for reason in raw["reasons"]), "")
            assert len(state["gangs"]) == len(plan.gangs)
            for gang_plan in plan.gangs:
                domain = gang_plan.domains.get(gang_plan.gang.root.name, "")
                assert state["gangs"][gang_plan.gang.key]["domain"] == domain, seed
            assert plan.division is not None
            assert state["queues"] == queues.data(plan.division)


@SEEDS
async def test_gangs_that_are_left_out_by_identity_are_the_same(part: int) -> None:
    """The loop over all gangs compares them with their records; the model looks at those that are not settled only."""
    left_out = 0
    for seed in seeds(part):
        shown, settled = RandomShown(seed), SettledGangs()
        records: dict[str, RecordedGang] = {}
        for _ in range(CYCLES):
            plan = await shown.cycle()
            others = {each.gang.key for each in settled.others(plan.gangs)}
            differing = {
                each.gang.key
                for each in plan.gangs
                if each.gang.key not in records or not is_same(records[each.gang.key], each)
            }
            assert differing <= others, seed
            left_out += len(plan.gangs) - len(others)
            for key in {**records, **shown.model.gangs}:
                settled.replace(records.get(key), shown.model.gangs.get(key))
            records = dict(shown.model.gangs)
    assert left_out


@SEEDS
async def test_a_viewer_has_the_state_however_slowly_it_reads(part: int) -> None:
    """One reads every change, one every third, one nothing until the end; all have what a new viewer gets."""
    for seed in seeds(part):
        shown = RandomShown(seed)
        states: list[Any] = [{}, {}, {}]
        cursors: list[Cursor | None] = [None, None, None]
        for number in range(CYCLES):
            await shown.cycle()
            for viewer, every in enumerate((1, 3, CYCLES)):
                if number % every == every - 1 and (event := shown.messages.event(None, cursors[viewer])):
                    states[viewer] = apply_event(states[viewer], event)
                    cursors[viewer] = parse_cursor(decoded_event(event)[1])
        for viewer in range(2):
            if event := shown.messages.event(None, cursors[viewer]):
                states[viewer] = apply_event(states[viewer], event)
        assert states == [shown.state()] * 3, seed


@SEEDS
async def test_time_travel_shows_what_was_seen_then(part: int) -> None:
    for seed in seeds(part):
        shown = RandomShown(seed)
        seen = {}
        for _ in range(CYCLES):
            await shown.cycle()
            seen[shown.cycles] = shown.state()
        for cycle, state in seen.items():
            travelled = shown.state(cycle=cycle)
            for key in state.keys() - {"seq", "at"}:
                assert travelled[key] == state[key], (seed, cycle, key)


@SEEDS
async def test_a_filtered_view_holds_no_name_of_another_namespace(part: int) -> None:
    """Neither state nor changes, with nodes and queues whole."""
    for seed in seeds(part):
        shown = RandomShown(seed)
        cursor: Cursor | None = None
        own = frozenset(NAMESPACES[:1])
        for _ in range(CYCLES):
            await shown.cycle()
            event = shown.messages.event(own, cursor)
            whole, state = shown.state(), shown.messages.state(own)
            for text in (event.decode(), state.decode()):
                assert not [name for name in NAMESPACES[1:] if name in text], (seed, text)
            filtered = msgspec.json.decode(state)
            assert filtered["queues"] == whole["queues"]
            assert filtered["gangs"].keys() == {key for key in whole["gangs"] if key.startswith(f"{NAMESPACES[0]}/")}
            for name, row in whole["nodes"].items():
                assert total(filtered["nodes"][name]) == total(row), seed
            if event:
                cursor = parse_cursor(decoded_event(event)[1])


def total(row: Any) -> dict[tuple[str, str], int]:
    amounts: dict[tuple[str, str], int] = defaultdict(int)
    for _, state, used in row["used"]:
        for name, amount in used.items():
            amounts[state, name] += amount
    return amounts

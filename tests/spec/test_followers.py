"""R3, X4: a gang whose domain others are held to sits where most of them fit, too."""

import json
from typing import Any

import pytest

import muster
from muster.api.names import SCALED_GANGS
from tests.support.factories import Raw, group, node, pod, podgroup, topology
from tests.support.planned_gang import NOW

LEVELS = topology("topology/zone", "topology/block")
ZONE = {"requiredTopologyLevel": "zone"}
PODS = {"a": 1, "sg-0-b": 1, "sg-0-c": 2}
LIKE = ["sg-0-b", "sg-0-c"]


def zones(**sizes: int) -> list[Raw]:
    """Zones of one block each, with so many nodes for one pod."""
    return [
        node(f"{zone}-{i}", cpu=1, zone=zone, block=f"{zone}-b") for zone, size in sizes.items() for i in range(size)
    ]


def base(followers: Any, *tree: Raw, **spec: Any) -> list[Raw]:
    """A gang of four pods and all that follow it."""
    gang = podgroup(
        *(tree or [group(name, count) for name, count in PODS.items()]), **{"topologyConstraint": ZONE, **spec}
    )
    stated = followers if isinstance(followers, str) else json.dumps(followers)
    gang["metadata"]["annotations"] = {SCALED_GANGS: stated} if followers else {}
    return [gang, *(pod(f"{name}-{i}", name, cpu=1) for name, count in PODS.items() for i in range(count))]


def zone_of(objects: list[Raw]) -> str:
    """The zone of all four pods."""
    bindings = muster.plan(muster.objects([LEVELS, *objects]), now=NOW).bindings
    assert len(bindings) == 4
    (zone,) = {binding.node.split("-")[0] for binding in bindings}
    return zone


def scaled(count: int) -> list[Raw]:
    return [{"like": LIKE, "count": count}]


@pytest.mark.parametrize(("count", "zone"), [(0, "four"), (1, "seven"), (2, "ten"), (9, "ten")])
def test_the_tightest_zone_is_taken_that_holds_most_scaled_gangs(count: int, zone: str) -> None:
    """Alone it would fill the zone of four, and all that follows it would wait for ever."""
    assert zone_of([*zones(four=4, seven=7, ten=10), *base(scaled(count))]) == zone


def test_a_scaled_gang_that_fits_in_no_zone_changes_nothing() -> None:
    """It waits either way, and big free zones stay whole."""
    assert zone_of([*zones(four=4, six=6), *base(scaled(3))]) == "four"


def test_a_scaled_gang_is_as_constrained_as_the_replica_that_it_is_like() -> None:
    """Each replica needs a block: a zone with room in pieces holds one, and no second."""
    pieces = [node(f"pieces-{i}", cpu=1, zone="pieces", block=f"p{i // 4}") for i in range(6)]
    blocks = [node(f"blocks-{i}", cpu=1, zone="blocks", block=f"b{i // 4}") for i in range(8)]
    tree = [
        group("a", 1),
        {"name": "sg-0", "minSubGroup": 2, "topologyConstraint": {"requiredTopologyLevel": "block"}},
        group("sg-0-b", 1, parent="sg-0"),
        group("sg-0-c", 2, parent="sg-0"),
    ]
    assert zone_of([*pieces, *blocks, *base([], *tree)]) == "pieces"
    assert zone_of([*pieces, *blocks, *base(scaled(1), *tree)]) == "blocks"


def test_a_domain_that_would_be_taken_anyway_is_filled_as_without_followers() -> None:
    """X4: what follows decides about the domain, and not about nodes in it."""
    blocks = [node(f"z-{i}", cpu=1, zone="z", block=f"b{i // 4}") for i in range(8)]
    alone, followed = (
        muster.plan(muster.objects([LEVELS, *blocks, *base(scaled(count))]), now=NOW).bindings for count in (0, 1)
    )
    assert followed == alone


def test_scaled_gangs_come_before_extras_of_the_base() -> None:
    """G4: their minimums do; in the zone of six two extras would fit, and no scaled gang."""
    extras = [pod(f"more-{i}", "a", cpu=1) for i in range(2)]
    objects = [*zones(six=6, seven=7), *base(scaled(1)), *extras]
    bindings = muster.plan(muster.objects([LEVELS, *objects]), now=NOW).bindings
    assert {binding.node.split("-")[0] for binding in bindings if binding.role == "core"} == {"seven"}


def test_pods_that_are_placed_decide_whatever_follows() -> None:
    """T3: what has a domain stays in it."""
    objects = base(scaled(2))
    objects[1] = pod("a-0", "a", cpu=1, on="four-0", phase="Running")
    bindings = muster.plan(muster.objects([LEVELS, *zones(four=4, ten=10), *objects]), now=NOW).bindings
    assert {binding.node.split("-")[0] for binding in bindings} == {"four"}


@pytest.mark.parametrize(
    "stated",
    [
        "no JSON",
        "[" * 100_000,
        '[{"like": "sg-0-b", "count": 2}]',
        '[{"like": ["unknown"], "count": 2}]',
        '[{"like": [], "count": 2}]',
        '[{"like": ["sg-0-b"], "count": -1}]',
        "{}",
    ],
    ids=["no JSON", "too deep", "no list", "unknown", "nothing", "negative", "another type"],
)
def test_what_cannot_be_read_is_nothing(stated: str) -> None:
    assert zone_of([*zones(four=4, ten=10), *base(stated)]) == "four"


def test_any_number_of_scaled_gangs_costs_a_bounded_number_of_steps() -> None:
    """X7: only so many count."""
    assert zone_of([*zones(four=4, ten=10), *base(scaled(10**9))]) == "ten"

"""Growth (X4): a core sits where the gang's own waiting extras can follow, by example."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import muster
from tests.support.factories import Raw, group, pod, podgroup, pods, topology

EXAMPLES = Path(__file__).parents[2] / "examples"
IN_ZONE: Raw = {"topologyConstraint": {"requiredTopologyLevel": "zone"}}
IN_RACK: Raw = {"topologyConstraint": {"requiredTopologyLevel": "rack"}}
ONE_GPU: Raw = {"nvidia.com/gpu": 1}


def cluster(**racks: int) -> list[Raw]:
    """Nodes of one GPU each: `z1_r2=3` are three in rack `r2` of zone `z1`."""
    objects: list[Raw] = [topology("topology/zone", "topology/rack")]
    for name, number in racks.items():
        zone, _, rack = name.partition("_")
        labels = {"topology/zone": zone, "topology/rack": rack}
        for i in range(number):
            meta = {"name": f"{zone}-{rack}-{i}", "labels": labels}
            allocatable = {"nvidia.com/gpu": "1", "pods": "10"}
            objects.append(
                {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": allocatable}}
            )
    return objects


def workers(number: int, leaf: str = "") -> list[Raw]:
    return pods(number, leaf, **ONE_GPU)


def places(*objects: Any) -> Counter[str]:
    """How many pods of which leaf are bound in which rack: `leaf@z-r`."""
    plan = muster.plan(
        muster.objects([raw for some in objects for raw in (some if isinstance(some, list) else [some])])
    )
    assert plan.verdict("team/gang") == "Scheduled"
    return Counter(f"{one.sub_group}@{one.node.rpartition('-')[0]}" for one in plan.bindings)


def test_two_of_three_replicas_start_in_the_zone_that_holds_three() -> None:
    """The zone that holds two is tighter, and the third replica could never join there (T1)."""
    replicas = [group(f"r{i}", 2, **IN_RACK) for i in range(3)]
    placement = places(
        cluster(a_r1=2, a_r2=2, b_r1=2, b_r2=2, b_r3=2),
        podgroup(*replicas, minSubGroup=2, **IN_ZONE),
        *(workers(2, f"r{i}") for i in range(3)),
    )
    assert sum(placement.values()) == 6
    assert all("@b-" in place for place in placement)


def test_five_pods_with_a_minimum_of_two_start_in_the_rack_of_five() -> None:
    """A rack of two is tighter for the core, and locks three pods out."""
    placement = places(cluster(a_r1=2, a_r2=5), podgroup(minMember=2, **IN_RACK), workers(5))
    assert placement == {"@a-r2": 5}


def test_leaves_with_extras_start_in_racks_of_their_own() -> None:
    """Both cores would fit together into one rack; then neither leaf could grow to three."""
    roles = [group("a", 1, **IN_RACK), group("b", 1, **IN_RACK)]
    placement = places(cluster(a_r1=1, a_r2=3, a_r3=3), podgroup(*roles), workers(3, "a"), workers(3, "b"))
    assert sorted(placement.values()) == [3, 3]
    assert len({place.partition("@")[2] for place in placement}) == 2


@pytest.mark.parametrize("leaves", [50, 200])
def test_many_leaves_with_extras_start_in_racks_of_their_own(leaves: int) -> None:
    """Small racks are tighter for every core; one leaf cannot grow at all, and costs the others nothing."""
    small = {f"a_s{i}": 1 for i in range(leaves // 2)}
    large = {f"a_t{i}": 3 for i in range(leaves - 1)}
    roles = [group(f"l{i:03}", 1, **IN_RACK) for i in range(leaves)]
    members = [workers(3, f"l{i:03}") for i in range(leaves)]
    placement = places(cluster(**small, **large), podgroup(*roles), *members)
    assert sorted(placement.values()) == [1, *([3] * (leaves - 1))]


def test_growth_looks_below_the_first_level() -> None:
    """The zone is chosen for what a leaf two levels below may still become."""
    tree = [group("r"), group("l", 1, parent="r"), group("w", 1, parent="r", **IN_RACK)]
    placement = places(cluster(a_r1=2, b_r1=5), podgroup(*tree, **IN_ZONE), workers(1, "l"), workers(4, "w"))
    assert sum(placement.values()) == 5


def test_the_dynamo_example_is_complete_where_it_can_be() -> None:
    """Four prefill and two decode replicas run in the zone that holds them all, not in one that holds the core only."""
    (raw,) = muster.load(EXAMPLES / "dynamo-inference.yaml").pod_groups
    assert raw.spec.min_sub_group == 2
    replicas = [("prefill", 4, 8), ("decode", 2, 4)]
    tree = [
        part
        for kind, number, need in replicas
        for part in (
            group(kind, of=3 if kind == "prefill" else 1, **IN_ZONE),
            *(group(f"{kind}-{i}", need, parent=kind, **IN_RACK) for i in range(number)),
        )
    ]
    small = {f"a_r{i}": 8 for i in range(3)} | {"a_r3": 4}
    large = {f"b_r{i}": 8 for i in range(4)} | {"b_r4": 4, "b_r5": 4, "b_r6": 4}
    members = [workers(need, f"{kind}-{i}") for kind, number, need in replicas for i in range(number)]
    placement = places(cluster(**small, **large), podgroup(*tree, minSubGroup=2), *members)
    assert sum(placement.values()) == 4 * 8 + 2 * 4


def test_the_dynamo_example_grows_to_all_its_pods_on_the_example_cluster() -> None:
    """The files of `examples/`, with every pod waiting."""
    objects = muster.load(EXAMPLES / "cluster", EXAMPLES / "dynamo-inference.yaml")
    waiting = [
        pod(f"{kind}-{i}-{j}", f"{kind}-{i}", gang="dynamo-inference", namespace="inference", **ONE_GPU)
        for kind, number, need in (("prefill", 4, 8), ("decode", 2, 4))
        for i in range(number)
        for j in range(need)
    ]
    whole = muster.plan(_joined(objects, muster.objects(waiting)))
    assert whole.verdict("inference/dynamo-inference") == "Scheduled"
    assert len(whole.bindings) == 4 * 8 + 2 * 4


def _joined(objects: muster.Objects, more: muster.Objects) -> muster.Objects:
    return replace(objects, pods=more.pods)


# what growth is not -------------------------------------------------------------------------------------------------


def test_without_extras_the_tightest_rack_is_taken() -> None:
    """X4: growth comes before fragmentation, and says nothing where no pod waits to follow."""
    placement = places(cluster(a_r1=2, a_r2=5), podgroup(minMember=2, **IN_RACK), workers(2))
    assert placement == {"@a-r1": 2}


def test_a_preferred_level_comes_before_growth() -> None:
    """T2 first: one rack for the core, though three racks of the other zone would hold the third pod, too."""
    prefers: Raw = {"topologyConstraint": {"requiredTopologyLevel": "zone", "preferredTopologyLevel": "rack"}}
    placement = places(cluster(a_r1=2, b_r1=1, b_r2=1, b_r3=1), podgroup(minMember=2, **prefers), workers(3))
    assert placement == {"@a-r1": 2}


def test_a_preferred_level_counts_the_extras_that_exist() -> None:
    """T2: five pods that prefer one rack sit in the rack of five, their core of two included."""
    prefers: Raw = {"topologyConstraint": {"preferredTopologyLevel": "rack"}}
    placement = places(cluster(a_r1=2, a_r2=5), podgroup(minMember=2, **prefers), workers(5))
    assert placement == {"@a-r2": 5}


def test_extras_that_do_not_exist_yet_move_nothing() -> None:
    """X4: the gang's own waiting extras; pods that a controller may create some day are not guessed."""
    replicas = [group(f"r{i}", 2, **IN_RACK) for i in range(3)]
    placement = places(
        cluster(a_r1=2, a_r2=2, b_r1=2, b_r2=2, b_r3=2),
        podgroup(*replicas, minSubGroup=2, **IN_ZONE),
        *(workers(2, f"r{i}") for i in range(2)),
    )
    assert sum(placement.values()) == 4
    assert all("@a-" in place for place in placement)

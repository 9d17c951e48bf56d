"""The tree of queues, and what the gangs in it request and hold (Q1, Q2, E2)."""

import random
from fractions import Fraction
from typing import Any

import pytest

import muster
from muster.api.queue import UNLIMITED
from muster.model.gang.builder import collect_gangs
from muster.model.queues import QueueTree, Share, Uses, arrange, charged, uses
from tests.support.factories import Raw, group, pod, podgroup, pods, queue

GPU = "nvidia.com/gpu"


def gpus(number: int) -> Raw:
    """As keyword arguments."""
    return {GPU: number}


def tree_of(*raws: Raw) -> QueueTree:
    return arrange(muster.objects(raws).queues)


def usage_of(*raws: Raw) -> Uses:
    objects = muster.objects(raws)
    return uses(arrange(objects.queues), collect_gangs(objects).gangs)


def gpu_share(**stated: Any) -> Share:
    """The share of gpu of a queue that states this about it."""
    return tree_of(queue("q", gpu=stated)).nodes["q"].share(GPU)


# the tree -----------------------------------------------------------------------------------------------------------


def test_parents_come_before_children_and_siblings_by_name() -> None:
    """One pass over the nodes is enough, forwards from the top or backwards from the bottom."""
    raws = [queue("b"), queue("z", "b"), queue("a"), queue("y", "a"), queue("x", "b"), queue("w", "x")]
    assert list(tree_of(*raws).nodes) == ["a", "y", "b", "x", "w", "z"]
    assert [node.name for node in tree_of(*raws).leaves] == ["y", "w", "z"]
    assert [node.name for node in tree_of(*raws).path("w")] == ["b", "x", "w"]
    assert [node.name for node in tree_of(*raws).siblings()] == ["a", "b"]
    assert [node.name for node in tree_of(*raws).siblings("b")] == ["x", "z"]


def test_the_order_of_queues_makes_no_difference() -> None:
    """Neither for the tree nor for the queues outside it (X3)."""
    raws = [queue("a"), queue("b", "a"), queue("d", "a"), queue("c", "missing"), queue("e", "e"), queue("f", "b")]
    orders = [random.Random(seed).sample(raws, len(raws)) for seed in range(20)]
    trees = [tree_of(*order) for order in orders]
    assert len({repr((list(tree.nodes.items()), tree.outside)) for tree in trees}) == 1


@pytest.mark.parametrize(
    ("raws", "outside"),
    [
        ([queue("a", "missing")], ["a"]),
        ([queue("a", "a"), queue("b")], ["a"]),
        ([queue("a", "b"), queue("b", "a"), queue("c", "a"), queue("d")], ["a", "b", "c"]),
        ([queue(""), queue("b")], []),
        ([queue("", "b"), queue("b")], []),
    ],
)
def test_queues_that_lack_an_ancestor_or_form_a_cycle_are_outside_the_tree(raws: list[Raw], outside: list[str]) -> None:
    """They have no share (Q1), and they block no other queue."""
    tree = tree_of(*raws)
    assert list(tree.outside) == outside
    assert set(tree.nodes) == {str(raw["metadata"]["name"]) for raw in raws} - set(outside) - {""}


def test_a_tree_of_any_depth_is_walked() -> None:
    """Nothing recurses."""
    tree = tree_of(*(queue(f"q{i:04}", f"q{i - 1:04}" if i else "") for i in range(3000)))
    assert len(tree.path("q2999")) == 3000


# what a queue states ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "share"),
    [
        ({}, Share(0, UNLIMITED, Fraction(1))),
        ({"quota": 2, "limit": 5, "overQuotaWeight": 3}, Share(2, 5, Fraction(3))),
        ({"quota": -1, "limit": -1, "overQuotaWeight": 0}, Share(UNLIMITED, UNLIMITED, Fraction(0))),
        ({"quota": 2.9, "limit": 5.5}, Share(2, 5)),
        ({"overQuotaWeight": 0.1}, Share(weight=Fraction(1, 10))),
        ({"quota": -2, "limit": -7, "overQuotaWeight": -1}, Share()),
        ({"quota": float("nan"), "limit": float("inf"), "overQuotaWeight": float("inf")}, Share()),
    ],
)
def test_an_omitted_or_invalid_value_has_its_default(stated: Raw, share: Share) -> None:
    """An omitted quota is 0, an omitted limit unlimited, an omitted weight 1; whole devices only (Q1, X6)."""
    assert gpu_share(**stated) == share


def test_amounts_are_in_base_units() -> None:
    """cpu in millicores, memory in megabytes of a million bytes, gpu and others in devices (Q1)."""
    raw = queue("q", cpu={"quota": 1500}, memory={"quota": 3, "limit": -1}, gpu={"quota": 2})
    raw["spec"]["resources"]["example.com/nic"] = {"quota": 4}
    tree = tree_of(raw)
    assert {name: share.quota for name, share in tree.nodes["q"].stated.items()} == {
        "cpu": 1500,
        "memory": 3_000_000,
        GPU: 2,
        "example.com/nic": 4,
    }
    assert tree.nodes["q"].share("memory").limit == UNLIMITED
    assert tree.resources == ("cpu", "memory", GPU, "example.com/nic")


def test_a_resource_that_queues_cannot_share_is_left_out() -> None:
    """`validate` reports `gpus`; here it has no effect."""
    assert tree_of(queue("q", gpus={"quota": 1})).resources == ("cpu", "memory", GPU)


def test_without_any_queue_default_exists_and_is_unlimited() -> None:
    """Its quota too, or no non-preemptible gang could ever start (Q2)."""
    (default,) = tree_of().nodes.values()
    assert default.name == "default"
    assert {default.share(name).quota for name in ("cpu", GPU, "example.com/nic")} == {UNLIMITED}
    assert {default.share(name).limit for name in ("cpu", GPU, "example.com/nic")} == {UNLIMITED}


def test_with_any_queue_default_is_an_ordinary_name() -> None:
    """Also where the only queue is outside the tree (Q2)."""
    assert "default" not in tree_of(queue("other")).nodes
    assert not tree_of(queue("a", "a")).nodes


# usage --------------------------------------------------------------------------------------------------------------

TEAMS = [queue("all"), queue("red", "all"), queue("blue", "all")]


def gang_in(name: str, queue: str, **spec: Any) -> Raw:
    return podgroup(name=name, queue=queue, **spec)


def test_pods_that_are_placed_or_could_be_are_requested_up_to_the_top() -> None:
    """Gated, succeeded, failed and terminating pods request nothing (N5)."""
    usage = usage_of(
        *TEAMS,
        gang_in("g", "red"),
        gang_in("h", "blue"),
        *pods(2, gang="g", on="n", **gpus(1)),
        pod("waits", gang="g", **gpus(4), cpu="500m"),
        pod("gated", gang="g", gated=True, **gpus(8)),
        pod("done", gang="g", on="n", phase="Succeeded", **gpus(8)),
        pod("failed", gang="g", on="n", phase="Failed", **gpus(8)),
        pod("going", gang="g", on="n", terminating=True, **gpus(8)),
        pod("h", gang="h", on="n", **gpus(16)),
    )
    assert usage.requested == {
        "all": {GPU: 22, "cpu": 500},
        "red": {GPU: 6, "cpu": 500},
        "blue": {GPU: 16},
    }
    assert usage.allocated == {"all": {GPU: 18}, "red": {GPU: 2}, "blue": {GPU: 16}}
    assert usage.non_preemptible == {"all": {}, "red": {}, "blue": {}}


@pytest.mark.parametrize(
    ("word", "protected"), [("preemptible", {}), ("semi-preemptible", {GPU: 2}), ("non-preemptible", {GPU: 3})]
)
def test_of_a_semi_preemptible_gang_the_core_is_protected(word: str, protected: Raw) -> None:
    """All of a non-preemptible one, nothing of a preemptible one (E2)."""
    gang = gang_in("g", "red", minMember=2, preemptibility=word)
    usage = usage_of(*TEAMS, gang, *pods(3, gang="g", on="n", **gpus(1)))
    assert usage.non_preemptible == {"all": protected, "red": protected, "blue": {}}


def test_pending_pods_of_a_gang_in_a_queue_with_children_request_nothing() -> None:
    """Workloads use leaf queues (Q1); what placed pods hold still counts."""
    usage = usage_of(*TEAMS, gang_in("g", "all"), pod("a", gang="g", on="n", cpu=1), pod("b", gang="g", cpu=1))
    assert (usage.requested["all"], usage.allocated["all"]) == ({"cpu": 1000}, {"cpu": 1000})


def test_a_gang_whose_spec_is_no_tree_requests_nothing() -> None:
    """It cannot be placed as it is (V3)."""
    broken = podgroup(group("a", 1, parent="missing"), queue="red")
    assert usage_of(*TEAMS, broken, pod("p", "a", cpu=1)).requested["red"] == {}


def test_a_gang_in_a_queue_that_does_not_exist_counts_for_no_queue() -> None:
    """It is not scheduled (Q2)."""
    usage = usage_of(*TEAMS, gang_in("g", "green"), pod("p", gang="g", cpu=1))
    assert usage.requested == {"all": {}, "red": {}, "blue": {}}


def test_an_amount_charged_to_a_queue_is_charged_to_its_ancestors() -> None:
    """The amounts before do not change: a hypothesis is a new value."""
    before = usage_of(*TEAMS, gang_in("g", "red"), pod("p", gang="g", on="n", cpu=1)).allocated
    after = charged(tree_of(*TEAMS), before, "blue", {"cpu": 500, GPU: 1})
    assert after == {"all": {"cpu": 1500, GPU: 1}, "red": {"cpu": 1000}, "blue": {"cpu": 500, GPU: 1}}
    assert before == {"all": {"cpu": 1000}, "red": {"cpu": 1000}, "blue": {}}

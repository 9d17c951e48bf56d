"""Q3, Q4 and the queues' part of G4: what each queue deserves, which queue is next, and limits that nothing exceeds."""

from fractions import Fraction
from typing import Any

import pytest

import muster
from muster.api.quantity import Resources
from muster.fairness.entitlement import Excess, over_limit, over_quota_non_preemptible, why_closed
from muster.fairness.order import rank
from muster.fairness.shares import Claim, Division, divide, divide_cluster
from muster.model.queues import QueueTree, arrange
from muster.model.snapshot import take
from tests.support.factories import Raw, pod, podgroup, queue

GPU = "nvidia.com/gpu"


def gpus(number: int) -> Raw:
    """As keyword arguments."""
    return {GPU: number}


def machine(number: int = 0, name: str = "n", **more: Any) -> Raw:
    """A node with so many gpus."""
    status: Raw = {"allocatable": {GPU: number} | more}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def team(name: str, parent: str = "", *, day: int = 1, priority: int = 100, **gpu: Any) -> Raw:
    """A queue with a share of gpus, created on that day."""
    raw = queue(name, parent, gpu=gpu)
    raw["metadata"]["creationTimestamp"] = f"2026-01-{day:02}T00:00:00Z"
    raw["spec"]["priority"] = priority
    return raw


def asking(name: str, number: int, *, on: str = "", **more: Any) -> list[Raw]:
    """A gang in the queue of that name whose one pod asks for so many gpus."""
    return [podgroup(name=f"in-{name}", queue=name), pod(f"p-{name}", gang=f"in-{name}", on=on, **gpus(number), **more)]


def divided(*raws: Raw | list[Raw]) -> Division:
    flat = [raw for one in raws for raw in (one if isinstance(one, list) else [one])]
    return divide_cluster(take(muster.objects(flat)))


def shares(*raws: Raw | list[Raw]) -> dict[str, int]:
    """Fair shares of gpus by queue."""
    by_queue = divided(*raws).shares
    return {name: share.get(GPU, 0) for name, share in by_queue.items()}


# Q3: two queues -----------------------------------------------------------------------------------------------------

PAIR: Raw = {"quota": 2, "overQuotaWeight": 2}
FIRST, SECOND = PAIR | {"day": 1}, PAIR | {"day": 2}


@pytest.mark.parametrize(
    ("total", "first", "second", "expected"),
    [
        (15, {}, {}, (6, 6)),
        (8, {"overQuotaWeight": 1}, {"overQuotaWeight": 3}, (3, 5)),
        (12, {"limit": 5}, {}, (5, 6)),
        (11, {}, {}, (6, 5)),
        (11, {"day": 3}, {}, (5, 6)),
        (8, {"priority": 200}, {}, (6, 2)),
        (8, {}, {"priority": 200}, (2, 6)),
        (9, {}, {"priority": 200}, (3, 6)),
        (4, {}, {"priority": 200}, (2, 2)),
        (8, {"overQuotaWeight": 0}, {}, (2, 6)),
        (12, {"overQuotaWeight": 0}, {}, (2, 6)),
        (12, {"limit": 1, "quota": 1}, {}, (1, 6)),
        (8, {"quota": 0}, {}, (3, 5)),
        (8, {"quota": -1}, {}, (6, 2)),
        (3, {}, {}, (2, 1)),
        (0, {}, {}, (0, 0)),
    ],
)
def test_two_queues_with_quota_2_and_requests_of_6_divide_a_total(
    total: int, first: Raw, second: Raw, expected: tuple[int, int]
) -> None:
    """First min(quota, demand, limit), then the surplus by priority, then by weight; ties go to the older (Q3)."""
    fair = shares(
        machine(total),
        team("first", **(FIRST | first)),
        team("second", **(SECOND | second)),
        asking("first", 6),
        asking("second", 6),
    )
    assert (fair["first"], fair["second"]) == expected


def test_of_two_queues_of_one_age_the_name_decides() -> None:
    """One of them has the odd one, always the same (X3)."""
    assert shares(machine(11), team("b", **PAIR), team("a", **PAIR), asking("a", 6), asking("b", 6)) == {"a": 6, "b": 5}


def test_what_one_queue_cannot_use_goes_to_those_that_can() -> None:
    """Three by weight; the first wants little, so the rest is divided again (Q3)."""
    names = ("a", "b", "c")
    demand = [*asking("a", 1), *asking("b", 9), *asking("c", 20)]
    assert shares(machine(16), [team(name) for name in names], demand) == {"a": 1, "b": 8, "c": 7}
    assert shares(machine(20), [team(name) for name in names], demand) == {"a": 1, "b": 9, "c": 10}


def test_largest_remainders_first() -> None:
    """7 by 3:2:2 is 3, 2, 2; 6 is 2 4/7, 1 5/7, 1 5/7, so the third of the first is the last to come (Q3)."""
    weights = {"a": 3, "b": 2, "c": 2}
    teams = [team(name, overQuotaWeight=weight) for name, weight in weights.items()]
    demand = [raw for name in weights for raw in asking(name, 9)]
    assert shares(machine(7), teams, demand) == {"a": 3, "b": 2, "c": 2}
    assert shares(machine(6), teams, demand) == {"a": 2, "b": 2, "c": 2}


def test_a_weight_is_what_was_written() -> None:
    """0.1 to 0.3 is one to three, to the last byte (X6)."""
    claims = [Claim("a", 10**15, weight=Fraction("0.1")), Claim("b", 10**15, weight=Fraction("0.3"))]
    assert divide(4 * 10**14, claims) == {"a": 10**14, "b": 3 * 10**14}
    teams = [team("a", overQuotaWeight=0.1), team("b", overQuotaWeight=0.3)]
    assert shares(machine(8), teams, asking("a", 9), asking("b", 9)) == {"a": 2, "b": 6}


def test_quotas_that_are_more_than_there_is_shrink_in_proportion() -> None:
    """A cluster that lost nodes keeps its promises as far as it can: 2 to 1, and nothing by weight."""
    teams = [team("a", quota=20, overQuotaWeight=1), team("b", quota=10, overQuotaWeight=50)]
    assert shares(machine(9), teams, asking("a", 20), asking("b", 20)) == {"a": 6, "b": 3}


def test_quotas_of_a_higher_priority_are_met_first() -> None:
    """Where they do not fit, one promise is broken; priority says which."""
    teams = [team("a", quota=20), team("b", quota=6, priority=200)]
    assert shares(machine(9), teams, asking("a", 20), asking("b", 20)) == {"a": 3, "b": 6}


def test_an_unlimited_quota_weighs_as_much_as_everything() -> None:
    """Beside a quota of 10, in a cluster of 50: five to one."""
    teams = [team("a", quota=-1), team("b", quota=10)]
    assert shares(machine(50), teams, asking("a", 100), asking("b", 10)) == {"a": 42, "b": 8}


# Q3: trees ----------------------------------------------------------------------------------------------------------


def test_children_divide_what_their_parent_has() -> None:
    """Top down: two departments of one half each, one of them with three teams (Q3)."""
    fair = shares(
        machine(12),
        [team("x"), team("y"), team("x1", "x"), team("x2", "x"), team("x3", "x", overQuotaWeight=4), team("y1", "y")],
        [raw for name in ("x1", "x2", "x3", "y1") for raw in asking(name, 12)],
    )
    assert fair == {"x": 6, "y": 6, "x1": 1, "x2": 1, "x3": 4, "y1": 6}


def test_a_parent_wants_no_more_than_its_children_may_use() -> None:
    """Nothing is set aside for a department whose teams are all at their limits."""
    fair = shares(
        machine(12), team("x"), team("y"), team("x1", "x", limit=2), team("y1", "y"), asking("x1", 20), asking("y1", 20)
    )
    assert fair == {"x": 2, "x1": 2, "y": 10, "y1": 10}


def test_a_limit_above_holds_for_all_below() -> None:
    """Two teams of a department that may have 4 (Q4)."""
    teams = [team("x", limit=4), team("a", "x", quota=4), team("b", "x", quota=4)]
    assert shares(machine(12), teams, asking("a", 9), asking("b", 9)) == {"x": 4, "a": 2, "b": 2}


def test_every_resource_is_shared_by_itself() -> None:
    """cpu, memory, gpu, and whatever extended resource a queue names (Q3)."""
    nic = "example.com/nic"
    share: Raw = {nic: {"quota": 3, "overQuotaWeight": 0}}
    amounts: Raw = {"cpu": 3, "memory": "3M", nic: 4, "example.com/other": 9}
    division = divided(
        machine(4, **amounts),
        queue("a", gpu={"quota": 1}, **share),
        queue("b"),
        asking("a", 4, **amounts),
        asking("b", 4, **amounts),
    )
    assert division.pool == {"cpu": 3000, "memory": 3_000_000, GPU: 4, nic: 4}
    assert division.shares["a"] == {"cpu": 1500, "memory": 1_500_000, GPU: 3, nic: 3}
    assert division.shares["b"] == {"cpu": 1500, "memory": 1_500_000, GPU: 1, nic: 1}


def test_what_others_hold_and_nodes_that_are_not_ready_are_not_shared() -> None:
    """A pod of another scheduler takes from the pool; a terminating pod of a gang does not."""
    broken = machine(8, "broken")
    broken["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    other = pod("other", gang="", on="n", **gpus(3))
    going = asking("default", 2, on="n", terminating=True)
    assert divided(machine(8), broken, other, going).pool[GPU] == 5


def test_without_any_queue_default_has_all_that_is_requested() -> None:
    """It is unlimited (Q2)."""
    assert shares(machine(8), asking("default", 6)) == {"default": 6}


def test_queues_that_are_in_no_tree_have_no_share() -> None:
    """And no other queue is affected (Q1)."""
    teams = [team("a", "b"), team("b", "a"), team("lost", "nobody"), team("c")]
    assert shares(machine(8), teams, asking("a", 8), asking("lost", 8), asking("c", 8)) == {"c": 8}


# G4: whose turn -----------------------------------------------------------------------------------------------------


def order(division: Division) -> list[str]:
    """Leaf queues, whose turn it is first."""
    leaves = [node.name for node in division.tree.leaves]
    return sorted(leaves, key=lambda name: rank(division.tree, division.shares, division.uses.allocated, name))


def holding(name: str, held: int, wanted: int) -> list[Raw]:
    """A queue that holds some gpus and wants more."""
    more = pod(f"more-{name}", gang=f"in-{name}", **gpus(wanted))
    return [*asking(name, held, on="n"), more] if held else [podgroup(name=f"in-{name}", queue=name), more]


def test_the_queue_with_the_smaller_part_of_its_share_goes_first() -> None:
    """2 of 6 before 3 of 6 (G4)."""
    assert order(divided(machine(12), team("a"), team("b"), holding("a", 3, 9), holding("b", 2, 9))) == ["b", "a"]


def test_a_part_is_a_part_of_the_share_and_not_an_amount() -> None:
    """5 of 9 is less than 2 of 3 (G4)."""
    teams = [team("a", overQuotaWeight=1), team("b", overQuotaWeight=3)]
    assert order(divided(machine(12), teams, holding("a", 2, 9), holding("b", 5, 9))) == ["b", "a"]


def test_the_resource_counts_of_which_a_queue_has_most() -> None:
    """Few gpus and nearly all of its cpu is nearly all (G4)."""
    division = divided(
        machine(10, cpu="10"),
        [queue("a"), queue("b")],
        [*asking("a", 1, on="n", cpu=4), pod("a2", gang="in-a", cpu=9, **gpus(9))],
        [*asking("b", 3, on="n", cpu=1), pod("b2", gang="in-b", cpu=9, **gpus(9))],
    )
    assert order(division) == ["b", "a"]


def test_a_higher_priority_goes_first_up_to_its_fair_share() -> None:
    """Beyond that it would take what others were promised (G4, Q3)."""
    teams = [team("low", quota=4), team("high", quota=4, priority=200)]
    below = divided(machine(8), teams, holding("low", 0, 4), holding("high", 3, 8))
    assert below.shares == {"low": {GPU: 4}, "high": {GPU: 4}}
    assert order(below) == ["high", "low"]
    assert order(divided(machine(8), teams, holding("low", 3, 4), holding("high", 4, 8))) == ["low", "high"]


def test_queues_that_deserve_nothing_wait_for_those_that_deserve_something() -> None:
    """Without a quota and with weight 0 there is only what no other queue needs (G4)."""
    teams = [team("a", overQuotaWeight=0), team("b")]
    assert order(divided(machine(8), teams, holding("a", 0, 4), holding("b", 7, 8))) == ["b", "a"]


def test_the_older_queue_goes_first_among_equals_then_the_name() -> None:
    """Nothing is left to chance (X3)."""
    teams = [team("a", day=2), team("b", day=1), team("c", day=2)]
    wanted = [raw for name in "abc" for raw in holding(name, 0, 9)]
    assert order(divided(machine(9), teams, wanted)) == ["b", "a", "c"]


def test_departments_take_turns_before_their_teams_do() -> None:
    """A team that has nothing waits while its department is ahead (G4)."""
    division = divided(
        machine(12),
        [team("x"), team("y"), team("x1", "x"), team("x2", "x"), team("y1", "y"), team("y2", "y")],
        [*holding("x1", 5, 9), *holding("x2", 0, 9), *holding("y1", 2, 9), *holding("y2", 1, 9)],
    )
    assert order(division) == ["y2", "y1", "x2", "x1"]


# Q4 -----------------------------------------------------------------------------------------------------------------


def limits(tree: QueueTree, name: str, more: int, held: int = 0) -> Excess | None:
    amounts = {node: gpus_held(held) for node in tree.nodes}
    return over_limit(tree, amounts, name, {GPU: more, "cpu": 1000})


def quotas(tree: QueueTree, name: str, held: int = 0, **extra: int) -> Excess | None:
    amounts = {node: gpus_held(held) for node in tree.nodes}
    return over_quota_non_preemptible(tree, amounts, name, extra)


def gpus_held(number: int) -> Resources:
    return Resources(gpus(number) if number else {})


def queues(*raws: Raw) -> QueueTree:
    return arrange(muster.objects(raws).queues)


def test_nothing_passes_a_limit_on_any_ancestor() -> None:
    """The limit itself may be reached (Q4)."""
    tree = queues(team("top", limit=8), team("mid", "top"), team("leaf", "mid", limit=6))
    assert limits(tree, "leaf", 6) is None
    assert limits(tree, "leaf", 7) == Excess("leaf", GPU, allowed=6, held=0, extra=7)
    assert limits(tree, "leaf", 4, held=2) is None
    assert limits(tree, "leaf", 5, held=2) == Excess("leaf", GPU, allowed=6, held=2, extra=5)
    assert limits(tree, "mid", 9) == Excess("top", GPU, allowed=8, held=0, extra=9)


def test_what_adds_nothing_passes_nothing() -> None:
    """A queue above a limit that was lowered can still take what the limit is not about (Q4)."""
    tree = queues(team("q", limit=2))
    assert limits(tree, "q", 0, held=5) is None
    assert limits(tree, "q", 1, held=5) == Excess("q", GPU, allowed=2, held=5, extra=1)


def test_a_limit_of_nothing_lets_nothing_in() -> None:
    """0 is a number; unlimited is -1, or silence (Q1)."""
    assert limits(queues(team("q", limit=0)), "q", 1) == Excess("q", GPU, 0, 0, 1)
    assert limits(queues(team("q", limit=-1)), "q", 1) is None
    assert limits(queues(queue("q")), "q", 1) is None


def test_what_is_non_preemptible_stays_within_the_quota_on_every_ancestor() -> None:
    """A quota that is left out is 0 (Q1, Q4)."""
    tree = queues(team("top", quota=4), team("leaf", "top", quota=6), team("silent"))
    assert quotas(tree, "leaf", **gpus(4)) is None
    assert quotas(tree, "leaf", **gpus(5)) == Excess("top", GPU, allowed=4, held=0, extra=5)
    assert quotas(tree, "leaf", held=5, **gpus(2)) == Excess("leaf", GPU, allowed=6, held=5, extra=2)
    assert quotas(tree, "silent", **gpus(1)) == Excess("silent", GPU, 0, 0, 1)
    assert quotas(tree, "leaf", cpu=1) == Excess("leaf", "cpu", 0, 0, 1)


def test_an_extended_resource_binds_the_queues_that_name_it() -> None:
    """Who names a network card says nothing about the cards of others, and no queue has to name disks (Q4)."""
    nic = "example.com/nic"
    tree = queues(queue("top"), queue("leaf", "top", **{nic: {"quota": 2}}))
    assert quotas(tree, "leaf", **{nic: 2, "ephemeral-storage": 10**9}) is None
    assert quotas(tree, "leaf", **{nic: 3}) == Excess("leaf", nic, 2, 0, 3)


def test_the_default_queue_of_a_cluster_without_queues_lets_everything_in() -> None:
    """Non-preemptible gangs too (Q2)."""
    assert limits(queues(), "default", 10**6) is None
    assert quotas(queues(), "default", cpu=10**6, **{GPU: 10**6}) is None


def test_why_no_workload_is_scheduled_from_a_queue() -> None:
    """It does not exist, it has queues below it, or it is in no tree (Q1, Q2)."""
    tree = queues(team("top"), team("leaf", "top"), team("lost", "nobody"))
    words = {name: why_closed(tree, name) for name in ("leaf", "top", "lost", "nobody", "default")}
    assert words == {
        "leaf": "",
        "top": "QueueNotALeaf",
        "lost": "QueueNotInTree",
        "nobody": "QueueDoesNotExist",
        "default": "QueueDoesNotExist",
    }

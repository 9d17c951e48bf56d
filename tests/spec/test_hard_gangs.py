"""Shapes that a search by trial and error does not survive, with the steps that they may cost (X1, X2, X7).

Steps, never seconds: a step is what the budgets of a gang and of a cycle count. Each shape has a verdict that follows
from how it is built, and a number of steps that leaves room for any sensible method but none for enumeration.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

import muster
from muster.planning.policy import Policy
from tests.oracles.checker import broken
from tests.oracles.objects import ObjectIndex, Outcome, key_of, overfull
from tests.support.factories import Raw, group, node, pod, podgroup, priority_class, topology

KEY = "team/gang"
IN_RACK: Raw = {"topologyConstraint": {"requiredTopologyLevel": "rack"}}
GPU = "nvidia.com/gpu"
OVERRUN = 1_000  # steps of one piece of work that is counted when it is done


def gpu_node(name: str, rack: str = "r", **allocatable: Any) -> Raw:
    """A node; of 8 GPUs where nothing else is stated."""
    return node(name, allocatable={"pods": "500", **(allocatable or {GPU: 8})}, rack=rack)


def some(number: int, leaf: str, gpus: int) -> list[Raw]:
    asks: Raw = {GPU: gpus}
    return [pod(f"{leaf or 'pod'}-{i}", leaf, **asks) for i in range(number)]


def planned(objects: list[Raw], steps: int = Policy().steps, is_large: bool = False) -> tuple[str, Raw]:
    """The verdict on the gang if it may take so many steps, and the plan; whatever that does is legal (X7).

    Of a large gang only the nodes are judged: the checker walks its whole tree for every group.
    """
    plan = muster.plan(muster.objects(objects), Policy(steps=steps))
    data = plan.to_dict()
    bound = Outcome({key_of(one): one["node"] for one in data["bindings"]})
    assert (overfull(ObjectIndex(objects), bound) if is_large else broken(objects, data)) == []
    assert max(plan.decided.searches, default=0) <= steps + OVERRUN
    return plan.verdict(KEY), data


# k of n -------------------------------------------------------------------------------------------------------------


MANY = (1, 5, 10, 20, 50)


def roles(replicas: int, is_bad: Callable[[int, str], bool], bad: int, gpus: int, **level: Any) -> list[Raw]:
    """Replicas of two of three roles on as many nodes, racks of two; some roles have `bad` pods of so many GPUs."""
    tree: list[Raw] = []
    members: list[Raw] = []
    for i in range(replicas):
        tree.append(group(f"r{i}", of=2))
        for role in "abc":
            leaf, hopeless = f"r{i}-{role}", is_bad(i, role)
            tree.append(group(leaf, bad if hopeless else 2, parent=f"r{i}", **(level if hopeless else {})))
            members += some(bad, leaf, gpus) if hopeless else some(2, leaf, 2)
    nodes = [gpu_node(f"n{i}", f"k{i // 2}") for i in range(replicas)]  # two roles of four GPUs fill a node
    return [topology("topology/rack"), *nodes, podgroup(*tree), *members]


@pytest.mark.parametrize("replicas", MANY)
def test_a_leaf_that_fits_nowhere_costs_its_own_replica_a_choice_and_no_more(replicas: int) -> None:
    """M3: every replica needs two of three roles, and one of them has a role larger than any node."""
    verdict, _ = planned(roles(replicas, lambda i, role: (i, role) == (0, "a"), 2, 9), 500 + 200 * replicas)
    assert verdict == "Scheduled"


@pytest.mark.parametrize("replicas", MANY)
def test_replicas_that_each_have_a_leaf_that_fits_nowhere_are_not_combined(replicas: int) -> None:
    """X1: three pods of a whole node in one rack of two, in every replica: 3 to the power of R choices, one answer."""
    verdict, _ = planned(roles(replicas, lambda _, role: role == "a", 3, 8, **IN_RACK), 500 + 200 * replicas)
    assert verdict == "Scheduled"


@pytest.mark.parametrize("racks", [False, True], ids=["anywhere", "in racks"])
@pytest.mark.parametrize("replicas", [2, 4, 8, 12, 16, 20])
def test_one_replica_more_than_nodes_is_infeasible_by_bounds(replicas: int, racks: bool) -> None:
    """Eight GPUs each: 64 wanted and 56 there needs no search."""
    tree: list[Raw] = []
    members: list[Raw] = []
    for i in range(replicas):
        level = IN_RACK if racks else {}
        tree += [group(f"r{i}", **level), group(f"r{i}-l", 1, parent=f"r{i}"), group(f"r{i}-w", 3, parent=f"r{i}")]
        members += some(1, f"r{i}-l", 2) + some(3, f"r{i}-w", 2)
    nodes = [gpu_node(f"n{i}", f"r{i}") for i in range(replicas - 1)]
    verdict, _ = planned([topology("topology/rack"), *nodes, podgroup(*tree), *members], 1_000)
    assert verdict == "Infeasible"


@pytest.mark.parametrize("replicas", [12, 60])
def test_replicas_of_unlike_roles_are_placed_where_first_fit_places_them(replicas: int) -> None:
    """X1: two of three roles, three pod classes, no two replicas alike, each in one rack: 80 % of all GPUs at least."""
    rng = random.Random(replicas)
    tree: list[Raw] = []
    members: list[Raw] = []
    wanted = 0
    for i in range(replicas):
        roles_of = {role: (rng.randint(1, 4), rng.choice((1, 2, 4))) for role in "abc"}
        wanted += sum(sorted(number * gpus for number, gpus in roles_of.values())[:2])
        tree.append(group(f"r{i}", of=2, **IN_RACK))
        for role, (number, gpus) in roles_of.items():
            tree.append(group(f"r{i}-{role}", number, parent=f"r{i}"))
            members += some(number, f"r{i}-{role}", gpus)
    racks = int(wanted / 0.8 / 32) + 1
    nodes = [gpu_node(f"n{i:03}", f"k{i // 4:02}") for i in range(racks * 4)]
    objects = [topology("topology/rack"), *nodes, podgroup(*tree), *members]
    verdict, _ = planned(objects, 5_000 + 500 * replicas, is_large=True)
    assert verdict == "Scheduled"


def test_half_of_many_unlike_children_is_found_in_racks_that_they_nearly_fill() -> None:
    """M3: 30 of 60 children of twelve classes, each in a rack; only the small ones fit together."""
    rng = random.Random(4)
    kinds = [(rng.randint(1, 6), rng.randint(1, 4), rng.randint(2, 24)) for _ in range(12)]
    chosen = [kinds[i % 12] for i in range(60)]
    wanted = sum(sorted(number * gpus for number, gpus, _ in chosen)[:30])
    asks: list[Raw] = [{GPU: gpus, "cpu": cpu} for _, gpus, cpu in chosen]
    members = [pod(f"l{i}-{j}", f"l{i}", **asks[i]) for i in range(60) for j in range(chosen[i][0])]
    tree = [group(f"l{i}", number, **IN_RACK) for i, (number, _, _) in enumerate(chosen)]
    allocatable: Raw = {GPU: 8, "cpu": "96"}
    nodes = [gpu_node(f"n{i:03}", f"k{i // 4}", **allocatable) for i in range(4 * (int(wanted / 0.93 / 32) + 1))]
    objects = [topology("topology/rack"), *nodes, podgroup(*tree, minSubGroup=30), *members]
    verdict, _ = planned(objects, is_large=True)
    assert verdict == "Scheduled"


# packing ------------------------------------------------------------------------------------------------------------


def cut(classes: int) -> tuple[list[Raw], list[Raw]]:
    """32 nodes, and pods of so many classes that fill 92 to 95 % of them: full nodes cut into pods, so they fit."""
    made = (_cut(classes, seed) for seed in range(100))
    members = next(one for one in made if len(set(one)) == classes and 0.92 <= load(one) <= 0.95)
    nodes = [gpu_node(f"n{i:02}", cpu="100", memory="100") for i in range(32)]
    return nodes, [pod(f"p{i:03}", cpu=cpu, memory=memory) for i, (cpu, memory) in enumerate(members)]


def load(members: list[tuple[int, int]]) -> float:
    """The share of the scarcer resource that pods ask for."""
    return max(sum(cpu for cpu, _ in members), sum(memory for _, memory in members)) / 3200


def _cut(classes: int, seed: int) -> list[tuple[int, int]]:
    rng = random.Random(seed)
    kinds = [(rng.randint(9, 40), rng.randint(9, 40)) for _ in range(classes)]
    members: list[tuple[int, int]] = []
    for _ in range(32):
        members += max((_filled(rng, kinds) for _ in range(100)), key=lambda pods: sum(map(sum, pods)))
    while load(members) > 0.95:
        members.pop(rng.randrange(len(members)))
    rng.shuffle(members)
    return members


def _filled(rng: random.Random, kinds: list[tuple[int, int]]) -> list[tuple[int, int]]:
    sizes: list[tuple[int, int]] = []
    cpu, memory = 100, 100
    while fitting := [kind for kind in kinds if kind[0] <= cpu and kind[1] <= memory]:
        sizes.append(rng.choice(fitting))
        cpu, memory = cpu - sizes[-1][0], memory - sizes[-1][1]
    return sizes


@pytest.mark.parametrize("classes", [4, 8, 16])
def test_a_flat_gang_of_many_shapes_fits_on_nodes_that_it_nearly_fills(classes: int) -> None:
    """X1: it fits by construction, and the exact tier finds out how."""
    nodes, members = cut(classes)
    verdict, data = planned([*nodes, podgroup(minMember=len(members)), *members])
    assert verdict == "Scheduled"
    assert len(data["bindings"]) == len(members)


# totals -------------------------------------------------------------------------------------------------------------


def test_a_total_over_twenty_leaves_is_shared_without_trying_every_way() -> None:
    """M5: one pod of each leaf, and 40 in all; leaves ask for different sizes, and the nodes hold just 40."""
    tree = [group(f"l{i:02}", 1) for i in range(20)]
    members = [one for i in range(20) for one in some(3, f"l{i:02}", 1 + i % 2)]
    five: Raw = {GPU: 5}  # 50 in all: 30 for one pod of each leaf, 20 for twenty more that ask for one each
    nodes = [gpu_node(f"n{i}", **five) for i in range(10)]
    verdict, data = planned([*nodes, podgroup(*tree, minMember=40), *members], 20_000)
    assert verdict == "Scheduled"
    assert len(data["bindings"]) >= 40


# victims ------------------------------------------------------------------------------------------------------------


def test_victims_among_37_gangs_with_budgets_are_found_within_the_steps_of_a_gang() -> None:
    """P6: sixteen full nodes; half of the gangs may not be disturbed at all, and the checker judges who left."""
    rng = random.Random(37)
    objects = [priority_class("low", 10), priority_class("high", 90), *(gpu_node(f"n{i:02}") for i in range(16))]
    seats = [f"n{i:02}" for i in range(16) for _ in range(8)]
    rng.shuffle(seats)
    for i in range(37):
        name = f"v{i:02}"
        size = 4 if i < 17 else 3  # 17 × 4 + 20 × 3 = 128
        mine, seats = seats[:size], seats[size:]
        asks: Raw = {GPU: 1}
        low: Raw = {"minMember": size, "priorityClassName": "low", "preemptibility": "preemptible"}
        objects.append(podgroup(name=name, **low))
        for j, at in enumerate(mine):
            raw = pod(f"{name}-{j}", gang=name, on=at, phase="Running", **asks)
            raw["metadata"]["labels"]["app"] = name
            objects.append(raw)
        budget = {"selector": {"matchLabels": {"app": name}}, "maxUnavailable": size if i % 2 else 0}
        meta = {"name": name, "namespace": "team"}
        objects.append({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": budget})
    assert not seats
    objects += [podgroup(minMember=4, priorityClassName="high"), *some(4, "", 2)]
    verdict, data = planned(objects)
    assert verdict == "Scheduled"
    assert data["evictions"]


# size and depth -----------------------------------------------------------------------------------------------------


def test_a_thousand_pods_of_two_alternating_shapes_are_one_gang_like_any_other() -> None:
    """M4 takes them by name, so that the classes alternate."""
    members = [pod(f"p{i:04}", cpu=1 + i % 2) for i in range(1_000)]
    nodes = [gpu_node(f"n{i:02}", cpu="50") for i in range(30)]
    verdict, data = planned([*nodes, podgroup(minMember=1_000), *members], 20_000, is_large=True)
    assert (verdict, len(data["bindings"])) == ("Scheduled", 1_000)


def test_eleven_hundred_subgroups_of_one_pod_are_one_gang_like_any_other() -> None:
    """N1: the number of SubGroups is not limited; every other one asks for twice as much."""
    tree = [group(f"s{i:04}", 1) for i in range(1_100)]
    members = [pod(f"p{i:04}", f"s{i:04}", cpu=1 + i % 2) for i in range(1_100)]
    nodes = [gpu_node(f"n{i:02}", cpu="50") for i in range(34)]
    verdict, data = planned([*nodes, podgroup(*tree), *members], 50_000, is_large=True)
    assert (verdict, len(data["bindings"])) == ("Scheduled", 1_100)


@pytest.mark.parametrize("depth", [100, 800])
def test_a_chain_costs_a_few_steps_for_each_level(depth: int) -> None:
    """N1: depth is not limited. That work beside the steps is linear, too, is a ratio in `tests/unit/test_bench.py`."""
    tree = [group(f"c{i:03}", parent=f"c{i - 1:03}" if i else "") for i in range(depth - 1)]
    tree.append(group("leaf", 2, parent=f"c{depth - 2:03}"))
    verdict, data = planned([gpu_node("n1"), podgroup(*tree), *some(2, "leaf", 1)], 20 * depth, is_large=True)
    assert (verdict, len(data["bindings"])) == ("Scheduled", 2)


def test_pods_that_fit_nowhere_do_not_stand_in_the_way_of_the_others() -> None:
    """M4: any pods will do; one class of ten asks for more than a node has."""
    members = [pod(f"p{i:03}", cpu=11 if i % 10 == 0 else 1 + i % 10 / 1000) for i in range(300)]
    nodes = [gpu_node(f"n{i:02}", cpu="10") for i in range(60)]
    verdict, data = planned([*nodes, podgroup(minMember=150), *members], 20_000, is_large=True)
    assert verdict == "Scheduled"
    assert len(data["bindings"]) >= 150
